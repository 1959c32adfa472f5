package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// probes are texts whose ids tell tokenizers apart: words, numbers and marks in many scripts, white space, what contracts and what composes, and strings
// of characters of every class in random orders, which are the same each time.
func probes() []string {
	texts := []string{
		"", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n \t\n", "a\n b", "  x", "x  ", " a  b   c    d",
		"Hello world", " Hello, World!", "The quick brown fox jumps over the lazy dog.", "I'm he's they'LL we'Ve DON'T o'clock 'tis 'S 'ſ",
		"3 33 333 3333 33333 333333 3333333 33333333 3.14 1,234,567 ½ ² Ⅷ ٣٤٥", "12ab 34_56 7x", "func main() {\n\tfmt.Println(\"hi\")\n}\n\n// a/b //c\n",
		"HelloWorld helloWORLD HTTPServer camelCase snake_case", "!!! ... ??? ---- ==== ~~ <a> [b] {c} $1 #2 %3 &c *d @e ^f `g` |h| \\i",
		"Grüße aus Köln, cafe\u0301 naïve Ångström ﬁn", "Привет, мир! ПРИВЕТ", "Καλημέρα κόσμε ΣΊΣΥΦΟΣ", "你好，世界。我想在apple工作1314151天～", "日本語のテキスト カタカナ", "안녕하세요 세계",
		"नमस्ते दुनिया", "مرحبا بالعالم", "שלום עולם", "សួស្តី\u200bពិភពលោក", "สวัสดีชาวโลก", "👋🏽 🌍 👩‍👩‍👧 ❤️ 1️⃣", "a\u00a0b\u2003c\u3000d\u200be\u0085f", "x\u0007y\ufeffz\u0301",
		strings.Repeat("ab ", 40), strings.Repeat(" ", 70) + "x", strings.Repeat("-", 40), strings.Repeat("1", 40), strings.Repeat("\n", 20), "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	}
	alphabet := []rune("aZéÉſsStTrReEvVmMlLdDʰǅ中あカ가ไ''   \t\n\r\u00a0\u3000\u2003019٣½.,!-$_#/(、。👧\u0301\u200d\u00ad")
	rng := rand.New(rand.NewPCG(7, 7))
	for range 400 {
		var b strings.Builder
		for range 2 + rng.IntN(20) {
			b.WriteRune(alphabet[rng.IntN(len(alphabet))])
		}
		texts = append(texts, b.String())
	}
	return texts
}

// mostAdded is how many added tokens are tried.
const mostAdded = 64

// around sets a token next to letters, spaces and itself.
func around(token string) []string {
	return []string{token, "x" + token + "y", "a " + token + " b", token + token + "c", "\n" + token + "\n\n"}
}

// disagreement is the first text that two tokenizers read differently.
type disagreement struct {
	text         string
	source, ours []int32
}

func (d *disagreement) Error() string {
	return fmt.Sprintf("%q is %v by tokenizer.json, but %v by the keys of GGUF", d.text, d.source, d.ours)
}

// prove compares the tokenizer that is written with tokenizer.json. It does nothing if there is none.
func (b *vocabBuilder) prove(forced bool) error {
	const file = "tokenizer.json"
	if b.f.tokenizer == nil {
		return nil
	}
	if t := b.f.tokenizer; len(b.f.merges) > 0 && len(t.Model.Merges) == 0 {
		b.note("%s has no merges, so the tokenizer is not compared with it", file)
		return nil
	}
	src, err := newSource(b.f.tokenizer)
	if err != nil {
		if !forced {
			return b.at(file, err)
		}
		b.note("%s: the tokenizer is not compared with it: %v", file, err)
		return nil
	}
	first, err := b.compare(src)
	if first == nil || err != nil {
		return err
	}
	why := b.beyondGGUF()
	switch {
	case forced:
		b.note("%s: the tokenizer is another one, as asked for: %v", file, first)
		return nil
	case why == "":
		return b.at(file, fmt.Errorf("the tokenizer that would be written is not the model's: %w\nhint: --pre NAME writes it nevertheless, with the pre-tokenizer NAME", first))
	}
	b.v.HuggingFace = string(b.f.tokenizerText)
	if again, err := b.compare(src); again != nil || err != nil {
		return b.at(file, fmt.Errorf("%s, and reading it whole does not help: %v %w", why, again, err))
	}
	b.note("%s: %s, which GGUF has no key for: it is written whole as %s, which other programs ignore; for them %v", file, why, keyHuggingFace, first)
	return nil
}

// compare gives the first text that is read differently, nil if there is none.
func (b *vocabBuilder) compare(src *source) (*disagreement, error) {
	tok, err := New(b.v)
	if err != nil {
		return nil, err
	}
	texts := probes()
	for _, t := range b.f.tokenizer.AddedTokens[:min(mostAdded, len(b.f.tokenizer.AddedTokens))] {
		// SentencePiece tokens that stand for themselves hold no sign for a space in GGUF.
		if b.v.Model == "gpt2" || !strings.Contains(t.Content, metaspace) {
			texts = append(texts, around(t.Content)...)
		}
	}
	for _, text := range texts {
		want, err := src.encode(nil, text, true)
		if err != nil {
			return nil, b.at("tokenizer.json", fmt.Errorf("%q: %w", text, err))
		}
		got, err := tok.Encode(text, EncodeOptions{ParseSpecial: true})
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if !slices.Equal(got, want) {
			return &disagreement{text, want, got}, nil
		}
	}
	return nil, nil
}

// bothCases is how patterns start that spell contractions out where others fold case.
const bothCases = "'[sS]|'[tT]"

// beyondGGUF names what a tokenizer.json does that GGUF cannot say; "" if it does nothing of the kind.
func (b *vocabBuilder) beyondGGUF() string {
	t := b.f.tokenizer
	prepends := slices.ContainsFunc(flatten(t.Normalizer), func(c component) bool { return c.Type == "Prepend" })
	for _, a := range t.AddedTokens {
		switch {
		case a.SingleWord:
			return fmt.Sprintf("the added token %q counts only where it is a word", a.Content)
		case a.Normalized && prepends:
			return fmt.Sprintf("the added token %q is looked for in the text as it is after a space was put before it", a.Content)
		}
	}
	for _, c := range flatten(t.PreTokenizer) {
		if p, err := c.pattern("Regex"); err == nil && strings.Contains(p, bothCases) {
			return "the long s (U+017F) is no s in contractions"
		}
	}
	if b.unlisted > 0 {
		return fmt.Sprintf("%d pairs of tokens make a token without being among the merges", b.unlisted)
	}
	return ""
}
