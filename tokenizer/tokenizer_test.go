package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ggufkit/ggufkit/gguf"
	"golang.org/x/text/unicode/norm"
)

// bytesVocab is a byte-level vocabulary of the 256 bytes, some merges and some special tokens.
func bytesVocab(pre string) *Vocab {
	v := newVocab()
	v.Model, v.Pre = "gpt2", pre
	add := func(text string, typ TokenType) int32 {
		v.Tokens = append(v.Tokens, text)
		v.Types = append(v.Types, typ)
		return int32(len(v.Tokens) - 1)
	}
	for b, r := range byteRunes {
		if p, err := preByName(pre); err == nil && p.raw {
			add(fmt.Sprintf("<0x%02X>", b), Byte)
		} else {
			add(string(r), Normal)
		}
	}
	for _, m := range []string{"h e", "l l", "he ll", "hell o", "a a", "aa aa", "Ġ Ġ", "ĠĠ ĠĠ", "1 2", "Ġ hello"} {
		v.Merges = append(v.Merges, m)
		add(strings.ReplaceAll(m, " ", ""), Normal)
	}
	if !strings.Contains(strings.Join(v.Tokens, ""), metaspace) {
		add(metaspace, Normal)
	}
	v.BOS = add("<s>", Control)
	v.EOS = add("<end>", Control)
	add("<tool>", UserDefined)
	add("<tool>x", UserDefined)
	return v
}

// spmVocab is a SentencePiece vocabulary with byte tokens.
func spmVocab() *Vocab {
	v := newVocab()
	v.Model, v.Pre = "llama", "default"
	add := func(text string, typ TokenType, score float32) {
		v.Tokens, v.Types, v.Scores = append(v.Tokens, text), append(v.Types, typ), append(v.Scores, score)
	}
	add("<unk>", Unknown, 0)
	add("<s>", Control, 0)
	add("</s>", Control, 0)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), Byte, 0)
	}
	for i, text := range []string{"▁", "a", "b", "▁a", "ab", "▁ab", "aa", "aaaa", "▁▁"} {
		add(text, Normal, -float32(i))
	}
	add("<tool>", UserDefined, 0)
	v.UNK, v.BOS, v.EOS = 0, 1, 2
	return v
}

func mustNew(t testing.TB, v *Vocab) *Tokenizer {
	t.Helper()
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// pieces spells ids for messages.
func pieces(t testing.TB, tok *Tokenizer, ids []int32) []string {
	t.Helper()
	var out []string
	for _, id := range ids {
		p, err := tok.Piece(id, true)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(p))
	}
	return out
}

