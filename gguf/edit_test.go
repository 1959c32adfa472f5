package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// model has a header that can grow by 22 bytes and shrink by 9 where it stands.
func model() (*Meta, []Tensor) {
	m := NewMeta()
	m.Set("general.architecture", New("llama"))
	m.Set("llama.rope.freq_base", New(float32(1e4)))
	m.Set("general.name", New("a name of thirty-four characters.."))
	m.Set("tokenizer.ggml.tokens", NewArray([]string{"<s>", "</s>", "a"}))
	return m, []Tensor{{Name: "a", Type: F32, Shape: []uint64{6, 2}}, {Name: "b", Type: Q4_0, Shape: []uint64{32, 3}}}
}

// modelFile writes the model and gives its path and bytes.
func modelFile(t *testing.T) (string, []byte) {
	t.Helper()
	m, tensors := model()
	b := writeBytes(t, m, tensors)
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b, 0o640); err != nil {
		t.Fatal(err)
	}
	return path, b
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func setKey(key string, v Value) func(*Meta) error {
	return func(m *Meta) error {
		m.Set(key, v)
		return nil
	}
}

// onlyFile fails if the folder of path holds anything else.
func onlyFile(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

// edited is the file with changed metadata, written from nothing.
func edited(t *testing.T, change func(*Meta) error) []byte {
	t.Helper()
	m, tensors := model()
	if err := change(m); err != nil {
		t.Fatal(err)
	}
	return writeBytes(t, m, tensors)
}

func TestEditNumber(t *testing.T) {
	path, before := modelFile(t)
	change := setKey("llama.rope.freq_base", New(float32(1e6)))
	res, err := Edit(path, "", change)
	if err != nil || !res.InPlace || res.Size != int64(len(before)) {
		t.Fatalf("%+v, %v", res, err)
	}
	after := readFile(t, path)
	at := bytes.Index(before, binary.LittleEndian.AppendUint32(nil, 0x461C4000)) // 1e4
	want := bytes.Clone(before)
	binary.LittleEndian.PutUint32(want[at:], 0x49742400) // 1e6
	if !bytes.Equal(after, want) {
		t.Error("other bytes than the number's four have changed")
	}
	onlyFile(t, path)
	if res, err := Edit(path, "", setKey("llama.rope.freq_base", New(float32(1e4)))); err != nil || !res.InPlace || !bytes.Equal(readFile(t, path), before) {
		t.Errorf("it does not go back: %+v, %v", res, err)
	}
}

func TestEditSizes(t *testing.T) {
	remove := func(m *Meta) error { m.Remove("general.architecture"); return nil }
	cases := []struct {
		what    string
		change  func(*Meta) error
		inPlace bool
	}{
		{"nothing", func(*Meta) error { return nil }, true},
		{"same length", setKey("general.name", New("another name of thirty-four chars.")), true},
		{"into the padding", setKey("general.name", New("a name of thirty-four characters and a bit")), true},
		{"new key into the padding", setKey("x", New(uint8(1))), true},
		{"shorter within the padding", setKey("general.name", New("a name of thirty-four char")), true},
		{"too long", setKey("general.name", New(strings.Repeat("x", 100))), false},
		{"much shorter", remove, false},
		{"alignment that moves tensors", setKey(KeyAlignment, New(uint32(128))), false},
		{"alignment that moves nothing", setKey(KeyAlignment, New(uint32(16))), false},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			path, _ := modelFile(t)
			res, err := Edit(path, "", c.change)
			if err != nil || res.InPlace != c.inPlace {
				t.Fatalf("%+v, %v", res, err)
			}
			got, want := readFile(t, path), edited(t, c.change)
			if c.what == "alignment that moves nothing" {
				// Offsets that fit a smaller alignment stay where they are, with a gap between.
				f := readDefective(t, got)
				if f.Alignment != 16 || f.Tensors[1].Offset != 64 {
					t.Errorf("%+v", f)
				}
			} else if !bytes.Equal(got, want) || res.Size != int64(len(want)) {
				t.Errorf("size %d\n%x\nwant %x", res.Size, got, want)
			}
			if st, _ := os.Stat(path); st.Mode().Perm() != 0o640 {
				t.Errorf("mode %v", st.Mode())
			}
			onlyFile(t, path)
		})
	}
}

