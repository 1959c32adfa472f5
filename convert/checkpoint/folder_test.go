package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/internal/half"
)

// tensorFile is a safetensors file to be written: tensors in order of their data.
type tensorFile []testTensor

type testTensor struct {
	name  string
	dtype DType
	shape []uint64
	data  []byte
}

func f32s(name string, values ...float32) testTensor {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return testTensor{name, F32, []uint64{uint64(len(values))}, b}
}

func bf16s(name string, values ...float32) testTensor {
	b := make([]byte, 2*len(values))
	half.EncodeBF16(b, values)
	return testTensor{name, BF16, []uint64{uint64(len(values))}, b}
}

func (f tensorFile) bytes(t *testing.T) []byte {
	t.Helper()
	header := map[string]any{}
	var data []byte
	for _, x := range f {
		header[x.name] = map[string]any{"dtype": x.dtype, "shape": x.shape, "data_offsets": []int{len(data), len(data) + len(x.data)}}
		data = append(data, x.data...)
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, data)
}

// folder writes files into a new folder; a value is a tensorFile, an index (map) or text.
func folder(t *testing.T, files map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		var b []byte
		switch v := content.(type) {
		case tensorFile:
			b = v.bytes(t)
		case map[string]string:
			text, err := json.Marshal(map[string]any{"metadata": map[string]int{"total_size": 1}, "weight_map": v})
			if err != nil {
				t.Fatal(err)
			}
			b = text
		case string:
			b = []byte(v)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// listing is "name@file" of every tensor in order.
func listing(c *Checkpoint) string {
	var list []string
	for _, x := range c.Tensors {
		list = append(list, x.Name+"@"+x.File)
	}
	return strings.Join(list, " ")
}

var (
	one = tensorFile{f32s("a", 1)}
	two = tensorFile{f32s("b", 2)}
)

const (
	part1 = "model-00001-of-00002.safetensors"
	part2 = "model-00002-of-00002.safetensors"
)

func TestOpenChoosesOneSet(t *testing.T) {
	vendor := tensorFile{f32s("layers.0.wq", 9)}
	tests := []struct {
		name  string
		files map[string]any
		want  string
		notes []string // a part of each
	}{
		{"single", map[string]any{"model.safetensors": one, "config.json": "{}"}, "a@model.safetensors", nil},
		{"only file of another name", map[string]any{"weights.safetensors": one}, "a@weights.safetensors", nil},
		{"numbered without index", map[string]any{part1: one, part2: two}, "a@" + part1 + " b@" + part2, nil},
		{"index wins over model.safetensors",
			map[string]any{indexName: map[string]string{"a": part1, "b": part2}, part1: one, part2: two, "model.safetensors": vendor},
			"a@" + part1 + " b@" + part2, []string{"not used, since the index does not name them: model.safetensors"}},
		{"odd name in the index",
			map[string]any{indexName: map[string]string{"a": part1, "b": part2, "mtp": "extra.safetensors"}, part1: one, part2: two,
				"extra.safetensors": tensorFile{f32s("mtp", 3)}},
			"mtp@extra.safetensors a@" + part1 + " b@" + part2, nil},
		{"index into a folder below", map[string]any{indexName: map[string]string{"a": "w/x.safetensors"}, "w/x.safetensors": one}, "a@w/x.safetensors", nil},
		{"index of a vendor", map[string]any{"consolidated" + indexSuffix: map[string]string{"a": "c1.safetensors"}, "c1.safetensors": one}, "a@c1.safetensors", nil},
		{"set beside consolidated", map[string]any{part1: one, part2: two, "consolidated.safetensors": vendor},
			"a@" + part1 + " b@" + part2, []string{"not used, since the model is in " + part1 + ", " + part2 + ": consolidated.safetensors"}},
		{"model beside consolidated parts", map[string]any{"model.safetensors": one, "consolidated-00001-of-00002.safetensors": vendor},
			"a@model.safetensors", []string{"consolidated-00001-of-00002.safetensors"}},
		{"only consolidated", map[string]any{"consolidated.safetensors": vendor}, "layers.0.wq@consolidated.safetensors", nil},
		{"beside torch files", map[string]any{"model.safetensors": one, "pytorch_model.bin": "PK\x03\x04", "training_args.bin": "PK\x03\x04"},
			"a@model.safetensors", []string{"pytorch_model.bin"}},
		{"unnamed tensor", map[string]any{indexName: map[string]string{"a": part1}, part1: tensorFile{f32s("a", 1), f32s("rotary.inv_freq", 2)}},
			"a@" + part1 + " rotary.inv_freq@" + part1, []string{part1 + " holds 1 tensors that the index does not name: rotary.inv_freq"}},
		{"leftovers of other systems", map[string]any{"model.safetensors": one, "._model.safetensors": "x", ".cache/x.safetensors": one}, "a@model.safetensors", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := open(t, folder(t, test.files))
			if got := listing(c); got != test.want {
				t.Errorf("tensors %s, want %s", got, test.want)
			}
			if len(c.Notes) != len(test.notes) {
				t.Fatalf("notes %q, want %q", c.Notes, test.notes)
			}
			for i, note := range test.notes {
				if !strings.Contains(c.Notes[i], note) {
					t.Errorf("note %q lacks %q", c.Notes[i], note)
				}
			}
		})
	}
}

func TestOpenRefusesFolders(t *testing.T) {
	index := func(m map[string]string) map[string]any { return map[string]any{indexName: m, part1: one, part2: two} }
	tests := []struct {
		name  string
		files map[string]any
		is    error
		want  string
	}{
		{"empty", nil, ErrNoWeights, "the folder is empty"},
		{"no weights", map[string]any{"config.json": "{}"}, ErrNoWeights, "no .safetensors file among config.json"},
		{"torch", map[string]any{"pytorch_model-00001-of-00002.bin": "PK", "pytorch_model-00002-of-00002.bin": "PK"}, ErrNoWeights, "save_pretrained"},
		{"torch single", map[string]any{"consolidated.00.pth": "PK"}, ErrNoWeights, "torch files, which are not read: consolidated.00.pth"},
		{"gguf", map[string]any{"x.gguf": "GGUF"}, ErrNoWeights, "needs no conversion"},
		{"hub cache", map[string]any{"snapshots/0/model.safetensors": one, "refs/main": "0"}, ErrNoWeights, "inside its snapshots"},
		{"lfs", map[string]any{"model.safetensors": "version https://git-lfs.github.com/spec/v1\noid sha256:00ff\nsize 123\n"}, ErrForeign, "123"},
		{"incomplete set", map[string]any{part1: one}, ErrMissing, "1 of 2 files are absent: " + part2},
		{"enormous set", map[string]any{"model-00001-of-999999999.safetensors": one}, ErrMissing, "999999998 of 999999999 files are absent"},
		{"part 3 of 2", map[string]any{part1: one, "model-00003-of-00002.safetensors": two}, ErrFormat, "number of the part"},
		{"same part twice", map[string]any{part1: one, "model-1-of-00002.safetensors": two}, ErrFormat, "number of the part"},
		{"two sets", map[string]any{part1: one, part2: two, "model-00001-of-00003.safetensors": one}, ErrNoWeights, "2 sets of files"},
		{"two files", map[string]any{"x.safetensors": one, "y.safetensors": two}, ErrNoWeights, "x.safetensors, y.safetensors"},
		{"shard lacks a tensor", index(map[string]string{"a": part1, "b": part2, "c": part2}), ErrMissing, `1 tensors that the index names are not where it says: "c" in ` + part2},
		{"tensor in another shard", map[string]any{indexName: map[string]string{"a": part2, "b": part2, "c": part1}, part1: tensorFile{one[0], f32s("c")}, part2: two}, ErrMissing, `"a" in ` + part2 + " (it is in " + part1 + ")"},
		{"absolute path", index(map[string]string{"a": "/etc/passwd"}), ErrFormat, "leads out of the folder"},
		{"parent", index(map[string]string{"a": "../model.safetensors"}), ErrFormat, "leads out of the folder"},
		{"parent inside", index(map[string]string{"a": "x/../../model.safetensors"}), ErrFormat, "leads out of the folder"},
		{"parent of another system", index(map[string]string{"a": `..\model.safetensors`}), ErrFormat, "leads out of the folder"},
		{"no name", index(map[string]string{"a": ""}), ErrFormat, "leads out of the folder"},
		{"index without map", map[string]any{indexName: `{"metadata":{}}`, part1: one}, ErrFormat, "weight_map is absent"},
		{"index of numbers", map[string]any{indexName: `{"weight_map":{"a":1}}`, part1: one}, ErrFormat, `"/weight_map/a" is not`},
		{"index doubled name", map[string]any{indexName: `{"weight_map":{"a":"x","a":"y"}}`, part1: one}, ErrFormat, "duplicate"},
		{"index cut", map[string]any{indexName: `{"weight_map":{"a":"x"`, part1: one}, ErrFormat, "the JSON text ends too early"},
		{"index empty", map[string]any{indexName: "", part1: one}, ErrForeign, "the file is empty"},
		{"index web page", map[string]any{indexName: "<!doctype html>", part1: one}, ErrForeign, "web page"},
		{"a folder for a file", map[string]any{"model.safetensors/x": "x"}, ErrFormat, "it is a folder"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := folder(t, test.files)
			_, err := Open(dir)
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %v with %q", err, test.is, test.want)
			}
			if err != nil && !strings.HasPrefix(err.Error(), dir) {
				t.Errorf("error %q does not begin with the folder", err)
			}
		})
	}
}

