//go:build oracle

package infer_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/ggufkit/ggufkit/convert"
	"github.com/ggufkit/ggufkit/convert/checkpoint"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer"
)

// archsTolerance is how far exact logits may be off, as a part of the largest (at least 1).
const archsTolerance = 2e-4

// TestOracleArchs converts the reference checkpoints to F32 and compares the logits of every position with transformers'.
func TestOracleArchs(t *testing.T) {
	root := os.Getenv("ORACLE")
	if root == "" {
		t.Fatal("ORACLE does not name the folder of reference data")
	}
	for _, name := range []string{
		"llama", "llama-odd-bias", "llama-tied-headdim", "llama31-rope", "mistral-swa", "mistral-nemo", "qwen2", "qwen25-yarn", "qwen3",
		"gemma", "gemma2", "gemma3", "phi3-longrope", "smollm3", "starcoder2", "gpt2",
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(root, "archs", name)
			f := convertCheckpoint(t, filepath.Join(dir, "hf"))
			var manifest struct {
				Sequences map[string]struct {
					IDs    []int32
					Logits string
				}
			}
			readJSON(t, filepath.Join(dir, "ref", "manifest.json"), &manifest)
			if len(manifest.Sequences) == 0 {
				t.Fatal("no sequences")
			}
			for name, seq := range manifest.Sequences {
				// The reference chooses between the factors of longrope by the length of the sequence, we by that of the context.
				model := loadExact(t, f, len(seq.IDs))
				compareLogits(t, name, model, seq.IDs, readFloats(t, filepath.Join(dir, "ref", seq.Logits)))
			}
		})
	}
}

// compareLogits fails unless the model's logits at all positions are near the reference's, with the same most likely token.
func compareLogits(t *testing.T, name string, model *infer.Model, ids []int32, want []float32) {
	t.Helper()
	s, err := model.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := model.Params.NVocab
	if len(want) != len(ids)*n {
		t.Fatalf("%s: %d reference logits for %d tokens and a vocabulary of %d", name, len(want), len(ids), n)
	}
	largest, worst := 1.0, 0.0
	err = s.AppendAll(ids, func(i int, logits []float32) error {
		ref := want[i*n:][:n]
		for k, w := range ref {
			largest = max(largest, math.Abs(float64(w)))
			worst = max(worst, math.Abs(float64(logits[k]-w)))
		}
		if got, want := argmax(logits), argmax(ref); got != want {
			t.Errorf("%s: most likely token at position %d is %d, want %d", name, i, got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !(worst <= archsTolerance*largest) {
		t.Errorf("%s: off by %g, allowed %g", name, worst, archsTolerance*largest)
	}
	t.Logf("%s: off by %.2g of %.3g", name, worst, largest)
}

// convertCheckpoint converts a checkpoint to F32.
func convertCheckpoint(t *testing.T, dir string) *gguf.File {
	t.Helper()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o := convert.Options{Type: "f32"}
	plan, err := convert.NewPlan(c, o)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if _, err := plan.Run(context.Background(), path, o); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// loadExact loads a model in exact precision.
func loadExact(t *testing.T, f *gguf.File, context int) *infer.Model {
	t.Helper()
	model, err := infer.Load(f, f.Meta, infer.Options{Precision: infer.Exact, Context: context})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	return model
}

func argmax(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func readFloats(t *testing.T, path string) []float32 {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out
}
