package block_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// randomBlocks returns n elements of arbitrary bits of type t.
func randomBlocks(tb testing.TB, r *rand.Rand, t gguf.Type, n int) []byte {
	tb.Helper()
	size, err := t.RowBytes(uint64(n))
	if err != nil {
		tb.Fatal(err)
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func activations(x []float32) *block.Activations {
	var a block.Activations
	a.Quantize(x)
	return &a
}

// halves are the offsets of the float16 fields of a block.
var halves = map[gguf.Type][]int{
	gguf.Q4_0: {0}, gguf.Q4_1: {0, 2}, gguf.Q5_0: {0}, gguf.Q5_1: {0, 2}, gguf.Q8_0: {0},
	gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2}, gguf.Q6_K: {208},
	gguf.Q2_K: {80, 82}, gguf.Q3_K: {108}, gguf.IQ4_NL: {0}, gguf.IQ4_XS: {0},
}

// setHalves makes all float16 fields of the blocks of row the half h.
func setHalves(t *testing.T, typ gguf.Type, row []byte, h uint16) {
	t.Helper()
	info, ok := typ.Info()
	if !ok || halves[typ] == nil {
		t.Fatalf("%s: where are its float16 fields?", typ)
	}
	for at := 0; at < len(row); at += int(info.Bytes) {
		for _, off := range halves[typ] {
			row[at+off], row[at+off+1] = byte(h), byte(h>>8)
		}
	}
}

func dotTypes(t *testing.T) (codecs []*block.Codec) {
	t.Helper()
	for _, typ := range block.Types() {
		if c := codec(t, typ); c.Dot != nil {
			codecs = append(codecs, c)
		}
	}
	return codecs
}

func dot64(x []float32, a *block.Activations) float64 {
	var sum float64
	for i, v := range x {
		sum += float64(v) * float64(a.Scale[i/32]) * float64(a.Q[i])
	}
	return sum
}

// With all scales 1 both sides are integers and sums below 2^24 are exact in float32, so the dot product is, for any bits.
func TestDotIsExactOnIntegers(t *testing.T) {
	const one = 0x3c00
	r := rand.New(rand.NewPCG(1, 1))
	for _, codec := range dotTypes(t) {
		for trial := range 2000 {
			const n = 256
			row := randomBlocks(t, r, codec.Type, n)
			if trial%8 == 0 { // all bits set, all bits clear
				for i := range row {
					row[i] = byte(-(trial / 8 % 2))
				}
			}
			setHalves(t, codec.Type, row, one)
			x := make([]float32, n)
			for i := range x {
				switch trial / 8 % 4 {
				case 0:
					x[i] = float32(r.IntN(255) - 127)
				case 1:
					x[i] = 127
				case 2:
					x[i] = -127
				case 3:
					x[i] = float32(254*r.IntN(2) - 127)
				}
				if i%32 == 31 {
					x[i] = 127
				}
			}
			a := activations(x)
			y := make([]float32, n)
			codec.Decode(y, row)
			var tolerance float64
			if mode := trial / 8 % 4; mode == 1 || mode == 2 {
				tolerance = 16 // sums beyond 2^24, while one activation read wrongly makes 127 or more
			}
			if got, want := float64(codec.Dot(row, a)), dot64(y, a); math.Abs(got-want) > tolerance {
				t.Fatalf("%s, trial %d: %v, want %v\nrow % x", codec.Type, trial, got, want, row)
			}
		}
	}
}

// quantizers are the ways to make activations for blocks of 256 and less.
var quantizers = map[string]func(a *block.Activations, x []float32){
	"scales": (*block.Activations).Quantize, "units": (*block.Activations).QuantizeUnits,
}

// With any scales it equals the product of the decoded row with the activations up to the rounding of float32. The bound: no
// term takes part in more than n/32+16 roundings of a relative 2^-24 each, and the terms are at most 3 times the largest
// magnitude of their block (a minimum and its counterweight, which may cancel) times the activation.
func TestDotEqualsDecoded(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for _, codec := range dotTypes(t) {
		for _, n := range []int{256, 512, 4096} {
			for range 100 {
				w, x := make([]float32, n), make([]float32, n)
				for i := range w {
					w[i], x[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
				}
				row := randomBlocks(t, r, codec.Type, n)
				codec.Encode(row, w)
				for name, quantize := range quantizers {
					var a block.Activations
					quantize(&a, x)
					checkDot(t, codec, name, row, &a)
				}
			}
		}
	}
}

func checkDot(t *testing.T, codec *block.Codec, name string, row []byte, a *block.Activations) {
	t.Helper()
	n := len(a.Q)
	y := make([]float32, n)
	codec.Decode(y, row)
	var size float64
	for g := 0; g < n; g += 256 {
		var top float64
		for _, v := range y[g : g+256] {
			top = math.Max(top, math.Abs(float64(v)))
		}
		for i := g; i < g+256; i++ {
			size += 3 * top * math.Abs(float64(a.Scale[i/32])*float64(a.Q[i]))
		}
	}
	got, want := float64(codec.Dot(row, a)), dot64(y, a)
	if bound := size * float64(n/32+16) * 0x1p-24; !(math.Abs(got-want) <= bound) {
		t.Fatalf("%s, %d elements, %s: %v, want %v within %v", codec.Type, n, name, got, want, bound)
	}
}

func TestActivations(t *testing.T) {
	x := make([]float32, 96)
	for i := range 32 {
		x[i] = float32(i) - 16
		x[32+i] = 0
		x[64+i] = float32(i%5) * 0.5 // ties, with a scale of 1
	}
	x[64+31] = -127
	a := activations(x)
	if a.Scale[0] != float32(16)/127 || a.Scale[1] != 0 || a.Scale[2] != 1 {
		t.Errorf("scales %v", a.Scale)
	}
	for i, want := range []int8{0, 0, 1, 2, 2} { // halves go to the even neighbour
		if got := a.Q[64+i]; got != want {
			t.Errorf("%v rounds to %d, want %d", x[64+i], got, want)
		}
	}
	if a.Q[0] != -127 || a.Q[64+31] != -127 {
		t.Errorf("the largest magnitudes are %d and %d, want -127", a.Q[0], a.Q[64+31])
	}
	for g := range 3 {
		var sum float32
		for _, q := range a.Q[32*g:][:32] {
			sum += float32(q)
		}
		if a.Sum[g] != a.Scale[g]*sum || float32(a.Sum16[2*g]+a.Sum16[2*g+1]) != sum {
			t.Errorf("group %d: sums %v %v %v, want %v", g, a.Sum[g], a.Sum16[2*g], a.Sum16[2*g+1], sum)
		}
	}
	a.Quantize(x[:32])
	if len(a.Q) != 32 || len(a.Scale) != 1 || len(a.Sum) != 1 || len(a.Sum16) != 2 {
		t.Errorf("a shorter vector leaves %d %d %d %d", len(a.Q), len(a.Scale), len(a.Sum), len(a.Sum16))
	}
	if n := testing.AllocsPerRun(10, func() { a.Quantize(x) }); n != 0 {
		t.Errorf("%v allocations with storage to reuse", n)
	}
}

// Any bits make valid activations; a group that is not finite shows in every dot product.
func TestActivationsOfAnyBits(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for trial := range 20000 {
		x := make([]float32, 32)
		finite := true
		for i := range x {
			bits := r.Uint32()
			if trial%2 == 0 {
				bits &^= 0x40000000 // small
			}
			if trial%4 == 0 {
				bits &^= 0x3e000000 // down to subnormal
			}
			x[i] = math.Float32frombits(bits)
			finite = finite && x[i]-x[i] == 0
		}
		a := activations(x)
		if isNaN := a.Scale[0] != a.Scale[0] && a.Sum[0] != a.Sum[0]; isNaN == finite {
			t.Fatalf("finite %v, scale %v, sum %v", finite, a.Scale[0], a.Sum[0])
		}
		if !finite {
			continue
		}
		for i, q := range a.Q {
			if q == -128 {
				t.Fatalf("%v became -128", x[i])
			}
			if diff := math.Abs(float64(x[i]) - float64(a.Scale[0])*float64(q)); diff > float64(a.Scale[0])*0.5001+0x1p-120 {
				t.Fatalf("%v became %v*%d", x[i], a.Scale[0], q)
			}
		}
	}
}

// In whole units every element is as near as its group's scale allows, no group takes more units than it needs, and 256 elements that are too small are
// zeros, or NaN where one is not finite.
func TestActivationsInUnits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for trial := range 5000 {
		const n = 512
		x := make([]float32, n)
		for g := range n / 32 {
			size := math.Ldexp(1, r.IntN(12)-6+(trial%3-1)*100)
			for i := range 32 {
				x[32*g+i] = float32(r.NormFloat64() * size)
			}
		}
		bad := trial%5 == 0
		if bad {
			x[r.IntN(256)] = [2]float32{float32(math.NaN()), float32(math.Inf(-1))}[trial%2]
		}
		var a block.Activations
		a.QuantizeUnits(x)
		for b := range n / 256 {
			top := largest(x[256*b:][:256])
			for g := 8 * b; g < 8*b+8; g++ {
				scale, units, group := a.Scale[g], a.Units[g], x[32*g:][:32]
				switch {
				case bad && b == 0:
					if scale == scale || a.Sum[g] == a.Sum[g] {
						t.Fatalf("beside what is not finite the scale is %v, the sum %v", scale, a.Sum[g])
					}
					continue
				case top < 0x1p-100:
					if scale != 0 {
						t.Fatalf("largest magnitude %g: scale %g, want 0", top, scale)
					}
					continue
				}
				if units < 1 || units > block.MostUnits || scale != a.Unit[b]*float32(units) {
					t.Fatalf("scale %v is not %d units of %v", scale, units, a.Unit[b])
				}
				if fewer := float64(a.Unit[b]) * float64(units-1); units > 1 && largest(group) < 127*fewer*(1-1e-6) {
					t.Fatalf("largest magnitude %v: %d units of %v are too many", largest(group), units, a.Unit[b])
				}
				var s0, s1 int32
				for i, v := range group {
					q := a.Q[32*g+i]
					if q == -128 || math.Abs(float64(v)-float64(scale)*float64(q)) > 0.50001*float64(scale) {
						t.Fatalf("%v became %v*%d", v, scale, q)
					}
					if i < 16 {
						s0 += int32(q)
					} else {
						s1 += int32(q)
					}
				}
				if a.Sum16[2*g] != s0 || a.Sum16[2*g+1] != s1 || a.Sum[g] != scale*float32(s0+s1) {
					t.Fatalf("group %d: sums %v %v %v, want %v %v", g, a.Sum16[2*g], a.Sum16[2*g+1], a.Sum[g], s0, s1)
				}
			}
			if !(bad && b == 0) && top >= 0x1p-100 && math.Abs(float64(a.Unit[b])*127*block.MostUnits/top-1) > 1e-6 {
				t.Fatalf("largest magnitude %v: unit %v", top, a.Unit[b])
			}
		}
	}
	var a block.Activations
	x := make([]float32, 256)
	a.QuantizeUnits(x)
	if n := testing.AllocsPerRun(10, func() { a.QuantizeUnits(x) }); n != 0 {
		t.Errorf("%v allocations with storage to reuse", n)
	}
	if a.Quantize(x); len(a.Unit) != 0 || len(a.Units) != 0 {
		t.Errorf("Quantize leaves units %v of %v", a.Units, a.Unit)
	}
}

func TestDotShowsNaN(t *testing.T) {
	x := make([]float32, 256)
	for _, bad := range []float64{math.NaN(), math.Inf(1)} {
		x[77] = float32(bad)
		for name, quantize := range quantizers {
			var a block.Activations
			quantize(&a, x)
			for _, codec := range dotTypes(t) {
				row := randomBlocks(t, rand.New(rand.NewPCG(4, 1)), codec.Type, 256)
				codec.Encode(row, make([]float32, 256))
				if got := codec.Dot(row, &a); got == got {
					t.Errorf("%s, %s: %v, want NaN", codec.Type, name, got)
				}
			}
		}
	}
}
