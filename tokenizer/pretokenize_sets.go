package tokenizer

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isolate makes a stage that cuts out runs of characters of a set, at most limit characters long (0: any length);
// what is between them stays together.
func isolate(in func(r rune) bool, limit int) stage {
	return func(s string) int {
		first := true
		inside, count := false, 0
		for i, r := range s {
			is := in(r)
			if first {
				first, inside = false, is
			} else if is != inside || is && count == limit {
				return i
			}
			count++
		}
		return len(s)
	}
}

// set is a bracket expression of characters and ranges, without escapes or classes.
func set(brackets string) func(r rune) bool {
	var lo, hi []rune
	list := []rune(brackets)
	for i := 0; i < len(list); i++ {
		lo, hi = append(lo, list[i]), append(hi, list[i])
		if i+2 < len(list) && list[i+1] == '-' {
			hi[len(hi)-1] = list[i+2]
			i += 2
		}
	}
	return func(r rune) bool {
		for i := range lo {
			if lo[i] <= r && r <= hi[i] {
				return true
			}
		}
		return false
	}
}

// Sets of characters, as tokenizer.json files write them.
var (
	isLatin = table(set("A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f" +
		"\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90" +
		"-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b" +
		"\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6" +
		"-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e" +
		"\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70" +
		"-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80" +
		"-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"))
	isSymbol = table(set("!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002"))
	isHan    = set("\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff")
	isKana   = set("\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff")
	isAsian  = set("\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff" +
		"\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff")
)

var (
	// singleNumbers: \p{N}
	singleNumbers = isolate(unicode.IsNumber, 1)
	// threeNumbers: \p{N}{1,3}
	threeNumbers = isolate(unicode.IsNumber, 3)
	// numberRuns: \p{N}+
	numberRuns = isolate(unicode.IsNumber, 0)
	// symbolRuns: [\p{P}\$\+<=>\^~\|]+
	symbolRuns = isolate(func(r rune) bool { return unicode.IsPunct(r) || strings.ContainsRune("$+<=>^~|", r) }, 0)
	// falconSymbols: [\p{P}\$\+<=>\^~\|`]+, which is the library's Punctuation
	falconSymbols = isolate(isPunctuation, 0)
	// singlePunctuation: [\p{P}!-/:-@\[-`{-~]
	singlePunctuation = isolate(isPunctuation, 1)
	// newlines: [\r\n]
	newlines = isolate(func(r rune) bool { return r == '\r' || r == '\n' }, 1)
	// lines: [^\n]+|[\n]+
	lines = isolate(func(r rune) bool { return r == '\n' }, 0)
	// solidRuns: \S+
	solidRuns = isolate(func(r rune) bool { return !unicode.IsSpace(r) }, 0)
	hanRuns   = isolate(isHan, 0)
	kanaRuns  = isolate(isKana, 0)
	asianRuns = isolate(isAsian, 0)

	// latinWord: \s?[...]+
	latinWord       = spaced(isLatin, unicode.IsSpace)
	deepseekSymbols = spaced(isSymbol, unicode.IsSpace)
	// spacedLetters: \s?\p{L}+
	spacedLetters = spaced(unicode.IsLetter, unicode.IsSpace)
	// spacedPunctuation: \s?\p{P}+
	spacedPunctuation = spaced(unicode.IsPunct, unicode.IsSpace)
	// bloomWord: " ?[^(\s|.,!?...)]+"
	bloomWord = spaced(func(r rune) bool {
		return !unicode.IsSpace(r) && !strings.ContainsRune("(|.,!?)\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c", r)
	},
		func(r rune) bool { return r == ' ' })

	// youtuScripts: Hangul, East Asian punctuation, Bopomofo, and Han with kana: [...]+|[...]+|[...]+|[...]+
	youtuScripts = runsOf(set("\uac00-\ud7a3\u3131-\u318e"), set("\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f"),
		set("\u3105-\u312f"), isKana)

	// digitThrees and numberThrees cut what the stages before them grouped.
	digitThrees  = byThrees(unicode.IsDigit)
	numberThrees = byThrees(unicode.IsNumber)
)