func TestEncode(t *testing.T) {
	special := EncodeOptions{ParseSpecial: true}
	for _, c := range []struct {
		name string
		v    *Vocab
		text string
		o    EncodeOptions
		want []string
	}{
		{"merges by rank", bytesVocab("gpt-2"), "hello hello", EncodeOptions{}, []string{"hello", " hello"}},
		{"leftmost of equals", bytesVocab("gpt-2"), "aaaaaaa", EncodeOptions{}, []string{"aaaa", "aa", "a"}},
		{"digits one by one", bytesVocab("qwen2"), "12", EncodeOptions{}, []string{"1", "2"}},
		{"digits together", bytesVocab("dbrx"), "12", EncodeOptions{}, []string{"12"}},
		{"special text is text", bytesVocab("gpt-2"), "<s>", EncodeOptions{}, []string{"<", "s", ">"}},
		{"special text is read", bytesVocab("gpt-2"), "a<s>b", special, []string{"a", "<s>", "b"}},
		{"user-defined is atomic", bytesVocab("gpt-2"), "a<tool>b", EncodeOptions{}, []string{"a", "<tool>", "b"}},
		{"longest first", bytesVocab("gpt-2"), "<tool>xx", EncodeOptions{}, []string{"<tool>x", "x"}},
		{"invalid UTF-8", bytesVocab("gpt-2"), "a\xffb", EncodeOptions{}, []string{"a", "\xef", "\xbf", "\xbd", "b"}},
		{"spm by score", spmVocab(), "ab aaaa", EncodeOptions{}, []string{" ab", " a", "aa", "a"}},
		{"spm prefix after special", spmVocab(), "a<tool>a", EncodeOptions{}, []string{" a", "<tool>", " a"}},
		{"spm bytes", spmVocab(), "é\xff", EncodeOptions{}, []string{" ", "\xc3", "\xa9", "\xff"}},
		{"spm specials added", spmVocab(), "a", EncodeOptions{AddSpecial: true}, []string{"<s>", " a"}},
	} {
		tok := mustNew(t, c.v)
		ids, err := tok.Encode(c.text, c.o)
		if got := pieces(t, tok, ids); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	wrong := func(change func(*Vocab)) *Vocab {
		v := bytesVocab("gpt-2")
		change(v)
		return v
	}
	for name, c := range map[string]struct {
		v    *Vocab
		want string
	}{
		"model":  {wrong(func(v *Vocab) { v.Model = "plamo2" }), `"plamo2"`},
		"pre":    {wrong(func(v *Vocab) { v.Pre = "gpt-9" }), `"gpt-9"`},
		"merges": {wrong(func(v *Vocab) { v.Merges = nil }), "merges"},
		"merge":  {wrong(func(v *Vocab) { v.Merges = []string{"ab"} }), `"ab"`},
		"types":  {wrong(func(v *Vocab) { v.Types = v.Types[1:] }), "token_type"},
		"id":     {wrong(func(v *Vocab) { v.EOS = 9999 }), "9999"},
		"empty":  {wrong(func(v *Vocab) { v.Tokens, v.Types = nil, nil }), "no tokens"},
	} {
		if _, err := New(c.v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s named", name, err, c.want)
		}
	}
	tok := mustNew(t, bytesVocab("gpt-2"))
	if _, err := tok.Decode([]int32{9999}, false); err == nil || !strings.Contains(err.Error(), "9999") {
		t.Errorf("decode of an unknown id: %v", err)
	}
}

// Ids are what counts: several tokens may have the same text (field report R010).
func TestDuplicates(t *testing.T) {
	v := bytesVocab("gpt-2")
	v.Tokens[10], v.Tokens[11] = "a", "a"
	tok := mustNew(t, v)
	if text, err := tok.Decode([]int32{10, 11}, false); err != nil || text != "aa" {
		t.Errorf("decode: %q %v", text, err)
	}
	if ids, err := tok.Encode("a", EncodeOptions{}); err != nil || !slices.Equal(ids, []int32{10}) {
		t.Errorf("encode: %v %v", ids, err)
	}
	if got := v.Duplicates(); !slices.Equal(got, []int32{11, 'a'}) {
		t.Errorf("duplicates: %v", got)
	}
}

// Whether a BOS comes first is what the file says, else what its kind of tokenizer does.
func TestAddsBOS(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		pre  string
		add  *bool
		want bool
	}{{"llama-bpe", nil, true}, {"llama-bpe", &no, false}, {"gpt-2", nil, false}, {"gpt-2", &yes, true}} {
		v := bytesVocab(c.pre)
		v.AddBOS = c.add
		tok := mustNew(t, v)
		id, ok := tok.AddsBOS()
		if ok != c.want || ok && id != v.BOS {
			t.Errorf("%s: %d, %v", c.pre, id, ok)
		}
		if ids, err := tok.Encode("a", EncodeOptions{AddSpecial: true}); err != nil || (ids[0] == v.BOS) != ok {
			t.Errorf("%s: %v, %v", c.pre, ids, err)
		}
		v.BOS = -1
		if id, ok := tok.AddsBOS(); ok {
			t.Errorf("%s: %d without a BOS", c.pre, id)
		}
	}
}

