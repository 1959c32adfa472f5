package chat

import (
	"fmt"
	"strings"
	"unicode"
)

// segment is a piece of a template.
type segment struct {
	kind byte   // 't' text, '{' expression, '%' statement
	text string // of a tag: what stands between the delimiters and their signs
}

// lexer cuts a template into segments and settles its white space, by the rules of Jinja2 with trim_blocks and lstrip_blocks, which is
// how chat templates are meant: "-" beside a tag takes all white space away, "+" none; a block tag or comment that stands first on its line takes
// the blanks before it, and one line end behind it.
type lexer struct {
	src       string
	pos       int
	segs      []segment
	lineStart bool // nothing but taken-away white space since the last line end
}

// lex cuts src. Comments are dropped, raw blocks are text.
func lex(src string) ([]segment, error) {
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src)
	l := &lexer{src: strings.TrimSuffix(src, "\n"), lineStart: true}
	for l.pos < len(l.src) {
		open := nextTag(l.src[l.pos:])
		if open < 0 {
			l.add('t', l.src[l.pos:])
			break
		}
		text := l.src[l.pos : l.pos+open]
		l.pos += open
		kind := l.src[l.pos+1]
		l.pos += 2
		l.text(text, kind)
		if err := l.tag(kind); err != nil {
			return nil, err
		}
	}
	return l.segs, nil
}

// nextTag is the offset of the next opening delimiter, -1 if there is none.
func nextTag(s string) int {
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '{' && (s[i+1] == '{' || s[i+1] == '%' || s[i+1] == '#') {
			return i
		}
	}
	return -1
}

func (l *lexer) add(kind byte, text string) {
	if kind != 't' || text != "" {
		l.segs = append(l.segs, segment{kind, text})
	}
}

// text adds the text before a tag, whose sign is read here since it decides on the white space.
func (l *lexer) text(text string, kind byte) {
	sign := byte(0)
	if l.pos < len(l.src) && (l.src[l.pos] == '-' || l.src[l.pos] == '+' && kind != '{') {
		sign = l.src[l.pos]
		l.pos++
	}
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	case sign == 0 && kind != '{':
		start := strings.LastIndexByte(text, '\n') + 1
		if (start > 0 || l.lineStart) && strings.TrimSpace(text[start:]) == "" {
			text = text[:start]
		}
	}
	l.add('t', text)
}

// tag reads up to the end of a tag and the white space that it takes.
func (l *lexer) tag(kind byte) error {
	if kind == '#' {
		end := strings.Index(l.src[l.pos:], "#}")
		if end < 0 {
			return fmt.Errorf("line %d: a comment is not closed", l.line())
		}
		l.pos += end
		l.close(kind, strings.HasSuffix(l.src[l.pos-end:l.pos], "-"), strings.HasSuffix(l.src[l.pos-end:l.pos], "+"))
		return nil
	}
	end, err := l.tagEnd(kind)
	if err != nil {
		return err
	}
	body := l.src[l.pos:end]
	l.pos = end
	minus, plus := strings.HasSuffix(body, "-"), strings.HasSuffix(body, "+") && kind == '%'
	if minus || plus {
		body = body[:len(body)-1]
	}
	if kind == '%' && strings.TrimSpace(body) == "raw" {
		return l.raw(minus)
	}
	l.add(kind, body)
	l.close(kind, minus, plus)
	return nil
}

// close moves past the closing delimiter.
func (l *lexer) close(kind byte, minus, plus bool) {
	l.pos += 2
	before := l.pos
	switch {
	case minus:
		rest := strings.TrimLeftFunc(l.src[l.pos:], unicode.IsSpace)
		l.pos = len(l.src) - len(rest)
	case kind != '{' && !plus && strings.HasPrefix(l.src[l.pos:], "\n"):
		l.pos++
	}
	l.lineStart = l.pos > before && l.src[l.pos-1] == '\n'
}

// tagEnd finds the closing delimiter of an expression or statement: not within a string, and not within brackets.
func (l *lexer) tagEnd(kind byte) (int, error) {
	depth := 0
	for i := l.pos; i < len(l.src); i++ {
		switch c := l.src[i]; c {
		case '\'', '"':
			n := stringEnd(l.src[i:])
			if n < 0 {
				return 0, fmt.Errorf("line %d: a string is not closed", l.line())
			}
			i += n - 1
		case '(', '[', '{':
			if depth++; depth > nestingLimit {
				return 0, fmt.Errorf("line %d: %w: brackets nested more than %d deep", l.line(), ErrLimit, nestingLimit)
			}
		case ')', ']', '}', '%':
			if depth == 0 && i+1 < len(l.src) && l.src[i+1] == '}' && (c == '}' && kind == '{' || c == '%' && kind == '%') {
				return i, nil
			}
			if c != '%' {
				depth = max(depth-1, 0)
			}
		}
	}
	return 0, fmt.Errorf("line %d: a tag is not closed", l.line())
}

// stringEnd is the length of the string literal that s starts with, -1 if it does not end.
func stringEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return -1
}

// raw reads the text of a raw block, whose opening tag was read up to its end.
func (l *lexer) raw(minus bool) error {
	line := l.line()
	l.close('{', minus, false)
	for i := l.pos; ; {
		open := strings.Index(l.src[i:], "{%")
		if open < 0 {
			return fmt.Errorf("line %d: a raw block is not closed", line)
		}
		i += open + len("{%")
		end := strings.Index(l.src[i:], "%}")
		if end < 0 {
			return fmt.Errorf("line %d: a raw block is not closed", line)
		}
		body := l.src[i : i+end]
		if strings.TrimSpace(strings.Trim(body, "+-")) != "endraw" {
			continue
		}
		text := l.src[l.pos : i-len("{%")]
		l.pos = i
		l.text(text, '%')
		l.pos = i + end
		l.close('%', strings.HasSuffix(body, "-"), strings.HasSuffix(body, "+"))
		return nil
	}
}

// line is the number of the current line.
func (l *lexer) line() int { return 1 + strings.Count(l.src[:l.pos], "\n") }