// table answers for the first 64 Ki characters from a bit set.
func table(in func(r rune) bool) func(r rune) bool {
	var bits [1 << 10]uint64
	for r := range rune(1 << 16) {
		if in(r) {
			bits[r>>6] |= 1 << (r & 63)
		}
	}
	return func(r rune) bool {
		if r < 1<<16 {
			return bits[r>>6]&(1<<(r&63)) != 0
		}
		return in(r)
	}
}

// isPunctuation is \p{P} and all ASCII symbols.
func isPunctuation(r rune) bool {
	return unicode.IsPunct(r) || r < utf8.RuneSelf && unicode.IsSymbol(r)
}

// threeDigits: [0-9][0-9][0-9]
func threeDigits(s string) int {
	digits := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			digits = 0
			continue
		}
		if digits++; digits == 3 {
			if i == 2 {
				return 3
			}
			return i - 2
		}
	}
	return len(s)
}

// spaced makes a stage that cuts out [lead]?[set]+.
func spaced(in, lead func(r rune) bool) stage {
	return func(s string) int {
		start, inside, before := 0, false, false
		for i, r := range s {
			switch is := in(r); {
			case inside && !is:
				return i
			case inside:
			case is:
				// What stands before the match is a piece of its own.
				if !before {
					start = i
				}
				if start > 0 {
					return start
				}
				inside = true
			case lead(r):
				start, before = i, true
			default:
				before = false
			}
		}
		return len(s)
	}
}

// runsOf makes a stage that cuts out runs of characters of one of several sets without common members.
func runsOf(sets ...func(r rune) bool) stage {
	return func(s string) int {
		first := -2
		for i, r := range s {
			k := slices.IndexFunc(sets, func(in func(rune) bool) bool { return in(r) })
			if first == -2 {
				first = k
			}
			if k != first {
				return i
			}
		}
		return len(s)
	}
}

// regular makes a stage of a regular expression, which needs no look-around, so that its time is linear.
func regular(pattern string) stage {
	re := regexp.MustCompile(pattern)
	return func(s string) int {
		at := re.FindStringIndex(s)
		switch {
		case at == nil:
			return len(s)
		case at[0] > 0:
			return at[0]
		}
		return at[1]
	}
}

// trailingSpaces: \s+$
func trailingSpaces(s string) int {
	if n := len(strings.TrimRightFunc(s, unicode.IsSpace)); n > 0 {
		return n
	}
	return len(s)
}

// cascade: \s{512}(?!\S)|\s{256}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1} for the runs of white space without line ends that llama3Word leaves.
func cascade(s string) int {
	n, i := 0, 0
	for r, size := utf8.DecodeRuneInString(s); n < 512 && unicode.IsSpace(r); r, size = utf8.DecodeRuneInString(s[i:]) {
		n++
		i += size
	}
	if last := s[len(s)-1]; last == '\r' || last == '\n' || n < 2 {
		return len(s)
	}
	size := 512
	for n < size {
		size /= 2
	}
	return offset(s, size)
}

