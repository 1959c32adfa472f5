package chat

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Strings are sequences of characters, as in Python, and valid UTF-8.

func runeCount(s string) int { return utf8.RuneCountInString(s) }

// runeLen is the number of bytes of the first character.
func runeLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// isASCII reports whether characters are bytes.
func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// isSpace is Python's str.isspace for one character.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// isBlank reports whether there is nothing but white space.
func isBlank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !isSpace(r) }) < 0
}

// strip is str.strip: of white space if chars is empty.
func strip(s, chars string, left, right bool) string {
	drop := isSpace
	if chars != "" {
		var ascii [utf8.RuneSelf]bool
		others := map[rune]bool{}
		for _, r := range chars {
			if r < utf8.RuneSelf {
				ascii[r] = true
			} else {
				others[r] = true
			}
		}
		drop = func(r rune) bool { return r < utf8.RuneSelf && ascii[r] || others[r] }
	}
	if left {
		s = strings.TrimLeftFunc(s, drop)
	}
	if right {
		s = strings.TrimRightFunc(s, drop)
	}
	return s
}

// cut is s[from:to] in characters, for 0 <= from <= to <= length.
func cut(s string, from, to int) string {
	if isASCII(s) {
		return s[from:to]
	}
	for ; from > 0; from-- {
		n := runeLen(s)
		s = s[n:]
		to--
	}
	end := 0
	for ; to > 0; to-- {
		end += runeLen(s[end:])
	}
	return s[:end]
}

// words counts the runs of characters that are part of a word.
func words(s string, part func(rune) bool) int {
	n, in := 0, false
	for _, r := range s {
		if p := part(r); p != in {
			in = p
			n += int(toInt(p))
		}
	}
	return n
}

// isLineEnd is what str.splitlines cuts at.
func isLineEnd(r rune) bool {
	return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}

// lines is str.splitlines.
func lines(s string, keepEnds bool) []string {
	var list []string
	for s != "" {
		i := strings.IndexFunc(s, isLineEnd)
		if i < 0 {
			return append(list, s)
		}
		n := runeLen(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		if keepEnds {
			list = append(list, s[:i+n])
		} else {
			list = append(list, s[:i])
		}
		s = s[i+n:]
	}
	return list
}

// fields is str.split without a separator, at most n splits from the left (n < 0: all).
func fields(s string, n int) []string {
	var list []string
	for {
		s = strings.TrimLeftFunc(s, isSpace)
		i := strings.IndexFunc(s, isSpace)
		switch {
		case s == "":
			return list
		case n == 0:
			return append(list, strings.TrimRightFunc(s, isSpace))
		case i < 0:
			return append(list, s)
		}
		list = append(list, s[:i])
		s = s[i:]
		n--
	}
}

// fieldsRight is str.rsplit without a separator, at most n splits from the right.
func fieldsRight(s string, n int) []string {
	var list []string
	for {
		s = strings.TrimRightFunc(s, isSpace)
		i := strings.LastIndexFunc(s, isSpace)
		switch {
		case s == "":
		case n == 0:
			list = append(list, strings.TrimLeftFunc(s, isSpace))
		case i < 0:
			list = append(list, s)
		default:
			i += runeLen(s[i:])
			list = append(list, s[i:])
			s = s[:i]
			n--
			continue
		}
		for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
			list[i], list[j] = list[j], list[i]
		}
		return list
	}
}