// A prompt never gets a second BOS (field report R075).
func TestOneBOS(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		add  *bool
		text string
		want string
	}{{&yes, "<s>a", "<s>a"}, {&yes, "a", "<s>a"}, {&no, "a", "a"}, {&yes, "<s><s>a", "<s><s>a"}} {
		v := bytesVocab("gpt-2")
		v.AddBOS = c.add
		tok := mustNew(t, v)
		ids, err := tok.EncodePrompt(c.text, true)
		if got := strings.Join(pieces(t, tok, ids), ""); err != nil || got != c.want {
			t.Errorf("prompt %q: %q %v, want %q", c.text, got, err, c.want)
		}
		// What a template rendered is taken as it is.
		ids, err = tok.EncodeChat(c.text)
		if got := strings.Join(pieces(t, tok, ids), ""); err != nil || got != c.text {
			t.Errorf("chat %q: %q %v", c.text, got, err)
		}
	}
}

// Every id that a file or a text names ends a generation (field report R009).
func TestEndOfGeneration(t *testing.T) {
	v := bytesVocab("gpt-2")
	v.EOS, v.EOT = 256, 257
	v.EOG = []int32{258}
	v.Tokens[259] = "<|im_end|>"
	m := gguf.NewMeta()
	v.WriteMeta(m)
	read, err := VocabOf(m)
	if err != nil {
		t.Fatal(err)
	}
	tok := mustNew(t, read)
	for id := range int32(len(v.Tokens)) {
		if got, want := tok.IsEOG(id), id >= 256 && id <= 259; got != want {
			t.Errorf("IsEOG(%d) = %v", id, got)
		}
	}
}

// A stream hands out whole characters, wherever the tokens cut them.
func TestStream(t *testing.T) {
	tok := mustNew(t, bytesVocab("gpt-2"))
	const family = "a👩\u200d👩\u200d👧é\u0301 <end> ok"
	ids, err := tok.Encode(family, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := tok.NewStream()
	var all strings.Builder
	for _, id := range append(ids, tok.Vocab.EOS) {
		text, err := s.Push(id)
		if err != nil || !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) {
			t.Fatalf("%q %v", text, err)
		}
		all.WriteString(text)
	}
	all.WriteString(s.Flush())
	if all.String() != family {
		t.Errorf("%q, want %q", all.String(), family)
	}
	for _, c := range []struct{ in, push, flush string }{
		{"\xf0\x9f\x91", "", "\ufffd\ufffd\ufffd"}, {"a\xf0\x9f", "a", "\ufffd\ufffd"}, {"\xffa", "\ufffda", ""}, {"\x80\x80\xe2", "\ufffd\ufffd", "\ufffd"},
	} {
		s, got := tok.NewStream(), ""
		for i := range len(c.in) {
			text, err := s.Push(int32(c.in[i]))
			if err != nil {
				t.Fatal(err)
			}
			got += text
		}
		if flush := s.Flush(); got != c.push || flush != c.flush {
			t.Errorf("%q: %q %q, want %q %q", c.in, got, flush, c.push, c.flush)
		}
	}
}

// longUnits are repeated to make texts without an end in sight.
var longUnits = []string{"a", " ", ".", "1", "\u0301", "👧", "\n", "<", "'", "A", "É", "ʰA", "'s"}

