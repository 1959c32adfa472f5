package chat

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is the kind of a token. The spelling of operators and the names of the others are those that messages use.
type tokenKind string

const (
	tokEOF      tokenKind = "end of template"
	tokData     tokenKind = "template data / text"
	tokVarBegin tokenKind = "begin of print statement"
	tokVarEnd   tokenKind = "end of print statement"
	tokBegin    tokenKind = "begin of statement block"
	tokEnd      tokenKind = "end of statement block"
	tokName     tokenKind = "name"
	tokString   tokenKind = "string"
	tokInt      tokenKind = "integer"
	tokFloat    tokenKind = "float"
)

// token is a piece of a template. Operators have their spelling as kind.
type token struct {
	kind tokenKind
	text string // of a name, a string (its value), template data
	num  value  // of an integer or a float
	pos  int    // byte offset
}

// describe is how messages name a token.
func (t token) describe() string {
	if t.kind == tokName {
		return t.text
	}
	return string(t.kind)
}

// is reports whether the token is a certain name.
func (t token) is(name string) bool { return t.kind == tokName && t.text == name }

// lexer cuts a template into tokens, with trim_blocks and lstrip_blocks on as transformers sets them.
type lexer struct {
	src       string
	pos       int
	lineStart bool // what was cut last ends a line, or nothing was cut
	tokens    []token
	open      []byte // brackets that are to come
}

// normalize brings all ends of lines to \n and drops the last one, as Jinja does before it looks at a template.
func normalize(src string) string {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	return strings.TrimSuffix(src, "\n")
}

// lex cuts a normalized template into tokens; the last is tokEOF. Faults of syntax raise.
func lex(src string) []token {
	l := &lexer{src: src, lineStart: true}
	for l.pos < len(src) {
		i := l.nextTag()
		if i < 0 {
			l.add(token{kind: tokData, text: src[l.pos:], pos: l.pos})
			break
		}
		l.tag(i)
	}
	l.add(token{kind: tokEOF, pos: len(src)})
	return l.tokens
}

func (l *lexer) add(t token) {
	if t.kind != tokData || t.text != "" {
		l.tokens = append(l.tokens, t)
	}
}

func (l *lexer) fail(pos int, format string, args ...any) {
	panic(failure{kind: "TemplateSyntaxError", message: fmt.Sprintf(format, args...), pos: pos})
}

// nextTag finds the next {%, {{ or {#.
func (l *lexer) nextTag() int {
	for i := l.pos; ; i++ {
		j := strings.IndexByte(l.src[i:], '{')
		if j < 0 || i+j+1 >= len(l.src) {
			return -1
		}
		if i += j; strings.IndexByte("%{#", l.src[i+1]) >= 0 {
			return i
		}
	}
}

// data adds the text before a tag that starts at i; sign is the tag's - or +, or 0.
func (l *lexer) data(i int, sign byte, variable bool) {
	text := l.src[l.pos:i]
	switch start := strings.LastIndexByte(text, '\n') + 1; {
	case sign == '-':
		text = strings.TrimRightFunc(text, isSpace)
	case sign == 0 && !variable && (start > 0 || l.lineStart) && isBlank(text[start:]):
		text = text[:start]
	}
	l.add(token{kind: tokData, text: text, pos: l.pos})
}

// advance moves on to pos and notes whether a line ended there.
func (l *lexer) advance(pos int) {
	l.lineStart = pos > l.pos && l.src[pos-1] == '\n'
	l.pos = pos
}

// signAt is the - or + at a place, 0 if there is none.
func (l *lexer) signAt(i int) byte {
	if i < len(l.src) && (l.src[i] == '-' || l.src[i] == '+') {
		return l.src[i]
	}
	return 0
}

// tag cuts the tag that starts at i, and the text before it.
func (l *lexer) tag(i int) {
	kind, body := l.src[i+1], i+2
	sign := l.signAt(body)
	if sign != 0 {
		body++
	}
	if kind == '%' {
		if end := l.rawBegin(body); end >= 0 {
			l.data(i, sign, false)
			l.advance(end)
			l.raw()
			return
		}
	}
	l.data(i, sign, kind == '{')
	l.advance(body)
	switch kind {
	case '#':
		if body == len(l.src) {
			return // Jinja lets it pass
		}
		end := strings.Index(l.src[body:], "#}")
		if end < 0 {
			l.fail(i, "Missing end of comment tag")
		}
		end += body
		l.advance(l.closing(end, l.before(end, body)))
	case '{':
		l.add(token{kind: tokVarBegin, pos: i})
		l.code(tokVarEnd)
	default:
		l.add(token{kind: tokBegin, pos: i})
		l.code(tokEnd)
	}
}

// before is the sign in front of the end of a tag, 0 if there is none.
func (l *lexer) before(end, from int) byte {
	if end > from {
		return l.signAt(end - 1)
	}
	return 0
}