// All absent files of an index are told in one error (field report R014).
func TestOpenNamesAbsentFilesOnce(t *testing.T) {
	weights := map[string]string{"a": part1, "mtp": "extra.safetensors"}
	for i := range 7 {
		weights[fmt.Sprintf("b.%d", i)] = part2
	}
	dir := folder(t, map[string]any{indexName: weights, part1: one})
	_, err := Open(dir)
	if !errors.Is(err, ErrMissing) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 of 3 files are absent",
		"extra.safetensors, which should hold 1 tensors (mtp)",
		part2 + ", which should hold 7 tensors (b.0, b.1, b.2, b.3, b.4 and 2 more)",
	} {
		if strings.Count(err.Error(), want) != 1 {
			t.Errorf("error %q should say once %q", err, want)
		}
	}
}

// A tensor that is there twice is used if the copies agree after rounding, else refused (field report R015).
func TestOpenDuplicates(t *testing.T) {
	const third = float32(1) / 3
	rounded := half.BF16ToF32(half.F32ToBF16(third))
	wide, narrow, other := f32s("k", third, 2), bf16s("k", third, 2), f32s("k", third, 3)
	tests := []struct {
		name          string
		first, second testTensor
		index         string // where it places k
		want          string
		conflict      bool
	}{
		{"equal bytes, index names the second", wide, wide, part2, "a@" + part1 + " b@" + part2 + " k@" + part2, false},
		{"equal bytes, index names the first", wide, wide, part1, "a@" + part1 + " k@" + part1 + " b@" + part2, false},
		{"equal after rounding", wide, narrow, part1, "a@" + part1 + " k@" + part1 + " b@" + part2, false},
		{"equal after rounding, narrow one named", wide, narrow, part2, "a@" + part1 + " b@" + part2 + " k@" + part2, false},
		{"widened copy", narrow, f32s("k", rounded, 2), part2, "a@" + part1 + " b@" + part2 + " k@" + part2, false},
		{"other values", wide, other, part1, "", true},
		{"other values after rounding", narrow, other, part1, "", true},
		{"other shape", wide, testTensor{"k", F32, []uint64{1, 2}, wide.data}, part1, "", true},
		{"integers", f32s("k", 2), testTensor{"k", I64, []uint64{1}, []byte{2, 0, 0, 0, 0, 0, 0, 0}}, part1, "a@" + part1 + " k@" + part1 + " b@" + part2, false},
		{"bytes that cannot be compared", testTensor{"k", "F8_E4M3", []uint64{2}, []byte{1, 2}}, testTensor{"k", U8, []uint64{2}, []byte{1, 2}}, part1, "", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := folder(t, map[string]any{
				indexName: map[string]string{"a": part1, "b": part2, "k": test.index},
				part1:     tensorFile{one[0], test.first},
				part2:     tensorFile{two[0], test.second},
			})
			if test.conflict {
				_, err := Open(dir)
				if !errors.Is(err, ErrConflict) {
					t.Fatalf("error %v", err)
				}
				for _, want := range []string{`"k"`, fmt.Sprintf("%s %v in %s", test.first.dtype, test.first.shape, part1), fmt.Sprintf("%s %v in %s", test.second.dtype, test.second.shape, part2)} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error %q lacks %q", err, want)
					}
				}
				return
			}
			c := open(t, dir)
			if got := listing(c); got != test.want {
				t.Errorf("tensors %s, want %s", got, test.want)
			}
			for i := range c.Tensors {
				if x, ok := c.Tensor(c.Tensors[i].Name); !ok || x != &c.Tensors[i] {
					t.Errorf("tensor %d is not found by its name", i)
				}
			}
			if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], `"k" is there twice`) {
				t.Errorf("notes %q", c.Notes)
			}
		})
	}
}

