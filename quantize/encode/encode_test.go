package encode_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
	"github.com/ggufkit/ggufkit/quantize/encode"
)

func normal(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 0))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func room(t *testing.T, typ gguf.Type, n int) []byte {
	t.Helper()
	size, err := typ.RowBytes(uint64(n))
	if err != nil {
		t.Fatal(err)
	}
	return make([]byte, size)
}

// The sums agree with a second computation, straight from the definitions, in another order.
func TestRowsMeasures(t *testing.T) {
	const rowLen, rows = 1536, 3
	src := normal(1, rows*rowLen)
	for _, typ := range block.Types() {
		dst := room(t, typ, len(src))
		var got encode.Stats
		if err := encode.Rows(typ, dst, src, rowLen, nil, &got); err != nil {
			t.Fatal(typ, err)
		}
		y := make([]float32, len(src))
		if err := encode.Decode(typ, y, dst); err != nil {
			t.Fatal(typ, err)
		}
		var sq, sqQ, dot, errSq, worst float64
		for i := len(src) - 1; i >= 0; i-- {
			a, b := float64(src[i]), float64(y[i])
			sq, sqQ, dot, errSq = sq+a*a, sqQ+b*b, dot+a*b, errSq+(a-b)*(a-b)
			worst = math.Max(worst, math.Abs(a-b))
		}
		n := float64(len(src))
		for _, c := range []struct {
			name      string
			got, want float64
		}{
			{"N", float64(got.N), n},
			{"RMSE", got.RMSE(), math.Sqrt(errSq / n)},
			{"RelRMSE", got.RelRMSE(), math.Sqrt(errSq / sq)},
			{"Cosine", got.Cosine(), dot / math.Sqrt(sq*sqQ)},
			{"MaxError", got.MaxError, worst},
		} {
			if math.Abs(c.got-c.want) > 1e-12*math.Max(1, c.want) {
				t.Errorf("%s %s: %v, want %v", typ, c.name, c.got, c.want)
			}
		}
	}
}

func TestRowsUsesWeightsRowByRow(t *testing.T) {
	const rowLen, rows = 512, 4
	src, weights := normal(2, rows*rowLen), normal(3, rowLen)
	for i, w := range weights {
		weights[i] = w * w
	}
	for _, typ := range block.Types() {
		codec, err := block.ForType(typ)
		if err != nil {
			t.Fatal(err)
		}
		got, want := room(t, typ, len(src)), room(t, typ, len(src))
		if err := encode.Rows(typ, got, src, rowLen, weights, nil); err != nil {
			t.Fatal(typ, err)
		}
		size := len(want) / rows
		for r := range rows {
			if codec.EncodeWeighted != nil {
				codec.EncodeWeighted(want[r*size:][:size], src[r*rowLen:][:rowLen], weights)
			} else {
				codec.Encode(want[r*size:][:size], src[r*rowLen:][:rowLen])
			}
		}
		if string(got) != string(want) {
			t.Errorf("%s: not what the codec makes of each row", typ)
		}
	}
}

func TestRowsRefusesNonFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, typ := range block.Types() {
		for _, bad := range []float32{nan, inf} {
			src := normal(4, 1024)
			src[700], src[701] = bad, inf
			stats := encode.Stats{N: 5}
			err := encode.Rows(typ, room(t, typ, len(src)), src, 512, nil, &stats)
			var e *encode.NonFiniteError
			if !errors.As(err, &e) || e.Index != 700 || math.Float32bits(e.Value) != math.Float32bits(bad) {
				t.Errorf("%s: %v, want element 700", typ, err)
			}
			if stats != (encode.Stats{N: 5}) {
				t.Errorf("%s: the sums changed: %+v", typ, stats)
			}
		}
	}
}

func TestRowsRefusesWhatTheTypeCannotHold(t *testing.T) {
	src := make([]float32, 256)
	src[3], src[5], src[9] = 1e-9, 1e30, -70000
	err := encode.Rows(gguf.F16, room(t, gguf.F16, 256), src, 256, nil, nil)
	var e *encode.RangeError
	if !errors.As(err, &e) || *e != (encode.RangeError{Type: gguf.F16, Index: 5, Value: 1e30, Overflow: 2, Underflow: 1}) {
		t.Errorf("F16: %v", err)
	}
	src[5] = 65519 // rounds to the largest half
	src[9] = 0
	if err := encode.Rows(gguf.F16, room(t, gguf.F16, 256), src, 256, nil, nil); err != nil {
		t.Errorf("65519 is in range of F16: %v", err)
	}
	src[5] = 65520
	if err := encode.Rows(gguf.F16, room(t, gguf.F16, 256), src, 256, nil, nil); !errors.As(err, &e) {
		t.Errorf("65520 is not in range of F16: %v", err)
	}
	src[5] = math.MaxFloat32
	for _, typ := range block.Types() {
		err := encode.Rows(typ, room(t, typ, 256), src, 256, nil, nil)
		if typ == gguf.F32 {
			if err != nil {
				t.Errorf("F32: %v", err)
			}
		} else if !errors.As(err, &e) || e.Type != typ || e.Overflow == 0 || e.Index != 5 || e.Value != src[5] {
			t.Errorf("%s took %v: %v", typ, src[5], err)
		}
	}
}

