//go:build e2e

package main

import (
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// models is the folder that `make models` fills.
func models(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("GGUFKIT_MODELS")
	if dir == "" {
		t.Fatal("GGUFKIT_MODELS does not name a folder; use `make models e2e`")
	}
	return dir
}

// ggufkit runs the program in this process; it must end well.
func ggufkit(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	var out, err strings.Builder
	if status := run(append([]string{"ggufkit"}, args...), strings.NewReader(""), &out, &err); status != 0 {
		t.Fatalf("%v: status %d: %s", args, status, err.String())
	}
	return out.String()
}

func TestChatWithRealModel(t *testing.T) {
	model := filepath.Join(models(t), "SmolLM2-135M-Instruct.Q4_1.gguf")
	// Asked "What is ...?", the model's first token leads by less than what activations in 8 bits leave (see package eval).
	for _, c := range []struct{ precision, question string }{
		{"fast", "Name the capital of France."},
		{"exact", "What is the capital of France?"},
	} {
		answer := ggufkit(t, "chat", "-m", model, "-p", c.question, "--precision", c.precision, "--temp", "0", "-n", "32", "-q")
		if !strings.Contains(answer, "Paris") {
			t.Errorf("%s: the answer is %q", c.precision, answer)
		}
	}
}

// TestConvertRealCheckpoint: the checkpoint that holds exactly the weights of the GGUF file gives a file with the same logits.
func TestConvertRealCheckpoint(t *testing.T) {
	original := filepath.Join(models(t), "SmolLM2-135M-Instruct.Q4_1.gguf")
	dir := t.TempDir()
	converted := filepath.Join(dir, "converted.gguf")
	ggufkit(t, "convert", filepath.Join(models(t), "f32", "smollm2-135m"), "--type", "F32", "-o", converted, "-q")

	const text = "The capital of France is Paris, and that of Italy is"
	ids := ggufkit(t, "tokenize", "-m", original, "-p", text, "--json")
	if got := ggufkit(t, "tokenize", "-m", converted, "-p", text, "--json"); got != ids {
		t.Errorf("ids %s, of the original %s", got, ids)
	}
	list := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(ids), `{"ids":[`), "]}")
	want := logitsOf(t, original, list, filepath.Join(dir, "a"))
	got := logitsOf(t, converted, list, filepath.Join(dir, "b"))
	if len(got) != len(want) {
		t.Fatalf("%d logits, of the original %d", len(got), len(want))
	}
	largest, worst := 0.0, 0.0
	for i := range want {
		largest = max(largest, math.Abs(float64(want[i])))
		worst = max(worst, math.Abs(float64(got[i])-float64(want[i])))
	}
	if worst > 2e-4*max(1, largest) {
		t.Errorf("logits are off by %g; the largest is %g", worst, largest)
	}
	t.Logf("%d logits, off by up to %g", len(want), worst)
}

// logitsOf computes the logits after each id, in exact precision.
func logitsOf(t *testing.T, model, ids, path string) []float32 {
	t.Helper()
	ggufkit(t, "logits", "-m", model, "--ids", ids, "-o", path, "--precision", "exact")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	logits := make([]float32, len(data)/4)
	if _, err := binary.Decode(data, binary.LittleEndian, logits); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(logits, func(x float32) bool { return x != x }) {
		t.Fatalf("%s: logits that are not numbers", model)
	}
	return logits
}
