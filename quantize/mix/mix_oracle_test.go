//go:build oracle

package mix

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/ggufkit/ggufkit/gguf"
)

func oracle(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("ORACLE")
	if folder == "" {
		t.Fatal("ORACLE is not set: it names the folder of reference data")
	}
	return folder
}

func TestOracleMixes(t *testing.T) { checkMixFiles(t, filepath.Join(oracle(t), "mixes")) }

// archFile is the metadata and the tensors of a converted model.
type archFile struct {
	KV      [][]jsontext.Value `json:"kv"`
	Tensors [][]jsontext.Value `json:"tensors"`
}

func get[T any](t *testing.T, v jsontext.Value) (out T) {
	t.Helper()
	if err := json.Unmarshal(v, &out); err != nil {
		t.Fatalf("%s: %v", v, err)
	}
	return out
}

// meta holds the keys that ModelOf reads.
func (f *archFile) meta(t *testing.T) *gguf.Meta {
	m := gguf.NewMeta()
	for _, kv := range f.KV {
		key, types := get[string](t, kv[0]), get[[]string](t, kv[1])
		switch types[0] {
		case "STRING":
			m.Set(key, gguf.New(get[string](t, kv[2])))
		case "UINT32":
			m.Set(key, gguf.New(get[uint32](t, kv[2])))
		case "ARRAY":
			if types[1] == "INT32" && len(kv[2]) < 10000 {
				m.Set(key, gguf.NewArray(get[[]int32](t, kv[2])))
			}
		}
	}
	return m
}

// Every recipe gives every tensor of every architecture the type that llama-quantize gave it.
func TestOracleArchs(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(oracle(t), "archs", "*", "llamacpp", "quant.json"))
	if err != nil || len(names) < 50 {
		t.Fatalf("only %d architectures: %v", len(names), err)
	}
	compared := 0
	for _, name := range names {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(name))), func(t *testing.T) {
			var f archFile
			readJSON(t, filepath.Join(filepath.Dir(name), "f32.json"), &f)
			var quant map[string]map[string]jsontext.Value
			readJSON(t, name, &quant)
			model, tensors := ModelOf(f.meta(t)), f.tensors(t)
			for recipe, result := range quant {
				if result["error"] != nil {
					continue
				}
				checkTypes(t, recipe, model, tensors, get[map[string][]string](t, result["tensors"]))
				compared++
			}
		})
	}
	if compared < 1100 {
		t.Errorf("only %d recipes compared", compared)
	}
}

// A real model whose rows of 576 are no multiple of 256.
func TestOracleReal(t *testing.T) {
	var files map[string]jsontext.Value
	readJSON(t, filepath.Join(oracle(t), "real", "smollm2-135m.gguf.json"), &files)
	source := get[archFile](t, files["auto"])
	model := Model{Arch: "llama", Layers: 30, Heads: 9, KVHeads: 3}
	for _, recipe := range []string{"Q8_0", "Q4_0", "Q4_K_M", "Q5_K_S", "Q6_K", "Q3_K_M", "Q2_K", "IQ4_XS"} {
		want := get[map[string]jsontext.Value](t, files[recipe])
		checkTypes(t, recipe, model, source.tensors(t), get[map[string][]string](t, want["tensors"]))
	}
}

// tensors is the list of tensors of the file.
func (f *archFile) tensors(t *testing.T) []gguf.Tensor {
	t.Helper()
	var tensors []gguf.Tensor
	for _, x := range f.Tensors {
		typ, err := gguf.ParseType(get[string](t, x[2]))
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, gguf.Tensor{Name: get[string](t, x[0]), Shape: get[[]uint64](t, x[1]), Type: typ})
	}
	return tensors
}

// checkTypes compares the choices of a recipe with the types that llama-quantize wrote.
func checkTypes(t *testing.T, recipe string, m Model, tensors []gguf.Tensor, want map[string][]string) {
	t.Helper()
	r, err := Parse(recipe)
	if err != nil {
		t.Fatal(err)
	}
	choices, err := Choose(r, m, tensors, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(want) != len(choices) {
		t.Errorf("%s: %d tensors, want %d", recipe, len(choices), len(want))
	}
	for _, c := range choices {
		if w := want[c.Name]; len(w) != 2 || c.To.String() != w[0] {
			t.Errorf("%s: %s is %s, want %v (%s)", recipe, c.Name, c.To, w, c.Rule)
		}
	}
}

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := json.UnmarshalRead(f, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
