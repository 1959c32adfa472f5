package tokenizer

import (
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
	if n := caseWord(s); n > 0 {
		return n
	}
	return noWord(s, 1, "\r\n/")
}

// gpt4oWord is tekkenWord with (?i:'s|'t|'re|'ve|'m|'ll|'d)? behind both kinds of word, and \p{N}{1,3} for \p{N}.
func gpt4oWord(s string) int {
	if n := caseWord(s); n > 0 {
		return n + contraction(s[n:], true)
	}
	return noWord(s, 3, "\r\n/")
}

// caseWord: [^\r\n\p{L}\p{N}]?[upper]*[lower]+|[^\r\n\p{L}\p{N}]?[upper]+[lower]*, 0 if there is no match.
func caseWord(s string) int {
	class, n := at(s, 0)
	lead := 0
	if class == other || class == space {
		lead = n
	}
	end, lower := caseRun(s, lead)
	// A mark may lead a word or belong to it.
	if r, _ := utf8.DecodeRuneInString(s); lead > 0 && !lower && unicode.IsMark(r) {
		if e, ok := caseRun(s, 0); ok {
			return e
		}
	}
	if end == lead {
		return 0
	}
	return end
}

// caseRun: [upper]*[lower]+ at s[i:], and if that does not match, [upper]*. It returns the end of the match, and which of the two it is.
func caseRun(s string, i int) (end int, lower bool) {
	both := 0 // the end of the last character that is upper and lower
	for {
		up, low, n := caseOf(s, i)
		switch {
		case up && low:
			both = i + n
		case low:
			return lowerRun(s, i+n), true
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
func lowerRun(s string, i int) int {
	for {
		_, low, n := caseOf(s, i)
		if !low {
			return i
		}
		i += n
	}
}

// caseOf tells whether the character at s[i:] is upper, lower or both, and its length; it is neither at the end.
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
