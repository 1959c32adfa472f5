// Package par runs loops on several threads.
package par

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Threads is the number of threads to use when the user names none: the cores that this process may run on. The Go
// runtime works them out from the affinity mask and the CPU quota of the control group, and GOMAXPROCS overrides both.
func Threads() int { return runtime.GOMAXPROCS(0) }

// For calls f(worker, i) for every i in [0, n) on at most threads goroutines (Threads() if threads < 1) and waits. Items are
// handed out in order, one by one; worker is in [0, threads), so that f can own scratch by it. A panic of f is raised
// again in the caller, after the other goroutines have stopped taking items.
func For(threads, n int, f func(worker, i int)) {
	if threads < 1 {
		threads = Threads()
	}
	threads = min(threads, n)
	if threads <= 1 {
		for i := range n {
			f(0, i)
		}
		return
	}
	var (
		next   atomic.Int64
		failed atomic.Pointer[any]
		wg     sync.WaitGroup
	)
	work := func(worker int) {
		defer func() {
			if p := recover(); p != nil {
				failed.CompareAndSwap(nil, &p)
				next.Store(int64(n))
			}
		}()
		for {
			i := int(next.Add(1) - 1)
			if i >= n {
				return
			}
			f(worker, i)
		}
	}
	for w := 1; w < threads; w++ {
		wg.Go(func() {
			faultsPanic()
			work(w)
		})
	}
	work(0)
	wg.Wait()
	if p := failed.Load(); p != nil {
		panic(*p)
	}
}

// faultsPanic makes faults of the calling goroutine, one of ours, panics, which reach the caller of a loop like others: it can make an error of
// a mapped file that someone cut (mmap.Guard). Without, they end the process at once.
func faultsPanic() { debug.SetPanicOnFault(true) }

// Ranges splits [0, n) into pieces of at most grain and calls f(worker, lo, hi) for each, as For does. The pieces depend on
// n and grain alone, not on threads. A grain below 1 counts as 1.
func Ranges(threads, n, grain int, f func(worker, lo, hi int)) {
	if n <= 0 {
		return
	}
	grain = max(grain, 1)
	pieces := (n-1)/grain + 1
	For(threads, pieces, func(worker, i int) {
		lo := i * grain
		f(worker, lo, lo+min(grain, n-lo))
	})
}