// offset is the byte at which the n-th character of s ends.
func offset(s string, n int) int {
	i := 0
	for range n {
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return i
}

// leadOfThrees is the length of the characters before the last whole number of threes in a run of n, or all of them if none is left over.
func leadOfThrees(s string, n int) int {
	if n < 3 || n%3 == 0 {
		return len(s)
	}
	return offset(s, n%3)
}

// rightThrees groups runs of numbers that stand alone by threes from their end, with numberThrees.
func rightThrees(s string) int {
	if r, _ := utf8.DecodeRuneInString(s); unicode.IsNumber(r) {
		return leadOfThrees(s, utf8.RuneCountInString(s))
	}
	return len(s)
}

// superThrees: (?=(\d{3})+(?!\d)), with digitThrees. It cuts before the longest part of a run of digits that is a multiple of three long.
func superThrees(s string) int {
	for i := 0; i < len(s); {
		start, end, n := digitRun(s, i)
		if cut := start + offset(s[start:end], n%3); n >= 3 && cut > 0 {
			return cut
		}
		i = end
	}
	return len(s)
}

// boundedThrees: \d{1,3}(?=(?:\d{3})*\b), with digitThrees. It cuts out runs of digits that no character of a word follows, and cuts them as
// leadOfThrees does.
func boundedThrees(s string) int {
	for i := 0; i < len(s); {
		start, end, n := digitRun(s, i)
		if r, _ := utf8.DecodeRuneInString(s[end:]); n > 0 && (end == len(s) || !isWord(r)) {
			if start > 0 {
				return start
			}
			return leadOfThrees(s[:end], n)
		}
		i = end
	}
	return len(s)
}

// digitRun is the first run of \d at s[i:], and its length in characters; all is len(s), len(s), 0 if there is none.
func digitRun(s string, i int) (start, end, n int) {
	start = strings.IndexFunc(s[i:], unicode.IsDigit)
	if start < 0 {
		return len(s), len(s), 0
	}
	start += i
	for end = start; end < len(s); n++ {
		r, size := utf8.DecodeRuneInString(s[end:])
		if !unicode.IsDigit(r) {
			break
		}
		end += size
	}
	return start, end, n
}

// byThrees makes a stage that cuts a run of a class at the start of s by threes.
func byThrees(in func(r rune) bool) stage {
	return func(s string) int {
		n := 0
		for i, r := range s {
			if !in(r) {
				break
			}
			if n == 3 {
				return i
			}
			n++
		}
		return len(s)
	}
}

// isWord is \w.
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic)
}

// deepseekV3Word: [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func deepseekV3Word(s string) int {
	return search(s, func(s string) int {
		if n := markedWord(s); n > 0 {
			return n
		}
		if n := symbolWord(s); n > 0 {
			return len(s) - len(strings.TrimLeft(s[n:], "\r\n"))
		}
		if _, _, lineEnd := whitespace(s); lineEnd > 0 {
			return lineEnd
		}
		return spaces(s)
	})
}

// sparkWord: [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+
func sparkWord(s string) int {
	return search(s, func(s string) int {
		if n := markedWord(s); n > 0 {
			return n
		}
		if n := symbolWord(s); n > 0 {
			return n
		}
		if s[0] == '\r' || s[0] == '\n' {
			return 1
		}
		return spaces(s)
	})
}

// search is the first piece of s, by what match matches at the start of a text (0: nothing).
func search(s string, match func(s string) int) int {
	for i := range s {
		if n := match(s[i:]); n > 0 {
			if i > 0 {
				return i
			}
			return n
		}
	}
	return len(s)
}

// markedWord: [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
func markedWord(s string) int {
	isASCII := func(r rune) bool { return r|0x20 >= 'a' && r|0x20 <= 'z' }
	isLetter := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) }
	r, n := utf8.DecodeRuneInString(s)
	if r < utf8.RuneSelf && isPunctuation(r) {
		if end := n + prefix(s[n:], isASCII); end > n {
			return end
		}
		return 0
	}
	if isLetter(r) {
		return prefix(s, isLetter)
	}
	if r == '\r' || r == '\n' || unicode.IsPunct(r) || unicode.IsSymbol(r) {
		return 0
	}
	if end := n + prefix(s[n:], isLetter); end > n {
		return end
	}
	return 0
}

// symbolWord: ` ?[\p{P}\p{S}]+`
func symbolWord(s string) int {
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	if n := prefix(s[i:], func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }); n > 0 {
		return i + n
	}
	return 0
}

// prefix is the length of the characters of a class that s starts with.
func prefix(s string, in func(r rune) bool) int {
	if n := strings.IndexFunc(s, func(r rune) bool { return !in(r) }); n >= 0 {
		return n
	}
	return len(s)
}
