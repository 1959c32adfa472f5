package gguf

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/internal/atomicfile"
)

// A model of five tensors of 96 bytes with padding, and metadata of every kind that matters here.
func fiveTensors(t *testing.T, big bool) *File {
	t.Helper()
	m := NewMeta()
	m.Set("general.architecture", New("test"))
	m.Set(KeyAlignment, New(uint32(64)))
	m.Set("tokenizer.ggml.tokens", NewArray([]string{"a", "b", strings.Repeat("c", 500)}))
	var tensors []Tensor
	for i := range 5 {
		tensors = append(tensors, Tensor{Name: "t" + strconv.Itoa(i), Type: F32, Shape: []uint64{24}})
	}
	b := writeBytes(t, m, tensors)
	f := readBytes(t, b)
	for i := range f.Tensors {
		at := f.DataOffset + f.Tensors[i].Offset
		copy(b[at:at+96], bytes.Repeat([]byte{byte(i), 1, 2, 3}, 24))
	}
	f = readBytes(t, b)
	if big {
		f = readBytes(t, bigEndian(t, f))
	}
	return f
}

// What is split and joined again is, byte for byte, what it was; the parts are as large and hold as many tensors as allowed, and have the keys and
// names that llama.cpp's gguf-split gives them: all metadata in the first, then split.no (u16, from 0), split.count (u16) and split.tensors.count (i32).
func TestSplit(t *testing.T) {
	for name, c := range map[string]struct {
		limits PartLimits
		want   []int // tensors of the parts
	}{
		"one by one":        {PartLimits{Tensors: 1}, []int{1, 1, 1, 1, 1}},
		"two":               {PartLimits{Tensors: 2}, []int{2, 2, 1}},
		"just all":          {PartLimits{Tensors: 5}, []int{5}},
		"no limits":         {PartLimits{}, []int{5}},
		"too small for any": {PartLimits{Bytes: 1}, []int{1, 1, 1, 1, 1}},
		// By the specification the first file would have 832 + 256 bytes with two tensors; the second has 320 + 512 with four.
		"bytes":             {PartLimits{Bytes: 1087}, []int{1, 4}},
		"a byte more":       {PartLimits{Bytes: 1088}, []int{2, 3}},
		"bytes and tensors": {PartLimits{Bytes: 1087, Tensors: 3}, []int{1, 3, 1}},
		"room for all":      {PartLimits{Bytes: 1 << 20}, []int{5}},
	} {
		t.Run(name, func(t *testing.T) {
			f := fiveTensors(t, false)
			parts, err := Split(f.Meta, slices.Clone(f.Tensors), c.limits)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, p := range parts {
				got = append(got, p.Hi-p.Lo)
			}
			if !slices.Equal(got, c.want) {
				t.Fatalf("%v tensors, want %v", got, c.want)
			}
			path := filepath.Join(t.TempDir(), "m.gguf")
			paths := writeParts(t, f, path, parts)
			for i, path := range paths {
				checkPart(t, path, i, parts, f, c.limits)
			}
			whole, err := OpenModel(paths[0])
			if err != nil {
				t.Fatal(err)
			}
			defer whole.Close()
			wantFile(t, whole, f)
		})
	}
}

// writeParts writes all parts and returns their paths.
func writeParts(t *testing.T, f *File, path string, parts []Part) []string {
	t.Helper()
	files, err := CreateParts(path, parts)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Abort()
	for i, p := range parts {
		if err := f.WritePart(files.Files[i], p); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Commit(); err != nil {
		t.Fatal(err)
	}
	return PartPaths(path, len(parts))
}

func checkPart(t *testing.T, path string, i int, parts []Part, f *File, limits PartLimits) {
	t.Helper()
	p, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if len(parts) == 1 {
		if filepath.Base(path) != "m.gguf" || p.Meta.Has(keySplitNo) {
			t.Errorf("%s, %v", path, p.Meta.Has(keySplitNo))
		}
		return
	}
	if p.Size != parts[i].Bytes || p.Size > limits.Bytes && limits.Bytes > 0 && len(p.Tensors) > 1 {
		t.Errorf("part %d: %d bytes, planned %d, allowed %d", i, p.Size, parts[i].Bytes, limits.Bytes)
	}
	want := f.Meta.Clone()
	if i > 0 {
		want = NewMeta()
		want.Set(KeyAlignment, New(uint32(64)))
	}
	want.Set("split.no", New(uint16(i)))
	want.Set("split.count", New(uint16(len(parts))))
	want.Set("split.tensors.count", New(int32(5)))
	if !sameMeta(p.Meta, want) {
		t.Errorf("part %d: keys %v", i, keys(p.Meta))
	}
}

// sameMeta reports whether two lists have the same keys, types and values in the same order.
func sameMeta(a, b *Meta) bool {
	if keys(a) != keys(b) {
		return false
	}
	for key, v := range a.All() {
		if w, _ := b.Get(key); !v.Equal(w) {
			return false
		}
	}
	return true
}

// wantFile compares a file, written as one, with another, byte for byte.
func wantFile(t *testing.T, got, want *File) {
	t.Helper()
	var a, b bytes.Buffer
	if _, err := got.WriteTo(&a); err != nil {
		t.Fatal(err)
	}
	if _, err := want.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Errorf("%d bytes, want %d, or they differ", a.Len(), b.Len())
	}
}

