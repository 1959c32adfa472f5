package convert

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// The parts hold, in order, the tensors of the whole file, each part is as large as planned and no larger than allowed unless a single
// tensor is, and only the first has more than the keys of a part.
func TestShards(t *testing.T) {
	whole := convertTo(t, golden, Options{Type: "f32"})
	for _, limit := range []uint64{1, 20_000, 40_000, 60_000, 1 << 30} {
		o := Options{Type: "f32", SplitMaxSize: limit, Threads: 2}
		p := planOf(t, golden, o)
		dir := t.TempDir()
		path := filepath.Join(dir, "m.gguf")
		if _, err := p.Run(t.Context(), path, o); err != nil {
			t.Fatal(err)
		}
		outputs := p.Outputs(path)
		if limit > whole.Size {
			if len(outputs) != 1 || outputs[0].Path != path || whole.Size != outputs[0].Bytes {
				t.Errorf("limit %d: %v", limit, outputs)
			}
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != len(outputs) || len(outputs) < 2 {
			t.Fatalf("limit %d: %d files, %d planned, %v", limit, len(entries), len(outputs), err)
		}
		next := 0
		for i, out := range outputs {
			f, err := gguf.Open(out.Path)
			if err != nil {
				t.Fatal(err)
			}
			checkMeta(t, f.Meta, map[string]any{"split.no": i, "split.count": len(outputs), "split.tensors.count": len(whole.Tensors)})
			if v, _ := f.Meta.Get("split.no"); v.Type() != gguf.Uint16 {
				t.Errorf("split.no is a %s", v.TypeName())
			}
			if wantKeys := map[bool]int{true: whole.Meta.Len() + 3, false: 3}[i == 0]; f.Meta.Len() != wantKeys {
				t.Errorf("limit %d, part %d: %d keys, want %d", limit, i, f.Meta.Len(), wantKeys)
			}
			if f.Size != out.Bytes || len(f.Tensors) != out.Tensors || f.Size > limit && len(f.Tensors) > 1 {
				t.Errorf("limit %d, part %d: %d bytes, %d tensors, planned %d and %d", limit, i, f.Size, len(f.Tensors), out.Bytes, out.Tensors)
			}
			for k := range f.Tensors {
				got, err := f.Data(&f.Tensors[k])
				if err != nil {
					t.Fatal(err)
				}
				want, err := whole.Data(&whole.Tensors[next])
				if err != nil || f.Tensors[k].Name != whole.Tensors[next].Name || !bytes.Equal(got, want) {
					t.Errorf("limit %d: tensor %d is %s, want %s, or its bytes differ (%v)", limit, next, f.Tensors[k].Name, whole.Tensors[next].Name, err)
				}
				next++
			}
			f.Close()
		}
		if next != len(whole.Tensors) {
			t.Errorf("limit %d: %d tensors, want %d", limit, next, len(whole.Tensors))
		}
	}
}

// Every part is aligned as the first one says.
func TestShardAlignment(t *testing.T) {
	o := Options{SplitMaxSize: 20_000, Edit: func(m *gguf.Meta) error {
		m.Set("general.alignment", gguf.New(uint32(256)))
		return nil
	}}
	p := planOf(t, golden, o)
	path := filepath.Join(t.TempDir(), "m.gguf")
	if _, err := p.Run(t.Context(), path, o); err != nil {
		t.Fatal(err)
	}
	for _, out := range p.Outputs(path) {
		f, err := gguf.Open(out.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, x := range f.Tensors {
			if x.Offset%256 != 0 {
				t.Errorf("%s: %s at %d", out.Path, x.Name, x.Offset)
			}
		}
	}
}

// A fault in the last tensor leaves no part behind.
func TestShardsAllOrNothing(t *testing.T) {
	broken := edited(t, func(c *ckptCopy) {
		x := c.tensors["model.norm.weight"]
		binary.LittleEndian.PutUint32(x.data, math.Float32bits(float32(math.Inf(1))))
	})
	o := Options{SplitMaxSize: 10_000}
	p := planOf(t, broken, o)
	dir := t.TempDir()
	if last := p.Tensors[len(p.Tensors)-1].Name; last != "output_norm.weight" || len(p.Outputs("m.gguf")) < 2 {
		t.Fatalf("the last tensor is %s", last)
	}
	if _, err := p.Run(t.Context(), filepath.Join(dir, "m.gguf"), o); err == nil {
		t.Fatal("an infinite weight was written")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// Changes to the metadata that the weights contradict, and errors of the change itself, end the plan.
func TestEdits(t *testing.T) {
	refused := errors.New("refused")
	for want, change := range map[string]func(*gguf.Meta) error{
		"refused":                       func(*gguf.Meta) error { return refused },
		"must stay llama":               func(m *gguf.Meta) error { m.Remove("general.architecture"); return nil },
		"block_count":                   func(m *gguf.Meta) error { m.Remove("llama.block_count"); return nil },
		"token_embd.weight is [32 264]": func(m *gguf.Meta) error { m.Set("tokenizer.ggml.tokens", gguf.NewArray([]string{"a"})); return nil },
		"of 1 blocks, not 2":            func(m *gguf.Meta) error { m.Set("llama.block_count", gguf.New(uint32(2))); return nil },
	} {
		_, err := NewPlan(open(t, golden), Options{Edit: change})
		wantError(t, err, want)
	}
	p := planOf(t, golden, Options{Edit: func(m *gguf.Meta) error { m.Set("llama.rope.freq_base", gguf.New(float32(10000))); return nil }})
	plain := planOf(t, golden, Options{})
	if slices.Equal(f32sOf(t, p, "rope_freqs.weight"), f32sOf(t, plain, "rope_freqs.weight")) {
		t.Error("what is computed from the metadata does not follow the change")
	}
}
