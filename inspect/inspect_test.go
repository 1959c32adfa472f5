package inspect

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// golden is what the reference implementation of the format says about a file; testdata/gen makes it.
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
	}
}

// TestReadGolden compares the report, by way of JSON, with the reference's reading of the same files.
func TestReadGolden(t *testing.T) {
	paths, err := filepath.Glob("../testdata/golden/gguf/*.gguf")
	if err != nil || len(paths) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var want golden
			decode(t, readFile(t, strings.TrimSuffix(path, ".gguf")+".json"), &want)
			r, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Defects) > 0 || r.Fatal() != nil {
				t.Errorf("defects: %v", r.Defects)
			}
			if big := r.ByteOrder == "big"; big != want.BigEndian || r.Alignment != want.Alignment {
				t.Errorf("%s-endian, alignment %d; want big-endian %v, %d", r.ByteOrder, r.Alignment, want.BigEndian, want.Alignment)
			}
			checkMeta(t, r, &want)
			checkTensors(t, r, &want)
		})
	}
}

func checkMeta(t *testing.T, r *Report, want *golden) {
	t.Helper()
	if len(r.Meta) != len(want.Meta) {
		t.Fatalf("%d keys, want %d", len(r.Meta), len(want.Meta))
	}
	for i, w := range want.Meta {
		got := r.Meta[i]
		b, err := json.Marshal(got.Value)
		if err != nil {
			t.Fatal(err)
		}
		var value any
		decode(t, b, &value)
		if got.Key != w.Key || !reflect.DeepEqual(value, w.Value) && !float32Equal(value, w.Value) {
			t.Errorf("%s = %v, want %s = %v", got.Key, value, w.Key, w.Value)
		}
	}
}

// float32Equal compares numbers, alone or in lists, as float32: the reference's JSON widens them.
func float32Equal(a, b any) bool {
	x, isList := a.([]any)
	y, alsoList := b.([]any)
	if isList && alsoList && len(x) == len(y) {
		for i := range x {
			if !float32Equal(x[i], y[i]) {
				return false
			}
		}
		return true
	}
	f, isFloat := a.(float64)
	g, alsoFloat := b.(float64)
	return isFloat && alsoFloat && float32(f) == float32(g)
}

func checkTensors(t *testing.T, r *Report, want *golden) {
	t.Helper()
	if len(r.Tensors) != len(want.Tensors) || r.TensorCount != len(want.Tensors) {
		t.Fatalf("%d tensors, want %d", len(r.Tensors), len(want.Tensors))
	}
	var elements, bytes uint64
	for i, w := range want.Tensors {
		got := r.Tensors[i]
		if got.Name != w.Name || got.Type != w.Type || !reflect.DeepEqual(got.Shape, w.Shape) ||
			got.Offset+r.DataOffset != w.At || got.Bytes == nil || *got.Bytes != w.Bytes {
			t.Errorf("tensor %d is %+v, want %+v", i, got, w)
		}
		n := uint64(1)
		for _, d := range w.Shape {
			n *= d
		}
		elements, bytes = elements+n, bytes+w.Bytes
	}
	if r.Parameters != elements || r.TensorBytes != bytes {
		t.Errorf("%d parameters in %d bytes, want %d in %d", r.Parameters, r.TensorBytes, elements, bytes)
	}
}

// write makes a file without tensors.
func write(t *testing.T, m *gguf.Meta) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := gguf.NewWriter(f, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVocabulary(t *testing.T) {
	m := gguf.NewMeta()
	m.Set("general.architecture", gguf.New("llama"))
	m.Set("llama.context_length", gguf.New(uint32(77)))
	m.Set("tokenizer.ggml.model", gguf.New("llama"))
	m.Set("tokenizer.ggml.tokens", gguf.NewArray([]string{"a", "b", "a", "<0x41>", "a"}))
	m.Set("tokenizer.ggml.token_type", gguf.NewArray([]int32{1, 3, 99, 6, 4}))
	m.Set("tokenizer.ggml.scores", gguf.NewArray([]float32{0, -1, float32(math.Inf(-1)), -2, -3}))
	r, err := Read(write(t, m))
	if err != nil {
		t.Fatal(err)
	}
	if r.TokenCount != 5 || r.DuplicateTokens != 2 || r.Tokenizer != "llama" || r.Context != 77 || r.ChatTemplate {
		t.Errorf("%+v", r.Summary)
	}
	want := []Token{{0, "a", "normal", 0}, {1, "b", "control", -1}, {2, "a", "99", 0}, {3, "<0x41>", "byte", -2}, {4, "a", "user_defined", -3}}
	if !reflect.DeepEqual(r.Tokens, want) {
		t.Errorf("%+v, want %+v", r.Tokens, want)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Errorf("JSON: %v", err)
	}
}

// TestOddVocabulary: lists of another type than they should have are told, not fatal.
func TestOddVocabulary(t *testing.T) {
	m := gguf.NewMeta()
	m.Set("tokenizer.ggml.tokens", gguf.NewArray([]string{"a"}))
	m.Set("tokenizer.ggml.scores", gguf.New("none"))
	r, err := Read(write(t, m))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Defects) != 1 || r.Fatal() != nil || r.TokenCount != 1 {
		t.Errorf("defects %v, fatal %v, %d tokens", r.Defects, r.Fatal(), r.TokenCount)
	}
}

func TestDamaged(t *testing.T) {
	whole := readFile(t, "../testdata/golden/gguf/values-le.gguf")
	path := filepath.Join(t.TempDir(), "cut.gguf")
	if err := os.WriteFile(path, whole[:len(whole)/2], 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if r.Fatal() == nil || len(r.Meta) == 0 {
		t.Errorf("fatal %v, %d keys: want an error, and the keys before the cut", r.Fatal(), len(r.Meta))
	}
	if err := os.WriteFile(path, []byte("PK\x03\x04 something else"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil {
		t.Error("a file of another format is no error")
	}
}

func TestShort(t *testing.T) {
	for _, c := range []struct {
		v    gguf.Value
		want string
	}{
		{gguf.New("two\nlines"), `"two\nlines"`},
		{gguf.New(strings.Repeat("é", 30)), `"` + strings.Repeat("é", 10) + `"... (60 bytes)`},
		{gguf.New(float32(1e-5)), "1e-05"},
		{gguf.New(math.NaN()), `"NaN"`},
		{gguf.New(true), "true"},
		{gguf.NewArray([]int32{}), "[]"},
		{gguf.NewArray([]int32{1, 2}), "[1, 2]"},
		{gguf.NewArray([]string{strings.Repeat("long ", 9), "b"}), `["long long "... (45 bytes), ... 2 in all]`},
		{gguf.NewArray([]int32{100, 200, 300, 400}), "[100, 200, ... 4 in all]"},
	} {
		if got := NewKV("k", c.v).Short(10); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(t *testing.T, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}
