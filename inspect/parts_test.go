package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// writeParts writes a model of three files with a tensor of 64 zeros in each, and returns their paths. change may change a part's metadata.
func writeParts(t *testing.T, change func(no int, m *gguf.Meta)) []string {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for no := range 3 {
		m := gguf.NewMeta()
		m.Set("general.architecture", gguf.New("test"))
		m.Set("split.no", gguf.New(uint16(no)))
		m.Set("split.count", gguf.New(uint16(3)))
		m.Set("split.tensors.count", gguf.New(int32(3)))
		if change != nil {
			change(no, m)
		}
		var b bytes.Buffer
		w, err := gguf.NewWriter(&b, m, []gguf.Tensor{{Name: string(rune('a' + no)), Type: gguf.F32, Shape: []uint64{64}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Begin(string(rune('a' + no))); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, 256)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, filepath.Join(dir, gguf.PartName("m", no+1, 3)))
		if err := os.WriteFile(paths[no], b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// Faults of all parts are listed, each with its file, and are faults of the model. What is not there is none: the first part can be looked at alone.
func TestParts(t *testing.T) {
	short := func(path string) error { return os.Truncate(path, 300) }
	type want struct {
		file  int // index of the part
		where string
		fatal bool
		text  string
	}
	for name, c := range map[string]struct {
		meta    func(no int, m *gguf.Meta)
		damage  func(paths []string) error
		defects []want
	}{
		"whole":          {nil, func([]string) error { return nil }, nil},
		"short":          {nil, func(p []string) error { return short(p[2]) }, []want{{2, `tensor "c"`, true, "file ends too early"}}},
		"both short":     {nil, func(p []string) error { _ = short(p[1]); return short(p[2]) }, []want{{1, `tensor "b"`, true, "file ends too early"}, {2, `tensor "c"`, true, "file ends too early"}}},
		"another format": {nil, func(p []string) error { return os.WriteFile(p[1], []byte("PK something else"), 0o666) }, []want{{1, "", true, "not a GGUF file"}}},
		"missing":        {nil, func(p []string) error { return os.Remove(p[1]) }, []want{{0, `key "split.count"`, false, "1 of 3 parts are missing"}}},
		"missing and short": {nil, func(p []string) error { _ = os.Remove(p[1]); return short(p[2]) },
			[]want{{2, `tensor "c"`, true, "file ends too early"}, {0, `key "split.count"`, false, "1 of 3 parts are missing"}}},
		"renamed": {nil, func(p []string) error { return os.Rename(p[1], p[1]+".gguf") }, []want{{0, `key "split.count"`, false, "1 of 3 parts are missing"}}},
		"keys of another set": {func(no int, m *gguf.Meta) {
			if no == 1 {
				m.Set("split.tensors.count", gguf.New(int32(4)))
			}
		}, func([]string) error { return nil }, []want{{1, `key "split.tensors.count"`, true, "it is 4, expected 3"}}},
		"too few tensors": {func(no int, m *gguf.Meta) { m.Set("split.tensors.count", gguf.New(int32(4))) }, func([]string) error { return nil },
			[]want{{0, `key "split.tensors.count"`, true, "all parts have 3 tensors together"}}},
		"no number": {func(no int, m *gguf.Meta) {
			if no == 0 {
				m.Set("split.no", gguf.New("first"))
			}
		}, func([]string) error { return nil }, []want{{0, `key "split.no"`, true, "wrong metadata value type"}}},
		"a note": {func(no int, m *gguf.Meta) {
			if no == 2 {
				m.Set("general.name", gguf.New("\xff"))
			}
		}, func([]string) error { return nil }, []want{{2, `key "general.name"`, false, "not valid UTF-8"}}},
	} {
		t.Run(name, func(t *testing.T) {
			paths := writeParts(t, c.meta)
			if err := c.damage(paths); err != nil {
				t.Fatal(err)
			}
			r, err := Read(paths[0])
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Defects) != len(c.defects) {
				t.Fatalf("defects: %+v", r.Defects)
			}
			var fatal *want
			for i, w := range c.defects {
				d, file := r.Defects[i], ""
				if w.file > 0 {
					file = paths[w.file]
				}
				if d.File != file || d.Where != w.where || d.Fatal != w.fatal || !strings.Contains(d.Message, w.text) {
					t.Errorf("defect %+v, want %+v", d, w)
				}
				if w.fatal && fatal == nil {
					fatal = &c.defects[i]
				}
			}
			if fatal == nil {
				if r.Fatal() != nil {
					t.Errorf("fatal: %v", r.Fatal())
				}
				return
			}
			if r.Fatal() == nil || !strings.HasPrefix(r.Fatal().Error(), paths[fatal.file]+": ") || !strings.Contains(r.Fatal().Error(), fatal.text) {
				t.Errorf("%v, want %+v", r.Fatal(), fatal)
			}
		})
	}
}

// A report whose numbers are those of one part says so, and why.
func TestPartAlone(t *testing.T) {
	short := func(path string) error { return os.Truncate(path, 300) }
	for name, c := range map[string]struct {
		damage func(paths []string) error
		look   int    // the part that is read, from 0
		why    string // with the parts' names as 1, 2 and 3
	}{
		"damaged":           {func(p []string) error { return short(p[2]) }, 0, "3 is damaged"},
		"missing":           {func(p []string) error { return os.Remove(p[1]) }, 0, "2 is missing"},
		"both missing":      {func(p []string) error { _ = os.Remove(p[1]); return os.Remove(p[2]) }, 0, "2 and 1 more are missing"},
		"missing and short": {func(p []string) error { _ = os.Remove(p[1]); return short(p[2]) }, 0, "3 is damaged, 2 is missing"},
		"itself damaged":    {func(p []string) error { return short(p[0]) }, 0, "1 is damaged"},
		"renamed":           {func(p []string) error { return os.Rename(p[0], p[0]+".x") }, 0, "the others are not found"},
		"another part":      {func(p []string) error { b, _ := os.ReadFile(p[1]); return os.WriteFile(p[2], b, 0o666) }, 0, "the parts do not fit each other"},
		"later":             {func([]string) error { return nil }, 1, ""},
		"later, damaged":    {func(p []string) error { return short(p[2]) }, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			paths := writeParts(t, nil)
			if err := c.damage(paths); err != nil {
				t.Fatal(err)
			}
			path := paths[c.look]
			if name == "renamed" {
				path += ".x"
			}
			r, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			if r.Part == nil {
				t.Fatal("no part")
			}
			why := r.Part.Why
			for i, path := range paths {
				why = strings.ReplaceAll(why, path, strconv.Itoa(i+1))
			}
			if r.Part.No != uint64(c.look+1) || r.Part.Count != 3 || why != c.why || r.Files != nil || r.TensorCount != 1 {
				t.Errorf("%+v, files %q, %d tensors, want %q", r.Part, r.Files, r.TensorCount, c.why)
			}
		})
	}
	if r, err := Read(writeParts(t, nil)[0]); err != nil || r.Part != nil || r.TensorCount != 3 {
		t.Errorf("whole: %+v, %v", r, err)
	}
	stale := writeParts(t, func(_ int, m *gguf.Meta) { m.Set("split.tensors.count", gguf.New(int32(1))) })
	if err := errors.Join(os.Remove(stale[1]), os.Remove(stale[2])); err != nil {
		t.Fatal(err)
	}
	if r, err := Read(stale[0]); err != nil || r.Part != nil || len(r.Defects) != 1 {
		t.Errorf("whole with keys of a part: %+v, %v", r, err)
	}
}

// A value that is no number is told with its file.
func TestPartsValues(t *testing.T) {
	paths := writeParts(t, nil)
	b := readFile(t, paths[1])
	binary.LittleEndian.PutUint32(b[len(b)-4:], 0x7f800000)
	if err := os.WriteFile(paths[1], b, 0o666); err != nil {
		t.Fatal(err)
	}
	v, err := CheckValues(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	want := BadValue{Tensor: "b", File: paths[1], Type: "F32", Row: 0, Col: 63, Value: "+Inf", Count: 1}
	if len(v.Bad) != 1 || v.Bad[0] != want {
		t.Errorf("%+v, want %+v", v.Bad, want)
	}
	if v, err = CheckValues(paths[0]); err != nil || v.Checked != 3 {
		t.Errorf("%+v, %v", v, err)
	}
	// A part can be checked alone, a first one where others are missing.
	want.File = ""
	if v, err = CheckValues(paths[1]); err != nil || v.Checked != 1 || len(v.Bad) != 1 || v.Bad[0] != want {
		t.Errorf("%+v, %v", v, err)
	}
	if err := os.Remove(paths[2]); err != nil {
		t.Fatal(err)
	}
	if v, err = CheckValues(paths[0]); err != nil || v.Checked != 1 || len(v.Bad) != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := os.WriteFile(paths[2], nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if v, err = CheckValues(paths[0]); err == nil {
		t.Errorf("%+v", v)
	}
}
