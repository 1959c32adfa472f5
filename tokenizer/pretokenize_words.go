package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Classes of characters.
const (
	other   uint8 = iota // [^\s\p{L}\p{N}]
	letter               // \p{L}
	number               // \p{N}
	space                // \s but for line ends
	newline              // [\r\n]
)

var asciiClass = func() (c [utf8.RuneSelf]uint8) {
	for b := range c {
		c[b] = classOf(rune(b))
	}
	return c
}()

// wideClass is the classes of the characters of two and three bytes.
var wideClass = func() (c [1 << 16]uint8) {
	fill := func(t *unicode.RangeTable, class uint8) {
		for _, r := range t.R16 {
			for x := int(r.Lo); x <= int(r.Hi); x += int(r.Stride) {
				c[x] = class
			}
		}
	}
	fill(unicode.White_Space, space)
	fill(unicode.L, letter)
	fill(unicode.N, number)
	c['\r'], c['\n'] = newline, newline
	return c
}()

func classOf(r rune) uint8 {
	switch {
	case r == '\r' || r == '\n':
		return newline
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// at is the class and the length of the character at s[i:]; the length is 0 at the end.
func at(s string, i int) (class uint8, n int) {
	if i >= len(s) {
		return other, 0
	}
	if s[i] < utf8.RuneSelf {
		return asciiClass[s[i]], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	if int(r) < len(wideClass) {
		return wideClass[r], n
	}
	return classOf(r), n
}

// run is the end of the run of characters of class c that starts at s[i:].
func run(s string, i int, c uint8) int {
	for i < len(s) && s[i] < utf8.RuneSelf && asciiClass[s[i]] == c {
		i++
	}
	for {
		class, n := at(s, i)
		if n == 0 || class != c {
			return i
		}
		i += n
	}
}

// whitespace is the length of the run of \s at the start of s, the start of its last character, and the end of its last line end (0 if none).
func whitespace(s string) (end, last, lineEnd int) {
	for {
		class, n := at(s, end)
		if n == 0 || class != space && class != newline {
			return end, last, lineEnd
		}
		last = end
		end += n
		if class == newline {
			lineEnd = end
		}
	}
}

// contraction is the length of 's, 't, 're, 've, 'm, 'll or 'd at the start of s, else 0. With fold case does not matter, which makes
// U+017F an s.
func contraction(s string, fold bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	lower := func(i int) byte {
		if i >= len(s) {
			return 0
		}
		if fold && s[i] >= 'A' && s[i] <= 'Z' {
			return s[i] | 0x20
		}
		return s[i]
	}
	switch lower(1) {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if lower(2) == 'e' {
			return 3
		}
	case 'l':
		if lower(2) == 'l' {
			return 3
		}
	}
	if fold && strings.HasPrefix(s[1:], "\u017f") {
		return 1 + len("\u017f")
	}
	return 0
}

// gpt2Word: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func gpt2Word(s string) int {
	if n := contraction(s, false); n > 0 {
		return n
	}
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	class, n := at(s, i)
	if n > 0 && (class == letter || class == number || class == other) {
		return run(s, i, class)
	}
	return spaces(s)
}

// spaces: \s+(?!\S)|\s+ where s starts with whitespace: the last of several characters is left to the word behind them.
func spaces(s string) int {
	end, last, _ := whitespace(s)
	if last > 0 && end < len(s) {
		return last
	}
	return end
}

// modern is the family of patterns that llama 3's began:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
type modern struct {
	plain  bool   // no contractions
	marks  bool   // [\p{L}\p{M}] for \p{L}
	phrase bool   // (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ for \p{L}+
	digits int    // numbers in a word, 0 for any count
	tail   string // what may follow symbols
	one    bool   // once only
}

var (
	llama3 = modern{digits: 3, tail: "\r\n"}
	// qwen2 has \p{N} for \p{N}{1,3}.
	qwen2 = modern{digits: 1, tail: "\r\n"}
	// minicpm5 has \p{N}+.
	minicpm5 = modern{tail: "\r\n"}
	ufakzeka = modern{digits: 1, tail: "\r\n", plain: true}
	qwen35   = modern{digits: 1, tail: "\r\n", marks: true}
	// seedCoder: ...| ?[^\s\p{L}\p{N}\r\n]+|...
	seedCoder = modern{digits: 1}
	// exaoneMoE: ...| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|... where \s* takes all but the last line end, as \s*[\r\n]+ does
	exaoneMoE = modern{digits: 1, tail: "\r\n/", one: true, phrase: true}
	// tekkenRest and gpt4oRest are what follows the words of these patterns, which have case.
	tekkenRest = modern{digits: 1, tail: "\r\n/"}
	gpt4oRest  = modern{digits: 3, tail: "\r\n/"}
)

func llama3Word(s string) int    { return llama3.word(s) }
func qwen2Word(s string) int     { return qwen2.word(s) }
func minicpm5Word(s string) int  { return minicpm5.word(s) }
func ufakzekaWord(s string) int  { return ufakzeka.word(s) }
func qwen35Word(s string) int    { return qwen35.word(s) }
func seedCoderWord(s string) int { return seedCoder.word(s) }
func exaoneMoEWord(s string) int { return exaoneMoE.word(s) }

// at is as the function, for a family that counts marks as letters.
func (m *modern) at(s string, i int) (class uint8, n int) {
	class, n = at(s, i)
	if m.marks && class == other && n > 1 {
		if r, _ := utf8.DecodeRuneInString(s[i:]); unicode.IsMark(r) {
			return letter, n
		}
	}
	return class, n
}

func (m *modern) run(s string, i int, c uint8) int {
	if !m.marks {
		return run(s, i, c)
	}
	for {
		class, n := m.at(s, i)
		if n == 0 || class != c {
			return i
		}
		i += n
	}
}

// letters is the end of the letters of a word that starts with one at s[i:].
func (m *modern) letters(s string, i int) int {
	if !m.phrase {
		return m.run(s, i, letter)
	}
	for {
		class, n := at(s, i)
		if n > 0 && s[i] == ' ' {
			if class, k := at(s, i+1); class != letter || k == 0 {
				return i
			}
		} else if class != letter {
			r, _ := utf8.DecodeRuneInString(s[i:])
			if n == 0 || !unicode.IsMark(r) {
				return i
			}
		}
		i += n
	}
}

func (m *modern) word(s string) int {
	if !m.plain {
		if n := contraction(s, true); n > 0 {
			return n
		}
	}
	class, n := m.at(s, 0)
	switch class {
	case letter:
		return m.letters(s, 0)
	case other, space:
		if next, k := m.at(s, n); k > 0 && next == letter {
			return m.letters(s, n)
		}
	}
	return m.rest(s)
}

// rest: \p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[tail]*|\s*[\r\n]+|\s+(?!\S)|\s+ where none of the earlier alternatives matches at s, which does not
// start with a letter.
func (m *modern) rest(s string) int {
	class, n := at(s, 0)
	if class == number {
		for count := 1; count != m.digits; count++ {
			next, k := at(s, n)
			if k == 0 || next != number {
				break
			}
			n += k
		}
		return n
	}
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	if end := m.run(s, i, other); end > i {
		for end < len(s) && strings.IndexByte(m.tail, s[end]) >= 0 {
			end++
			if m.one {
				break
			}
		}
		return end
	}
	if _, _, lineEnd := whitespace(s); lineEnd > 0 {
		return lineEnd
	}
	return spaces(s)
}
