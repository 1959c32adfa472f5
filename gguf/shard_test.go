package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/internal/mmap"
)

// part is a file of a split model: its keys, and how many tensors of testRow floats each it holds.
type part struct {
	no, count, total any
	alignment        uint32 // 0: none said
	tensors          []string
	big              bool // endian
}

const testRow = 5

// dataOf is the content of a tensor, by its name.
func dataOf(name string) []byte { return bytes.Repeat([]byte(name)[:4], testRow) }

// split writes the parts of a model into a new folder, each under its own name, and returns the path of the first.
func split(t *testing.T, parts ...part) string {
	t.Helper()
	dir := t.TempDir()
	for i, p := range parts {
		m := NewMeta()
		if i == 0 {
			m.Set("general.architecture", New("test"))
		}
		if p.alignment > 0 {
			m.Set(KeyAlignment, New(p.alignment))
		}
		for _, kv := range []struct {
			key   string
			value any
		}{{keySplitNo, p.no}, {keySplitCount, p.count}, {keySplitTensors, p.total}} {
			switch v := kv.value.(type) {
			case int:
				m.Set(kv.key, New(uint16(v)))
			case string:
				m.Set(kv.key, New(v))
			}
		}
		var tensors []Tensor
		for _, name := range p.tensors {
			tensors = append(tensors, Tensor{Name: name, Type: F32, Shape: []uint64{testRow}})
		}
		b := writeBytes(t, m, tensors)
		f := readBytes(t, b)
		for i := range f.Tensors {
			copy(b[f.DataOffset+f.Tensors[i].Offset:], dataOf(f.Tensors[i].Name))
		}
		if p.big {
			b = bigEndian(t, readBytes(t, b))
		}
		if err := os.WriteFile(filepath.Join(dir, PartName("m", i+1, len(parts))), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, PartName("m", 1, len(parts)))
}

func bigEndian(t *testing.T, f *File) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := f.writeAs(&b, encoding{binary.BigEndian, true}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The tensors of all parts are those of one file: found by name, read, advised about, and copied into a file that is not split.
func TestOpenModel(t *testing.T) {
	for name, parts := range map[string][]part{
		"three":                       {{0, 3, 5, 0, []string{"aaaa", "bbbb"}, false}, {1, 3, 5, 0, []string{"cccc"}, false}, {2, 3, 5, 0, []string{"dddd", "eeee"}, false}},
		"metadata alone in the first": {{0, 2, 2, 0, nil, false}, {1, 2, 2, 0, []string{"aaaa", "bbbb"}, false}},
		"a part without tensors":      {{0, 3, 2, 0, []string{"aaaa"}, false}, {1, 3, 2, 0, nil, false}, {2, 3, 2, 0, []string{"bbbb"}, false}},
		"alignments":                  {{0, 2, 4, 128, []string{"aaaa", "bbbb"}, false}, {1, 2, 4, 8, []string{"cccc", "dddd"}, false}},
		"a later part that only says which it is": {{0, 2, 2, 0, []string{"aaaa"}, false}, {1, nil, nil, 0, []string{"bbbb"}, false}},
		"one of one": {{0, 1, 1, 0, []string{"aaaa"}, false}},
	} {
		t.Run(name, func(t *testing.T) {
			path := split(t, parts...)
			f, err := OpenModel(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var want []string
			for _, p := range parts {
				want = append(want, p.tensors...)
			}
			if !slices.Equal(f.Names(), want) || len(f.Paths()) != len(parts) || f.Meta.Has(keySplitCount) != (len(parts) == 1) {
				t.Fatalf("tensors %q of %q, split keys %v", f.Names(), f.Paths(), f.Meta.Has(keySplitCount))
			}
			r, err := f.Reopen()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for i, name := range want {
				x, ok := f.Tensor(name)
				if !ok || x != &f.Tensors[i] {
					t.Fatalf("%s is not found", name)
				}
				data, err := f.Data(x)
				if err != nil || !bytes.Equal(data, dataOf(name)) {
					t.Errorf("%s: % x, %v", name, data, err)
				}
				if err := f.Advise(x, mmap.WillNeed); err != nil {
					t.Error(err)
				}
				again := make([]byte, len(data))
				if _, err := r.ReadAt(again, int64(f.DataOffset+x.Offset)); err != nil || !bytes.Equal(again, data) {
					t.Errorf("%s reopened: % x, %v", name, again, err)
				}
				own, offset := f.Place(x)
				alone, err := Open(own)
				if err != nil {
					t.Fatal(err)
				}
				if y, ok := alone.Tensor(name); !ok || y.Offset != offset {
					t.Errorf("%s is not at %d of %s", name, offset, own)
				}
				alone.Close()
			}
			var merged bytes.Buffer
			if _, err := f.WriteTo(&merged); err != nil {
				t.Fatal(err)
			}
			g := readBytes(t, merged.Bytes())
			if !slices.Equal(g.Names(), want) {
				t.Errorf("merged: %q", g.Names())
			}
			for i := range g.Tensors {
				if data, err := g.Data(&g.Tensors[i]); err != nil || !bytes.Equal(data, dataOf(g.Tensors[i].Name)) {
					t.Errorf("merged: %s: % x, %v", g.Tensors[i].Name, data, err)
				}
			}
		})
	}
}

// What is between the parts reads as zeros, and nothing is read beyond the end.
func TestJoinedReads(t *testing.T) {
	f, err := OpenModel(split(t, part{0, 2, 2, 64, []string{"aaaa"}, false}, part{1, 2, 2, 64, []string{"bbbb"}, false}))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := io.ReadAll(io.NewSectionReader(f.src, 0, int64(f.Size)+10))
	if err != nil || uint64(len(all)) != f.Size {
		t.Fatalf("%d bytes, %v, want %d", len(all), err, f.Size)
	}
	if !bytes.Equal(all[f.DataOffset:], slices.Concat(dataOf("aaaa"), make([]byte, 44), dataOf("bbbb"), make([]byte, 44))) {
		t.Errorf("% x", all[f.DataOffset:])
	}
	if _, err := f.src.View(f.DataOffset+10, 100); !errors.Is(err, ErrTruncated) {
		t.Errorf("a view over two parts: %v", err)
	}
}

// One file of all parts has no gap, whatever the parts have between and behind their tensors: llama.cpp's reader wants each tensor where the padded
// sizes of those before it end.
func TestMergedWithoutGaps(t *testing.T) {
	for name, parts := range map[string][]part{
		"trailing bytes":     {{0, 2, 3, 0, []string{"aaaa", "bbbb"}, false}, {1, 2, 3, 0, []string{"cccc"}, false}},
		"a larger alignment": {{0, 2, 3, 8, []string{"aaaa"}, false}, {1, 2, 3, 256, []string{"bbbb", "cccc"}, false}},
		"a smaller one":      {{0, 2, 3, 256, []string{"aaaa"}, false}, {1, 2, 3, 8, []string{"bbbb", "cccc"}, false}},
	} {
		t.Run(name, func(t *testing.T) {
			path := split(t, parts...)
			if b, err := os.ReadFile(path); err != nil || os.WriteFile(path, append(b, make([]byte, 1000)...), 0o666) != nil {
				t.Fatal(err)
			}
			f, err := OpenModel(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			whole, err := Split(f.Meta, slices.Clone(f.Tensors), PartLimits{})
			if err != nil || len(whole) != 1 {
				t.Fatal(whole, err)
			}
			var b bytes.Buffer
			if err := f.WritePart(&b, whole[0]); err != nil {
				t.Fatal(err)
			}
			g := readBytes(t, b.Bytes())
			alignment, offset := uint64(max(parts[0].alignment, 8)), uint64(0)
			if parts[0].alignment == 0 {
				alignment = DefaultAlignment
			}
			for i := range g.Tensors {
				x := &g.Tensors[i]
				if data, err := g.Data(x); err != nil || x.Offset != offset || !bytes.Equal(data, dataOf(x.Name)) {
					t.Errorf("%s at %d, want %d: % x, %v", x.Name, x.Offset, offset, data, err)
				}
				offset += (4*testRow + alignment - 1) / alignment * alignment
			}
			if len(g.Tensors) != 3 || g.Size != g.DataOffset+offset || g.Size != whole[0].Bytes {
				t.Errorf("%d tensors, %d bytes, want %d", len(g.Tensors), g.Size, g.DataOffset+offset)
			}
		})
	}
}

// What later parts say and the first does not is listed, but for what a part says of itself.
func TestDropped(t *testing.T) {
	path := split(t, part{0, 3, 2, 0, []string{"aaaa"}, false}, part{1, 3, 2, 64, []string{"bbbb"}, false}, part{2, 3, 2, 0, nil, false})
	f, err := OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	if list := f.Dropped(); list != nil {
		t.Errorf("%v", list)
	}
	paths := f.Paths()
	f.Close()
	edit := func(i int, key string, v Value) {
		t.Helper()
		if _, err := Edit(paths[i], "", setKey(key, v)); err != nil {
			t.Fatal(err)
		}
	}
	edit(0, "both", New("x"))
	edit(1, "both", New("x"))
	edit(1, "other", New("x"))
	edit(2, "both", New("y"))
	if f, err = OpenModel(path); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if list := f.Dropped(); !slices.Equal(list, []PartKey{{paths[1], "other"}, {paths[2], "both"}}) {
		t.Errorf("%v", list)
	}
}

func TestOpenModelRefuses(t *testing.T) {
	good := []part{{0, 2, 2, 0, []string{"aaaa"}, false}, {1, 2, 2, 0, []string{"bbbb"}, false}}
	with := func(i int, change func(*part)) []part {
		parts := slices.Clone(good)
		change(&parts[i])
		return parts
	}
	for want, parts := range map[string][]part{
		`00002.gguf: key "split.no" at offset 44: inconsistent split keys: it is 0, expected 1`:             with(1, func(p *part) { p.no = 0 }),
		`00002.gguf: key "split.no": no such metadata key`:                                                  with(1, func(p *part) { p.no = nil }),
		`00002.gguf: key "split.count" at offset 69: inconsistent split keys: it is 3, expected 2`:          with(1, func(p *part) { p.count = 3 }),
		`00002.gguf: key "split.tensors.count" at offset 102: inconsistent split keys: it is 3, expected 2`: with(1, func(p *part) { p.total = 3 }),
		`00002.gguf: key "split.tensors.count" at offset 102: wrong metadata value type`:                    with(1, func(p *part) { p.total = "2" }),
		`00001.gguf: key "split.tensors.count": no such metadata key`:                                       with(0, func(p *part) { p.total = nil }),
		`00001.gguf: key "split.tensors.count" at offset`:                                                   {{0, 2, 3, 0, []string{"aaaa"}, false}, {1, 2, 3, 0, []string{"bbbb"}, false}},
		`00001.gguf: key "split.no": no such metadata key`:                                                  with(0, func(p *part) { p.no = nil }),
		`wrong metadata value type`:             with(0, func(p *part) { p.count = "two" }),
		`part 5 of 2; parts are counted from 0`: with(0, func(p *part) { p.no = 5 }),
		`00001.gguf: key "split.no" at offset 88: part 1 of 3 is not named *-00001-of-00003.gguf`:                 with(0, func(p *part) { p.count = 3 }),
		"00002.gguf: tensor \"aaaa\": duplicate name: another part has the tensor too\nhint: parts of two models": with(1, func(p *part) { p.tensors = []string{"aaaa"} }),
		`it is 2, but all parts have 3 tensors together`:                                                          with(1, func(p *part) { p.tensors = []string{"bbbb", "cccc"} }),
		`00002.gguf: inconsistent split keys: the byte order is not that of`:                                      with(1, func(p *part) { p.big = true }),
		`00002.gguf: key "split.no" at offset 44: it is part 2 of 2`:                                              nil,
		`00001.gguf: key "split.count" at offset 113: 1 of 2 parts are missing: `:                                 {},
		`00002.gguf: at offset 0: not a GGUF file: the file is empty`:                                             {{}},
	} {
		path := ""
		switch {
		case parts == nil:
			path = strings.Replace(split(t, good...), "-00001-", "-00002-", 1)
		case len(parts) < 2:
			path = split(t, good...)
			second := strings.Replace(path, "-00001-", "-00002-", 1)
			var err error
			if len(parts) == 0 {
				err = os.Remove(second)
			} else {
				err = os.Truncate(second, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		default:
			path = split(t, parts...)
		}
		f, err := OpenModel(path)
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "-of-00002", ""), strings.ReplaceAll(want, "-of-00002", "")) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
}

// A count that no set of files bears out takes no memory and no time.
func TestOpenModelManyParts(t *testing.T) {
	dir := t.TempDir()
	for _, count := range []int{MaxParts, MaxParts + 1} {
		m := NewMeta()
		m.Set(keySplitNo, New(uint32(0)))
		m.Set(keySplitCount, New(uint32(count)))
		m.Set(keySplitTensors, New(uint32(0)))
		path := filepath.Join(dir, PartName("m", 1, count))
		if err := os.WriteFile(path, writeBytes(t, m, nil), 0o666); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%d of %d parts are missing: %s", count-1, count, filepath.Join(dir, PartName("m", 2, count)))
		if count > MaxParts {
			want = "at most 65535"
		}
		if _, err := OpenModel(path); !errors.Is(err, ErrSplit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestPartsOf(t *testing.T) {
	for path, want := range map[string]string{
		"a-00002-of-00003.gguf":       "a-00001-of-00003.gguf a-00002-of-00003.gguf a-00003-of-00003.gguf",
		"d/a-b-00001-of-00001.gguf":   "d/a-b-00001-of-00001.gguf",
		"a-00001-of-00000.gguf":       "",
		"a-1-of-3.gguf":               "",
		"a-00001-of-00003.gguf.bak":   "",
		"a-00001-of-00003/model.gguf": "",
		"a-000001-of-000003.gguf":     "",
		"x\n-00001-of-00001.gguf":     "x\n-00001-of-00001.gguf",
		"A-00001-of-00002.GGUF":       "A-00001-of-00002.GGUF A-00002-of-00002.GGUF",
	} {
		if got := strings.Join(PartsOf(path), " "); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

func TestModelName(t *testing.T) {
	for path, want := range map[string]string{
		"dir/m.gguf":                           "dir/m",
		"dir/m.GGUF":                           "dir/m",
		"m-00002-of-00003.gguf":                "m",
		"m-00002-of-00003.Gguf":                "m",
		"m-00001-of-00002-00003-of-00004.gguf": "m-00001-of-00002",
		"m-00001-of-00002":                     "m-00001-of-00002",
		"m.bin":                                "m.bin",
		"gguf":                                 "gguf",
		".gguf":                                "",
		"":                                     "",
	} {
		if got := ModelName(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

// Names may end in any case; those of all parts end alike.
func TestOpenModelUpperCase(t *testing.T) {
	path := split(t, part{0, 2, 2, 0, []string{"aaaa"}, false}, part{1, 2, 2, 0, []string{"bbbb"}, false})
	for _, old := range PartsOf(path) {
		if err := os.Rename(old, strings.TrimSuffix(old, ".gguf")+".GGUF"); err != nil {
			t.Fatal(err)
		}
	}
	f, err := OpenModel(strings.TrimSuffix(path, ".gguf") + ".GGUF")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Paths()) != 2 || len(f.Tensors) != 2 {
		t.Errorf("%q, %q", f.Paths(), f.Names())
	}
}

// A part that changes its size between two readings is an error.
func TestReopenChanged(t *testing.T) {
	path := split(t, part{0, 2, 2, 0, []string{"aaaa"}, false}, part{1, 2, 2, 0, []string{"bbbb"}, false})
	f, err := OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	second := f.Paths()[1]
	if err := os.WriteFile(second+".new", make([]byte, 10), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(second+".new", second); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Reopen(); err == nil || !strings.Contains(err.Error(), second+": the file has changed: it has 10 bytes") {
		t.Error(err)
	}
}

// Another file of the same size in the place of one is an error, too, when it is read again and while parts are opened.
func TestReplaced(t *testing.T) {
	parts := []part{{0, 2, 2, 0, []string{"aaaa"}, false}, {1, 2, 2, 0, []string{"bbbb"}, false}}
	for i, path := range PartsOf(split(t, parts...)) {
		f, err := OpenModel(PartsOf(path)[0])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := os.Rename(PartsOf(split(t, parts...))[i], path); err != nil {
			t.Fatal(err)
		}
		want := path + ": the file has changed: another one has taken its place\nhint: "
		if _, err := f.Reopen(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if i > 0 {
			continue
		}
		// The first part as it was, the second as it is now.
		if _, err := f.parts[0].Join(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A quantizer may have kept the keys of its source's first part in a file that is whole: the hint tells what mends it.
func TestStaleSplit(t *testing.T) {
	for _, parts := range [][]part{
		{{0, 3, 2, 0, []string{"aaaa", "bbbb"}, false}}, // named as part 1 of 1
		{{0, 2, 2, 0, []string{"aaaa", "bbbb"}, false}, {1, 2, 2, 0, nil, false}},
	} {
		path := split(t, parts...)
		if len(parts) > 1 {
			if err := os.Remove(PartsOf(path)[1]); err != nil {
				t.Fatal(err)
			}
		}
		hint := "\nhint: the file has all tensors: 'ggufkit meta rm " + path + " split.no split.count split.tensors.count' makes it whole"
		if _, err := OpenModel(path); !errors.Is(err, ErrSplit) || !strings.HasSuffix(err.Error(), hint) {
			t.Errorf("%v, want %s", err, hint)
		}
		if _, err := Edit(path, "", func(m *Meta) error {
			return errors.Join(removeKey(m, keySplitNo), removeKey(m, keySplitCount), removeKey(m, keySplitTensors))
		}); err != nil {
			t.Fatal(err)
		}
		f, err := OpenModel(path)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

func removeKey(m *Meta, key string) error {
	if !m.Remove(key) {
		return ErrNoKey
	}
	return nil
}
