package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Patterns that end a word where lower case goes over into upper case. A character of a word may be
//
//	upper: [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
//	lower: [\p{Ll}\p{Lm}\p{Lo}\p{M}]
//
// or both. llama.cpp has no such classes and splits letters outside ASCII otherwise; these stages do as the models' own tokenizers do.

// tekkenWord: [^\r\n\p{L}\p{N}]?[upper]*[lower]+|[^\r\n\p{L}\p{N}]?[upper]+[lower]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
func tekkenWord(s string) int {
	if n := caseWord(s, caseOf); n > 0 {
		return n
	}
	return tekkenRest.rest(s)
}

// gpt4oWord is tekkenWord with (?i:'s|'t|'re|'ve|'m|'ll|'d)? behind both kinds of word, and \p{N}{1,3} for \p{N}.
func gpt4oWord(s string) int {
	if n := caseWord(s, caseOf); n > 0 {
		return n + contraction(s[n:], true)
	}
	return gpt4oRest.rest(s)
}

// youtuWord is gpt4oWord with \p{N} for \p{N}{1,3}.
func youtuWord(s string) int {
	if n := caseWord(s, caseOf); n > 0 {
		return n + contraction(s[n:], true)
	}
	return tekkenRest.rest(s)
}

// kimiWord: [\p{Han}]+|, then gpt4oWord without \p{Han} among the characters of a word, and with [\r\n]* for [\r\n/]*.
func kimiWord(s string) int {
	if n := strings.IndexFunc(s, func(r rune) bool { return !unicode.Is(unicode.Han, r) }); n != 0 {
		if n < 0 {
			return len(s)
		}
		return n
	}
	if n := caseWord(s, caseNoHan); n > 0 {
		return n + contraction(s[n:], true)
	}
	return llama3.rest(s)
}

// caseFunc tells whether the character at s[i:] is upper, lower or both, and its length; it is neither at the end.
type caseFunc func(s string, i int) (upper, lower bool, n int)

// caseWord: [^\r\n\p{L}\p{N}]?[upper]*[lower]+|[^\r\n\p{L}\p{N}]?[upper]+[lower]*, 0 if there is no match.
func caseWord(s string, of caseFunc) int {
	class, n := at(s, 0)
	lead := 0
	if class == other || class == space {
		lead = n
	}
	end, lower := caseRun(s, lead, of)
	// A mark may lead a word or belong to it.
	if r, _ := utf8.DecodeRuneInString(s); lead > 0 && !lower && unicode.IsMark(r) {
		if e, ok := caseRun(s, 0, of); ok {
			return e
		}
	}
	if end == lead {
		return 0
	}
	return end
}

// caseRun: [upper]*[lower]+ at s[i:], and if that does not match, [upper]*. It returns the end of the match, and which of the two it is.
func caseRun(s string, i int, of caseFunc) (end int, lower bool) {
	both := 0 // the end of the last character that is upper and lower
	for {
		up, low, n := of(s, i)
		switch {
		case up && low:
			both = i + n
		case low:
			return lowerRun(s, i+n, of), true
		case !up:
			// The upper characters behind the last one that is both are given back.
			if both > 0 {
				return both, true
			}
			return i, false
		}
		i += n
	}
}

// lowerRun is the end of the run of lower characters that starts at s[i:].
func lowerRun(s string, i int, of caseFunc) int {
	for {
		_, low, n := of(s, i)
		if !low {
			return i
		}
		i += n
	}
}

// caseNoHan is caseOf for characters of other scripts than Han.
func caseNoHan(s string, i int) (upper, lower bool, n int) {
	upper, lower, n = caseOf(s, i)
	if n > 1 && upper && lower {
		if r, _ := utf8.DecodeRuneInString(s[i:]); unicode.Is(unicode.Han, r) {
			return false, false, n
		}
	}
	return upper, lower, n
}

// caseOf is the caseFunc of \p{L} and \p{M}.
func caseOf(s string, i int) (upper, lower bool, n int) {
	if i >= len(s) {
		return false, false, 0
	}
	if c := s[i]; c < utf8.RuneSelf {
		return c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	switch {
	case unicode.Is(unicode.Ll, r):
		return false, true, n
	case unicode.Is(unicode.Lu, r), unicode.Is(unicode.Lt, r):
		return true, false, n
	}
	both := unicode.IsLetter(r) || unicode.IsMark(r)
	return both, both, n
}
