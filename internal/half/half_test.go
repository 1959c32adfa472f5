package half_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ggufkit/ggufkit/internal/half"
)

// f16Value computes the value of a binary16 from its fields, as IEEE 754 defines it.
func f16Value(h uint16) float64 {
	sign := 1.0
	if h>>15 != 0 {
		sign = -1
	}
	exp, frac := int(h>>10&31), float64(h&0x3ff)
	switch exp {
	case 0:
		return math.Copysign(math.Ldexp(frac, -24), sign)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

func TestF16ToF32AllValues(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		got, want := half.F16ToF32(h), f16Value(h)
		if math.IsNaN(want) {
			bits := math.Float32bits(got)
			if got == got || bits>>31 != uint32(h>>15) || bits&0x00400000 == 0 {
				t.Fatalf("%#04x: got %#08x, want a quiet NaN of the same sign", h, bits)
			}
			continue
		}
		if math.Float64bits(float64(got)) != math.Float64bits(want) {
			t.Fatalf("%#04x: got %v, want %v", h, got, want)
		}
		if back := half.F32ToF16(got); back != h {
			t.Fatalf("%#04x -> %v -> %#04x", h, got, back)
		}
	}
}

// The border between two neighbouring halves is their exact mean, which float32 holds: it goes to the even one,
// and the float32 values next to it go to the nearer one.
func TestF32ToF16Borders(t *testing.T) {
	for i := range 0x7c00 {
		low, high := uint16(i), uint16(i+1)
		top := f16Value(high)
		if high == 0x7c00 {
			top = 65536 // where the next half would be
		}
		mid := float32((f16Value(low) + top) / 2)
		even := low
		if low&1 != 0 {
			even = high
		}
		for _, c := range []struct {
			f    float32
			want uint16
		}{
			{mid, even},
			{math.Nextafter32(mid, 0), low},
			{math.Nextafter32(mid, 1e9), high},
		} {
			if got := half.F32ToF16(c.f); got != c.want {
				t.Fatalf("%v: got %#04x, want %#04x", c.f, got, c.want)
			}
			if got := half.F32ToF16(-c.f); got != c.want|0x8000 {
				t.Fatalf("%v: got %#04x, want %#04x", -c.f, got, c.want|0x8000)
			}
		}
	}
}

func TestF32ToF16Special(t *testing.T) {
	for _, c := range []struct {
		bits uint32
		want uint16
	}{
		{0x00000000, 0x0000}, {0x80000000, 0x8000},
		{0x00000001, 0x0000}, {0x80000001, 0x8000}, // smallest subnormals of binary32
		{0x33000000, 0x0000}, {0x33000001, 0x0001}, // 2^-25 is the tie below the smallest half
		{0x477fefff, 0x7bff}, {0x477ff000, 0x7c00}, {0x7f7fffff, 0x7c00}, {0xff7fffff, 0xfc00},
		{0x7f800000, 0x7c00}, {0xff800000, 0xfc00},
		{0x7f800001, 0x7e00}, {0xff800001, 0xfe00}, {0x7fc00000, 0x7e00}, {0xffffffff, 0xfe00},
	} {
		if got := half.F32ToF16(math.Float32frombits(c.bits)); got != c.want {
			t.Errorf("%#08x: got %#04x, want %#04x", c.bits, got, c.want)
		}
	}
}

func TestBF16(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		f := half.BF16ToF32(h)
		if math.Float32bits(f) != uint32(h)<<16 {
			t.Fatalf("%#04x: got %#08x", h, math.Float32bits(f))
		}
		want := h
		if f != f {
			want |= 0x40 // quiet
		}
		if got := half.F32ToBF16(f); got != want {
			t.Fatalf("%#04x -> %v -> %#04x", h, f, got)
		}
	}
	for _, c := range []struct {
		bits uint32
		want uint16
	}{
		{0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0x3f807fff, 0x3f80}, // ties and their neighbours
		{0x7f7fffff, 0x7f80}, {0xff7fffff, 0xff80}, {0x7f7f7fff, 0x7f7f},
		{0x00008000, 0x0000}, {0x00008001, 0x0001}, {0x00018000, 0x0002},
		{0x7f800000, 0x7f80}, {0xff800000, 0xff80},
		{0x7f800001, 0x7fc0}, {0xff800001, 0xffc0}, {0x7fffffff, 0x7fff}, {0x7f810000, 0x7fc1},
	} {
		if got := half.F32ToBF16(math.Float32frombits(c.bits)); got != c.want {
			t.Errorf("%#08x: got %#04x, want %#04x", c.bits, got, c.want)
		}
	}
}

func TestSlicesAgreeWithScalars(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 20 {
		src := make([]float32, n)
		for i := range src {
			src[i] = math.Float32frombits(r.Uint32())
		}
		b := make([]byte, 2*n)
		got := make([]float32, n)
		for _, c := range []struct {
			name   string
			encode func([]byte, []float32)
			decode func([]float32, []byte)
			narrow func(float32) uint16
			widen  func(uint16) float32
		}{
			{"F16", half.EncodeF16, half.DecodeF16, half.F32ToF16, half.F16ToF32},
			{"BF16", half.EncodeBF16, half.DecodeBF16, half.F32ToBF16, half.BF16ToF32},
		} {
			c.encode(b, src)
			c.decode(got, b)
			for i, f := range src {
				h := c.narrow(f)
				if b[2*i] != byte(h) || b[2*i+1] != byte(h>>8) {
					t.Fatalf("%s: element %d: bytes % x, want %#04x little-endian", c.name, i, b[2*i:2*i+2], h)
				}
				if math.Float32bits(got[i]) != math.Float32bits(c.widen(h)) {
					t.Fatalf("%s: element %d: decoded %v, want %v", c.name, i, got[i], c.widen(h))
				}
			}
		}
	}
}

func BenchmarkDecodeF16(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	src := make([]float32, 4096)
	for i := range src {
		src[i] = float32(r.NormFloat64()) * 1e-3
	}
	raw := make([]byte, 2*len(src))
	half.EncodeF16(raw, src)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		half.DecodeF16(src, raw)
	}
}

func BenchmarkEncodeF16(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	src := make([]float32, 4096)
	for i := range src {
		src[i] = float32(r.NormFloat64()) * 1e-3
	}
	raw := make([]byte, 2*len(src))
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		half.EncodeF16(raw, src)
	}
}
