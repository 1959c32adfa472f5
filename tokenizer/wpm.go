package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// wpm is WordPiece: text is cut into words, and each word into the longest tokens from its start. Tokens that start a word are stored behind
// U+2581, the others without the "##" of vocab.txt.
type wpm struct {
	v                *Vocab
	ids              map[string]int32
	maxLen           int // of a token, in bytes
	lowercase, strip bool
	// whole is Extras.BertNormalizer.
	whole   bool
	accents *unicode.RangeTable
}

// wordLimit is the length in characters above which a word is unknown.
const wordLimit = 100

func newWPM(v *Vocab, ids map[string]int32) *wpm {
	w := &wpm{v: v, ids: ids, lowercase: v.Lowercase == nil || *v.Lowercase, whole: v.BertNormalizer}
	w.accents = unicode.M
	if w.whole {
		w.accents = unicode.Mn
	}
	w.strip = w.lowercase
	if v.StripAccents != nil {
		w.strip = *v.StripAccents
	}
	for _, text := range v.Tokens {
		w.maxLen = max(w.maxLen, len(text))
	}
	return w
}

func (w *wpm) encode(dst []int32, text string) ([]int32, error) {
	word := make([]byte, 0, 64)
	flush := func() {
		if len(word) > 0 {
			dst = w.appendWord(dst, string(word))
			word = word[:0]
		}
	}
	text = w.clean(text)
	if w.strip {
		text = w.decompose(text)
	}
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			flush()
			continue
		case w.strip && unicode.Is(w.accents, r):
			continue
		}
		if w.lowercase {
			if r == 'İ' {
				word = append(word, 'i')
				r = '\u0307'
			}
			r = unicode.ToLower(r)
		}
		if isPunctuation(r) || isIdeograph(r) {
			flush()
			word = utf8.AppendRune(word, r)
			flush()
			continue
		}
		word = utf8.AppendRune(word, r)
	}
	flush()
	return dst, nil
}

// decompose brings text into the form NFD. llama.cpp keeps the first character of a decomposition, of which only Hangul's show in the end.
func (w *wpm) decompose(text string) string {
	if isASCII(text) {
		return text
	}
	if w.whole {
		return unjoined(norm.NFD.String(text), text)
	}
	var b strings.Builder
	for _, r := range text {
		first, _ := utf8.DecodeRuneInString(norm.NFD.String(string(r)))
		b.WriteRune(first)
	}
	return b.String()
}

func (w *wpm) appendWord(dst []int32, word string) []int32 {
	start := len(dst)
	unknown := func() []int32 {
		if w.v.UNK < 0 {
			return dst[:start]
		}
		return append(dst[:start], w.v.UNK)
	}
	if w.whole && utf8.RuneCountInString(word) > wordLimit {
		return unknown()
	}
	rest := metaspace + word
	for rest != "" {
		n := min(len(rest), w.maxLen)
		id, ok := w.ids[rest[:n]]
		for !ok && n > 1 {
			n--
			id, ok = w.ids[rest[:n]]
		}
		if !ok {
			return unknown()
		}
		dst = append(dst, id)
		rest = rest[n:]
	}
	return dst
}

func (w *wpm) piece(id int32) ([]byte, error) {
	return []byte(strings.ReplaceAll(w.v.Tokens[id], metaspace, " ")), nil
}

// clean takes out what BERT's tokenizers take for control characters; a byte that is no character counts as one.
func (w *wpm) clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t', r == '\n', r == '\r', unicode.IsSpace(r):
			return r
		case r == utf8.RuneError, unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co), w.whole && unicode.Is(unicode.Cn, r):
			return -1
		}
		return r
	}, text)
}

// isIdeograph are the characters that are words of their own in BERT's tokenizers.
func isIdeograph(r rune) bool {
	switch {
	case r >= 0x4E00 && r <= 0x9FFF, r >= 0x3400 && r <= 0x4DBF, r >= 0x20000 && r <= 0x2A6DF, r >= 0x2A700 && r <= 0x2B73F,
		r >= 0x2B740 && r <= 0x2B81F, r >= 0x2B920 && r <= 0x2CEAF, r >= 0xF900 && r <= 0xFAFF, r >= 0x2F800 && r <= 0x2FA1F:
		return true
	}
	return false
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
