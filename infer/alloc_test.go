package infer

import (
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// A token costs no memory but its place in the cache, however many threads there are.
func TestAllocationsOfAToken(t *testing.T) {
	m := quantTiny(gguf.Q4_K)
	for _, o := range []Options{{Threads: 1}, {Threads: 3}, {Threads: 3, Cache: CacheQ8_0}} {
		s := newSession(t, m.load(t, o))
		if _, err := s.Append(m.ids(pagePositions + 1)); err != nil { // so that the second page is there
			t.Fatal(err)
		}
		one := []int32{7}
		allocs := testing.AllocsPerRun(30, func() {
			if _, err := s.Append(one); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > 0 {
			t.Errorf("%d threads, cache %d: %g allocations, want none", o.Threads, o.Cache, allocs)
		}
	}
}
