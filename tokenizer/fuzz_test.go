package tokenizer

import (
	"fmt"
	"strings"
	"testing"
)

// modelVocab is a small vocabulary of a kind that is neither BPE nor SPM.
func modelVocab(model string) *Vocab {
	v := newVocab()
	v.Model = model
	add := func(text string, typ TokenType, score float32) int32 {
		v.Tokens, v.Types, v.Scores = append(v.Tokens, text), append(v.Types, typ), append(v.Scores, score)
		return int32(len(v.Tokens) - 1)
	}
	v.UNK = add("<unk>", Unknown, 0)
	if model == "rwkv" {
		for b := range 256 {
			add(fmt.Sprintf("\\x%02x", b), Normal, 0)
		}
		add("aa", Normal, 0)
		return v
	}
	v.BOS, v.EOS = add("[CLS]", Control, 0), add("[SEP]", Control, 0)
	for i, text := range []string{"▁", "▁a", "a", "aa", "aaaa", "▁aa", "b", ".", "▁.", "1", "▁1", "é"} {
		add(text, Normal, -float32(i+2))
	}
	yes := true
	v.RemoveExtraSpaces = &yes
	return v
}

// Random vocabularies of every kind encode and decode any text, or are refused.
func FuzzVocabularies(f *testing.F) {
	f.Add([]byte("a|b|ab|\xe2\x96\x81a|<0x41>|##b"), "ab  ab", uint8(0))
	f.Add([]byte("\\x41|\\n|aa"), "aaA\n\xff", uint8(4))
	f.Add([]byte("<unk>|a|b|ab"), "abcab", uint8(3))
	models := []string{"gpt2", "llama", "bert", "t5", "rwkv", "gemma4"}
	f.Fuzz(func(t *testing.T, data []byte, text string, kind uint8) {
		v := newVocab()
		v.Model, v.Pre = models[int(kind)%len(models)], "llama-bpe"
		for i, token := range strings.Split(string(data), "|") {
			v.Tokens = append(v.Tokens, token)
			v.Types = append(v.Types, TokenType(1+(int(kind)/8+i)%6))
			v.Scores = append(v.Scores, -float32((i*7)%5))
			if i > 1 {
				v.Merges = append(v.Merges, v.Tokens[i-2]+" "+v.Tokens[i-1])
			}
		}
		v.UNK = int32(int(kind) % len(v.Tokens))
		if kind > 128 {
			v.CharsMap = data
		}
		tok, err := New(v)
		if err != nil {
			return
		}
		ids, err := tok.Encode(text, EncodeOptions{AddSpecial: true, ParseSpecial: kind%2 == 0})
		if err != nil {
			return
		}
		if _, err := tok.Decode(ids, true); err != nil && !strings.Contains(err.Error(), "typed as a byte") {
			t.Fatalf("%s: %v does not decode: %v", v.Model, ids, err)
		}
	})
}

// Whatever tokenizer.json holds, it is refused or encodes.
func FuzzTokenizerJSON(f *testing.F) {
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"[^(\\s|[.])]+"},"behavior":"Isolated"}}`), "ab. ab")
	f.Add([]byte(`{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"a":1,"##b":2},"unk_token":"[UNK]","continuing_subword_prefix":"##"},"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"}}`), "ab É")
	f.Add([]byte(`{"model":{"type":"Unigram","vocab":[["<unk>",0],["a",-1]],"unk_id":0},"pre_tokenizer":{"type":"Metaspace","replacement":"_"},"added_tokens":[{"id":1,"content":"b","single_word":true,"rstrip":true}]}`), "a b a")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		parsed, err := parseTokenizer(data)
		if err != nil {
			return
		}
		src, err := newSource(parsed)
		if err != nil {
			return
		}
		if _, err := src.encode(nil, text, true); err != nil {
			return
		}
	})
}
