package quantize

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/atomicfile"
	"github.com/ggufkit/ggufkit/quantize/mix"
)

// NaN and infinities are refused with their place, also in tensors that are kept (field report R040).
func TestBadValues(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	matrix := func(at int, bad ...float32) []float32 {
		x := make([]float32, 256*8)
		for i := range x {
			x[i] = float32(i%7) - 3
		}
		copy(x[at:], bad)
		return x
	}
	tests := []struct {
		x        tensor
		row, col uint64
		count    uint64
	}{
		{tensor{"blk.0.ffn_up.weight", gguf.F32, []uint64{256, 8}, matrix(3*256+17, nan)}, 3, 17, 1},
		{tensor{"blk.0.ffn_up.weight", gguf.F32, []uint64{256, 2, 4}, matrix(7*256+255, inf)}, 7, 255, 1},
		{tensor{"blk.0.ffn_up.weight", gguf.F32, []uint64{256, 8}, matrix(255, inf, nan, 1, inf)}, 0, 255, 3},
		{tensor{"blk.0.attn_norm.weight", gguf.F32, []uint64{2048}, matrix(5, nan)}, 0, 5, 1},
	}
	for _, tt := range tests {
		dir := t.TempDir()
		in := filepath.Join(dir, "in.gguf")
		writeModel(t, in, append(small()[:2], tt.x), nil)
		p, err := NewPlan(open(t, in), options(t, "Q4_K_M"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Run(t.Context(), filepath.Join(dir, "out.gguf"), RunOptions{Threads: 2})
		bad := (*ValueError)(nil)
		if !errors.As(err, &bad) || bad.Tensor != tt.x.name || bad.Row != tt.row || bad.Col != tt.col || bad.Count != tt.count || !strings.HasPrefix(err.Error(), in+": tensor "+tt.x.name+": row ") {
			t.Errorf("%v, want %s row %d col %d, %d values", err, tt.x.name, tt.row, tt.col, tt.count)
		}
		only(t, dir, "in.gguf")
	}
}

// Whatever stops a run, the source is whole and nothing else is left (field report R046).
func TestStoppedRun(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.gguf"), filepath.Join(dir, "out.gguf")
	writeModel(t, in, small(), nil)
	before, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	newPlan := func() *Plan {
		p, err := NewPlan(open(t, in), options(t, "Q4_K_M"))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}

	ctx, cancel := context.WithCancel(t.Context())
	if _, err := newPlan().Run(ctx, out, RunOptions{Progress: func(Progress) { cancel() }}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	only(t, dir, "in.gguf")

	large := newPlan()
	large.parts[0].Bytes = 1 << 60
	_, err = large.Run(t.Context(), out, RunOptions{})
	full := (*atomicfile.SpaceError)(nil)
	if !errors.As(err, &full) || full.Needed != 1<<60 || full.Available == 0 {
		t.Errorf("no room: %v", err)
	}
	only(t, dir, "in.gguf")

	if _, err := newPlan().Run(t.Context(), in, RunOptions{}); !errors.Is(err, atomicfile.ErrIsInput) {
		t.Errorf("output is the input: %v", err)
	}
	if err := os.Symlink("in.gguf", out); err != nil {
		t.Fatal(err)
	}
	if _, err := newPlan().Run(t.Context(), out, RunOptions{}); !errors.Is(err, atomicfile.ErrIsInput) {
		t.Errorf("output is a link to the input: %v", err)
	}
	only(t, dir, "in.gguf", "out.gguf")

	p := newPlan()
	if err := os.Truncate(in, int64(len(before))-100); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), filepath.Join(dir, "other.gguf"), RunOptions{}); err == nil || !strings.Contains(err.Error(), "changed") {
		t.Errorf("truncated source: %v", err)
	}
	only(t, dir, "in.gguf", "out.gguf")
}

// limited takes some bytes and then says that the disk is full.
type limited struct{ left int }

var errFull = errors.New("no space left")

func (w *limited) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return 0, errFull
	}
	w.left -= len(p)
	return len(p), nil
}

