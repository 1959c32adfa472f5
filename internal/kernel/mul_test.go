package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/par"
)

// sets are all that this processor can run.
func sets() []*set { return append([]*set{&generic}, assembled()...) }

// newPool is a pool that the test closes.
func newPool(tb testing.TB, threads int) *par.Pool {
	p := par.NewPool(threads, nil)
	tb.Cleanup(p.Close)
	return p
}

// randomMatrix has rows that end where memory does.
func randomMatrix(tb testing.TB, seed uint64, typ gguf.Type, rows, k int) *Matrix {
	tb.Helper()
	size, err := typ.RowBytes(uint64(rows * k))
	if err != nil {
		tb.Fatal(err)
	}
	data := guarded(tb, int(size))
	fill(newRand(seed), typ, data)
	m, err := New(typ, data, rows, k)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// blockLength is the number of elements in a block, or an odd number for floats, whose rows may have any length.
func blockLength(typ gguf.Type) int {
	if info, _ := typ.Info(); info.Block > 1 {
		return int(info.Block)
	}
	return 13
}

func TestMulMatchesDefinition(t *testing.T) {
	for _, s := range sets() {
		for _, typ := range append(quantizedTypes(), floatTypes...) {
			for _, exact := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/exact=%v", s.name, typ, exact), func(t *testing.T) {
					m := newMultiplier(s, newPool(t, 2), exact)
					for i, rows := range []int{1, 3, 16, 17, 45, 150} {
						k := blockLength(typ) * (1 + i%3)
						w := randomMatrix(t, uint64(typ)+uint64(i), typ, rows, k)
						for _, n := range []int{1, 2, 3, 4, 5, 13} {
							checkMul(t, m, w, n, i%2 == 0)
						}
					}
				})
			}
		}
	}
}

// checkMul compares a product with its definition in float64.
func checkMul(t *testing.T, m *Multiplier, w *Matrix, n int, withBias bool) {
	t.Helper()
	r := newRand(uint64(n))
	x := normals(r, n*w.k)
	reference := x
	if !m.exact && !w.floats() {
		reference = nil
		for c := range n {
			reference = append(reference, widened(x[c*w.k:][:w.k], w.info.Block == superBlock)...)
		}
	}
	p := Product{W: w, Y: make([]float32, n*w.rows)}
	if withBias {
		p.Bias = normals(r, w.rows)
	}
	m.Mul(guardedFloats(t, x), n, p)
	weights := decoded(t, w)
	for c := range n {
		for row := range w.rows {
			want, magnitude := product(weights[row*w.k:][:w.k], reference[c*w.k:][:w.k])
			if withBias {
				want += float64(p.Bias[row])
				magnitude += math.Abs(float64(p.Bias[row]))
			}
			got := float64(p.Y[c*w.rows+row])
			if math.IsNaN(got) || math.Abs(got-want) > 3e-6*magnitude {
				t.Fatalf("%d rows of %d, n %d: y[%d][%d] is %g, want %g (magnitude %g)", w.rows, w.k, n, c, row, got, want, magnitude)
			}
		}
	}
}

// TestMulIgnoresThreads: the same bits for any number of threads.
func TestMulIgnoresThreads(t *testing.T) {
	for _, s := range sets() {
		for _, typ := range []gguf.Type{gguf.Q4_K, gguf.Q8_0, gguf.F16} {
			for _, exact := range []bool{false, true} {
				w := randomMatrix(t, 1, typ, 777, 512)
				for _, n := range []int{1, 3, 9} {
					x := normals(newRand(uint64(n)), n*512)
					var first []float32
					for threads := 1; threads <= 4; threads++ {
						y := make([]float32, n*777)
						newMultiplier(s, newPool(t, threads), exact).Mul(x, n, Product{W: w, Y: y})
						if first == nil {
							first = y
						} else if i := firstDifference(first, y); i >= 0 {
							t.Fatalf("%s %s exact %v n %d: element %d is %g with %d threads, %g with one", s.name, typ, exact, n, i, y[i], threads, first[i])
						}
					}
				}
			}
		}
	}
}

// TestExactIgnoresBatch: in exact precision a row of x gives the same bits in any company. Otherwise the difference is a rounding error.
func TestExactIgnoresBatch(t *testing.T) {
	const rows, k, n = 70, 1280, 14
	for _, s := range sets() {
		for _, typ := range append(quantizedTypes(), floatTypes...) {
			for _, exact := range []bool{false, true} {
				w := randomMatrix(t, 2, typ, rows, k)
				m := newMultiplier(s, newPool(t, 2), exact)
				x := normals(newRand(3), n*k)
				all := make([]float32, n*rows)
				m.Mul(x, n, Product{W: w, Y: all})
				weights := decoded(t, w)
				for lo, size := 0, 1; lo < n; lo, size = lo+size, size+1 {
					size = min(size, n-lo)
					part := make([]float32, size*rows)
					m.Mul(x[lo*k:], size, Product{W: w, Y: part})
					for i := range part {
						_, magnitude := product(weights[i%rows*k:][:k], x[(lo+i/rows)*k:][:k])
						bound := 2e-6 * magnitude
						if exact {
							bound = 0
						}
						if math.Abs(float64(part[i]-all[lo*rows+i])) > bound {
							t.Fatalf("%s %s exact %v: row %d alone in %d: element %d is %g, in %d it is %g", s.name, typ, exact, lo+i/rows, size,
								i%rows, part[i], n, all[lo*rows+i])
						}
					}
				}
			}
		}
	}
}

