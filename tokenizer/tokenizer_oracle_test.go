//go:build oracle

package tokenizer

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestOracleCheckpoints: keys as llama.cpp's converter writes them, ids and texts as the models' own tokenizers give them.
func TestOracleCheckpoints(t *testing.T) {
	for _, name := range []string{"llama", "llama-odd-bias", "llama-tied-headdim", "llama31-rope", "qwen2"} {
		t.Run(name, func(t *testing.T) {
			dir := oracle(t, "archs/"+name)
			rows := rowsOf(t, filepath.Join(dir, "hf"))
			recorded := readJSON[struct{ KV [][3]any }](t, filepath.Join(dir, "llamacpp", "f32.json"))
			texts := readJSON[[]textCase](t, filepath.Join(dir, "ref", "tokens.json"))
			chats := readJSON[[]chatCase](t, filepath.Join(dir, "ref", "chat.json"))
			var keys [][3]any
			for _, kv := range recorded.KV {
				if key := kv[0].(string); len(key) > 10 && key[:10] == "tokenizer." {
					keys = append(keys, kv)
				}
			}
			if len(texts) != 54 || len(keys) == 0 {
				t.Fatalf("%d texts, %d keys", len(texts), len(keys))
			}
			for source, tok := range checkpoint(t, filepath.Join(dir, "hf"), rows) {
				t.Run(source, func(t *testing.T) {
					checkTexts(t, tok, texts, chats)
					if source == "checkpoint" {
						checkKeys(t, tok.Vocab, keys)
					}
				})
			}
		})
	}
}

// TestOracleVocabularies: llama.cpp's ids for its own cases and for tricky texts.
func TestOracleVocabularies(t *testing.T) {
	for _, v := range []struct{ name, files string }{
		{"llama-bpe", "ggml tricky"}, {"llama-spm", "ggml tricky"}, {"qwen2", "ggml tricky"}, {"gpt-2", "ggml tricky"},
		{"mpt", "ggml tricky"}, {"phi-3", "ggml tricky"}, {"refact", "ggml tricky"}, {"aquila", "tricky"}, {"gpt-neox", "tricky"},
		{"starcoder", "ggml"}, {"command-r", "ggml"}, {"falcon", "ggml"},
	} {
		t.Run(v.name, func(t *testing.T) {
			tok := openTokenizer(t, oracle(t, "vocab/ggml-vocab-"+v.name+".gguf"))
			if strings.Contains(v.files, "ggml") {
				checkPlain(t, tok, oracle(t, "tok/"+v.name+".ggml.json"))
			}
			if strings.Contains(v.files, "tricky") {
				checkTricky(t, tok, oracle(t, "tok/"+v.name+".tricky.json"))
			}
		})
	}
}
