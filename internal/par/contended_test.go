package par

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestPoolContended: two pools that each have more workers than there are cores do the work of many short jobs in little more time than one
// goroutine takes for all of it. Were waiting workers to hold the cores, or callers to wait for workers that do not run, it would be many times
// as long. Other programs may disturb a try, not all of them.
func TestPoolContended(t *testing.T) {
	const jobs, items, pools, factor, tries = 500, 16, 2, 3, 10
	var sink atomic.Uint64
	item := func(_, i int) { // some microseconds
		x := uint64(i)
		for range 1000 {
			x = x*6364136223846793005 + 1442695040888963407
		}
		sink.Store(x)
	}
	alone, contended := time.Duration(1<<62), time.Duration(1<<62)
	for range tries {
		start := time.Now()
		for range pools * jobs {
			for i := range items {
				item(0, i)
			}
		}
		alone = min(alone, time.Since(start))

		var callers sync.WaitGroup
		start = time.Now()
		for range pools {
			callers.Go(func() {
				p := NewPool(Threads()+2, nil)
				defer p.Close()
				for range jobs {
					p.For(items, item)
				}
			})
		}
		callers.Wait()
		contended = min(contended, time.Since(start))
		if contended < factor*alone {
			return
		}
	}
	t.Errorf("%v for what takes one goroutine %v", contended, alone)
}
