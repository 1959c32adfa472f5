//go:build e2e

package tokenizer

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// realModel is the tokenizer in a file that `make models` fetches.
func realModel(t *testing.T, name string) *Tokenizer {
	t.Helper()
	dir := os.Getenv("GGUFKIT_MODELS")
	if dir == "" {
		t.Fatal("GGUFKIT_MODELS names no folder of models")
	}
	return openTokenizer(t, filepath.Join(dir, name))
}

func TestSmolLM2(t *testing.T) {
	checkTricky(t, realModel(t, "SmolLM2-135M-Instruct.Q4_1.gguf"), oracle(t, "tok/smollm2.tricky.json"))
}

func TestGemma3(t *testing.T) {
	tok := realModel(t, "gemma-3-270m-q4_k_m.gguf")
	checkTricky(t, tok, oracle(t, "tok/gemma3.tricky.json"))
	// Where llama.cpp differs from SentencePiece and from Hugging Face's tokenizers, we do as it does.
	for _, file := range []string{"tok/gemma3.sentencepiece.json", "tok/gemma3.hf.json"} {
		for _, c := range readJSON[[]struct {
			Text   string
			Plain  []int32 `json:"llama_plain"`
			Parsed []int32 `json:"llama_cpp_parsed"`
		}](t, oracle(t, file)) {
			ids, err := tok.Encode(c.Text, EncodeOptions{ParseSpecial: c.Parsed != nil})
			if want := append(c.Plain, c.Parsed...); err != nil || !slices.Equal(ids, want) {
				t.Errorf("%s: %q: %v %v, want %v", file, c.Text, ids, err, want)
			}
		}
	}
	if len(tok.Vocab.Templates) != 0 || tok.Vocab.EOS != 1 || !tok.IsEOG(1) || !tok.IsEOG(106) {
		t.Errorf("templates %v, eos %d; the ends of generation are %v", tok.Vocab.Templates, tok.Vocab.EOS, tok.Vocab.EOG)
	}
}
