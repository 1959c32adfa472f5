package gguf

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sparseFile makes a file of over 6 GiB that takes next to no room: two large tensors and a small one behind them, of which the
// last bytes are written. The header has a vocabulary.
func sparseFile(t *testing.T) string {
	t.Helper()
	m := NewMeta()
	m.Set("llama.rope.freq_base", New(float32(1e4)))
	words := make([]string, 100_000)
	for i := range words {
		words[i] = "token " + strings.Repeat("x", i%5)
	}
	m.Set("tokenizer.ggml.tokens", NewArray(words))
	tensors := []Tensor{
		{Name: "low", Type: Q8_0, Shape: []uint64{1 << 16, 1 << 15}},
		{Name: "high", Type: F32, Shape: []uint64{1 << 15, 1 << 15}},
		{Name: "far", Type: F32, Shape: []uint64{16}},
	}
	header, _, err := layout(m, tensors)
	if err != nil {
		t.Fatal(err)
	}
	_, total, err := Layout(m, tensors)
	if err != nil || total < 6<<30 {
		t.Fatal(total, err)
	}
	path := filepath.Join(t.TempDir(), "sparse.gguf")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := out.Truncate(int64(total)); err != nil {
		t.Fatal(err)
	}
	far := bytes.Repeat(binary.LittleEndian.AppendUint32(nil, 0x3F800000), 16)
	for at, b := range map[int64][]byte{0: header, int64(total) - 64: far} {
		if _, err := out.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// checkFar reads the tensor at the end.
func checkFar(t *testing.T, f *File) {
	t.Helper()
	far, ok := f.Tensor("far")
	if !ok || far.Offset < 6<<30 {
		t.Fatal(far, ok)
	}
	data, err := f.Data(far)
	if err != nil || len(data) != 64 || binary.LittleEndian.Uint32(data[60:]) != 0x3F800000 {
		t.Error(data, err)
	}
	if err := f.Advise(far, 0); err != nil {
		t.Error(err)
	}
	words, err := f.Meta.Strings("tokenizer.ggml.tokens")
	if err != nil || len(words) != 100_000 || words[99_999] != "token xxxx" {
		t.Error(len(words), err)
	}
}

// Opening a large file takes milliseconds; the bound is generous for slow machines.
func TestLargeFile(t *testing.T) {
	path := sparseFile(t)
	best := time.Hour
	for range 3 {
		start := time.Now()
		f, err := Open(path)
		best = min(best, time.Since(start))
		if err != nil {
			t.Fatal(err)
		}
		checkFar(t, f)
		f.Close()
	}
	if best > 250*time.Millisecond {
		t.Errorf("Open takes %v", best)
	}
	start := time.Now()
	res, err := Edit(path, "", setKey("llama.rope.freq_base", New(float32(1e6))))
	if err != nil || !res.InPlace || res.Size < 6<<30 {
		t.Errorf("%+v, %v", res, err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("an edit in place takes %v", d)
	}
}

// A program with a small address space maps the parts that it needs.
func TestLargeFileInParts(t *testing.T) {
	path := sparseFile(t)
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := mapFile(in, false)
	if err != nil {
		t.Fatal(err)
	}
	f, defects, err := ReadHeader(path, m)
	if err != nil || len(defects) > 0 {
		t.Fatal(defects, err)
	}
	f.file = m
	checkFar(t, f)
	var mapped uint64
	for at := range m.parts {
		mapped += at[1]
	}
	if m.whole != nil || mapped > 8<<20 {
		t.Errorf("%d bytes are mapped", mapped)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
