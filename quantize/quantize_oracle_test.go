//go:build oracle

package quantize

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/ggufkit/ggufkit/convert"
	"github.com/ggufkit/ggufkit/convert/checkpoint"
	"github.com/ggufkit/ggufkit/quantize/block"
	"github.com/ggufkit/ggufkit/quantize/mix"
)

// The tiny models of the reference, converted to F32 and quantized, have the types and the bytes that llama-quantize gave them, for
// every recipe whose types have an encoder.
func TestOracleArchs(t *testing.T) {
	oracle := os.Getenv("ORACLE")
	if oracle == "" {
		t.Fatal("ORACLE is not set: it names the folder of reference data")
	}
	for _, name := range []string{"llama", "llama-odd-bias", "llama-tied-headdim", "llama31-rope", "qwen2"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(oracle, "archs", name)
			in := filepath.Join(t.TempDir(), "f32.gguf")
			convertF32(t, filepath.Join(dir, "hf"), in)
			b, err := os.ReadFile(filepath.Join(dir, "llamacpp", "quant.json"))
			if err != nil {
				t.Fatal(err)
			}
			var recipes map[string]jsontext.Value
			if err := json.Unmarshal(b, &recipes); err != nil {
				t.Fatal(err)
			}
			compared := 0
			for recipe, v := range recipes {
				var want struct {
					Tensors  map[string][2]string `json:"tensors"`
					FileType uint64               `json:"general.file_type"`
					Version  uint64               `json:"general.quantization_version"`
				}
				if err := json.Unmarshal(v, &want); err != nil {
					t.Fatal(err)
				}
				if want.Tensors == nil || !encodable(t, in, recipe) {
					continue
				}
				compared++
				out := filepath.Join(t.TempDir(), recipe+".gguf")
				quantize(t, in, out, options(t, recipe), RunOptions{})
				f := open(t, out)
				for key, want := range map[string]uint64{"general.file_type": want.FileType, "general.quantization_version": want.Version} {
					if n, err := f.Meta.Uint(key); err != nil || n != want {
						t.Errorf("%s: %s = %d, %v, want %d", recipe, key, n, err, want)
					}
				}
				if len(f.Tensors) != len(want.Tensors) {
					t.Errorf("%s: %d tensors, want %d", recipe, len(f.Tensors), len(want.Tensors))
				}
				for _, x := range f.Tensors {
					sum := sha256.Sum256(data(t, f, x.Name))
					got := [2]string{x.Type.String(), hex.EncodeToString(sum[:8])}
					if got != want.Tensors[x.Name] {
						t.Errorf("%s: %s is %v, want %v", recipe, x.Name, got, want.Tensors[x.Name])
					}
				}
			}
			if compared < 12 {
				t.Errorf("only %d recipes compared", compared)
			}
		})
	}
}

func convertF32(t *testing.T, from, to string) {
	t.Helper()
	c, err := checkpoint.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := convert.NewPlan(c, convert.Options{Type: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), to, convert.Options{}); err != nil {
		t.Fatal(err)
	}
}

// encodable reports whether all types of a recipe for this file have an encoder.
func encodable(t *testing.T, in, recipe string) bool {
	t.Helper()
	f := open(t, in)
	choices, err := mix.Choose(options(t, recipe).Recipe, mix.ModelOf(f.Meta), f.Tensors, mix.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range choices {
		if _, err := block.ForType(c.To); err != nil {
			return false
		}
	}
	return true
}