func TestOpenFollowsLinks(t *testing.T) {
	// The layout of the Hugging Face cache.
	dir := folder(t, map[string]any{"blobs/0a": one, "blobs/0b": two, "snapshots/s/config.json": "{}"})
	snapshot := filepath.Join(dir, "snapshots", "s")
	for blob, name := range map[string]string{"0a": part1, "0b": part2} {
		if err := os.Symlink(filepath.Join("..", "..", "blobs", blob), filepath.Join(snapshot, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := listing(open(t, snapshot)), "a@"+part1+" b@"+part2; got != want {
		t.Errorf("tensors %s, want %s", got, want)
	}
	// A download that stopped leaves links to nothing.
	if err := os.Remove(filepath.Join(dir, "blobs", "0b")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(snapshot); err == nil || !strings.Contains(err.Error(), part2) {
		t.Errorf("error %v", err)
	}
}

func TestOpenFile(t *testing.T) {
	dir := folder(t, map[string]any{part1: one, part2: two, "x.gguf": "GGUF\x03"})
	c := open(t, filepath.Join(dir, part2))
	if got, want := listing(c), "b@"+part2; got != want || c.Dir != dir {
		t.Errorf("tensors %s in %s, want %s in %s", got, c.Dir, want, dir)
	}
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "part 2 of 2") {
		t.Errorf("notes %q", c.Notes)
	}
	if _, err := Open(filepath.Join(dir, "x.gguf")); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "it is a GGUF file") {
		t.Errorf("error %v", err)
	}
	if _, err := Open(filepath.Join(dir, "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
