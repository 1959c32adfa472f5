package gguf

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The goldens were written and described by the reference implementation (testdata/gen/gguf_goldens.py).
const goldenFolder = "../testdata/golden/gguf"

type golden struct {
	BigEndian bool `json:"big_endian"`
	Alignment uint64
	Meta      []struct {
		Key   string
		Types []string
		Value any
	}
	Tensors []struct {
		Name, Type string
		Shape      []uint64
		At, Bytes  uint64
		SHA256     string
	}
}

// openGolden opens a golden file and its description.
func openGolden(t *testing.T, path string) (*File, golden) {
	t.Helper()
	f, defects, err := Check(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	for _, d := range defects {
		t.Error(d.Error(path))
	}
	b, err := os.ReadFile(strings.TrimSuffix(path, ".gguf") + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber() // 64-bit integers do not fit into a float64
	if err := dec.Decode(&g); err != nil {
		t.Fatal(err)
	}
	return f, g
}

func goldenFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(goldenFolder + "/*.gguf")
	if err != nil || len(files) != 5 {
		t.Fatal(files, err)
	}
	return files
}

func TestGoldenFiles(t *testing.T) {
	for _, path := range goldenFiles(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, want := openGolden(t, path)
			if big := f.Order == binary.BigEndian; big != want.BigEndian || f.Alignment != want.Alignment || f.Version != 3 {
				t.Errorf("order %v, alignment %d, version %d", f.Order, f.Alignment, f.Version)
			}
			i := 0
			for key, v := range f.Meta.All() {
				w := want.Meta[i]
				i++
				// The reference names the types of an array from outside to inside.
				name := strings.Repeat("[]", strings.Count(strings.Join(w.Types, " "), "ARRAY"))
				scalar, _, err := ParseValueType(longNames[w.Types[len(w.Types)-1]])
				if err != nil {
					t.Fatal(err)
				}
				if key != w.Key || v.TypeName() != name+scalar.String() {
					t.Errorf("%s is %s, want %s of %v", key, v.TypeName(), w.Key, w.Types)
				}
				if diff := cmp.Diff(w.Value, jsonValue(v.Any())); diff != "" {
					t.Errorf("%s: %s", key, diff)
				}
			}
			if i != len(want.Meta) {
				t.Errorf("%d keys, want %d", i, len(want.Meta))
			}
			compareTensors(t, f, want)
		})
	}
}

// longNames are the reference's names of value types.
var longNames = map[string]string{
	"UINT8": "uint8", "INT8": "int8", "UINT16": "uint16", "INT16": "int16", "UINT32": "uint32", "INT32": "int32", "UINT64": "uint64",
	"INT64": "int64", "FLOAT32": "float32", "FLOAT64": "float64", "BOOL": "bool", "STRING": "string",
}

func compareTensors(t *testing.T, f *File, want golden) {
	t.Helper()
	if len(f.Tensors) != len(want.Tensors) {
		t.Fatalf("%d tensors, want %d", len(f.Tensors), len(want.Tensors))
	}
	for i := range f.Tensors {
		g, w := &f.Tensors[i], want.Tensors[i]
		data, err := f.Data(g)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		if g.Name != w.Name || g.Type.String() != w.Type || !slices.Equal(g.Shape, w.Shape) || f.DataOffset+g.Offset != w.At ||
			uint64(len(data)) != w.Bytes || hex.EncodeToString(sum[:]) != w.SHA256 {
			t.Errorf("%+v, %d bytes\nwant %+v", g, len(data), w)
		}
	}
}

// jsonValue gives a value in the form in which the description has it.
func jsonValue(v any) any {
	switch v := v.(type) {
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, jsonValue(e))
		}
		return out
	case float32:
		return floatText(float64(v))
	case float64:
		return floatText(v)
	case bool, string:
		return v
	}
	b, _ := json.Marshal(v)
	return json.Number(b)
}

// floatText is a float as Python prints it.
func floatText(x float64) json.Number {
	if x == math.Trunc(x) && math.Abs(x) < 1e16 {
		return json.Number(strconv.FormatFloat(x, 'f', 1, 64))
	}
	return json.Number(strconv.FormatFloat(x, 'g', -1, 64))
}

// A file that is version 3 and little-endian comes out byte for byte, whether it is taken for unchanged or encoded anew.
func TestGoldenWriteTo(t *testing.T) {
	for _, path := range goldenFiles(t) {
		f, g := openGolden(t, path)
		if g.BigEndian {
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		n, err := f.WriteTo(&got)
		if err != nil || n != int64(len(want)) || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: %d bytes, %v; want %d equal bytes", path, n, err, len(want))
		}
		header := current.appendHeader(nil, 3, f.Meta, f.Tensors)
		if !bytes.HasPrefix(want, header) {
			t.Errorf("%s: the header is not encoded as it was", path)
		}
		var again bytes.Buffer
		w, err := NewWriter(&again, f.Meta, f.Tensors)
		if err != nil {
			t.Fatal(err)
		}
		writeAll(t, w, f)
		if !bytes.Equal(again.Bytes(), want) {
			t.Errorf("%s: Writer gives other bytes", path)
		}
	}
}

// writeAll copies the tensors of f to w.
func writeAll(t *testing.T, w *Writer, f *File) {
	t.Helper()
	for i := range f.Tensors {
		data, err := f.Data(&f.Tensors[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Begin(f.Tensors[i].Name); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// pair-be.gguf was made of pair-le.gguf by the reference converter.
func TestGoldenPair(t *testing.T) {
	le, _ := openGolden(t, goldenFolder+"/pair-le.gguf")
	be, _ := openGolden(t, goldenFolder+"/pair-be.gguf")
	wantLE, _ := os.ReadFile(le.Path)
	wantBE, _ := os.ReadFile(be.Path)
	var gotLE, gotBE bytes.Buffer
	if _, err := be.WriteTo(&gotLE); err != nil {
		t.Fatal(err)
	}
	if _, err := le.writeAs(&gotBE, encoding{binary.BigEndian, true}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(gotLE.Bytes(), wantLE) {
		t.Error("big to little gives other bytes")
	}
	if !bytes.Equal(gotBE.Bytes(), wantBE) {
		t.Error("little to big gives other bytes")
	}
	for key, v := range le.Meta.All() {
		if o, ok := be.Meta.Get(key); !ok || !v.Equal(o) {
			t.Errorf("%s differs", key)
		}
	}
}

// Every type goes from little to big and back, and the swapped bytes differ only where numbers of several bytes are.
func TestSwapTypes(t *testing.T) {
	for typ, info := range types {
		data := make([]byte, 3*info.Bytes)
		for i := range data {
			data[i] = byte(i)
		}
		swapped := bytes.Clone(data)
		swapBlocks(typ, swapped)
		single := typ == I8 || typ == MXFP4 || typ == NVFP4
		if bytes.Equal(data, swapped) != single {
			t.Errorf("%s: changed by a swap: %v", typ, single)
		}
		total := 0
		for _, f := range numbers[typ] {
			total += f.size * f.count
		}
		if uint64(total) > info.Bytes {
			t.Errorf("%s: the numbers take %d bytes of %d", typ, total, info.Bytes)
		}
		swapBlocks(typ, swapped)
		if !bytes.Equal(data, swapped) {
			t.Errorf("%s: two swaps change the bytes", typ)
		}
	}
}
