//go:build e2e

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ggufkit/ggufkit/infer/eval"
)

// llamaDivergence is what llama.cpp's arithmetic costs in the same files: the mean divergence of its predictions from ours in exact precision, and its standard error.
// Recorded with llama_cpp_python 0.3.36 (AVX2) and, for each type, the file q.gguf of TestFastAgainstExact:
//
//	ggufkit compare -m q.gguf --precision exact --save-base q.base --base-form llama -f heldout.txt -c 256 --chunks 2
//	llama-perplexity -m q.gguf -c 256 -b 256 --kl-divergence --kl-divergence-base q.base
var llamaDivergence = []struct {
	name       string
	kld, error float64
}{
	{"Q8_0", 0.003542, 0.000230},
	{"Q4_0", 0.004001, 0.000168},
	{"Q4_1", 0.003902, 0.000207},
	{"Q5_0", 0.003882, 0.000217},
	{"Q5_1", 0.004989, 0.000356},
	{"IQ4_NL", 0.005002, 0.000230},
	{"Q2_K", 0.014307, 0.001007},
	{"Q3_K", 0.003108, 0.000176},
	{"Q4_K", 0.003226, 0.000287},
	{"Q5_K", 0.003073, 0.000238},
	{"Q6_K", 0.003130, 0.000251},
	{"IQ4_XS", 0.003184, 0.000232},
}

// TestFastAgainstExact: what fast precision loses against exact is no more than what llama.cpp loses, for every block type. SmolLM2's rows of 576 take blocks of 32 but not of
// 256, so for those types the matrices that do are quantized (ffn_down, rows of 1536) and the others stay as they are.
func TestFastAgainstExact(t *testing.T) {
	dir := t.TempDir()
	full, file := filepath.Join(dir, "f32.gguf"), filepath.Join(dir, "q.gguf")
	text := filepath.Join("..", "..", "testdata", "demo", "heldout.txt")
	ggufkit(t, "convert", filepath.Join(models(t), "f32", "smollm2-135m"), "--type", "F32", "-o", full, "-q")
	for _, c := range llamaDivergence {
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		switch c.name {
		case "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL":
			ggufkit(t, "quantize", full, file, c.name, "--pure", "-q")
		default:
			ggufkit(t, "quantize", full, file, "F32", "--tensor-type", "ffn_down="+c.name, "-q")
		}
		var d eval.Divergence
		out := ggufkit(t, "compare", "-m", file, "--base", file, "--base-precision", "exact", "-f", text, "-c", "256", "--chunks", "2", "--json", "-q")
		if err := json.Unmarshal([]byte(out), &d); err != nil {
			t.Fatal(err)
		}
		t.Logf("%-7s mean divergence %.6f +/- %.6f, of llama.cpp %.6f +/- %.6f", c.name, float64(d.KLD), float64(d.KLDStdErr), c.kld, c.error)
		// Where both round activations in the same way, to 8 bits in blocks of 32, they differ by chance.
		if float64(d.KLD) > c.kld+2*c.error {
			t.Errorf("%s: mean divergence %.6f, of llama.cpp %.6f", c.name, float64(d.KLD), c.kld)
		}
		if d.Tokens != 254 {
			t.Errorf("%s: %d tokens", c.name, d.Tokens)
		}
	}
}
