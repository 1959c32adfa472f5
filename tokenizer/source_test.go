package tokenizer

import (
	"encoding/base64"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2/v2"
	"github.com/ggufkit/ggufkit/gguf"
)

// The expressions of tokenizer.json keep their meaning in another engine's writing.
func TestFromOniguruma(t *testing.T) {
	for pattern, c := range map[string]struct{ text, want string }{
		` ?[^(\s|[.,!?])]+`:                {"ab, (c|d) e", "ab|, (|c||d|) e"},
		`[\p{L}&&[^\p{Han}]]+`:             {"ab中c", "ab|c"},
		`[\p{Lu}\p{M}&&[^\p{Han}]]*[a-z]+`: {"ABc中d", "ABc|d"},
		`a++b|c?+d|\p{N}++`:                {"aab cd 12", "aab|cd|12"},
		`(?:ab)++`:                         {"abab", "abab"},
		`\s+$`:                             {"a  \nb ", "  | "},
		`[^\r\n\p{L}\p{N}]?+\p{L}+`:        {"'ab c", "'ab| c"},
		`\p{N}{1,3}`:                       {"1234", "123|4"},
		`[\[\]]`:                           {"a[b]", "[|]"},
		`(?i:'s|'t)|x`:                     {"'S x", "'S|x"},
		"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+": {"a.b [c", ".b|[c"},
	} {
		re, err := compile(fromOniguruma(pattern))
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		var got []string
		err = matches(re, c.text, func(part string, match bool) {
			if match {
				got = append(got, part)
			}
		})
		// A bar in a want stands for itself only in the first case.
		if err != nil || strings.Join(got, "|") != c.want && pattern[1] != '?' {
			t.Errorf("%s: %q, want %s (%v)", pattern, got, c.want, err)
		}
	}
}

// Every known form, put together from the patterns that are listed for it, cuts as the pre-tokenizer that it is taken for (field report R001).
func TestForms(t *testing.T) {
	texts := probes()
	for _, f := range forms {
		if strings.Contains(f.stages, "bytes") {
			continue // cuts the spelling of bytes
		}
		pre, err := preByName(f.pre)
		if err != nil {
			t.Errorf("%s: %v", f.pre, err)
			continue
		}
		if pre.ignoreMerges != f.ignoreMerges {
			t.Errorf("%s: ignore_merges %v", f.pre, f.ignoreMerges)
		}
		var stages []*regexp2.Regexp
		for stage := range strings.FieldsSeq(f.stages) {
			re, err := compile(fromOniguruma(patternOf(t, stage)))
			if err != nil {
				t.Fatalf("%s: %v", stage, err)
			}
			stages = append(stages, re)
		}
		checkCuts(t, pre, texts, stages)
	}
}

// patternOf is the first pattern in order that has a name. Those that spell both cases out do not take U+017F for an s.
func patternOf(t *testing.T, stage string) string {
	t.Helper()
	found := ""
	for pattern, k := range knownPatterns {
		if k.stage == stage && (found == "" || pattern < found) && !strings.Contains(pattern, bothCases) {
			found = pattern
		}
	}
	if found == "" {
		t.Fatalf("no pattern is named %s", stage)
	}
	return found
}

// What GGUF has no key for is kept whole, and honoured.
func TestWholeTokenizer(t *testing.T) {
	dir := filepath.Join("testdata", "bpe")
	single := func(o map[string]any) {
		addTokens("cat", "dog")(o)
		for _, a := range o["added_tokens"].([]any) {
			if a := a.(map[string]any); a["content"] == "cat" {
				a["single_word"] = true
			}
		}
	}
	v, err := FromCheckpoint(variant(t, dir, map[string]any{"tokenizer.json": single}), bpeRows+2, "")
	if err != nil || v.HuggingFace == "" {
		t.Fatalf("%d bytes of tokenizer.json: %v", len(v.HuggingFace), err)
	}
	if !slices.ContainsFunc(v.Notes, func(n string) bool { return strings.Contains(n, `"cat" counts only where it is a word`) }) {
		t.Errorf("notes %q", v.Notes)
	}
	m := gguf.NewMeta()
	v.WriteMeta(m)
	read, err := VocabOf(m)
	if err != nil {
		t.Fatal(err)
	}
	tok := mustNew(t, read)
	for text, want := range map[string]int{"a cat": 1, "concatenate": 0, "cat,cat": 2, "dogma": 0} {
		ids, err := tok.Encode(text, EncodeOptions{})
		n := 0
		for _, id := range ids {
			if id == bpeRows {
				n++
			}
		}
		if err != nil || n != want {
			t.Errorf("%q: %v holds the token %d times, want %d (%v)", text, ids, n, want, err)
		}
		if back, err := tok.Decode(ids, true); err != nil || back != text {
			t.Errorf("%q: %q comes back: %v", text, back, err)
		}
	}
	for name, c := range map[string]struct{ text, want string }{
		"broken":  {"{", keyHuggingFace},
		"unknown": {`{"model":{"type":"Magic"}}`, `"Magic"`},
		"ids":     {`{"model":{"type":"BPE","vocab":{"a":99999},"merges":[]}}`, "99999"},
		"below 0": {`{"model":{"type":"BPE","vocab":{"a":-7},"merges":[]}}`, "-7"},
		"added":   {`{"added_tokens":[{"id":-1,"content":"x"}],"model":{"type":"BPE","vocab":{"a":1},"merges":[]}}`, `-1 of the added token "x"`},
		"long": {`{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"` + strings.Repeat("a++", 1<<20) + `"},"behavior":"Isolated"},
			"model":{"type":"BPE","vocab":{"a":1},"merges":[]}}`, "an expression of"},
		"parts": {`{"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"}` + strings.Repeat(`,{"type":"NFC"}`, 1000) + `]},
			"model":{"type":"BPE","vocab":{"a":1},"merges":[]}}`, "1001 parts"},
		"characters": {`{"model":{"type":"WordPiece","vocab":{"a":1},"unk_token":"a","max_input_chars_per_word":1000000000}}`, "max_input_chars_per_word"},
		"token":      {`{"model":{"type":"Unigram","vocab":[["<unk>",0],["` + strings.Repeat("a", 50_000) + `",-1]],"unk_id":0}}`, "model: vocab: element 1: a text of 50000 bytes, at most 8192"},
		"marker":     {`{"added_tokens":[{"id":1,"content":"` + strings.Repeat("a", 50_000) + `"}],"model":{"type":"BPE","vocab":{"a":1},"merges":[]}}`, "added token 1: a text of 50000 bytes"},
		"sign":       {`{"pre_tokenizer":{"type":"Metaspace","replacement":"long"},"model":{"type":"BPE","vocab":{"a":1},"merges":[]}}`, "4 characters"},
	} {
		w := *read
		w.HuggingFace = c.text
		_, err := New(&w)
		checkError(t, err, keyHuggingFace, c.want)
		if name == "unknown" {
			checkError(t, err, "hint: ")
		}
	}
}

