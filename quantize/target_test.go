package quantize

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
	"github.com/ggufkit/ggufkit/quantize/mix"
)

// blocks is a decoder of many matrices, with values of different scales and shapes of distribution, and rows that do not fit K-quants.
func blocks(n int) []tensor {
	list := []tensor{
		{name: "token_embd.weight", typ: gguf.F16, shape: []uint64{256, 100}},
		{name: "output_norm.weight", typ: gguf.F32, shape: []uint64{256}},
	}
	for i := range n {
		for k, part := range []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_gate", "ffn_down"} {
			x := tensor{name: fmt.Sprintf("blk.%d.%s.weight", i, part), typ: gguf.F32, shape: []uint64{256, 64}}
			if part == "ffn_down" && i == 0 {
				x.shape[0] = 96
			}
			x.data = x.values(uint64(100 + 10*i + k))
			for j := range x.data {
				x.data[j] *= float32(1 + k*k)
				switch {
				case part == "ffn_gate": // two bits are enough
					x.data[j] = float32(j % 4)
				case k%2 == 1 && j%97 == 0:
					x.data[j] *= 20
				}
			}
			list = append(list, x)
		}
	}
	return list
}

// errorsByHand are the error sums of a tensor of the result against what was stored, by the block formats alone.
func errorsByHand(t *testing.T, in, out *gguf.File, name string) (n, sumSq, sumErrSq float64) {
	t.Helper()
	decoded := func(f *gguf.File) []float32 {
		x, _ := f.Tensor(name)
		codec, err := block.ForType(x.Type)
		if err != nil {
			t.Fatal(err)
		}
		elements, err := x.Elements()
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float32, elements)
		codec.Decode(values, data(t, f, name))
		return values
	}
	source, result := decoded(in), decoded(out)
	for i, x := range source {
		d := float64(result[i]) - float64(x)
		sumSq += float64(x) * float64(x)
		sumErrSq += d * d
	}
	return float64(len(source)), sumSq, sumErrSq
}

// weightedError is the sum that a target minimizes, and checks every error of the report on the way.
func weightedError(t *testing.T, in, out string, r *Report) float64 {
	t.Helper()
	src, dst := open(t, in), open(t, out)
	total := 0.0
	for _, x := range r.Tensors {
		n, sumSq, sumErrSq := errorsByHand(t, src, dst, x.Name)
		if want := math.Sqrt(sumErrSq / n); math.Abs(x.RMSE-want) > 1e-9*want {
			t.Errorf("%s: rmse %g, recomputed %g", x.Name, x.RMSE, want)
		}
		total += n * sumErrSq / sumSq
	}
	return total
}

// A target is met from below, with an error that is no larger than that of one type for all in no more space, and the report has
// the true errors (field report R048).
func TestTarget(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.gguf")
	writeModel(t, in, blocks(5), nil)
	run := func(name string, p *Plan, err error) (*Report, float64) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, name+".gguf")
		r, err := p.Run(t.Context(), out, RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(out); err != nil || uint64(info.Size()) != r.Bytes {
			t.Errorf("%s: %v, %v, want %d bytes", name, info, err, r.Bytes)
		}
		return r, weightedError(t, in, out, r)
	}
	p, err := NewTargetPlan(t.Context(), open(t, in), Options{}, Target{BPW: 5}, RunOptions{})
	r, _ := run("bpw", p, err)
	if r.BPW < 4.9 || r.BPW > 5 {
		t.Errorf("%g bits per weight, want 4.9 to 5", r.BPW)
	}
	for i, x := range p.Tensors {
		if x.Name == "output_norm.weight" && (!x.Copied() || r.Tensors[i].RMSE != 0) {
			t.Errorf("%s: %s", x.Name, x.Rule)
		}
	}
	for _, recipe := range []string{"Q3_K_M", "Q4_K_M", "Q6_K"} {
		o := options(t, recipe)
		o.Mix.Pure = true
		p, err := NewPlan(open(t, in), o)
		uniform, uniformError := run(recipe, p, err)
		p, err = NewTargetPlan(t.Context(), open(t, in), Options{}, Target{Bytes: uniform.Bytes}, RunOptions{})
		r, e := run("as-"+recipe, p, err)
		// The matrices that two bits are enough for leave room for the others.
		if r.Bytes > uniform.Bytes || e >= uniformError {
			t.Errorf("%s: %d bytes with error %g; one type for all: %d bytes, %g", recipe, r.Bytes, e, uniform.Bytes, uniformError)
		}
	}
}

// Targets out of range name the range, both ends of which are possible, and the types that the user names stay (field report R048).
func TestTargetRange(t *testing.T) {
	in := filepath.Join(t.TempDir(), "in.gguf")
	writeModel(t, in, blocks(1), nil)
	f := open(t, in)
	o := Options{Mix: mix.Options{Overrides: []mix.Override{{Pattern: "attn_v", Type: gguf.F16}}}}
	for _, target := range []Target{{Bytes: 1}, {Bytes: 1 << 40}, {BPW: 1}, {BPW: 60}} {
		out := (*RangeError)(nil)
		if _, err := NewTargetPlan(t.Context(), f, o, target, RunOptions{}); !errors.As(err, &out) {
			t.Fatalf("%s: %v", target, err)
		}
		for _, end := range []Target{out.Least, out.Most} {
			p, err := NewTargetPlan(t.Context(), f, o, end, RunOptions{})
			if err != nil {
				t.Fatalf("%s: %v", end, err)
			}
			if r := p.Report(); end.Bytes > 0 && r.Bytes > end.Bytes || end.BPW > 0 && r.BPW > end.BPW {
				t.Errorf("%s: %d bytes, %g bits per weight", end, r.Bytes, r.BPW)
			}
			for _, x := range p.Tensors {
				if x.Name == "blk.0.attn_v.weight" && x.To != gguf.F16 {
					t.Errorf("%s: %s is %s", end, x.Name, x.To)
				}
			}
		}
	}
	for _, target := range []Target{{}, {Bytes: 1, BPW: 1}, {BPW: math.NaN()}} {
		if _, err := NewTargetPlan(t.Context(), f, o, target, RunOptions{}); err == nil {
			t.Errorf("%+v was taken", target)
		}
	}
}

// A value that is no number is told with its place, though a sample was read (field reports R040 and R048).
func TestTargetBadValue(t *testing.T) {
	x := tensor{name: "blk.0.ffn_up.weight", typ: gguf.F32, shape: []uint64{256, 9000}}
	x.data = x.values(1)
	for row := 4000; row < 4003; row++ { // every second row or more is read
		x.data[row*256+17] = float32(math.NaN())
	}
	in := filepath.Join(t.TempDir(), "in.gguf")
	writeModel(t, in, []tensor{x}, nil)
	_, err := NewTargetPlan(t.Context(), open(t, in), Options{}, Target{BPW: 4}, RunOptions{})
	bad := (*ValueError)(nil)
	if !errors.As(err, &bad) || bad.Row < 4000 || bad.Row > 4002 || bad.Col != 17 || bad.Count != 3 {
		t.Errorf("%v", err)
	}
}