// Parts are little-endian whatever their source is, and a model in parts can be split anew.
func TestSplitAgain(t *testing.T) {
	f := fiveTensors(t, true)
	dir := t.TempDir()
	parts, err := Split(f.Meta, slices.Clone(f.Tensors), PartLimits{Tensors: 2})
	if err != nil {
		t.Fatal(err)
	}
	first, err := OpenModel(writeParts(t, f, filepath.Join(dir, "a.gguf"), parts)[0])
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	wantFile(t, first, f)
	if parts, err = Split(first.Meta, slices.Clone(first.Tensors), PartLimits{Tensors: 4}); err != nil {
		t.Fatal(err)
	}
	second, err := OpenModel(writeParts(t, first, filepath.Join(dir, "b-00001-of-00007.gguf"), parts)[0])
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if want := filepath.Join(dir, "b-00002-of-00002.gguf"); second.Paths()[1] != want {
		t.Errorf("%q, want %s", second.Paths(), want)
	}
	wantFile(t, second, f)
}

func TestCreatePartsRefuses(t *testing.T) {
	dir := t.TempDir()
	parts := make([]Part, 2)
	for _, path := range []string{dir, dir + "/none/"} {
		if _, err := CreateParts(path, parts); err == nil || !strings.Contains(err.Error(), "it is a folder\nhint: name the model in it") {
			t.Error(err)
		}
	}
	in := filepath.Join(dir, "m-00002-of-00002.gguf")
	if err := os.WriteFile(in, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateParts(filepath.Join(dir, "m"), parts, in); err == nil || !strings.Contains(err.Error(), "output is one of the inputs") {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

// Parts that a killed run has left are removed by the next one of the same name, however many parts that has; other files are not.
func TestPartsLeftBehind(t *testing.T) {
	dir := t.TempDir()
	ours := []string{"m-00001-of-00002.gguf.12-0123abcd.tmp", "m-00003-of-00004.gguf.12-0123abcd.tmp"}
	others := []string{"m-00001-of-00004.gguf", "m.gguf.12-0123abcd.tmp", "mm-00001-of-00004.gguf.12-0123abcd.tmp", "m-x-00001-of-00004.gguf.12-0123abcd.tmp", "m-1-of-4.gguf.12-0123abcd.tmp"}
	for _, name := range slices.Concat(ours, others) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	// One that is being written now, by a run that has the name of one of the parts.
	living, err := atomicfile.Create(filepath.Join(dir, "m-00004-of-00004.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer living.Abort()
	files, err := CreateParts(filepath.Join(dir, "m.gguf"), make([]Part, 3))
	if err != nil {
		t.Fatal(err)
	}
	files.Abort()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := slices.Sorted(slices.Values(append(others, filepath.Base(living.Name()))))
	if slices.Sort(left); !slices.Equal(left, want) {
		t.Errorf("%q, want %q", left, want)
	}
}

func TestSplitTooMany(t *testing.T) {
	tensors := make([]Tensor, MaxParts+1)
	for i := range tensors {
		tensors[i] = Tensor{Name: strconv.Itoa(i), Type: F32, Shape: []uint64{1}}
	}
	for _, limits := range []PartLimits{{Tensors: 1}, {Bytes: 1}} {
		if _, err := Split(NewMeta(), tensors, limits); err == nil || !strings.Contains(err.Error(), "more than 65535 files") {
			t.Error(err)
		}
	}
}

// Parts are as full as they can be: with the next tensor each would be too large.
func TestSplitFull(t *testing.T) {
	tensors := make([]Tensor, 300)
	for i := range tensors {
		tensors[i] = Tensor{Name: strconv.Itoa(i), Type: F32, Shape: []uint64{uint64(1 + i*i%97)}}
	}
	for limit := uint64(300); limit < 60_000; limit += 1111 {
		parts, err := Split(NewMeta(), slices.Clone(tensors), PartLimits{Bytes: limit})
		if err != nil {
			t.Fatal(err)
		}
		next := 0
		for _, p := range parts {
			if p.Lo != next || p.Bytes > limit && p.Hi > p.Lo+1 {
				t.Errorf("limit %d: part %+v after %d", limit, p, next)
			}
			if next = p.Hi; next == len(tensors) {
				break
			}
			if _, more, err := Layout(p.Meta, slices.Clone(tensors[p.Lo:p.Hi+1])); err != nil || more <= limit {
				t.Errorf("limit %d: part %+v has room, %v", limit, p, err)
			}
		}
		if next != len(tensors) {
			t.Errorf("limit %d: %d tensors", limit, next)
		}
	}
}