// Long runs of one character take n log n time and constant stack: quadratic time would be many minutes (field report R073).
func TestLongRuns(t *testing.T) {
	const size, limit = 1 << 20, 20 * time.Second
	for i := range preTokenizers {
		p := &preTokenizers[i]
		for _, unit := range longUnits {
			text := strings.Repeat(unit, size/4/len(unit))
			start, n := time.Now(), 0
			p.split(text, func(word string) bool { n += len(word); return true })
			if d := time.Since(start); n != len(text) || d > limit {
				t.Errorf("%s: 256 KiB of %q: %d bytes in %v", p.names[0], unit, n, d)
			}
		}
	}
	composed := bytesVocab("qwen2")
	composed.Normalizer = nfc
	for name, v := range map[string]*Vocab{"spm": spmVocab(), "gpt-2": bytesVocab("gpt-2"), "llama-bpe": bytesVocab("llama-bpe"), "NFC": composed,
		"gemma4": bytesVocab("gemma4"), "bert": modelVocab("bert"), "t5": modelVocab("t5"), "rwkv": modelVocab("rwkv")} {
		tok := mustNew(t, v)
		for _, unit := range longUnits {
			text := strings.Repeat(unit, size/len(unit))
			start := time.Now()
			ids, err := tok.Encode(text, EncodeOptions{ParseSpecial: true})
			if d := time.Since(start); err != nil || d > limit {
				t.Errorf("%s: 1 MiB of %q takes %v: %v", name, unit, d, err)
			}
			back, err := tok.Decode(ids, true)
			if v.Model == "bert" || v.Model == "t5" {
				continue // what is unknown does not come back
			}
			if err != nil || back != text {
				t.Errorf("%s: 1 MiB of %q does not come back: %v", name, unit, err)
			}
		}
	}
}

// Whatever the bytes, encoding ends and decoding gives them back; byte-level BPE reads bytes that are no characters as U+FFFD.
func FuzzRoundTrip(f *testing.F) {
	for _, s := range []string{"", "hello <s>", " a  b\r\n\n", "'LL 've 'ſ", "1234 ½", "\xff\xe2\x96", "<tool>x<0x41>▁ ▁", "0 \xc9 00", "\u0301é👩\u200d👧"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	var toks []*Tokenizer
	for i := range preTokenizers {
		toks = append(toks, mustNew(f, bytesVocab(preTokenizers[i].names[0])))
	}
	spm := mustNew(f, spmVocab())
	strips := bytesVocab("tekken")
	strips.Normalizer, strips.LStrip, strips.RStrip = nfc, []int32{strips.BOS}, []int32{strips.BOS, strips.EOS}
	stripping := mustNew(f, strips)
	f.Fuzz(func(t *testing.T, text string, special bool) {
		o := EncodeOptions{ParseSpecial: special}
		for _, tok := range toks {
			ids, err := tok.Encode(text, o)
			if err != nil {
				t.Fatal(err)
			}
			back, err := tok.Decode(ids, true)
			want := validUTF8(text)
			if tok.pre.escapeSpaces {
				want = strings.ReplaceAll(want, metaspace, " ")
			}
			if err != nil || back != want {
				t.Fatalf("%s: %q %v, want %q", tok.Vocab.Pre, back, err, want)
			}
			tok.CleanSpaces(back)
		}
		// What is swallowed does not come back, but all that is no space does.
		ids, err := stripping.Encode(text, o)
		if err != nil {
			t.Fatal(err)
		}
		solid := func(s string) string {
			return strings.ReplaceAll(norm.NFD.String(strings.Join(strings.Fields(s), "")), graphemeJoiner, "")
		}
		if back, err := stripping.Decode(ids, true); err != nil || solid(back) != solid(validUTF8(text)) {
			t.Fatalf("stripping: %q %v, want %q", back, err, text)
		}
		ids, err = spm.Encode(text, EncodeOptions{AddSpecial: true, ParseSpecial: special})
		if err != nil {
			t.Fatal(err)
		}
		back, err := spm.Decode(ids, false)
		// Special tokens get spaces put around them, and the sign for a space is one.
		if want := strings.ReplaceAll(text, metaspace, " "); err != nil || !strings.Contains(text, "<") && back != want {
			t.Fatalf("spm: %q %v, want %q", back, err, want)
		}
	})
}

// Whatever the ids, decoding ends.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0, 1, 255, 12})
	toks := []*Tokenizer{mustNew(f, bytesVocab("gpt-2")), mustNew(f, spmVocab())}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, tok := range toks {
			s := tok.NewStream()
			var ids []int32
			for _, b := range data {
				ids = append(ids, int32(b)*2-20)
				s.Push(ids[len(ids)-1])
			}
			s.Flush()
			tok.Decode(ids, len(data)%2 == 0)
		}
	})
}
