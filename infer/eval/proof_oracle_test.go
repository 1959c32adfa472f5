//go:build oracle

package eval_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/ggufkit/ggufkit/convert"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer/eval"
)

// TestOracleProof proves good and damaged conversions of the reference checkpoints.
func TestOracleProof(t *testing.T) {
	root := os.Getenv("ORACLE")
	if root == "" {
		t.Fatal("ORACLE does not name the folder of reference data")
	}
	for _, name := range []string{"llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3-longrope", "starcoder2", "gpt2"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(root, "archs", name)
			ids, logits := recorded(t, dir)
			s := newSubject(t, filepath.Join(dir, "hf"), ids)
			s.good(t, "f16")
			for _, typ := range []string{"f32", "q8_0", "Q4_K_M"} {
				t.Run(typ, func(t *testing.T) { s.testDamages(t, typ) })
			}
			t.Run("recorded", func(t *testing.T) { s.testRecorded(t, logits) })
		})
	}
}

// recorded reads the longest sequence of a reference and transformers' logits of it.
func recorded(t *testing.T, dir string) (ids []int32, logits []float32) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "ref", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Sequences map[string]struct {
			IDs    []int32
			Logits string
		}
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	seq, ok := manifest.Sequences["seq70"]
	if !ok {
		t.Fatalf("%s: no sequence seq70", dir)
	}
	if data, err = os.ReadFile(filepath.Join(dir, "ref", seq.Logits)); err != nil {
		t.Fatal(err)
	}
	for ; len(data) >= 4; data = data[4:] {
		logits = append(logits, math.Float32frombits(binary.LittleEndian.Uint32(data)))
	}
	return seq.IDs, logits
}

// testRecorded holds the engine's own logits of the checkpoint against those of transformers.
func (s *subject) testRecorded(t *testing.T, logits []float32) {
	path := s.convert(t, convert.Options{Type: "q8_0"})
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := eval.Prove(t.Context(), f, s.plan, s.ids, eval.ProofOptions{Recorded: logits})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Good || p.RecordedCheckpoint == nil || p.RecordedCheckpoint.Error > 1e-4 || p.RecordedCheckpoint.SameTop < 1 {
		t.Errorf("good is %v; against transformers' logits: %v", p.Good, p.RecordedCheckpoint)
	}
	if p.RecordedFile == nil || p.RecordedFile.Error < p.RecordedCheckpoint.Error || p.RecordedFile.Error > 0.1 {
		t.Errorf("the file against transformers' logits: %v", p.RecordedFile)
	}
	logits[5] += 100
	if p, err = eval.Prove(t.Context(), f, s.plan, s.ids, eval.ProofOptions{Recorded: logits}); err != nil {
		t.Fatal(err)
	}
	if p.Good || p.Findings[0].Operation != "recorded logits" {
		t.Errorf("logits of something else pass: %v", p.Findings)
	}
}
