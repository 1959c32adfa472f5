package kernel

import (
	"math"
	"slices"
	"testing"

	"github.com/ggufkit/ggufkit/internal/half"
)

// lengths are all short ones, and some around the pieces of long rows.
func lengths() []int {
	var all []int
	for n := range 70 {
		all = append(all, n)
	}
	return append(all, 4099, 64<<10, 64<<10+9)
}

// extremes puts unusual numbers into x.
func extremes(x []float32) {
	unusual := []float32{0, float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32, -0x1p-126, math.MaxFloat32, -math.MaxFloat32,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 88.7, -87.3, 89, -88, 1e-20}
	for i := range x {
		if i%5 == 2 {
			x[i] = unusual[i/5%len(unusual)]
		}
	}
}

func sameFloat(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// TestRowsEqualTwin: operations without sums and functions give the same bits.
func TestRowsEqualTwin(t *testing.T) {
	for _, s := range assembled() {
		type pair struct{ got, want func(dst, x []float32) }
		ops := map[string]pair{
			"add":       {s.add, addGeneric},
			"mul":       {s.mul, mulGeneric},
			"scale":     {func(d, x []float32) { s.scale(d, x, 0.37) }, func(d, x []float32) { scaleGeneric(d, x, 0.37) }},
			"normalize": {func(d, x []float32) { s.normalize(d, x, 0.3, 1.7) }, func(d, x []float32) { normalizeGeneric(d, x, 0.3, 1.7) }},
			"rope halves": {func(d, x []float32) { turn(d, x, s.ropeHalves) },
				func(d, x []float32) { turn(d, x, ropeHalvesGeneric) }},
			"rope adjacent": {func(d, x []float32) { turn(d, x, s.ropeAdjacent) },
				func(d, x []float32) { turn(d, x, ropeAdjacentGeneric) }},
		}
		for name, op := range ops {
			for _, n := range lengths() {
				r := newRand(uint64(n))
				x, dst := guardedFloats(t, normals(r, n)), guardedFloats(t, normals(r, n))
				extremes(x)
				want := slices.Clone(dst)
				op.want(want, x)
				op.got(dst, x)
				for i := range want {
					if !sameFloat(dst[i], want[i]) {
						t.Fatalf("%s %s: element %d of %d is %g, want %g", s.name, name, i, n, dst[i], want[i])
					}
				}
			}
		}
	}
}

// turn rotates pairs of dst by angles made of x.
func turn(dst, x []float32, rope func(x, cos, sin []float32)) {
	p := len(dst) / 2
	rope(dst[:2*p], x[:p], x[len(x)-p:])
}

func TestSumsMatchTwin(t *testing.T) {
	for _, s := range assembled() {
		for _, n := range lengths() {
			x := guardedFloats(t, normals(newRand(uint64(n)), n))
			abs := slices.Clone(x)
			for i, v := range abs {
				abs[i] = max(v, -v)
			}
			for name, c := range map[string][3]float64{
				"sum":       {s.sum(x), sumGeneric(x), sumGeneric(abs)},
				"squares":   {s.squares(x), squaresGeneric(x), squaresGeneric(x)},
				"deviation": {s.deviation(x, 0.25), deviationGeneric(x, 0.25), deviationGeneric(x, 0.25)},
			} {
				if math.Abs(c[0]-c[1]) > 1e-13*c[2] {
					t.Fatalf("%s %s of %d: %g, want %g", s.name, name, n, c[0], c[1])
				}
			}
		}
	}
}

// TestFunctions holds the functions against float64, in every set. The bounds are those of the documentation.
func TestFunctions(t *testing.T) {
	var x []float32
	for v := float32(-110); v < 110; v += 0.00713 {
		x = append(x, v)
	}
	for e := -40.0; e < 38; e += 0.37 {
		x = append(x, float32(math.Pow(10, e)), -float32(math.Pow(10, e)))
	}
	const limit = 30.0
	for _, s := range sets() {
		for _, f := range []struct {
			name  string
			apply func(dst, x []float32)
			want  func(x float64) float64
			bound func(x, y float64) float64
		}{
			{"silu", s.silu, func(x float64) float64 { return x / (1 + math.Exp(-x)) }, func(x, y float64) float64 {
				if x < -87 {
					return 1e-36
				}
				return 1e-6*math.Abs(y) + 1e-44
			}},
			{"gelu", s.gelu, func(x float64) float64 { return x * 0.5 * math.Erfc(-x/math.Sqrt2) }, func(x, y float64) float64 {
				if x > -2 {
					return 5e-7*math.Abs(y) + 1e-44
				}
				return 6e-6*math.Abs(y) + 1e-36
			}},
			{"geluTanh", s.geluTanh, func(x float64) float64 {
				return x / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
			}, func(x, y float64) float64 { return 4e-7*math.Abs(x) + 1e-44 }},
			{"softcap", func(d, x []float32) { s.softcap(d, x, limit) }, func(x float64) float64 { return limit * math.Tanh(x/limit) },
				func(x, y float64) float64 { return 1e-6*math.Abs(y) + 1e-43 }},
		} {
			y := make([]float32, len(x))
			f.apply(y, x)
			for i, got := range y {
				want := f.want(float64(x[i]))
				if bound := f.bound(float64(x[i]), want); !(math.Abs(float64(got)-want) <= bound) {
					t.Fatalf("%s %s(%g) is %g, want %g (bound %g)", s.name, f.name, x[i], got, want, bound)
				}
			}
			// The bits of a result depend on the element alone, not on its place.
			for _, n := range []int{1, 3, 7, 8, 9, 15} {
				part := guardedFloats(t, x[100:100+n])
				dst := guardedFloats(t, make([]float32, n))
				f.apply(dst, part)
				if i := firstDifference(dst, y[100:]); i >= 0 {
					t.Fatalf("%s %s: element %d of %d is %g, elsewhere it is %g", s.name, f.name, i, n, dst[i], y[100+i])
				}
			}
			nan := []float32{float32(math.NaN())}
			if f.apply(nan, nan); nan[0] == nan[0] {
				t.Errorf("%s %s(NaN) is %g", s.name, f.name, nan[0])
			}
		}
	}
}

func TestSoftmax(t *testing.T) {
	for _, s := range sets() {
		for _, n := range lengths()[1:] {
			r := newRand(uint64(n))
			x := guardedFloats(t, normals(r, n))
			for i := range x {
				x[i] *= 30
			}
			want, sum := make([]float64, n), 0.0
			top := slices.Max(x)
			for i, v := range x {
				want[i] = math.Exp(float64(v*0.5) - float64(top*0.5))
				sum += want[i]
			}
			s.softmax(x, 0.5)
			for i, v := range x {
				// The difference from the largest element is rounded, by up to 2^-24 of its size.
				w := want[i] / sum
				if bound := 8e-7*w + w*math.Abs(math.Log(want[i]+1e-300))*0x1p-24; math.Abs(float64(v)-w) > bound+1e-37 {
					t.Fatalf("%s: element %d of %d is %g, want %g", s.name, i, n, v, w)
				}
			}
		}
		x := normals(newRand(1), 100)
		x[50] = float32(math.NaN())
		s.softmax(x, 1)
		if x[0] == x[0] {
			t.Errorf("%s: a NaN among the scores went unnoticed", s.name)
		}
	}
}

func TestNorms(t *testing.T) {
	const eps = 1e-5
	for _, s := range sets() {
		for _, n := range lengths()[1:] {
			r := newRand(uint64(n))
			x, w, b := normals(r, n), normals(r, n), normals(r, n)
			var mean, square, variance float64
			for _, v := range x {
				mean += float64(v) / float64(n)
				square += float64(v) * float64(v) / float64(n)
			}
			for _, v := range x {
				variance += (float64(v) - mean) * (float64(v) - mean) / float64(n)
			}
			y := guardedFloats(t, x)
			s.rmsNorm(y, y, w, eps)
			for i, v := range x {
				if want := float64(v) / math.Sqrt(square+eps) * float64(w[i]); math.Abs(float64(y[i])-want) > 3e-7*math.Abs(want) {
					t.Fatalf("%s: rms norm of %d: element %d is %g, want %g", s.name, n, i, y[i], want)
				}
			}
			y = guardedFloats(t, x)
			s.layerNorm(y, y, w, b, eps)
			for i, v := range x {
				scaled := (float64(v) - mean) / math.Sqrt(variance+eps) * float64(w[i])
				if want := scaled + float64(b[i]); math.Abs(float64(y[i])-want) > 3e-7*(math.Abs(scaled)+math.Abs(float64(b[i])))+1e-9 {
					t.Fatalf("%s: layer norm of %d: element %d is %g, want %g", s.name, n, i, y[i], want)
				}
			}
		}
	}
}

// TestConvertEqualsHalf: all 65536 values of 16 bits, and float32 of every exponent, with the rounding ties.
func TestConvertEqualsHalf(t *testing.T) {
	all := make([]byte, 2<<16)
	for i := range 1 << 16 {
		all[2*i], all[2*i+1] = byte(i), byte(i>>8)
	}
	var floats []float32
	r := newRand(1)
	for range 200000 {
		floats = append(floats, math.Float32frombits(r.Uint32()))
		floats = append(floats, math.Float32frombits(r.Uint32()&0xffff_f000), math.Float32frombits(r.Uint32()&0xffff_8000|1<<15))
	}
	for _, s := range assembled() {
		for name, c := range map[string]struct {
			decode, wantDecode func([]float32, []byte)
			encode, wantEncode func([]byte, []float32)
		}{
			"F16":  {s.decodeF16, half.DecodeF16, s.encodeF16, half.EncodeF16},
			"BF16": {s.decodeBF16, half.DecodeBF16, s.encodeBF16, half.EncodeBF16},
		} {
			got, want := make([]float32, 1<<16), make([]float32, 1<<16)
			c.decode(got, all)
			c.wantDecode(want, all)
			if i := firstDifference(got, want); i >= 0 {
				t.Fatalf("%s %s: %#04x becomes %x, want %x", s.name, name, i, math.Float32bits(got[i]), math.Float32bits(want[i]))
			}
			gotBytes, wantBytes := make([]byte, 2*len(floats)), make([]byte, 2*len(floats))
			c.encode(gotBytes, floats)
			c.wantEncode(wantBytes, floats)
			for i, f := range floats {
				if gotBytes[2*i] != wantBytes[2*i] || gotBytes[2*i+1] != wantBytes[2*i+1] {
					t.Fatalf("%s %s: %x becomes %x, want %x", s.name, name, math.Float32bits(f), gotBytes[2*i:2*i+2], wantBytes[2*i:2*i+2])
				}
			}
			for n := range 40 {
				src := guardedFloats(t, floats[:n])
				dst := guarded(t, 2*n)
				c.encode(dst, src)
				if !slices.Equal(dst, wantBytes[:2*n]) {
					t.Fatalf("%s %s: encoding %d elements", s.name, name, n)
				}
				back, wantBack := guardedFloats(t, make([]float32, n)), make([]float32, n)
				c.decode(back, dst)
				c.wantDecode(wantBack, dst)
				if i := firstDifference(back, wantBack); i >= 0 {
					t.Fatalf("%s %s: decoding %d elements", s.name, name, n)
				}
			}
		}
	}
}

func TestSearch(t *testing.T) {
	for _, s := range sets() {
		for _, n := range []int{1, 5, 8, 31, 1024, 1025, 5000, 70001} {
			r := newRand(uint64(n))
			x := guardedFloats(t, normals(r, n))
			for i := range x {
				if r.IntN(3) == 0 {
					x[i] = float32(math.Round(float64(x[i]))) // equal ones
				}
			}
			x[r.IntN(n)] = minusInfinity
			order := make([]int32, 0, n)
			for i := range x {
				if x[i] > minusInfinity {
					order = append(order, int32(i))
				}
			}
			slices.SortStableFunc(order, func(a, b int32) int {
				switch {
				case x[a] > x[b]:
					return -1
				case x[a] < x[b]:
					return 1
				}
				return 0
			})
			if want := append(order, -1)[0]; s.argMax(x) != int(want) {
				t.Fatalf("%s: the largest of %d is %d, want %d", s.name, n, s.argMax(x), want)
			}
			for _, k := range []int{0, 1, 2, 40, n / 2, n, n + 1} {
				got := s.topK([]int32{-7}, x, k)
				if want := append([]int32{-7}, order[:min(k, len(order))]...); !slices.Equal(got, want) {
					t.Fatalf("%s: the largest %d of %d: %v, want %v", s.name, k, n, got, want)
				}
			}
			top := slices.Max(x)
			var sum float64
			for _, v := range x {
				sum += math.Exp(float64(v) - float64(top))
			}
			if want := float64(top) + math.Log(sum); len(order) > 0 && math.Abs(s.logSumExp(x)-want) > 6e-7 {
				t.Fatalf("%s: the logarithm of the sum of %d is %g, want %g", s.name, n, s.logSumExp(x), want)
			}
			x[n/2] = float32(math.NaN())
			if s.argMax(x) != -1 {
				t.Fatalf("%s: a NaN among %d went unnoticed", s.name, n)
			}
			for _, i := range s.topK(nil, x, n) {
				if int(i) == n/2 {
					t.Fatalf("%s: a NaN is among the largest", s.name)
				}
			}
		}
		if s.argMax(nil) != -1 || s.argMax([]float32{minusInfinity, minusInfinity}) != -1 {
			t.Errorf("%s: there is a largest of nothing", s.name)
		}
	}
}

func TestPeak(t *testing.T) {
	memory := make([]byte, ReadMinimum+12345)
	for _, s := range sets() {
		if r := s.measureRead(newPool(t, 2), memory); r <= 0 {
			t.Errorf("%s: reads %g GB/s", s.name, r)
		}
		if r := s.measureRead(newPool(t, 1), memory[:1000]); r != 0 {
			t.Errorf("%s: reads %g GB/s from a cache", s.name, r)
		}
		p := s.measurePeak(newPool(t, 2))
		if s != &generic && (p.Bytes < p.Floats || p.Floats <= 0) {
			t.Errorf("%s: peaks %+v", s.name, p)
		}
	}
}
