package eval

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/half"
	"github.com/ggufkit/ggufkit/quantize/encode"
)

// normals are random values, some far out.
func normals(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * math.Exp(r.NormFloat64()*0.3))
	}
	return x
}

// weighed compares a tensor of some type, encoded with importance weights or none and spoiled, with its values.
func weighed(t *testing.T, typ gguf.Type, shape []uint64, ref, weights []float32, spoil func(data []byte)) TensorProof {
	t.Helper()
	width := shape[0]
	size, err := typ.RowBytes(width)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, uint64(len(ref))/width*size)
	if err := encode.Rows(typ, data, ref, int(width), weights, nil); err != nil {
		t.Fatal(err)
	}
	if spoil != nil {
		spoil(data)
	}
	w := &weighing{tensor: &gguf.Tensor{Name: "x", Type: typ, Shape: shape}, width: width, rowBytes: size, data: data, sums: sums{badRow: noRow}}
	w.read = func(lo, hi uint64, dst []float32) error {
		copy(dst, ref[lo*width:hi*width])
		return nil
	}
	l := &lost{columns: make([]float64, width)}
	if err := w.piece(t.Context(), 0, w.tensor.Rows(), l, 2, func(uint64) {}); err != nil {
		t.Fatal(err)
	}
	var columns float64
	for _, x := range l.columns {
		columns += x
	}
	if math.Abs(columns-w.own) > 1e-9*w.own {
		t.Errorf("%s: the errors of columns add up to %g, those of rows to %g", typ, columns, w.own)
	}
	out := TensorProof{Name: "x", Rows: w.tensor.Rows()}
	w.result(&out)
	if out.Fault, err = w.fault(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// What an importance matrix does to single weights is no damage, even where a few columns count a thousand times as much as others.
func TestProofWithImportance(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ref := normals(r, 64*1024)
	for _, spread := range []float64{1, 3} {
		weights := make([]float32, 1024)
		for i := range weights {
			weights[i] = float32(math.Exp(r.NormFloat64() * spread))
		}
		for _, typ := range []gguf.Type{gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.Q4_0, gguf.Q5_0, gguf.Q4_1, gguf.Q5_1, gguf.IQ4_NL, gguf.IQ4_XS} {
			if p := weighed(t, typ, []uint64{1024, 64}, ref, weights, nil); p.Fault != "" {
				t.Errorf("%s, weights with a spread of e^%g: %s", typ, spread, p.Fault)
			}
		}
	}
}

// A tenth more in the scale of one block is found in any type whose rounding is finer than that.
func TestProofScale(t *testing.T) {
	ref := normals(rand.New(rand.NewPCG(3, 4)), 64*1024)
	for _, c := range []struct {
		typ    gguf.Type
		scale  int // where a block has it
		factor float32
		block  int
	}{
		{gguf.Q8_0, 0, 1.02, 31}, {gguf.Q5_0, 0, 1.1, 7}, {gguf.Q4_K, 0, 1.3, 2}, {gguf.Q5_K, 0, 1.2, 3}, {gguf.Q6_K, 208, 1.1, 0}, {gguf.IQ4_NL, 0, 1.3, 5},
	} {
		info, _ := c.typ.Info()
		bytes := int(info.Bytes)
		const row = 17
		p := weighed(t, c.typ, []uint64{1024, 64}, ref, nil, func(data []byte) {
			at := data[(row*1024/int(info.Block)+c.block)*bytes+c.scale:]
			binary.LittleEndian.PutUint16(at, half.F32ToF16(half.F16ToF32(binary.LittleEndian.Uint16(at))*c.factor))
		})
		if len(p.Worst) == 0 || p.Worst[0].Row != row || p.Worst[0].Block != uint64(c.block) || p.Outliers > uint64(info.Block)/groupSize {
			t.Errorf("%s: %d outliers, the worst %+v, want block %d of row %d", c.typ, p.Outliers, p.Worst, c.block, row)
		}
		if want := fmt.Sprintf("row %d, block %d, ", row, c.block); !strings.Contains(p.Fault, want) {
			t.Errorf("%s: %q does not say %q", c.typ, p.Fault, want)
		}
	}
}

// Two experts that have changed places are told as such.
func TestProofExpertsSwapped(t *testing.T) {
	ref := normals(rand.New(rand.NewPCG(5, 6)), 6*8*64)
	for _, typ := range []gguf.Type{gguf.F32, gguf.Q8_0, gguf.Q4_0} {
		p := weighed(t, typ, []uint64{64, 8, 6}, ref, nil, func(data []byte) {
			size := len(data) / 6
			second, fifth := data[size:2*size], data[4*size:5*size]
			for i := range second {
				second[i], fifth[i] = fifth[i], second[i]
			}
		})
		want := "row 0 of expert 1 holds row 0 of expert 4 of the checkpoint's, and 16 of 48 rows differ"
		if !strings.Contains(p.Fault, want) {
			t.Errorf("%s: %q does not say %q", typ, p.Fault, want)
		}
	}
}

// A whole tensor that is scaled, shifted or no numbers is described by that.
func TestProofFaults(t *testing.T) {
	ref := normals(rand.New(rand.NewPCG(7, 8)), 16*64)
	change := func(f func(v float32) float32) func(data []byte) {
		return func(data []byte) {
			for ; len(data) > 0; data = data[4:] {
				binary.LittleEndian.PutUint32(data, math.Float32bits(f(math.Float32frombits(binary.LittleEndian.Uint32(data)))))
			}
		}
	}
	for want, f := range map[string]func(v float32) float32{
		"all its values are off by about +1":               func(v float32) float32 { return v + 1 },
		"all its values are about 0.5 times":               func(v float32) float32 { return v / 2 },
		"all its values are zero":                          func(float32) float32 { return 0 },
		"it holds values that are no numbers":              func(float32) float32 { return float32(math.NaN()) },
		"of 32 elements are not explained by the type":     func(v float32) float32 { return v * max(1, v) },
		"its rows are in another order: row 0 holds row 1": nil,
	} {
		spoil := func(data []byte) {
			for i := range data[:64*4] {
				data[i], data[i+64*4] = data[i+64*4], data[i]
			}
		}
		if f != nil {
			spoil = change(f)
		}
		if p := weighed(t, gguf.F32, []uint64{64, 16}, ref, nil, spoil); !strings.Contains(p.Fault, want) {
			t.Errorf("%q does not say %q", p.Fault, want)
		}
	}
	if p := weighed(t, gguf.F32, []uint64{64, 16}, ref, nil, nil); p.Fault != "" || p.Error != 0 {
		t.Errorf("the same values: %+v", p)
	}
}
