package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/atomicfile"
	"github.com/ggufkit/ggufkit/quantize/encode"
	"github.com/ggufkit/ggufkit/quantize/mix"
)

// put overwrites the element at an index of a BF16 tensor with the upper half of a float32.
func put(c *ckptCopy, name string, index int, v float32) {
	binary.LittleEndian.PutUint16(c.tensors[name].data[2*index:], uint16(math.Float32bits(v)>>16))
}

// failing converts a folder, which must fail and leave nothing behind.
func failing(t *testing.T, ctx context.Context, dir string, o Options) error {
	t.Helper()
	out := t.TempDir()
	_, err := planOf(t, dir, o).Run(ctx, filepath.Join(out, "out.gguf"), o)
	if err == nil {
		t.Error("the conversion went through")
	}
	left, readErr := os.ReadDir(out)
	if readErr != nil || len(left) != 0 {
		t.Errorf("%v is left behind (%v)", left, readErr)
	}
	return err
}

// A damaged value is reported where it stands in the checkpoint, also through the permutation of q and k (field report R040).
func TestNonFinite(t *testing.T) {
	const q = "model.layers.0.self_attn.q_proj."
	for _, c := range []struct {
		edit edit
		want []string
	}{
		{func(c *ckptCopy) { put(c, q+"weight", 13*32+7, float32(math.NaN())) }, []string{"blk.0.attn_q.weight", q + "weight", "model.safetensors", "row 13, column 7", "NaN"}},
		{func(c *ckptCopy) { put(c, q+"bias", 13, float32(math.Inf(-1))) }, []string{"blk.0.attn_q.bias", q + "bias", "row 0, column 13", "-Inf"}},
		{func(c *ckptCopy) { put(c, "model.embed_tokens.weight", 263*32+31, float32(math.Inf(1))) }, []string{"token_embd.weight", "row 263, column 31", "+Inf"}},
		{func(c *ckptCopy) {
			binary.LittleEndian.PutUint32(c.tensors["model.norm.weight"].data[4*5:], math.Float32bits(float32(math.NaN())))
		}, []string{"output_norm.weight", "row 0, column 5"}},
	} {
		dir := edited(t, c.edit)
		for _, typ := range []string{"auto", "f32", "q8_0"} {
			err := failing(t, t.Context(), dir, Options{Type: typ})
			wantError(t, err, append(c.want, "hint:")...)
			if n := strings.Count(err.Error(), "\n"); n != 1 {
				t.Errorf("%d lines of hints: %v", n, err)
			}
			if bad := (*encode.NonFiniteError)(nil); !errors.As(err, &bad) {
				t.Errorf("%v is no NonFiniteError", err)
			}
		}
	}
}

// Values that F16 cannot hold: none is lost silently. BF16 keeps the source's bits (field report R026).
func TestHalfRange(t *testing.T) {
	const name = "model.layers.0.mlp.up_proj.weight"
	dir := edited(t, func(c *ckptCopy) {
		for i, v := range []float32{1e30, 70144, 1e-9} { // 70144 is 70000 in BF16
			put(c, name, i, v)
		}
	})
	wantError(t, failing(t, t.Context(), dir, Options{Type: "f16"}), "blk.0.ffn_up.weight", name, "2 values exceed the range of F16", "1 would become zero", "hint:")

	src := open(t, dir)
	st, _ := src.Tensor(name)
	raw, err := src.ReadRaw(st, 0, st.Rows())
	if err != nil {
		t.Fatal(err)
	}
	f := convertTo(t, dir, Options{})
	x, _ := f.Tensor("blk.0.ffn_up.weight")
	if b, err := f.Data(x); err != nil || !bytes.Equal(b, raw) {
		t.Errorf("auto changes the bits (%v)", err)
	}

	small := edited(t, func(c *ckptCopy) { put(c, name, 2, 1e-9) })
	o := Options{Type: "f16"}
	_, reports := run(t, planOf(t, small, o), o)
	for _, r := range reports {
		want := uint64(0)
		if r.Name == "blk.0.ffn_up.weight" {
			want = 1
		}
		if r.Underflow != want {
			t.Errorf("%s: %d underflows, want %d", r.Name, r.Underflow, want)
		}
	}
}

