//go:build e2e

package eval_test

import (
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/tokenizer"
)

// gemma3 is a base model, written by another program: windows, but neither which blocks have them nor how those rotate.
const gemma3 = "gemma-3-270m-q4_k_m"

func TestGemma3NamesParis(t *testing.T) {
	for _, p := range []infer.Precision{infer.Exact, infer.Fast} {
		m, tok := loadModel(t, gemma3, infer.Options{Precision: p})
		if text, _ := write(t, m, tok, "What is the capital of France?", tokenizer.EncodeOptions{AddSpecial: true}, 16); !strings.Contains(text, "Paris") {
			t.Errorf("precision %d: it goes on with %q", p, text)
		}
	}
}

func TestGemma3Perplexity(t *testing.T) {
	comparePerplexity(t, gemma3)
}
