//go:build oracle

package tokenizer

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

func oracle(t *testing.T, path string) string {
	t.Helper()
	dir := os.Getenv("ORACLE")
	if dir == "" {
		t.Fatal("ORACLE names no folder of reference data")
	}
	return filepath.Join(dir, filepath.FromSlash(path))
}

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
	for _, name := range []string{"llama-bpe", "llama-spm", "qwen2", "gpt-2"} {
		t.Run(name, func(t *testing.T) {
			tok := openTokenizer(t, oracle(t, "vocab/ggml-vocab-"+name+".gguf"))
			for _, c := range readJSON[[]textCase](t, oracle(t, "tok/"+name+".ggml.json")) {
				ids, err := tok.Encode(c.Text, EncodeOptions{})
				if err != nil || !slices.Equal(ids, c.IDs) {
					t.Errorf("%q: %v %v, want %v", c.Text, ids, err, c.IDs)
				}
			}
			checkTricky(t, tok, oracle(t, "tok/"+name+".tricky.json"))
		})
	}
}

func openTokenizer(t *testing.T, path string) *Tokenizer {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := VocabOf(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// checkTricky compares the three ways of encoding, and the text that comes back from plain ids.
func checkTricky(t *testing.T, tok *Tokenizer, path string) {
	t.Helper()
	cases := readJSON[[]struct {
		Text                string
		Plain, Parsed, Full []int32
		Detok               *string
	}](t, path)
	for _, c := range cases {
		if c.Parsed == nil {
			c.Parsed = c.Plain
		}
		for _, mode := range []struct {
			name string
			o    EncodeOptions
			want []int32
		}{
			{"plain", EncodeOptions{}, c.Plain},
			{"parsed", EncodeOptions{ParseSpecial: true}, c.Parsed},
			{"full", EncodeOptions{AddSpecial: true, ParseSpecial: true}, c.Full},
		} {
			ids, err := tok.Encode(c.Text, mode.o)
			if err != nil || !slices.Equal(ids, mode.want) {
				t.Errorf("%s %q: %v %v, want %v", mode.name, c.Text, ids, err, mode.want)
			}
		}
		want := c.Text
		if c.Detok != nil {
			b, err := base64.StdEncoding.DecodeString(*c.Detok)
			if err != nil {
				t.Fatal(err)
			}
			want = string(b)
		}
		text, err := tok.Decode(c.Plain, true)
		if text = tok.CleanSpaces(text); err != nil || text != want {
			t.Errorf("detok %q: %q %v, want %q", c.Text, text, err, want)
		}
	}
}