// longUpper lists the characters whose upper case is several characters, each followed by those (Unicode's SpecialCasing.txt).
const longUpper = "ßSS ŉʼN ǰJ\u030c ΐΙ\u0308\u0301 ΰΥ\u0308\u0301 ևԵՒ ẖH\u0331 ẗT\u0308 ẘW\u030a ẙY\u030a ẚAʾ ὐΥ\u0313 ὒΥ\u0313\u0300 ὔΥ\u0313\u0301 ὖΥ\u0313\u0342 ᾀἈΙ ᾁἉΙ " +
	"ᾂἊΙ ᾃἋΙ ᾄἌΙ ᾅἍΙ ᾆἎΙ ᾇἏΙ ᾈἈΙ ᾉἉΙ ᾊἊΙ ᾋἋΙ ᾌἌΙ ᾍἍΙ ᾎἎΙ ᾏἏΙ ᾐἨΙ ᾑἩΙ ᾒἪΙ " +
	"ᾓἫΙ ᾔἬΙ ᾕἭΙ ᾖἮΙ ᾗἯΙ ᾘἨΙ ᾙἩΙ ᾚἪΙ ᾛἫΙ ᾜἬΙ ᾝἭΙ ᾞἮΙ ᾟἯΙ ᾠὨΙ ᾡὩΙ ᾢὪΙ ᾣὫΙ " +
	"ᾤὬΙ ᾥὭΙ ᾦὮΙ ᾧὯΙ ᾨὨΙ ᾩὩΙ ᾪὪΙ ᾫὫΙ ᾬὬΙ ᾭὭΙ ᾮὮΙ ᾯὯΙ ᾲᾺΙ ᾳΑΙ ᾴΆΙ ᾶΑ\u0342 ᾷΑ\u0342Ι " +
	"ᾼΑΙ ῂῊΙ ῃΗΙ ῄΉΙ ῆΗ\u0342 ῇΗ\u0342Ι ῌΗΙ ῒΙ\u0308\u0300 ΐΙ\u0308\u0301 ῖΙ\u0342 ῗΙ\u0308\u0342 ῢΥ\u0308\u0300 ΰΥ\u0308\u0301 ῤΡ\u0313 ῦΥ\u0342 ῧΥ\u0308\u0342 ῲῺΙ " +
	"ῳΩΙ ῴΏΙ ῶΩ\u0342 ῷΩ\u0342Ι ῼΩΙ ﬀFF ﬁFI ﬂFL ﬃFFI ﬄFFL ﬅST ﬆST ﬓՄՆ ﬔՄԵ ﬕՄԻ ﬖՎՆ ﬗՄԽ "

// upper is str.upper for one character.
func upper(r rune) string {
	if u := unicode.ToUpper(r); u != r || r < utf8.RuneSelf {
		return string(u)
	}
	if i := strings.Index(" "+longUpper, " "+string(r)); i >= 0 {
		s, _, _ := strings.Cut(longUpper[i+runeLen(longUpper[i:]):], " ")
		return s
	}
	return string(r)
}

func upperText(s string) string { return mapText(s, upper) }

// mapText puts each character through a function.
func mapText(s string, f func(rune) string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		b.WriteString(f(r))
	}
	return b.String()
}

// lowerText is str.lower: a capital sigma at the end of a word becomes the final one.
func lowerText(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		switch {
		case r == 'Σ' && finalSigma(s[:i], s[i+runeLen(s[i:]):]):
			b.WriteRune('ς')
		case r == 'İ':
			b.WriteString("i\u0307")
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// finalSigma reports whether a cased character stands before and none behind, with marks and the like passed over.
func finalSigma(before, behind string) bool {
	ignorable := func(r rune) bool {
		return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune("'.:·’․‧", r)
	}
	const near = 64 // bytes to look at
	for len(before) > 0 {
		r, n := utf8.DecodeLastRuneInString(before)
		if !ignorable(r) {
			if !isCased(r) {
				return false
			}
			break
		}
		before = before[:len(before)-n]
	}
	if before == "" {
		return false
	}
	for _, r := range behind[:min(near, len(behind))] {
		if !ignorable(r) {
			return !isCased(r)
		}
	}
	return true
}

func isCased(r rune) bool {
	return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) || unicode.Is(unicode.Other_Lowercase, r) || unicode.Is(unicode.Other_Uppercase, r)
}

// title is the form of a character at the start of a word.
func title(r rune) string {
	if t := unicode.ToTitle(r); t != r || unicode.IsTitle(r) {
		return string(t)
	}
	u := upper(r)
	n := runeLen(u)
	return u[:n] + lowerText(u[n:])
}

// capitalize is str.capitalize.
func capitalize(s string) string {
	if s == "" {
		return s
	}
	r, n := utf8.DecodeRuneInString(s)
	return title(r) + lowerText(s)[len(lowerText(s[:n])):]
}

// titleText is str.title: words start behind anything without case.
func titleText(s string) string {
	low := lowerText(s)
	if runeCount(low) != runeCount(s) { // İ alone
		low = strings.ToLower(s)
	}
	var b strings.Builder
	inWord := false
	for _, r := range s {
		l, n := utf8.DecodeRuneInString(low)
		low = low[n:]
		if inWord {
			b.WriteRune(l)
		} else {
			b.WriteString(title(r))
		}
		inWord = isCased(r)
	}
	return b.String()
}

// casefold is str.casefold.
func casefold(s string) string {
	return mapText(s, func(r rune) string {
		switch {
		case r < utf8.RuneSelf, r == 'ı':
			return string(unicode.ToLower(r))
		case r == 'ẞ':
			return "ss"
		case r == 'İ':
			return "i\u0307"
		case unicode.Is(unicode.Cherokee, r):
			return string(unicode.ToUpper(r))
		}
		return mapText(upper(r), func(r rune) string { return string(unicode.ToLower(r)) })
	})
}

func swapcase(s string) string {
	return mapText(s, func(r rune) string {
		switch {
		case unicode.IsUpper(r):
			return lowerText(string(r))
		case unicode.IsLower(r):
			return upper(r)
		}
		return string(r)
	})
}

// all reports whether there are characters and each passes.
func all(s string, f func(rune) bool) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !f(r) }) < 0
}