func TestEditRefuses(t *testing.T) {
	stop := errors.New("stop")
	cases := []struct {
		what   string
		change func(*Meta) error
		want   error
	}{
		{"change fails", func(*Meta) error { return stop }, stop},
		{"zero Value", setKey("x", Value{}), ErrValueType},
		{"bad alignment", setKey(KeyAlignment, New(uint32(33))), ErrAlignment},
		{"alignment type", setKey(KeyAlignment, New(uint8(32))), ErrAlignment},
		{"half a split", setKey("split.no", New(uint16(0))), ErrSplit},
	}
	for _, c := range cases {
		path, before := modelFile(t)
		out := filepath.Join(t.TempDir(), "out.gguf")
		for _, o := range []string{"", out} {
			if _, err := Edit(path, o, c.change); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", c.what, err)
			}
		}
		if !bytes.Equal(readFile(t, path), before) {
			t.Errorf("%s: the file has changed", c.what)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: there is an output: %v", c.what, err)
		}
		onlyFile(t, path)
	}
}

func TestEditSplit(t *testing.T) {
	m, tensors := model()
	m.Set("split.no", New(uint16(1)))
	m.Set("split.count", New(uint16(3)))
	m.Set("split.tensors.count", New(int32(7)))
	path := filepath.Join(t.TempDir(), "part.gguf")
	if err := os.WriteFile(path, writeBytes(t, m, tensors), 0o666); err != nil {
		t.Fatal(err)
	}
	drop := func(names ...string) func(*Meta) error {
		return func(m *Meta) error {
			for _, n := range names {
				m.Remove(n)
			}
			return nil
		}
	}
	for what, change := range map[string]func(*Meta) error{
		"number too large":    setKey("split.no", New(uint16(3))),
		"fewer parts":         setKey("split.count", New(uint16(1))),
		"too few tensors":     setKey("split.tensors.count", New(int32(1))),
		"one key less":        drop("split.tensors.count"),
		"torn out of its set": drop("split.no", "split.count", "split.tensors.count"),
		"type":                setKey("split.no", New("1")),
		"another number":      setKey("split.no", New(uint16(2))),
		"more parts":          setKey("split.count", New(uint16(4))),
		"more tensors":        setKey("split.tensors.count", New(int32(8))),
		"another type":        setKey("split.count", New(uint32(3))),
	} {
		for _, err := range []error{TryEdit(path, change), second(Edit(path, "", change)), second(Edit(path, path+".out", change))} {
			if !errors.Is(err, ErrSplit) || !strings.Contains(err.Error(), "hint: 'ggufkit merge' makes one file") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	change := setKey("general.name", New("x"))
	if err := errors.Join(TryEdit(path, change), second(Edit(path, "", change))); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

// The keys of a file that is whole may go, but not make it a part.
func TestEditSplitWhole(t *testing.T) {
	all := func(no, count, total int) func(*Meta) error {
		return func(m *Meta) error {
			m.Set("split.no", New(uint16(no)))
			m.Set("split.count", New(uint16(count)))
			m.Set("split.tensors.count", New(int32(total)))
			return nil
		}
	}
	none := func(m *Meta) error {
		for _, key := range []string{"split.no", "split.count", "split.tensors.count"} {
			m.Remove(key)
		}
		return nil
	}
	_, tensors := model()
	n := len(tensors)
	for _, c := range []struct {
		what   string
		before func(*Meta) error
		change func(*Meta) error
		ok     bool
	}{
		{"made a part", none, all(0, 2, n+1), false},
		{"made the only part", none, all(0, 1, n), true},
		{"made the only part of more tensors", none, all(0, 1, n+1), false},
		{"no part any more", all(0, 1, n), none, true},
		{"old quantizers kept the keys of the source's first part", all(0, 3, n), none, true},
		{"whole, but made another part", all(0, 3, n), all(0, 2, n), false},
		{"the part that has all tensors, but is not the first", all(1, 2, n), none, false},
	} {
		m, tensors := model()
		if err := c.before(m); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, writeBytes(t, m, tensors), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{TryEdit(path, c.change), second(Edit(path, "", c.change))} {
			if (err == nil) != c.ok || !c.ok && (!errors.Is(err, ErrSplit) || !strings.Contains(err.Error(), "\nhint: ")) {
				t.Errorf("%s: %v", c.what, err)
			}
		}
	}
}

func TestEditInto(t *testing.T) {
	path, before := modelFile(t)
	change := setKey("llama.rope.freq_base", New(float32(5e5)))
	out := filepath.Join(t.TempDir(), "out.gguf")
	res, err := Edit(path, out, change)
	if err != nil || res.InPlace || !bytes.Equal(readFile(t, out), edited(t, change)) {
		t.Errorf("%+v, %v", res, err)
	}
	onlyFile(t, out)
	link := filepath.Join(filepath.Dir(path), "link.gguf")
	hard := filepath.Join(filepath.Dir(path), "hard.gguf")
	if err := errors.Join(os.Symlink("model.gguf", link), os.Link(path, hard)); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{path, link, hard, filepath.Dir(path) + "/./model.gguf"} {
		if _, err := Edit(path, out, change); err == nil || !strings.Contains(err.Error(), "output is one of the inputs") {
			t.Errorf("%s: %v", out, err)
		}
	}
	if !bytes.Equal(readFile(t, path), before) {
		t.Error("the input has changed")
	}
}

// An edit through a link changes the file behind it, and the link stays.
func TestEditLink(t *testing.T) {
	for _, change := range []func(*Meta) error{setKey("x", New(uint8(1))), setKey("x", New(strings.Repeat("x", 100)))} {
		path, _ := modelFile(t)
		link := filepath.Join(t.TempDir(), "link.gguf")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		if _, err := Edit(link, "", change); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
			t.Error("the link is gone", err)
		}
		if !bytes.Equal(readFile(t, path), edited(t, change)) {
			t.Error("the file behind the link has not the new metadata")
		}
		onlyFile(t, path)
		onlyFile(t, link)
	}
}

// A file that is open elsewhere does not change under its reader.
func TestEditWhileOpen(t *testing.T) {
	path, _ := modelFile(t)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	change := setKey("llama.rope.freq_base", New(float32(1e6)))
	res, err := Edit(path, "", change)
	if err != nil || res.InPlace {
		t.Errorf("%+v, %v", res, err)
	}
	var old bytes.Buffer
	m, tensors := model()
	if _, err := f.WriteTo(&old); err != nil || !bytes.Equal(old.Bytes(), writeBytes(t, m, tensors)) {
		t.Error("the open file has changed", err)
	}
	f.Close()
	if !bytes.Equal(readFile(t, path), edited(t, change)) {
		t.Error("the edit is lost")
	}
	if res, err := Edit(path, "", change); err != nil || !res.InPlace {
		t.Errorf("after Close: %+v, %v", res, err)
	}
}

// Files of the other byte order keep it; those whose tensors are of unknown types, and truncated ones.
func TestEditForeign(t *testing.T) {
	be := filepath.Join(t.TempDir(), "be.gguf")
	for _, magicText := range []string{magic, reversedMagic} {
		before := oldFile(3, binary.BigEndian)
		copy(before, magicText)
		if err := os.WriteFile(be, before, 0o666); err != nil {
			t.Fatal(err)
		}
		if res, err := Edit(be, "", setKey("general.name", New("new"))); err != nil || !res.InPlace {
			t.Fatalf("%+v, %v", res, err)
		}
		if want := bytes.Replace(before, []byte("old"), []byte("new"), 1); !bytes.Equal(readFile(t, be), want) {
			t.Error("big-endian file edited wrongly")
		}
	}
	if res, err := Edit(be, "", setKey("x", New(strings.Repeat("x", 100)))); err != nil || res.InPlace {
		t.Fatalf("%+v, %v", res, err)
	}
	f, err := Open(be)
	if err != nil || f.Order != binary.BigEndian {
		t.Fatal(err)
	}
	f.Close()

	_, ik := readBad(t, badFolder+"/type-ik.txt")
	path := filepath.Join(t.TempDir(), "ik.gguf")
	if err := os.WriteFile(path, ik, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Edit(path, "", setKey("x", New(strings.Repeat("x", 100)))); err != nil {
		t.Error(err)
	}
	g, defects, err := Check(path)
	if err != nil || len(defects) != 1 || !errors.Is(defects[0].Err, ErrType) {
		t.Error(defects, err)
	}
	g.Close()

	_, cut := readBad(t, badFolder+"/data-cut.txt")
	if err := os.WriteFile(path, cut, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Edit(path, "", setKey("x", New(true))); !errors.Is(err, ErrTruncated) || !bytes.Equal(readFile(t, path), cut) {
		t.Error(err)
	}
}

// Edits at the same time wait for each other: none is lost.
func TestEditConcurrently(t *testing.T) {
	path, _ := modelFile(t)
	const editors, edits = 4, 5
	var wg sync.WaitGroup
	for e := range editors {
		wg.Go(func() {
			for i := range edits {
				_, err := Edit(path, "", func(m *Meta) error {
					n, err := m.UintOr("count", 0)
					m.Set("count", New(n+1))
					// Some edits need another size.
					m.Set(fmt.Sprintf("editor.%d", e), New(strings.Repeat("x", 40*i)))
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := f.Meta.Uint("count"); n != editors*edits || err != nil {
		t.Errorf("%d edits are left of %d, %v", n, editors*edits, err)
	}
	onlyFile(t, path)
}
