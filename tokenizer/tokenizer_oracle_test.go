//go:build oracle

package tokenizer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOracleCheckpoints: keys as llama.cpp's converter writes them, ids and texts as the models' own tokenizers give them.
func TestOracleCheckpoints(t *testing.T) {
	dirs, err := os.ReadDir(oracle(t, "archs"))
	if err != nil || len(dirs) < 54 {
		t.Fatalf("%d architectures: %v", len(dirs), err)
	}
	for _, d := range dirs {
		if !d.IsDir() {
			continue
		}
		name := d.Name()
		t.Run(name, func(t *testing.T) {
			dir := oracle(t, "archs/"+name)
			rows := rowsOf(t, filepath.Join(dir, "hf"))
			recorded := readJSON[struct{ KV [][3]any }](t, filepath.Join(dir, "llamacpp", "f32.json"))
			texts := readJSON[[]textCase](t, filepath.Join(dir, "ref", "tokens.json"))
			var chats []chatCase
			if _, err := os.Stat(filepath.Join(dir, "ref", "chat.json")); err == nil { // some have no chat template
				chats = readJSON[[]chatCase](t, filepath.Join(dir, "ref", "chat.json"))
			}
			keys := recordedKeys(name, recorded.KV)
			if len(texts) != 54 || len(keys) == 0 {
				t.Fatalf("%d texts, %d keys", len(texts), len(keys))
			}
			for source, tok := range checkpoint(t, filepath.Join(dir, "hf"), rows) {
				t.Run(source, func(t *testing.T) {
					checkTexts(t, tok, texts, chats)
					if source == "checkpoint" {
						checkKeys(t, tok.Vocab, name, keys)
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
		{"starcoder", "ggml"}, {"command-r", "ggml"}, {"falcon", "ggml"}, {"deepseek-coder", "ggml"}, {"deepseek-llm", "ggml tricky"},
		{"qwen35", "ggml tricky"}, {"bert-bge", "ggml tricky"}, {"gemma-4", "ggml"},
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