// closing is where the text goes on behind a %} or #} at end that has a sign before it.
func (l *lexer) closing(end int, sign byte) int {
	end += 2
	switch {
	case sign == '-':
		return end + len(l.src[end:]) - len(strings.TrimLeftFunc(l.src[end:], isSpace))
	case sign == 0 && end < len(l.src) && l.src[end] == '\n':
		return end + 1
	}
	return end
}

// skipSpace is the first place from i on that is no white space.
func (l *lexer) skipSpace(i int) int {
	return i + len(l.src[i:]) - len(strings.TrimLeftFunc(l.src[i:], isSpace))
}

// rawBegin looks for the rest of {% raw %}; it returns where the raw text starts, -1 if the tag is another one.
func (l *lexer) rawBegin(i int) int {
	i = l.skipSpace(i)
	if !strings.HasPrefix(l.src[i:], "raw") {
		return -1
	}
	i = l.skipSpace(i + 3)
	switch {
	case strings.HasPrefix(l.src[i:], "-%}"):
		return l.skipSpace(i + 3)
	case strings.HasPrefix(l.src[i:], "%}"):
		return i + 2
	}
	return -1
}

// raw cuts the text up to {% endraw %}.
func (l *lexer) raw() {
	if l.pos == len(l.src) {
		return // Jinja lets it pass
	}
	for i := l.pos; ; i += 2 {
		j := strings.Index(l.src[i:], "{%")
		if j < 0 {
			l.fail(l.pos, "Missing end of raw directive")
		}
		i += j
		body := i + 2
		sign := l.signAt(body)
		if sign != 0 {
			body++
		}
		body = l.skipSpace(body)
		if !strings.HasPrefix(l.src[body:], "endraw") {
			continue
		}
		end := l.skipSpace(body + 6)
		endSign := l.signAt(end)
		if endSign != 0 {
			end++
		}
		if strings.HasPrefix(l.src[end:], "%}") {
			l.data(i, sign, false)
			l.advance(l.closing(end, endSign))
			return
		}
	}
}

// code cuts what is within {{ }} or {% %} into tokens, up to its end.
func (l *lexer) code(end tokenKind) {
	l.open = l.open[:0]
	for l.pos < len(l.src) {
		if len(l.open) == 0 && l.codeEnd(end) {
			return
		}
		rest := l.src[l.pos:]
		if n := len(rest) - len(strings.TrimLeftFunc(rest, isSpace)); n > 0 {
			l.advance(l.pos + n)
			continue
		}
		r, _ := utf8.DecodeRuneInString(rest)
		switch {
		case r >= '0' && r <= '9':
			l.number()
		case r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			l.name()
		case r == '\'' || r == '"':
			l.quoted(byte(r))
		default:
			l.operator()
		}
	}
}

// codeEnd takes the end of a tag, if it stands here.
func (l *lexer) codeEnd(end tokenKind) bool {
	rest, mark := l.src[l.pos:], "%}"
	if end == tokVarEnd {
		mark = "}}"
	}
	sign := l.signAt(l.pos)
	if end == tokVarEnd && sign == '+' {
		return false
	}
	at := l.pos
	if sign != 0 {
		at++
		rest = rest[1:]
	}
	if !strings.HasPrefix(rest, mark) {
		return false
	}
	l.add(token{kind: end, pos: l.pos})
	if end == tokVarEnd && sign == 0 { // the end of a line stays
		l.advance(at + 2)
	} else {
		l.advance(l.closing(at, sign))
	}
	return true
}

func (l *lexer) name() {
	start, end := l.pos, l.pos
	for end < len(l.src) {
		r, n := utf8.DecodeRuneInString(l.src[end:])
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Pc) {
			break
		}
		end += n
	}
	name := l.src[start:end]
	if r, _ := utf8.DecodeRuneInString(name); r != '_' && !unicode.IsLetter(r) && !unicode.Is(unicode.Nl, r) {
		l.fail(start, "Invalid character in identifier")
	}
	l.add(token{kind: tokName, text: name, pos: start})
	l.advance(end)
}

// operators in the order in which they are tried.
var operators = strings.Fields("// ** == != >= <= + - / * % ~ [ ] ( ) { } > < = . : | , ;")

func (l *lexer) operator() {
	for _, op := range operators {
		if !strings.HasPrefix(l.src[l.pos:], op) {
			continue
		}
		switch op {
		case "{":
			l.open = append(l.open, '}')
		case "(":
			l.open = append(l.open, ')')
		case "[":
			l.open = append(l.open, ']')
		case "}", ")", "]":
			if len(l.open) == 0 {
				l.fail(l.pos, "unexpected '%s'", op)
			}
			want := l.open[len(l.open)-1]
			l.open = l.open[:len(l.open)-1]
			if want != op[0] {
				l.fail(l.pos, "unexpected '%s', expected '%c'", op, want)
			}
		}
		l.add(token{kind: tokenKind(op), pos: l.pos})
		l.advance(l.pos + len(op))
		return
	}
	l.unexpected()
}