// cut serves a file up to some length.
type cut struct {
	r   io.ReaderAt
	end int64
}

func (c cut) ReadAt(p []byte, off int64) (int, error) {
	return io.NewSectionReader(c.r, 0, c.end).ReadAt(p, off)
}

// to writes a plan of one file to w.
func to(w io.Writer) func(int) io.Writer { return func(int) io.Writer { return w } }

// A write or read error at any point of the file is reported.
func TestFaultsAnywhere(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.gguf")
	writeModel(t, in, []tensor{
		{name: "output_norm.weight", typ: gguf.F32, shape: []uint64{256}},
		{name: "token_embd.weight", typ: gguf.F16, shape: []uint64{256, 16}},
		{name: "blk.0.ffn_up.weight", typ: gguf.F32, shape: []uint64{256, 16}},
		{name: "blk.0.ffn_gate_inp.weight", typ: gguf.Q8_0, shape: []uint64{256, 16}},
	}, nil)
	p, err := NewPlan(open(t, in), options(t, "Q4_K_M"))
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	for i := range 40 {
		room := int(p.Size) * i / 40
		if _, err := p.write(t.Context(), to(&limited{room}), src, RunOptions{Threads: 2}); !errors.Is(err, errFull) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
		end := int64(p.source.DataOffset) + (int64(p.source.Size-p.source.DataOffset)-1)*int64(i)/40
		if _, err := p.write(t.Context(), to(io.Discard), cut{src, end}, RunOptions{Threads: 2}); err == nil || !strings.Contains(err.Error(), "tensor ") {
			t.Errorf("source cut at %d: %v", end, err)
		}
	}
	if _, err := p.write(t.Context(), to(&limited{int(p.Size)}), src, RunOptions{}); err != nil {
		t.Errorf("room for all bytes: %v", err)
	}
}

func TestRefusedSources(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.gguf")
	writeModel(t, in, small(), func(m *gguf.Meta) { m.Set("split.count", gguf.New(uint16(3))) })
	if _, err := NewPlan(open(t, in), options(t, "Q8_0")); err == nil || !strings.Contains(err.Error(), "one of 3 parts") {
		t.Errorf("a part: %v", err)
	}
	writeModel(t, in, nil, nil)
	_, err := NewPlan(open(t, in), options(t, "Q8_0"))
	_, err2 := NewTargetPlan(t.Context(), open(t, in), Options{}, Target{BPW: 5}, RunOptions{})
	for _, err := range []error{err, err2} {
		if err == nil || !strings.HasPrefix(err.Error(), in+": the file has no tensors: there is nothing to quantize\nhint: ") {
			t.Errorf("a vocabulary: %v", err)
		}
	}
	// The type of activations is not one of files, and there is no codec for it.
	writeSparse(t, in, gguf.Tensor{Name: "blk.0.ffn_up.weight", Type: gguf.Q8_1, Shape: []uint64{256, 4}})
	o := options(t, "Q8_0")
	o.AllowRequantize = true
	if _, err := NewPlan(open(t, in), o); err == nil || !strings.Contains(err.Error(), "cannot read Q8_1 (1 tensor(s), such as blk.0.ffn_up.weight)") {
		t.Errorf("a source without a decoder: %v", err)
	}
	writeModel(t, in, small(), nil)
	o.Mix.Overrides = []mix.Override{{Pattern: "ffn", Type: gguf.Q8_1}}
	if _, err := NewPlan(open(t, in), o); err == nil || !strings.Contains(err.Error(), "cannot write Q8_1 (3 tensor(s)") {
		t.Errorf("a type without an encoder: %v", err)
	}
}

// writeSparse writes a file whose one tensor is a hole.
func writeSparse(t *testing.T, path string, x gguf.Tensor) {
	t.Helper()
	meta := gguf.NewMeta()
	meta.Set("general.architecture", gguf.New("llama"))
	_, size, err := gguf.Layout(meta, []gguf.Tensor{x})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := gguf.NewWriter(f, meta, []gguf.Tensor{x}); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
}