// Converting to a quantized type in one pass gives what quantizing the F32 file gives. The rows of the tiny checkpoint fit no block of 256;
// those of the demo do.
func TestOnePass(t *testing.T) {
	onePass(t, golden, "F32", "F16", "BF16", "Q4_0", "Q5_1", "Q8_0", "Q4_K_M", "Q6_K")
	onePass(t, "../testdata/demo", "Q4_K_M")
}

func onePass(t *testing.T, dir string, types ...string) {
	t.Helper()
	wide := convertTo(t, dir, Options{Type: "f32"})
	for _, name := range types {
		r, err := mix.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		f := convertTo(t, dir, Options{Type: name, Threads: 3})
		choices, err := mix.Choose(r, mix.ModelOf(wide.Meta), wide.Tensors, mix.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if ft, err := f.Meta.Uint("general.file_type"); err != nil || uint32(ft) != r.FileType {
			t.Errorf("%s: file type %d %v, want %d", name, ft, err, r.FileType)
		}
		for i, c := range choices {
			got, err := f.Data(&f.Tensors[i])
			if err != nil || f.Tensors[i].Name != c.Name || f.Tensors[i].Type != c.To || !bytes.Equal(got, requantized(t, wide, i, c.To)) {
				t.Errorf("%s: %s is %s, want %s and its bytes (%v)", name, f.Tensors[i].Name, f.Tensors[i].Type, c.To, err)
			}
		}
	}
}

// requantized encodes tensor i of an F32 file.
func requantized(t *testing.T, f *gguf.File, i int, to gguf.Type) []byte {
	t.Helper()
	src := &f.Tensors[i]
	data, err := f.Data(src)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, len(data)/4)
	if err := encode.Decode(gguf.F32, values, data); err != nil {
		t.Fatal(err)
	}
	out := make([]byte, mustBytes(t, gguf.Tensor{Name: src.Name, Type: to, Shape: src.Shape}))
	if err := encode.Rows(to, out, values, int(src.Shape[0]), nil, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

// Errors are measured on request, for the tensors that lose anything.
func TestStats(t *testing.T) {
	for _, stats := range []bool{false, true} {
		o := Options{Type: "q8_0", Stats: stats}
		p := planOf(t, golden, o)
		_, reports := run(t, p, o)
		for i, r := range reports {
			lossy := r.Type != gguf.F32
			if (r.Stats.N > 0) != (stats && lossy) {
				t.Errorf("%s (%s): %d elements measured", r.Name, p.Tensors[i].Type, r.Stats.N)
			}
			if r.Stats.N > 0 && (r.Stats.RMSE() <= 0 || r.Stats.Cosine() < 0.999) {
				t.Errorf("%s: rmse %g, cosine %g", r.Name, r.Stats.RMSE(), r.Stats.Cosine())
			}
		}
	}
}

func mustBytes(t *testing.T, x gguf.Tensor) uint64 {
	t.Helper()
	n, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestProgress(t *testing.T) {
	p := planOf(t, golden, Options{})
	var data, last uint64
	for _, x := range p.Tensors {
		data += mustBytes(t, x.Tensor)
	}
	var names []string
	run(t, p, Options{Threads: 2, Progress: func(name string, done, total uint64) {
		if done <= last || total != data {
			t.Errorf("%s: %d of %d after %d", name, done, total, last)
		}
		last = done
		names = append(names, name)
	}})
	if names = slices.Compact(names); last != data || !slices.Equal(names, p.Names()) {
		t.Errorf("%d bytes of %d reported, for %v", last, data, names)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Progress: func(string, uint64, uint64) { cancel() }}
	if err := failing(t, ctx, golden, o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v is not the cancellation", err)
	}
}

// The output may stand in the checkpoint's folder, but not replace a part of it.
func TestOutputIsInput(t *testing.T) {
	dir := edited(t)
	p := planOf(t, dir, Options{})
	for _, name := range []string{"model.safetensors", "config.json", filepath.Join("..", "tiny-llama", "tokenizer.json")} {
		before, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Run(t.Context(), filepath.Join(dir, name), Options{}); !errors.Is(err, atomicfile.ErrIsInput) {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s has changed (%v)", name, err)
		}
	}
	if _, err := p.Run(t.Context(), filepath.Join(dir, "model.gguf"), Options{}); err != nil {
		t.Error(err)
	}
}
