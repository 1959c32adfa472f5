//go:build e2e

package tokenizer

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSmolLM2: the vocabulary in a real model's file.
func TestSmolLM2(t *testing.T) {
	dir := os.Getenv("GGUFKIT_MODELS")
	if dir == "" {
		t.Fatal("GGUFKIT_MODELS names no folder of models")
	}
	tok := openTokenizer(t, filepath.Join(dir, "SmolLM2-135M-Instruct.Q4_1.gguf"))
	checkTricky(t, tok, oracle(t, "tok/smollm2.tricky.json"))
}
