package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// readJSON decodes a golden file.
func readJSON[T any](t testing.TB, path string) T {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(withoutInfinity(data), &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

// textCase is one text of tokens.json: what the model's own tokenizer makes of it.
type textCase struct {
	Text         string  `json:"text"`
	IDs          []int32 `json:"ids"`
	IDsNoSpecial []int32 `json:"ids_no_special"`
	Decoded      string  `json:"decoded"`
}

// chatCase is one prompt of chat.json, rendered and encoded by the model's own tokenizer.
type chatCase struct {
	Name                string `json:"name"`
	Messages            []struct{ Role, Content string }
	AddGenerationPrompt bool    `json:"add_generation_prompt"`
	Rendered            string  `json:"rendered"`
	IDs                 []int32 `json:"ids"`
}

// checkpoint is a vocabulary both as FromCheckpoint makes it and as it comes back from GGUF metadata.
func checkpoint(t *testing.T, dir string, rows int) map[string]*Tokenizer {
	t.Helper()
	v, err := FromCheckpoint(dir, rows, "")
	if err != nil {
		t.Fatal(err)
	}
	m := gguf.NewMeta()
	v.WriteMeta(m)
	read, err := VocabOf(m)
	if err != nil {
		t.Fatal(err)
	}
	both := map[string]*Tokenizer{}
	for name, v := range map[string]*Vocab{"checkpoint": v, "metadata": read} {
		tok, err := New(v)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		both[name] = tok
	}
	return both
}

// rowsOf is vocab_size of config.json.
func rowsOf(t *testing.T, dir string) int {
	t.Helper()
	return readJSON[struct {
		VocabSize int `json:"vocab_size"`
	}](t, filepath.Join(dir, "config.json")).VocabSize
}

// checkTexts compares every text of tokens.json, and every prompt of chat.json.
func checkTexts(t *testing.T, tok *Tokenizer, texts []textCase, chats []chatCase) {
	t.Helper()
	for _, c := range texts {
		with, err := tok.Encode(c.Text, EncodeOptions{AddSpecial: true, ParseSpecial: true})
		if err != nil || !slices.Equal(with, c.IDs) {
			t.Errorf("encode %q with specials: %v %v, want %v", c.Text, with, err, c.IDs)
		}
		without, err := tok.Encode(c.Text, EncodeOptions{ParseSpecial: true})
		if err != nil || !slices.Equal(without, c.IDsNoSpecial) {
			t.Errorf("encode %q: %v %v, want %v", c.Text, without, err, c.IDsNoSpecial)
		}
		if text, err := tok.Decode(c.IDsNoSpecial, true); err != nil || text != c.Decoded {
			t.Errorf("decode of %q: %q %v, want %q", c.Text, text, err, c.Decoded)
		}
	}
	for _, c := range chats {
		ids, err := tok.EncodeChat(c.Rendered)
		if err != nil || !slices.Equal(ids, c.IDs) {
			t.Errorf("chat %s: %v %v, want %v", c.Name, ids, err, c.IDs)
		}
	}
}

// checkKeys compares the keys that a vocabulary is written as with recorded ones: names, types, values and order.
func checkKeys(t *testing.T, v *Vocab, name string, recorded [][3]any) {
	t.Helper()
	m := gguf.NewMeta()
	v.WriteMeta(m)
	var got []string
	values := map[string]gguf.Value{}
	for key, value := range m.All() {
		if different(name, key) {
			continue
		}
		got = append(got, key)
		values[key] = value
	}
	var want []string
	for _, kv := range recorded {
		key := kv[0].(string)
		want = append(want, key)
		value, ok := values[key]
		if !ok {
			continue
		}
		if typ := typeNames(t, value); fmt.Sprint(typ) != fmt.Sprint(kv[1]) {
			t.Errorf("%s: types %v, want %v", key, typ, kv[1])
		}
		a, err := json.Marshal(plain(value.Any()))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := json.Marshal(kv[2])
		if !bytes.Equal(a, b) {
			t.Errorf("%s: %.200s, want %.200s", key, a, b)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
}

// plain turns float32 numbers into float64, as the recordings have them.
func plain(v any) any {
	switch v := v.(type) {
	case float32:
		return float64(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	}
	return v
}

func typeNames(t *testing.T, v gguf.Value) []string {
	names := map[gguf.ValueType]string{gguf.String: "STRING", gguf.ArrayType: "ARRAY", gguf.Uint32: "UINT32", gguf.Bool: "BOOL", gguf.Float32: "FLOAT32", gguf.Int32: "INT32"}
	out := []string{names[v.Type()]}
	if v.Type() == gguf.ArrayType {
		a, err := v.Array()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, names[a.Elem()])
	}
	return out
}

// onPurpose is where our keys differ from llama.cpp's, by the name of a recording; docs/rationale-tokenizer.md says why.
var onPurpose = func() map[string]difference {
	normalizer := difference{more: [][3]any{{"ggufkit.tokenizer.normalizer", []string{"STRING"}, "NFC"}}}
	phi3 := difference{more: [][3]any{{"ggufkit.tokenizer.rstrip_token_ids", []string{"ARRAY", "INT32"}, []int{641, 642, 643, 644, 645}}}}
	bert := difference{more: [][3]any{{"ggufkit.tokenizer.bert_normalizer", []string{"BOOL"}, true}}}
	// The merges of tokenizer.json have ranks, special tokens are special, and the flag ignore_merges is what tokenizer.json says.
	glm4 := difference{without: "tokenizer.ggml.pre tokenizer.ggml.eot_token_id tokenizer.ggml.eom_token_id tokenizer.ggml.unknown_token_id tokenizer.ggml.bos_token_id"}
	unigram := difference{without: "tokenizer.ggml.scores tokenizer.ggml.token_type tokenizer.ggml.tokens tokenizer.ggml.precompiled_charsmap"}
	differences := map[string]difference{
		"phi3": phi3, "phi3-longrope": phi3,
		"bert": bert, "bert-cls-cased": bert, "nomic-bert": bert,
		"gemma":   {without: "tokenizer.ggml.eot_token_id"},
		"mixtral": {without: "tokenizer.ggml.scores"}, "glm4": glm4, "glm4-moe": glm4, "t5": unigram, "flan-t5": unigram,
		"xlmr":    {without: unigram.without, more: [][3]any{{"ggufkit.tokenizer.lstrip_token_ids", []string{"ARRAY", "INT32"}, []int{641}}}},
		"phi2":    {without: "tokenizer.ggml.add_bos_token"}, // theirs stands elsewhere
		"roberta": {more: [][3]any{{"ggufkit.tokenizer.lstrip_token_ids", []string{"ARRAY", "INT32"}, []int{404}}}},
	}
	for _, name := range []string{"qwen2", "qwen25-yarn", "qwen3", "qwen2-moe", "qwen3-moe", "qwen3-fp8", "hunyuan-dense", "cohere2", "command-r", "gptneox",
		"mamba", "mamba2", "mpt", "olmo", "olmoe", "stablelm"} {
		differences[name] = normalizer
	}
	return differences
}()

// difference is keys that differ or that we leave out, and keys that we write behind the others.
type difference struct {
	without string // names, with spaces between
	more    [][3]any
}

// different tells whether a key is not compared.
func different(name, key string) bool {
	return slices.Contains(strings.Fields(onPurpose[name].without), key)
}

// recordedKeys is the tokenizer keys among recorded ones, as we write them.
func recordedKeys(name string, all [][3]any) [][3]any {
	var keys [][3]any
	for _, kv := range all {
		if key := kv[0].(string); strings.HasPrefix(key, "tokenizer.") && key != "tokenizer.ggml.token_type_count" && !different(name, key) {
			keys = append(keys, kv)
		}
	}
	return append(keys, onPurpose[name].more...)
}

// variant copies a checkpoint folder and changes some of its files: nil removes one, a function edits it as JSON, anything else replaces it.
func variant(t *testing.T, dir string, changes map[string]any) string {
	t.Helper()
	out := t.TempDir()
	if err := os.CopyFS(out, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for name, change := range changes {
		path := filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		var data []byte
		switch change := change.(type) {
		case nil:
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			continue
		case func(map[string]any):
			o := map[string]any{}
			if _, err := os.Stat(path); err == nil {
				o = readJSON[map[string]any](t, path)
			}
			change(o)
			data, _ = json.Marshal(o)
		case string:
			data = []byte(change)
		case []byte:
			data = change
		default:
			data, _ = json.Marshal(change)
		}
		if err := os.WriteFile(path, data, fs.FileMode(0o666)); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