// TestMulTogether: several matrices at once give what each gives alone, also types that want the activations in different forms.
func TestMulTogether(t *testing.T) {
	types := []gguf.Type{gguf.Q4_K, gguf.Q6_K, gguf.Q8_0, gguf.F16, gguf.Q5_0}
	for _, s := range sets() {
		m := newMultiplier(s, newPool(t, 3), false)
		for _, n := range []int{1, 4, 20} {
			x := normals(newRand(9), n*256)
			var together []Product
			for i, typ := range types {
				rows := 20 + 31*i
				together = append(together, Product{W: randomMatrix(t, uint64(i), typ, rows, 256), Y: make([]float32, n*rows)})
			}
			m.Mul(x, n, together...)
			for _, p := range together {
				alone := make([]float32, len(p.Y))
				m.Mul(x, n, Product{W: p.W, Y: alone})
				if !slices.Equal(alone, p.Y) {
					t.Errorf("%s n %d: %s differs", s.name, n, p.W.typ)
				}
			}
		}
	}
}

// TestMulWithoutTileKernel: a type that has a codec alone is decoded.
func TestMulWithoutTileKernel(t *testing.T) {
	saved := unpackings[gguf.Q5_1]
	defer func() { unpackings[gguf.Q5_1] = saved }()
	w := randomMatrix(t, 4, gguf.Q5_1, 37, 96)
	delete(unpackings, gguf.Q5_1)
	for _, s := range sets() {
		checkMul(t, newMultiplier(s, newPool(t, 2), false), w, 7, true)
	}
}

// TestMulAllocatesNothing: a token takes hundreds of products. Activations in 8 bits; those in float32 take a few closures.
func TestMulAllocatesNothing(t *testing.T) {
	for _, s := range assembled() {
		for _, typ := range append(quantizedTypes(), gguf.F16) {
			w := randomMatrix(t, 1, typ, 151, 512)
			p := Product{W: w, Bias: make([]float32, 151)}
			for _, n := range []int{1, 4, 20} {
				x := normals(newRand(1), n*512)
				p.Y = make([]float32, n*151)
				q := Product{W: w, Y: make([]float32, n*151)}
				m := newMultiplier(s, newPool(t, 2), false)
				m.Mul(x, n, p, q) // makes room
				if allocations := testing.AllocsPerRun(10, func() { m.Mul(x, n, p, q) }); allocations >= 1 {
					t.Errorf("%s %s n %d: %g allocations for a product", s.name, typ, n, allocations)
				}
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		typ     gguf.Type
		bytes   int
		rows, k int
	}{
		"no codec":    {gguf.I32, 400, 10, 10},
		"part blocks": {gguf.Q4_K, 1000, 1, 100},
		"short data":  {gguf.Q8_0, 33, 1, 32},
		"no rows":     {gguf.F32, 0, 0, 4},
		"overflow":    {gguf.F32, 64, 1 << 62, 16},
	} {
		if _, err := New(c.typ, make([]byte, c.bytes), c.rows, c.k); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestQuantizeMatchesDefinition(t *testing.T) {
	for _, s := range sets() {
		for groups := 1; groups <= 9; groups++ {
			checkQuantize(t, s, guardedFloats(t, strangeGroups(newRand(uint64(groups)), groups, 8)), false)
		}
		for blocks := 1; blocks <= 5; blocks++ {
			for strange := range 12 { // of 8*strange groups one is
				r := newRand(uint64(strange))
				checkQuantize(t, s, guardedFloats(t, strangeGroups(r, 8*blocks, 8*strange+6)), true)
			}
		}
	}
}

// strangeGroups are groups of 32 numbers of all sizes; up to 6 of so many groups have special ones.
func strangeGroups(r *rand.Rand, groups, of int) []float32 {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	x := normals(r, 32*groups)
	for g := range groups {
		v := x[32*g:][:32]
		size := float32(math.Ldexp(1, r.IntN(14)-7))
		if r.IntN(8) == 0 {
			size *= 0x1p-102
		}
		for i := range v {
			v[i] *= size
		}
		switch r.IntN(of) {
		case 0:
			clear(v)
		case 1:
			v[r.IntN(32)] = nan
		case 2:
			v[r.IntN(32)] = -inf
		case 3:
			v[r.IntN(32)] = math.MaxFloat32
		case 4:
			for i := range v {
				v[i] *= 0x1p-121
			}
		case 5:
			for i := range v { // ties
				v[i] = float32(r.IntN(255)-127) + 0.5
			}
			v[0] = 127
		}
	}
	return x
}

// TestStreamOf: streams have the most rows, or a few less if they are then nearly whole pages apart.
func TestStreamOf(t *testing.T) {
	for _, c := range []struct{ stride, most, want int }{
		{1152, 1408, 1408}, // 396 pages
		{1680, 8000, 7997}, // 3280 pages and 80 bytes
		{4620, 512, 508},   // 573 pages less 48 bytes
		{4096 + 1024, 7, 7},
		{100, 1, 1},
		{5000, 64, 59}, // 72 pages and 88 bytes
	} {
		if got := streamOf(c.stride, c.most); got != c.want {
			t.Errorf("rows of %d bytes, at most %d: %d, want %d", c.stride, c.most, got, c.want)
		}
	}
}
