//go:build oracle

package convert

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// oracleDir is the reference data's folder of one architecture.
func oracleDir(t *testing.T, name string) string {
	t.Helper()
	root := os.Getenv("ORACLE")
	if root == "" {
		t.Fatal("ORACLE is not set to the folder of the reference data")
	}
	dir := filepath.Join(root, "archs", name)
	if _, err := os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// recorded is what the reference converter wrote. A kv is [name, [type] or ["ARRAY", type], value].
type recorded struct {
	KV      []recordedKV     `json:"kv"`
	Tensors []recordedTensor `json:"tensors"`
	Bytes   uint64           `json:"file_size"`
}

type recordedKV struct{ expectedKV }

func (r *recordedKV) UnmarshalJSON(b []byte) error {
	var types []string
	if err := json.Unmarshal(b, &[]any{&r.name, &types, &r.value}); err != nil {
		return err
	}
	r.array, r.typ = len(types) == 2, types[len(types)-1]
	return nil
}

type recordedTensor struct{ expectedTensor }

func (r *recordedTensor) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&r.name, &r.shape, &r.typ, &r.hash})
}

var oracleArchs = []string{
	"llama", "llama-odd-bias", "llama-tied-headdim", "llama31-rope", "qwen2", "qwen25-yarn", "mistral-swa", "mistral-nemo", "qwen3", "gemma", "gemma2",
	"gemma3", "phi3-longrope", "smollm3", "starcoder2", "gpt2",
}

// onPurpose are keys that we write and the reference does not, or elsewhere (the notes in docs say why): each is expected after another key,
// or nowhere if none is named.
var onPurpose = map[string][]struct {
	after string
	key   expectedKV
}{
	"mistral-swa": {{"llama.rope.dimension_count", expectedKV{name: "llama.attention.sliding_window", typ: "UINT32", value: 32.0}}},
	"phi3-longrope": {
		{"phi3.rope.freq_base", expectedKV{name: "phi3.rope.scaling.type", typ: "STRING", value: "longrope"}},
		{"phi3.rope.scaling.type", expectedKV{name: "phi3.rope.scaling.attn_factor", typ: "FLOAT32", value: 1.1832159757614136}},
		{"tokenizer.chat_template", expectedKV{name: "ggufkit.tokenizer.rstrip_token_ids", typ: "INT32", array: true, value: []any{641.0, 642.0, 643.0, 644.0, 645.0}}},
	},
	"qwen2":       {{"tokenizer.chat_template", normalizer}},
	"qwen25-yarn": {{"tokenizer.chat_template", normalizer}},
	"qwen3":       {{"tokenizer.chat_template", normalizer}},
	"gemma":       {{"", expectedKV{name: "tokenizer.ggml.eot_token_id"}}},
}

var normalizer = expectedKV{name: "ggufkit.tokenizer.normalizer", typ: "STRING", value: "NFC"}

// ours is what we write where the reference writes kv.
func ours(name string, kv []expectedKV) []expectedKV {
	for _, d := range onPurpose[name] {
		named := func(name string) func(expectedKV) bool { return func(e expectedKV) bool { return e.name == name } }
		kv = slices.DeleteFunc(kv, named(d.key.name))
		if d.after == "" {
			continue
		}
		kv = slices.Insert(kv, slices.IndexFunc(kv, named(d.after))+1, d.key)
	}
	return kv
}

func TestOracleConversions(t *testing.T) {
	for _, name := range oracleArchs {
		dir := oracleDir(t, name)
		var f32 recorded
		readJSON(t, filepath.Join(dir, "llamacpp", "f32.json"), &f32)
		for _, typ := range []string{"f32", "f16", "auto"} {
			t.Run(name+"/"+typ, func(t *testing.T) {
				var r recorded
				of := typ
				if typ == "auto" && name == "gpt2" {
					of = "f32" // the checkpoint is in F32, which the reference narrows to F16
				}
				readJSON(t, filepath.Join(dir, "llamacpp", of+".json"), &r)
				var kv []expectedKV
				for _, base := range f32.KV {
					for _, own := range r.KV {
						if own.name == base.name {
							base = own
						}
					}
					kv = append(kv, base.expectedKV)
				}
				var tensors []expectedTensor
				for _, x := range r.Tensors {
					tensors = append(tensors, x.expectedTensor)
				}
				f := convertTo(t, filepath.Join(dir, "hf"), Options{Type: typ})
				checkKV(t, f.Meta, ours(name, kv))
				checkTensors(t, f, tensors)
				if f.Size != r.Bytes && onPurpose[name] == nil {
					t.Errorf("the file has %d bytes, want %d", f.Size, r.Bytes)
				}
			})
		}
	}
}

// The types in one pass are those of the reference converter to F32 followed by its quantizer.
func TestOracleQuantized(t *testing.T) {
	types := []string{"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "BF16", "F16",
		"Q2_K", "Q2_K_S", "Q3_K_S", "Q3_K_M", "Q3_K_L", "IQ4_NL", "IQ4_XS"}
	for _, name := range oracleArchs {
		dir := oracleDir(t, name)
		var quant map[string]struct {
			Tensors map[string][2]string `json:"tensors"`
			Error   string               `json:"error"`
		}
		readJSON(t, filepath.Join(dir, "llamacpp", "quant.json"), &quant)
		for _, typ := range types {
			t.Run(name+"/"+typ, func(t *testing.T) {
				want := quant[typ].Tensors
				if strings.Contains(quant[typ].Error, "requires an imatrix") {
					return // the reference makes Q2_K_S with an importance matrix only; conversion has none
				}
				if len(want) == 0 {
					t.Fatal("the reference data has no tensors")
				}
				f := convertTo(t, filepath.Join(dir, "hf"), Options{Type: typ})
				if len(f.Tensors) != len(want) {
					t.Errorf("%d tensors, want %d", len(f.Tensors), len(want))
				}
				for i := range f.Tensors {
					x := &f.Tensors[i]
					if w := want[x.Name]; !slices.Equal(w[:], []string{x.Type.String(), hash(t, f, x)}) {
						t.Errorf("%s is %s %s, want %s", x.Name, x.Type, hash(t, f, x), w)
					}
				}
			})
		}
	}
}
