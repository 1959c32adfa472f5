package tokenizer

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// metaOf is the keys that a golden folder is written as.
func metaOf(t *testing.T, folder string) *gguf.Meta {
	t.Helper()
	dir := filepath.Join("testdata", folder)
	v, err := FromCheckpoint(dir, rowsOf(t, dir), "")
	if err != nil {
		t.Fatal(err)
	}
	m := gguf.NewMeta()
	v.WriteMeta(m)
	return m
}

// Files of other programs say nothing of white space behind Phi-3's markers.
func TestPhi3WithoutKey(t *testing.T) {
	m := metaOf(t, "phi3")
	m.Remove("ggufkit.tokenizer.rstrip_token_ids")
	m.Set("general.architecture", gguf.New("phi3"))
	v, err := VocabOf(m)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("testdata", "phi3")
	checkTexts(t, mustNew(t, v), readJSON[[]textCase](t, filepath.Join(dir, "tokens.json")), readJSON[[]chatCase](t, filepath.Join(dir, "chat.json")))
	// An empty list says that there are none.
	m.Set("ggufkit.tokenizer.rstrip_token_ids", gguf.NewArray([]int32{}))
	if v, err = VocabOf(m); err != nil || len(v.RStrip) != 0 {
		t.Errorf("%v %v", v.RStrip, err)
	}
}

// What a later version may write is refused, not ignored; ids outside the vocabulary are ignored with a note.
func TestUnknownExtras(t *testing.T) {
	for key, value := range map[string]gguf.Value{
		"ggufkit.tokenizer.normalizer":       gguf.New("NFKC"),
		"ggufkit.tokenizer.prepend_scheme":   gguf.New("last"),
		"ggufkit.tokenizer.lstrip_token_ids": gguf.New("1"),
	} {
		m := metaOf(t, "bpe")
		m.Set(key, value)
		_, err := VocabOf(m)
		checkError(t, err, key)
	}
	m := metaOf(t, "bpe")
	m.Set("ggufkit.tokenizer.rstrip_token_ids", gguf.NewArray([]int32{3, 9999, -1}))
	v, err := VocabOf(m)
	if err != nil || !slices.Equal(v.RStrip, []int32{3}) || !strings.Contains(strings.Join(v.Notes, "\n"), "9999") {
		t.Errorf("%v %v %q", v.RStrip, err, v.Notes)
	}
}

// Each key of our own, and each flag that no key holds, is told.
func TestExtraNotes(t *testing.T) {
	flag := func(name string) func(map[string]any) {
		return func(o map[string]any) { o["added_tokens"].([]any)[1].(map[string]any)[name] = true }
	}
	for _, c := range []struct {
		folder string
		change func(map[string]any)
		want   string
	}{
		{"bpe", func(o map[string]any) { o["normalizer"] = map[string]any{"type": "NFC"} }, "ggufkit.tokenizer.normalizer"},
		{"bpe", flag("lstrip"), "ggufkit.tokenizer.lstrip_token_ids"},
		{"bpe", flag("rstrip"), "ggufkit.tokenizer.rstrip_token_ids"},
		{"bpe", flag("single_word"), "1 added tokens are flagged single_word"},
		{"bpe", flag("normalized"), ""},
		{"spm", flag("normalized"), "1 added tokens are flagged normalized"},
		{"gemma", flag("normalized"), ""},
	} {
		dir := filepath.Join("testdata", c.folder)
		v, err := FromCheckpoint(variant(t, dir, map[string]any{"tokenizer.json": c.change}), rowsOf(t, dir), "")
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(v.Notes, "\n")
		if !strings.Contains(notes, c.want) || c.want == "" && (strings.Contains(notes, "tokens are flagged") || strings.Contains(notes, "ggufkit")) {
			t.Errorf("%s: no note %q in %q", c.folder, c.want, v.Notes)
		}
	}
}

// A forced pre-tokenizer leaves the normalizer that the files name in force.
func TestForcedPre(t *testing.T) {
	dir := filepath.Join("testdata", "bpe")
	for normalizer, want := range map[string]string{"NFC": "NFC", "Lowercase": ""} {
		changed := variant(t, dir, map[string]any{"tokenizer.json": func(o map[string]any) { o["normalizer"] = map[string]any{"type": normalizer} }})
		v, err := FromCheckpoint(changed, bpeRows, "qwen2")
		if err != nil || v.Pre != "qwen2" || v.Normalizer != want {
			t.Errorf("%s: %v %v", normalizer, v, err)
		}
		if want == "" && !strings.Contains(strings.Join(v.Notes, "\n"), normalizer) {
			t.Errorf("no note on %s in %q", normalizer, v.Notes)
		}
	}
}

// Canonical equivalents are the same text under NFC, also in runs that are longer than the library's buffer.
func TestNFC(t *testing.T) {
	v := bytesVocab("qwen2")
	v.Normalizer = "NFC"
	for _, c := range [][2]string{
		{"e\u0301", "é"}, {"\u1112\u1161\u11ab", "한"}, {"\u212b", "Å"}, {"q\u0307\u0323", "q\u0323\u0307"}, {"e" + strings.Repeat("\u0301", 99), "é" + strings.Repeat("\u0301", 98)},
		{"a\u034fe\u0301", "a\u034fé"}, {"\xff\u0301", "\ufffd\u0301"}, {"<tool>\u0301", "<tool>\u0301"},
	} {
		tok := mustNew(t, v)
		a, err := tok.Encode(c[0], EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := tok.Decode(a, true); err != nil || text != c[1] {
			t.Errorf("%q: %q %v, want %q", c[0], text, err, c[1])
		}
	}
}