// A tokenizer that is not the model's is refused with the first text that shows it, or noted if it was asked for (field report R001).
func TestProof(t *testing.T) {
	dir := filepath.Join("testdata", "bpe")
	v, err := FromCheckpoint(dir, bpeRows, "gpt-2")
	if err != nil || !slices.ContainsFunc(v.Notes, func(n string) bool {
		return strings.Contains(n, "as asked for") && strings.Contains(n, "by tokenizer.json, but")
	}) {
		t.Errorf("%v, notes %q", err, v.Notes)
	}
	f, err := openHubFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	v, err = FromCheckpoint(dir, bpeRows, "")
	if err != nil {
		t.Fatal(err)
	}
	v.Pre = "qwen2"
	b := &vocabBuilder{f: f, v: v, rows: bpeRows}
	checkError(t, b.prove(false), "tokenizer.json", "is not the model's", "by tokenizer.json, but", "hint: --pre NAME")
}

// A tokenizer.json comes from a stranger: what it makes of a text stays in bounds.
func TestHostileTokenizer(t *testing.T) {
	doubled := strings.Repeat(`{"type":"Replace","pattern":{"String":"a"},"content":"aa"},`, 60)
	chars := []byte{4, 0, 0, 0, 0, 0, 0, 0} // a map without entries
	for name, c := range map[string]struct{ normalizer, want string }{
		"doubled":  {`{"type":"Sequence","normalizers":[` + doubled[:len(doubled)-1] + `]}`, "the normalizer makes more than"},
		"long":     {`{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("b", 1<<20) + `"}`, "the normalizer makes more than"},
		"regex":    {`{"type":"Replace","pattern":{"Regex":"."},"content":"` + strings.Repeat("b", 1<<20) + `"}`, "the normalizer makes more than"},
		"empty":    {`{"type":"Replace","pattern":{"String":""},"content":"` + strings.Repeat("b", 1<<10) + `"}`, "the normalizer makes more than"},
		"gives up": {`{"type":"Replace","pattern":{"Regex":"(a|aa)+$(?<!a)"},"content":"b"}`, `normalizer: part 0: the expression "(a|aa)+`},
		"none":     {`{"type":"Precompiled","precompiled_charsmap":"` + base64.StdEncoding.EncodeToString(chars) + `"}`, ""},
	} {
		parsed, err := parseTokenizer([]byte(`{"normalizer":` + c.normalizer + `,"model":{"type":"BPE","vocab":{"a":1},"merges":[]}}`))
		if err != nil {
			t.Fatal(err)
		}
		src, err := newSource(parsed)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := src.encode(nil, strings.Repeat("a", 1<<20), false); c.want != "" {
			checkError(t, err, c.want)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Pieces that are joined one by one take linear time.
func TestJoinedPieces(t *testing.T) {
	for _, behavior := range []string{"Contiguous", "MergedWithPrevious", "MergedWithNext", "Isolated"} {
		step, err := splitBy("!", behavior, false)
		if err != nil {
			t.Fatal(err)
		}
		text := "a" + strings.Repeat("!", 1<<20) + "b"
		start := time.Now()
		pieces, err := step([]string{text}, true)
		if err != nil || strings.Join(pieces, "") != text {
			t.Errorf("%s: %d pieces, %v", behavior, len(pieces), err)
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%s: %v", behavior, d)
		}
	}
}

// A token that is longer than any known one is refused: finding it would take any time and memory.
func TestLongToken(t *testing.T) {
	v := bytesVocab("gpt-2")
	last := len(v.Tokens) - 1
	v.Tokens[last] = strings.Repeat("a", mostToken)
	mustNew(t, v)
	v.Tokens[last] += "a"
	_, err := New(v)
	checkError(t, err, keyTokens, "a text of 8193 bytes, at most 8192")
}
