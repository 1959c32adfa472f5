package kernel

import (
	"math"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// Results for parts of the positions, merged, are the result for all of them.
func TestMergeOfAttention(t *testing.T) {
	for _, s := range sets() {
		for _, typ := range []gguf.Type{gguf.F32, gguf.F16} {
			r := newRand(9)
			const k, v, positions = 64, 48, 700
			a := &Attention{Keys: Cache{Type: typ, Width: k}, Values: Cache{Type: typ, Width: v}, Page: 32, Exact: typ == gguf.F32, Scale: 0.5}
			a.Keys.Stride, a.Values.Stride = a.Keys.bytes(), a.Values.bytes()
			c := newTestCache(t, r, a, positions)
			scratch := AttentionScratch{set: s}
			for _, cuts := range [][]int{{0, 700}, {0, 1, 700}, {3, 256, 512, 699}, {100, 101, 102, 103, 650}} {
				whole := Query{Q: normals(r, k), First: cuts[0], End: cuts[len(cuts)-1]}
				want, tolerance := c.reference(whole)
				out, other := make([]float32, v), make([]float32, v)
				var share Share
				for i, from := range cuts[:len(cuts)-1] {
					part := whole
					part.First, part.End, part.Out = from, cuts[i+1], other
					if i == 0 {
						part.Out = out
					}
					scratch.Run(a, []Query{part}, c.pages)
					if i == 0 {
						share = scratch.Share(0)
					} else {
						share.Merge(out, scratch.Share(0), other)
					}
				}
				for i := range want {
					if !(math.Abs(float64(out[i])-want[i]) <= tolerance) {
						t.Fatalf("%s, %s, cut at %v: element %d is %g, want %g", s.name, typ, cuts, i, out[i], want[i])
					}
				}
			}
		}
	}
}

// A part that is not a number makes the whole none, and one with the far larger scores is the whole.
func TestMergeExtremes(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		a, b Share
		want float64
	}{
		{Share{1, 2}, Share{nan, math.NaN()}, math.NaN()},
		{Share{nan, math.NaN()}, Share{1, 2}, math.NaN()},
		{Share{-3e38, 1}, Share{3e38, 1}, 5},
		{Share{200, 1}, Share{-200, 1}, 3},
		{Share{7, 1}, Share{7, 1}, 4},
	} {
		out, share := []float32{3}, c.a
		share.Merge(out, c.b, []float32{5})
		if got := float64(out[0]); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%v and %v: %g, want %g", c.a, c.b, got, c.want)
		}
	}
}