func (l *lexer) unexpected() {
	r, _ := utf8.DecodeRuneInString(l.src[l.pos:])
	l.fail(l.pos, "unexpected char %s at %d", quote(string(r)), runeCount(l.src[:l.pos]))
}

// digits is where a run of digits with single underscores between them ends; i if there is none.
func (l *lexer) digits(i int, base int) int {
	for j := i; j < len(l.src); j++ {
		c := l.src[j]
		if c == '_' && j > i && j+1 < len(l.src) && isDigit(l.src[j+1], base) {
			continue
		}
		if !isDigit(c, base) {
			return j
		}
	}
	return len(l.src)
}

func isDigit(c byte, base int) bool {
	d, err := strconv.ParseUint(string(c), base, 8)
	return err == nil && int(d) < base
}

// number takes an integer or a float.
func (l *lexer) number() {
	start := l.pos
	end := l.digits(start, 10)
	if start == 0 || l.src[start-1] != '.' { // x.1.2 has two integers
		if e := l.fraction(end); e > end {
			f, err := strconv.ParseFloat(strings.ReplaceAll(l.src[start:e], "_", ""), 64)
			if err != nil && f == 0 {
				l.fail(start, "%q is no number", l.src[start:e])
			}
			l.add(token{kind: tokFloat, num: f, pos: start})
			l.advance(e)
			return
		}
	}
	base := 10
	if l.src[start] == '0' {
		if start+1 < len(l.src) {
			base = map[byte]int{'x': 16, 'o': 8, 'b': 2}[l.src[start+1]|0x20]
		}
		from := start + 2
		if base != 0 && base != 10 && from < len(l.src) && l.src[from] == '_' {
			from++
		}
		if e := start; base != 0 && base != 10 {
			if e = l.digits(from, base); e > from {
				l.integer(start, from, e, base)
				return
			}
		}
		end = start + 1
		for end < len(l.src) && (l.src[end] == '0' || l.src[end] == '_' && strings.HasPrefix(l.src[end+1:], "0")) {
			end++
		}
	}
	l.integer(start, start, end, 10)
}

func (l *lexer) integer(start, from, end, base int) {
	digits := strings.ReplaceAll(l.src[from:end], "_", "")
	if len(digits) > digitLimit {
		l.fail(start, "an integer of more than %d digits", digitLimit)
	}
	i, ok := new(big.Int).SetString(digits, base)
	if !ok {
		l.unexpected()
	}
	l.add(token{kind: tokInt, num: shrink(i), text: digits, pos: start})
	l.advance(end)
}

// fraction is where a float ends whose whole part ends at i; i if it is no float.
func (l *lexer) fraction(i int) int {
	end := i
	if i < len(l.src) && l.src[i] == '.' {
		if e := l.digits(i+1, 10); e > i+1 {
			end = e
		}
	}
	if end < len(l.src) && l.src[end]|0x20 == 'e' {
		e := end + 1
		if l.signAt(e) != 0 {
			e++
		}
		if f := l.digits(e, 10); f > e {
			return f
		}
	}
	return end
}

func (l *lexer) quoted(q byte) {
	start := l.pos
	for i := start + 1; i < len(l.src); i++ {
		switch l.src[i] {
		case '\\':
			i++
		case q:
			l.add(token{kind: tokString, text: l.unescape(l.src[start+1:i], start), pos: start})
			l.advance(i + 1)
			return
		}
	}
	l.unexpected()
}

// simpleEscapes are those of one letter.
var simpleEscapes = map[byte]string{'\n': "", '\\': `\`, '\'': "'", '"': `"`, 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v"}

// unescape reads the escapes of a Python string. Unknown ones stay as they are.
func (l *lexer) unescape(s string, pos int) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; {
		case c == 'x' || c == 'u' || c == 'U':
			n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			end := min(i+1+n, len(s))
			code, err := strconv.ParseUint(s[i+1:end], 16, 32)
			if err != nil || end-i-1 < n {
				l.fail(pos, "truncated \\%c%s escape", c, strings.Repeat("X", n))
			}
			if code > unicode.MaxRune || code >= 0xd800 && code < 0xe000 {
				l.fail(pos, "\\%c%s is no character", c, s[i+1:end])
			}
			b.WriteRune(rune(code))
			i = end - 1
		case c >= '0' && c <= '7':
			end := i + 1
			for end < len(s) && end < i+3 && s[end] >= '0' && s[end] <= '7' {
				end++
			}
			code, _ := strconv.ParseUint(s[i:end], 8, 32)
			b.WriteRune(rune(code))
			i = end - 1
		case c == 'N':
			l.fail(pos, "characters by name (\\N{...}) are not supported")
		case c >= utf8.RuneSelf: // Jinja escapes these itself, and the two backslashes become one
			r, n := utf8.DecodeRuneInString(s[i:])
			writeEscape(&b, r)
			i += n - 1
		default:
			if plain, ok := simpleEscapes[c]; ok {
				b.WriteString(plain)
			} else {
				b.WriteByte('\\')
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}