// allCased is str.isupper or str.islower: there is a cased character, and all such are of this case.
func allCased(s string, is func(rune) bool) bool {
	found := false
	for _, r := range s {
		if is(r) {
			found = true
		} else if isCased(r) {
			return false
		}
	}
	return found
}

func isUpper(r rune) bool { return unicode.IsUpper(r) || unicode.Is(unicode.Other_Uppercase, r) }
func isLower(r rune) bool { return unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r) }

// isTitle is str.istitle.
func isTitle(s string) bool {
	found, inWord := false, false
	for _, r := range s {
		switch {
		case isUpper(r) || unicode.IsTitle(r):
			if inWord {
				return false
			}
			found, inWord = true, true
		case isLower(r):
			if !inWord {
				return false
			}
			found = true
		default:
			inWord = false
		}
	}
	return found
}

// isIdentifier is str.isidentifier.
func isIdentifier(s string) bool {
	for i, r := range s {
		start := r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r)
		if !start && (i == 0 || !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc)) {
			return false
		}
	}
	return s != ""
}

// expandTabs is str.expandtabs.
func expandTabs(m *meter, s string, size int) string {
	b := text{m: m}
	column := 0
	for _, r := range s {
		switch r {
		case '\t':
			if size > 0 {
				n := size - column%size
				column += n
				b.write(repeat(m, " ", n))
			}
		case '\n', '\r':
			column = 0
			b.write(string(r))
		default:
			column++
			b.write(string(r))
		}
	}
	return b.String()
}

// repeat is s * n under a meter.
func repeat(m *meter, s string, n int) string {
	if n <= 0 || s == "" {
		return ""
	}
	if n > m.most/len(s) {
		m.build(m.most + 1) // refused before it is made
	}
	m.build(n * len(s))
	return strings.Repeat(s, n)
}

// pad fills a text up to a width: align is one of < > ^ and ~ (which is str.center, that puts the odd one elsewhere).
func pad(m *meter, s, fill string, width int, align byte) string {
	n := width - runeCount(s)
	if n <= 0 {
		return s
	}
	left := 0
	switch align {
	case '>':
		left = n
	case '^':
		left = n / 2
	case '~':
		left = n/2 + n&width&1
	}
	return joinText(m, []string{repeat(m, fill, left), s, repeat(m, fill, n-left)}, "")
}

// quote is repr() of a str.
func quote(s string) string {
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte(q)
	for _, r := range s {
		switch {
		case r == rune(q) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			writeEscape(&b, r)
		}
	}
	b.WriteByte(q)
	return b.String()
}

// writeEscape writes a character by its number, as Python's escapes do.
func writeEscape(b *strings.Builder, r rune) {
	switch {
	case r < 0x100:
		fmt.Fprintf(b, `\x%02x`, r)
	case r < 0x10000:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

// shown is quote for messages, which need not hold all of a long text.
func shown(s string) string {
	const most = 1000
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return quote(s)
}

// quoteBytes is repr() of bytes.
func quoteBytes(s bytes) string {
	q := byte('\'')
	if strings.Contains(string(s), "'") && !strings.Contains(string(s), `"`) {
		q = '"'
	}
	var b strings.Builder
	b.WriteByte('b')
	b.WriteByte(q)
	for _, c := range []byte(s) {
		switch {
		case c == q || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c >= ' ' && c < 0x7f:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	b.WriteByte(q)
	return b.String()
}

// escapes are those of HTML that markupsafe writes.
var escapes = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")