func TestRowsChecksSizes(t *testing.T) {
	f := func(n int) []float32 { return make([]float32, n) }
	ones := func(n int, last float32) []float32 {
		w := f(n)
		for i := range w {
			w[i] = 1
		}
		w[n-1] = last
		return w
	}
	for _, c := range []struct {
		name    string
		typ     gguf.Type
		dst     int
		src     []float32
		rowLen  int
		weights []float32
		want    string
	}{
		{"row length zero", gguf.F32, 0, f(0), 0, nil, "whole rows"},
		{"part of a row", gguf.F32, 40, f(10), 4, nil, "whole rows"},
		{"part of a block", gguf.Q4_K, 144, f(128), 128, nil, "blocks of 256"},
		{"dst too small", gguf.Q8_0, 33, f(32), 32, nil, "34 bytes"},
		{"dst too large", gguf.Q8_0, 68, f(32), 32, nil, "34 bytes"},
		{"weights too short", gguf.Q8_0, 34, f(32), 32, f(31), "31 importance weights"},
		{"negative weight", gguf.Q4_0, 18, f(32), 32, ones(32, -1), "weight 31 is -1"},
		{"NaN weight", gguf.Q4_0, 18, f(32), 32, ones(32, float32(math.NaN())), "weight 31 is NaN"},
		{"no codec", gguf.Q8_1, 36, f(32), 32, nil, "no codec for Q8_1"},
		{"unknown type", gguf.Type(77), 36, f(32), 32, nil, "no codec for type 77"},
	} {
		err := encode.Rows(c.typ, make([]byte, c.dst), c.src, c.rowLen, c.weights, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := encode.Rows(gguf.Q4_K, nil, nil, 256, ones(256, 1), &encode.Stats{}); err != nil {
		t.Errorf("no rows: %v", err)
	}
	if err := encode.Decode(gguf.Q8_0, f(32), make([]byte, 33)); err == nil || !strings.Contains(err.Error(), "34 bytes") {
		t.Errorf("Decode of a short block: %v", err)
	}
	if err := encode.Decode(gguf.Q8_0, f(31), make([]byte, 34)); !errors.Is(err, gguf.ErrShape) {
		t.Errorf("Decode into part of a block: %v", err)
	}
}

func TestStatsOfDegenerateTensors(t *testing.T) {
	for _, typ := range block.Types() {
		var s encode.Stats
		if err := encode.Rows(typ, room(t, typ, 512), make([]float32, 512), 256, nil, &s); err != nil {
			t.Fatal(typ, err)
		}
		if s.RMSE() != 0 || s.RelRMSE() != 0 || s.MaxError != 0 || s.Cosine() != 1 {
			t.Errorf("%s: zeros have %v %v %v %v", typ, s.RMSE(), s.RelRMSE(), s.MaxError, s.Cosine())
		}
	}
	var none encode.Stats
	if none.RMSE() != 0 || none.RelRMSE() != 0 || none.Cosine() != 1 {
		t.Errorf("no elements: %v %v %v", none.RMSE(), none.RelRMSE(), none.Cosine())
	}
	lost := encode.Stats{N: 1, SumSq: 4, SumErrSq: 4, MaxError: 2}
	if lost.RMSE() != 2 || lost.RelRMSE() != 1 || lost.Cosine() != 0 {
		t.Errorf("all lost: %v %v %v", lost.RMSE(), lost.RelRMSE(), lost.Cosine())
	}
	made := encode.Stats{N: 1, SumSqQ: 4, SumErrSq: 4, MaxError: 2}
	if !math.IsInf(made.RelRMSE(), 1) || made.Cosine() != 0 {
		t.Errorf("from nothing: %v %v", made.RelRMSE(), made.Cosine())
	}
}

// Parts added in order are the whole, bit for bit, when the parts are the same.
func TestStatsAdd(t *testing.T) {
	src := normal(5, 4096)
	dst := room(t, gguf.Q4_K, len(src))
	var whole, a, b encode.Stats
	for _, s := range []struct {
		stats  *encode.Stats
		lo, hi int
	}{{&whole, 0, 2048}, {&whole, 2048, 4096}, {&a, 0, 2048}, {&b, 2048, 4096}} {
		if err := encode.Rows(gguf.Q4_K, dst[s.lo/256*144:s.hi/256*144], src[s.lo:s.hi], 1024, nil, s.stats); err != nil {
			t.Fatal(err)
		}
	}
	a.Add(b)
	if a != whole {
		t.Errorf("%+v, want %+v", a, whole)
	}
}

func TestRowsAllocatesPerCallOnly(t *testing.T) {
	const rowLen = 256
	src, weights := normal(6, 64*rowLen), normal(7, rowLen)
	for i, w := range weights {
		weights[i] = w * w
	}
	for _, typ := range block.Types() {
		dst := room(t, typ, len(src))
		var s encode.Stats
		n := testing.AllocsPerRun(3, func() {
			if err := encode.Rows(typ, dst, src, rowLen, weights, &s); err != nil {
				t.Fatal(err)
			}
		})
		if n > 2 {
			t.Errorf("%s: %v allocations for 64 rows", typ, n)
		}
	}
}

// The benchmark reports millions of elements a second as MB/s.
func BenchmarkRows(b *testing.B) {
	src := normal(8, 1<<16)
	for _, measured := range []bool{false, true} {
		for _, typ := range []gguf.Type{gguf.F16, gguf.Q8_0} {
			name := typ.String()
			var stats *encode.Stats
			if measured {
				name, stats = name+"+stats", &encode.Stats{}
			}
			b.Run(name, func(b *testing.B) {
				size, err := typ.RowBytes(uint64(len(src)))
				if err != nil {
					b.Fatal(err)
				}
				dst := make([]byte, size)
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					if err := encode.Rows(typ, dst, src, 1024, nil, stats); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
