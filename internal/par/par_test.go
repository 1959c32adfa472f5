package par

import (
	"fmt"
	"sync/atomic"
	"testing"
)

func TestForVisitsEachItemOnce(t *testing.T) {
	for _, threads := range []int{-1, 0, 1, 2, 7, 100} {
		for _, n := range []int{-1, 0, 1, 2, 3, 50, 1000} {
			t.Run(fmt.Sprintf("threads=%d,n=%d", threads, n), func(t *testing.T) {
				seen := make([]atomic.Int32, max(n, 0))
				limit := threads
				if limit < 1 {
					limit = Threads()
				}
				busy := make([]atomic.Int32, limit)
				For(threads, n, func(worker, i int) {
					if busy[worker].Add(1) != 1 {
						t.Errorf("worker %d runs two items at a time", worker)
					}
					seen[i].Add(1)
					busy[worker].Add(-1)
				})
				for i := range seen {
					if c := seen[i].Load(); c != 1 {
						t.Errorf("item %d ran %d times", i, c)
					}
				}
			})
		}
	}
}

func TestRangesCoverWithoutOverlap(t *testing.T) {
	for _, n := range []int{0, 1, 5, 64, 65} {
		for _, grain := range []int{-3, 0, 1, 4, 64, 1000} {
			seen := make([]atomic.Int32, n)
			Ranges(3, n, grain, func(_, lo, hi int) {
				if hi <= lo || hi-lo > max(grain, 1) {
					t.Errorf("n=%d grain=%d: piece [%d,%d)", n, grain, lo, hi)
				}
				for i := lo; i < hi; i++ {
					seen[i].Add(1)
				}
			})
			for i := range seen {
				if c := seen[i].Load(); c != 1 {
					t.Errorf("n=%d grain=%d: element %d visited %d times", n, grain, i, c)
				}
			}
		}
	}
}

func TestForRaisesPanicInCaller(t *testing.T) {
	for _, threads := range []int{1, 4} {
		func() {
			defer func() {
				if p := recover(); p != "boom" {
					t.Errorf("threads=%d: recovered %v, want boom", threads, p)
				}
			}()
			For(threads, 100, func(_, i int) {
				if i == 10 {
					panic("boom")
				}
			})
			t.Errorf("threads=%d: no panic", threads)
		}()
	}
}

func TestThreadsPositive(t *testing.T) {
	if Threads() < 1 {
		t.Errorf("Threads() = %d", Threads())
	}
}
