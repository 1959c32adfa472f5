package gguf

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// Any bytes give defects or a file, never a panic; and a file that is accepted is whole.
func FuzzReadHeader(f *testing.F) {
	bad, err := filepath.Glob(badFolder + "/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range bad {
		_, b := readBad(f, path)
		if len(b) < 1<<10 {
			f.Add(b)
		}
	}
	good, err := filepath.Glob(goldenFolder + "/*.gguf")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range good {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(oldFile(1, binary.LittleEndian))
	f.Add(oldFile(2, binary.BigEndian))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, defects, err := ReadHeader("fuzz", Bytes(b))
		if err != nil {
			t.Fatal(err)
		}
		fatal := false
		for _, d := range defects {
			fatal = fatal || d.Fatal
			if d.Error("fuzz").Error() == "" || d.Offset > uint64(len(b)) {
				t.Fatal(d)
			}
		}
		if file == nil {
			if !fatal {
				t.Fatal("no file and no defect")
			}
			return
		}
		for _, v := range file.Meta.All() {
			v.Any()
			v.TypeName()
		}
		for i := range file.Tensors {
			data, err := file.Data(&file.Tensors[i])
			if !fatal && (err != nil || len(data) == 0) {
				t.Fatal(len(data), err)
			}
		}
		if fatal {
			return
		}
		var out, again bytes.Buffer
		if _, err := file.WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		if file.Version == maxVersion && file.Order == binary.LittleEndian && !bytes.Equal(out.Bytes(), b) {
			t.Fatal("an unedited file comes out changed")
		}
		next, defects, err := ReadHeader("again", Bytes(out.Bytes()))
		if next == nil || err != nil {
			t.Fatal(defects, err)
		}
		for key, v := range file.Meta.All() {
			if got, _ := next.Meta.Get(key); !got.Equal(v) {
				t.Fatalf("%q was %v, is %v", key, v.Any(), got.Any())
			}
		}
		if _, err := next.WriteTo(&again); err != nil || !bytes.Equal(again.Bytes(), out.Bytes()) {
			t.Fatal("writing twice gives other bytes", err)
		}
	})
}

// What is read from the command line is a valid value of the type that was asked for.
func FuzzParseValue(f *testing.F) {
	for _, s := range []string{"u8=1", "i64=-0x7f", "f32=1e-50", "[]f64=[1,nan]", `[]str=["x","\u0000"]`, "bool=true", "str==", "u16=0x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := parse(text)
		if err != nil {
			return
		}
		m := NewMeta()
		m.Set("key", v)
		file := readDefective(t, writeBytes(t, m, nil))
		if got, ok := file.Meta.Get("key"); !ok || !got.Equal(v) {
			t.Fatalf("%q gives %v, read back as %v", text, v.Any(), got.Any())
		}
	})
}

// readDefective reads a file without fatal defects.
func readDefective(t *testing.T, b []byte) *File {
	f, defects, err := ReadHeader("memory", Bytes(b))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range defects {
		if d.Fatal {
			t.Fatal(d)
		}
	}
	return f
}

// A journal is read from a disk that may have lost anything.
func FuzzJournal(f *testing.F) {
	f.Add((&journal{size: 10, guarded: 5, patches: []patch{{at: 1, before: []byte("ab"), after: []byte("cd")}}}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if j, ok := decodeJournal(b); ok && !bytes.Equal(j.encode(), b) {
			t.Fatal("a journal reads as another one")
		}
	})
}
