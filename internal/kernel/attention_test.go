package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// testCache is pages of keys and values of one head in the types and strides of an Attention.
type testCache struct {
	a            *Attention
	keys, values [][]byte
	wideK, wideV []float32 // what they decode to, position by position
}

// newTestCache fills pages that end where memory does.
func newTestCache(t *testing.T, r *rand.Rand, a *Attention, positions int) *testCache {
	c := &testCache{a: a}
	page := func(cache Cache) []byte {
		codec, err := block.ForType(cache.Type)
		if err != nil {
			t.Fatal(err)
		}
		b := guarded(t, (a.Page-1)*cache.Stride+cache.bytes())
		for p := range a.Page {
			codec.Encode(b[p*cache.Stride:][:cache.bytes()], normals(r, cache.Width))
		}
		return b
	}
	widen := func(cache Cache, b []byte, all []float32) []float32 {
		row := make([]float32, cache.Width)
		for p := range a.Page {
			mustCodec(cache.Type).Decode(row, b[p*cache.Stride:][:cache.bytes()])
			all = append(all, row...)
		}
		return all
	}
	for p := 0; p < positions; p += a.Page {
		k, v := page(a.Keys), page(a.Values)
		c.keys, c.values = append(c.keys, k), append(c.values, v)
		c.wideK, c.wideV = widen(a.Keys, k, c.wideK), widen(a.Values, v, c.wideV)
	}
	return c
}

func (c *testCache) pages(i int) (keys, values []byte) { return c.keys[i], c.values[i] }

// reference computes a query in float64. tolerance is how far a result may be off: rounding errors of scores act on the weights.
func (c *testCache) reference(q Query) (out []float64, tolerance float64) {
	a := c.a
	weights, sum, top := make([]float64, q.End), 0.0, math.Inf(-1)
	query := make([]float32, a.Keys.Width)
	for i := range query {
		query[i] = q.Q[i] * a.Scale
	}
	if a.Keys.Type == gguf.Q8_0 && !a.Exact { // queries are rounded to 8 bits
		var acts activations
		acts.reshape(1, len(query), false)
		quantizeGeneric(acts, query)
		for i, v := range acts.q {
			query[i] = float32(v) * acts.d[i/blockK]
		}
	}
	for p := q.First; p < q.End; p++ {
		s, _ := product(query, c.wideK[p*a.Keys.Width:][:a.Keys.Width])
		if a.Softcap != 0 {
			s = float64(a.Softcap) * math.Tanh(s/float64(a.Softcap))
		}
		weights[p], top = s, max(top, s)
	}
	for p := q.First; p < q.End; p++ {
		weights[p] = math.Exp(weights[p] - top)
		sum += weights[p]
	}
	out = make([]float64, a.Values.Width)
	var largest float64
	for p := q.First; p < q.End; p++ {
		for i := range out {
			v := float64(c.wideV[p*a.Values.Width+i])
			out[i] += weights[p] / sum * v
			largest = max(largest, math.Abs(v))
		}
	}
	return out, 4e-6 * largest
}

func TestAttention(t *testing.T) {
	for _, s := range sets() {
		for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0} {
			for _, exact := range []bool{false, true} {
				for _, widths := range [][2]int{{64, 64}, {96, 32}, {128, 256}, {20, 13}} {
					if typ == gguf.Q8_0 && widths[0]%32 != 0 {
						continue
					}
					name := fmt.Sprintf("%s/%s/exact=%v/%d,%d", s.name, typ, exact, widths[0], widths[1])
					t.Run(name, func(t *testing.T) { checkAttention(t, s, typ, exact, widths[0], widths[1]) })
				}
			}
		}
	}
}

func checkAttention(t *testing.T, s *set, typ gguf.Type, exact bool, k, v int) {
	r := newRand(uint64(k + v))
	a := &Attention{Keys: Cache{Type: typ, Width: k}, Values: Cache{Type: typ, Width: v}, Page: 32, Exact: exact,
		Scale: float32(1 / math.Sqrt(float64(k)))}
	a.Keys.Stride, a.Values.Stride = a.Keys.bytes()+2*r.IntN(3), a.Values.bytes()
	scratch := AttentionScratch{set: s}
	for _, positions := range []int{1, 31, 32, 33, 257, 600} {
		c := newTestCache(t, r, a, positions)
		a.Softcap = float32(r.IntN(2)) * 5
		a.Ahead = c.values[0][:r.IntN(2)*len(c.values[0])]
		for _, n := range []int{1, 2, 3, 7, 40} {
			queries := make([]Query, n)
			for i := range queries {
				end := 1 + r.IntN(positions)
				queries[i] = Query{Q: normals(r, k), Out: make([]float32, v), First: r.IntN(end), End: end}
			}
			scratch.Run(a, queries, c.pages)
			for i, q := range queries {
				want, tolerance := c.reference(q)
				for j := range want {
					if !(math.Abs(float64(q.Out[j])-want[j]) <= tolerance) {
						t.Fatalf("%d positions, query %d of %d sees %d to %d: element %d is %g, want %g", positions, i, n, q.First, q.End, j,
							q.Out[j], want[j])
					}
				}
				if !exact {
					continue
				}
				alone := q
				alone.Out = make([]float32, v)
				scratch.Run(a, []Query{alone}, c.pages)
				if j := firstDifference(alone.Out, q.Out); j >= 0 {
					t.Fatalf("%d positions, query %d of %d: element %d is %g, alone %g", positions, i, n, j, q.Out[j], alone.Out[j])
				}
			}
		}
	}
}
