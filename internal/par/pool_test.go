package par

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func newTestPool(t *testing.T, threads int) *Pool {
	p := NewPool(threads, nil)
	t.Cleanup(p.Close)
	return p
}

func TestPoolVisitsEachItemOnce(t *testing.T) {
	for _, threads := range []int{0, 1, 2, 7} {
		p := newTestPool(t, threads)
		for _, n := range []int{-1, 0, 1, 2, 3, 50, 1000} {
			seen := make([]atomic.Int32, max(n, 0))
			busy := make([]atomic.Int32, p.Threads())
			p.For(n, func(worker, i int) {
				if busy[worker].Add(1) != 1 {
					t.Errorf("worker %d runs two items at a time", worker)
				}
				seen[i].Add(1)
				busy[worker].Add(-1)
			})
			for i := range seen {
				if c := seen[i].Load(); c != 1 {
					t.Errorf("%d threads, %d items: item %d ran %d times", threads, n, i, c)
				}
			}
		}
	}
}

// TestPoolManySmallJobs: jobs follow each other so fast that workers meet finished and fresh ones.
func TestPoolManySmallJobs(t *testing.T) {
	p := newTestPool(t, 4)
	var sum int // written by one item at a time, read after the job: the race detector watches
	for round := range 20000 {
		n := 1 + round%5
		parts := make([]int, n)
		p.For(n, func(_, i int) { parts[i] = i + 1 })
		for _, v := range parts {
			sum += v
		}
	}
	if want := 20000 / 5 * (1 + 3 + 6 + 10 + 15); sum != want {
		t.Errorf("sum %d, want %d", sum, want)
	}
}

// TestPoolWaitsForSlowItem: the caller sleeps while another worker is busy, and is woken.
func TestPoolWaitsForSlowItem(t *testing.T) {
	p := newTestPool(t, 2)
	for range 3 {
		var slow, fast atomic.Bool
		both := make(chan struct{})
		p.For(2, func(worker, i int) {
			if i == 0 { // not over before the other worker has come
				<-both
				fast.Store(true)
				return
			}
			close(both)
			time.Sleep(20 * yieldTime)
			slow.Store(true)
		})
		if !slow.Load() || !fast.Load() {
			t.Fatal("For returned before its items were finished")
		}
	}
}

func TestPoolPiecesDoNotDependOnThreads(t *testing.T) {
	pieces := func(threads int) map[[2]int]bool {
		p := newTestPool(t, threads)
		var mu sync.Mutex
		all := map[[2]int]bool{}
		p.Ranges(103, 10, func(_, lo, hi int) {
			mu.Lock()
			defer mu.Unlock()
			all[[2]int{lo, hi}] = true
		})
		return all
	}
	want := pieces(1)
	if len(want) != 11 || !want[[2]int{100, 103}] {
		t.Errorf("pieces %v", want)
	}
	if got := pieces(5); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("5 threads: %v, want %v", got, want)
	}
}

// TestPoolSleeps: idle workers wait for a wake-up and do not spin; then they work again.
func TestPoolSleeps(t *testing.T) {
	p := newTestPool(t, 3)
	for range 3 {
		for deadline := time.Now().Add(10 * time.Second); p.sleepers.Load() != 2; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d workers sleep, want 2", p.sleepers.Load())
			}
		}
		var workers sync.WaitGroup // all three have to come
		workers.Add(3)
		p.For(3, func(_, _ int) {
			workers.Done()
			workers.Wait()
		})
	}
}

func TestPoolPanics(t *testing.T) {
	p := newTestPool(t, 3)
	for range 100 {
		func() {
			defer func() {
				if v := recover(); v != "item 5" {
					t.Errorf("recovered %v", v)
				}
			}()
			p.For(1000, func(_, i int) {
				if i == 5 {
					panic("item 5")
				}
			})
			t.Error("For returned")
		}()
	}
	ran := 0
	p.For(1, func(_, _ int) { ran++ })
	if ran != 1 {
		t.Error("the pool is broken after a panic")
	}
}

// TestPoolCallersTakeTurns: several goroutines may use a pool.
func TestPoolCallersTakeTurns(t *testing.T) {
	p := newTestPool(t, 3)
	var callers sync.WaitGroup
	var total atomic.Int64
	scratch := make([]int, p.Threads()) // owned by the worker: the race detector watches
	for range 8 {
		callers.Go(func() {
			for range 200 {
				p.For(7, func(worker, _ int) {
					scratch[worker]++
					total.Add(1)
				})
			}
		})
	}
	callers.Wait()
	if total.Load() != 8*200*7 {
		t.Errorf("%d items ran", total.Load())
	}
}

func TestPoolLeavesNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		p := NewPool(4, nil)
		p.For(20, func(_, _ int) {})
		p.Close()
	}
	// Close waits until they have nothing left to do; the runtime may take a moment to forget them.
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// BenchmarkPool is the time of handing a job over and waiting for it.
func BenchmarkPool(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			p := NewPool(threads, nil)
			defer p.Close()
			for b.Loop() {
				p.For(threads, func(_, _ int) {})
			}
		})
	}
}

// Jobs are used again, so that handing one over takes no memory.
func TestPoolAllocatesNothing(t *testing.T) {
	p := NewPool(3, nil)
	defer p.Close()
	var sum atomic.Int64
	item := func(_, i int) { sum.Add(int64(i)) }
	pieces := func(_, lo, hi int) { sum.Add(int64(hi - lo)) }
	if n := testing.AllocsPerRun(2000, func() { p.For(5, item); p.Ranges(9, 2, pieces) }); n > 0 {
		t.Errorf("%g allocations for two jobs", n)
	}
	if want := int64(2001 * (10 + 9)); sum.Load() != want {
		t.Errorf("a sum of %d, want %d", sum.Load(), want)
	}
}

// TestPoolLabels: workers carry the labels that were set last.
func TestPoolLabels(t *testing.T) {
	p := newTestPool(t, 3)
	for _, value := range []string{"one", "two"} {
		p.SetLabels(pprof.WithLabels(t.Context(), pprof.Labels("operation", value)))
		var together sync.WaitGroup // all workers take an item
		together.Add(3)
		profile := make([]bytes.Buffer, 3)
		p.For(3, func(worker, i int) {
			together.Done()
			together.Wait()
			if worker != 0 {
				pprof.Lookup("goroutine").WriteTo(&profile[worker], 1)
			}
		})
		for worker := 1; worker < 3; worker++ {
			if want := `{"operation":"` + value + `"}`; strings.Count(profile[worker].String(), want) == 0 {
				t.Errorf("no goroutine of the pool has the labels %s", want)
			}
		}
	}
}
