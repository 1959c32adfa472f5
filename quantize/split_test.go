package quantize

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// smallParts writes the tensors of small as a model m.gguf, and as parts m-0000i-of-0000n.gguf that hold so many of them each. It opens the parts.
func smallParts(t *testing.T, dir string, counts ...int) *gguf.File {
	t.Helper()
	in := filepath.Join(dir, "m.gguf")
	writeModel(t, in, small(), nil)
	whole := open(t, in)
	parts, err := gguf.SplitAt(whole.Meta, slices.Clone(whole.Tensors), counts)
	if err != nil {
		t.Fatal(err)
	}
	files, err := gguf.CreateParts(in, parts)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Abort()
	for i, p := range parts {
		if err := whole.WritePart(files.Files[i], p); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Commit(); err != nil {
		t.Fatal(err)
	}
	return openParts(t, gguf.PartPaths(in, len(parts))[0])
}

func openParts(t *testing.T, first string) *gguf.File {
	t.Helper()
	f, err := gguf.OpenModel(first)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// The parts of a split source become parts that hold the same tensors, also none, and together what one file holds.
func TestKeepSplit(t *testing.T) {
	dir := t.TempDir()
	counts := []int{0, 4, 3, 2}
	f := smallParts(t, dir, counts...)
	o := options(t, "Q4_K_M")
	want := quantize(t, filepath.Join(dir, "m.gguf"), filepath.Join(dir, "want.gguf"), o, RunOptions{})
	o.KeepSplit = true
	p, err := NewPlan(f, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(t.Context(), filepath.Join(dir, "q.gguf"), RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	one, parts := open(t, filepath.Join(dir, "want.gguf")), openParts(t, filepath.Join(dir, "q-00001-of-00004.gguf"))
	if !slices.Equal(parts.Counts(), counts) || parts.Stored() != r.Bytes || r.Bytes != p.Size || r.RelRMSE != want.RelRMSE {
		t.Errorf("%v tensors, %d bytes, reported %d, planned %d", parts.Counts(), parts.Stored(), r.Bytes, p.Size)
	}
	for i := range one.Tensors {
		x, y := &one.Tensors[i], &parts.Tensors[i]
		a, err := one.Data(x)
		b, err2 := parts.Data(y)
		if err != nil || err2 != nil || x.Name != y.Name || x.Type != y.Type || !bytes.Equal(a, b) {
			t.Errorf("%s is %s, or differs: %v, %v", x.Name, y.Name, err, err2)
		}
	}
	for key, v := range one.Meta.All() {
		if w, ok := parts.Meta.Get(key); !ok || !v.Equal(w) {
			t.Errorf("%s: %v, %v", key, v, w)
		}
	}
	if one.Meta.Len() != parts.Meta.Len() {
		t.Errorf("%d keys, want %d", parts.Meta.Len(), one.Meta.Len())
	}
	// A source in one file stays in one.
	if p, err = NewPlan(one, Options{Recipe: o.Recipe, KeepSplit: true, AllowRequantize: true}); err != nil || len(p.parts) != 1 {
		t.Error(p, err)
	}
}

// A target holds for all parts together, with the header that each has.
func TestKeepSplitTarget(t *testing.T) {
	dir := t.TempDir()
	f := smallParts(t, dir, 3, 3, 3)
	for bytes := uint64(500_000); bytes < 520_000; bytes += 6667 {
		p, err := NewTargetPlan(t.Context(), f, Options{KeepSplit: true}, Target{Bytes: bytes}, RunOptions{})
		if err != nil || len(p.parts) != 3 || p.Size > bytes {
			t.Fatal(bytes, p, err)
		}
	}
}

// A source that is cut while it is read is named first, as its part where it has several, then the tensor.
func TestCutSource(t *testing.T) {
	dir := t.TempDir()
	f := smallParts(t, dir, 2, 5, 2)
	path := f.Paths()[1]
	p, err := NewPlan(f, options(t, "Q8_0"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Run(t.Context(), filepath.Join(dir, "out.gguf"), RunOptions{Progress: func(Progress) {
		if err := os.Truncate(path, 1); err != nil {
			t.Error(err)
		}
	}})
	want := path + ": tensor " + f.Tensors[2].Name + ": the file changed while it was read: it has 1 bytes, it had "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
