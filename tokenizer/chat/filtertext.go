package chat

import (
	"fmt"
	"html"
	"math"
	"strings"
	"unicode"
)

// titleFilter is Jinja's title: words start behind white space, brackets and hyphens.
func titleFilter(s string) string {
	var b strings.Builder
	for s != "" {
		starts := func(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) }
		n := len(s) - len(strings.TrimLeftFunc(s, starts))
		b.WriteString(s[:n])
		s = s[n:]
		end := strings.IndexFunc(s, starts)
		if end < 0 {
			end = len(s)
		}
		if word := s[:end]; word != "" {
			n := runeLen(word)
			b.WriteString(upperText(word[:n]) + lowerText(word[n:]))
		}
		s = s[end:]
	}
	return b.String()
}

func filterIndent(r *run, a []value) value {
	m := &r.meter
	if u, ok := a[0].(*undefined); ok {
		u.fail(m)
	}
	s, ok := asString(a[0])
	if _, isList := a[0].(*list); isList {
		raise("AttributeError", "'list' object has no attribute 'splitlines'")
	}
	if !ok {
		r.unsupported("+=", a[0], "")
	}
	margin, isText := asString(orNone(a[1]))
	if !isText {
		margin = repeat(m, " ", optInt(a[1], 4))
	}
	r.build(len(s))
	r.buildLines(s)
	rows := lines(s+"\n", false)
	for i := range rows {
		if i > 0 && (isTrue(a[3]) || rows[i] != "") {
			r.build(len(margin) + len(rows[i]))
			rows[i] = margin + rows[i]
		}
	}
	out := joinText(m, rows, "\n")
	if isTrue(a[2]) {
		out = joinText(m, []string{margin, out}, "")
	}
	return like(a[0], out)
}

func filterWordcount(r *run, a []value) value {
	s := str(&r.meter, a[0])
	r.scan(len(s))
	return int64(words(s, func(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsNumber(c) }))
}

// filterWordwrap breaks lines at white space, and words that are longer than a line, as textwrap does without hyphens.
func filterWordwrap(r *run, a []value) value {
	s := needText(a[0])
	width, wrap := optInt(a[1], 79), optText(a[3], "\n")
	if width <= 0 {
		raise("ValueError", "invalid width %d (must be > 0)", width)
	}
	breakLong := a[2] == nil || truth(a[2])
	r.build(2 * len(s))
	r.buildLines(s)
	r.buildWords(s)
	r.buildParts(strings.Count(s, "-"))
	var out []string
	for _, line := range lines(s, false) {
		out = append(out, joinText(&r.meter, wrapLine(&r.meter, line, width, breakLong, a[4] == nil || truth(a[4])), wrap))
	}
	return joinText(&r.meter, out, wrap)
}

// wrapSpace is the white space of textwrap.
func wrapSpace(r rune) bool { return strings.ContainsRune("\t\n\v\f\r ", r) }

// wrapLine fills lines with the chunks of a text: words and the white space between them. White space is dropped where a line is broken.
func wrapLine(m *meter, s string, width int, breakLong, hyphens bool) []string {
	chunks := wrapChunks(s, hyphens)
	var rows []string
	for len(chunks) > 0 {
		m.build(48)
		m.scan(len(chunks[0])) // a word that is longer than a line is looked at once for each
		var row []string
		n := 0
		if strings.Trim(chunks[0], " \t\n\v\f\r") == "" && len(rows) > 0 {
			chunks = chunks[1:]
		}
		for len(chunks) > 0 && n+runeCount(chunks[0]) <= width {
			row = append(row, chunks[0])
			n += runeCount(chunks[0])
			chunks = chunks[1:]
		}
		if len(chunks) > 0 && runeCount(chunks[0]) > width {
			switch room := max(width-n, 1); {
			case breakLong:
				head := cut(chunks[0], 0, room)
				row = append(row, head)
				chunks[0] = chunks[0][len(head):]
			case len(row) == 0:
				row = append(row, chunks[0])
				chunks = chunks[1:]
			}
		}
		if len(row) > 0 && isBlank(row[len(row)-1]) {
			row = row[:len(row)-1]
		}
		if len(row) > 0 {
			rows = append(rows, strings.Join(row, ""))
		}
	}
	return rows
}

// wrapChunks cuts a text into words and white space; words may be broken behind a hyphen between letters.
func wrapChunks(s string, hyphens bool) []string {
	var chunks []string
	for s != "" {
		blank := wrapSpace(rune(s[0]))
		end := strings.IndexFunc(s, func(r rune) bool { return wrapSpace(r) != blank })
		if end < 0 {
			end = len(s)
		}
		word := s[:end]
		s = s[end:]
		if hyphens && !blank {
			for i := 1; i < len(word)-1; i++ {
				if word[i] == '-' && unicode.IsLetter(rune(word[i-1])) && unicode.IsLetter(rune(word[i+1])) {
					chunks = append(chunks, word[:i+1])
					word = word[i+1:]
					i = 0
				}
			}
		}
		chunks = append(chunks, word)
	}
	return chunks
}

func filterTruncate(r *run, a []value) value {
	n, ok := length(a[0])
	if !ok {
		raise("TypeError", "object of type '%s' has no len()", typeName(a[0]))
	}
	size, leeway, end := optInt(a[1], 255), 5, optText(a[3], "...")
	if a[4] != nil && a[4] != (none{}) {
		leeway = toIndex(a[4])
	}
	switch {
	case size < runeCount(end):
		raise("AssertionError", "expected length >= %d, got %d", runeCount(end), size)
	case leeway < 0:
		raise("AssertionError", "expected leeway >= 0, got %d", leeway)
	case n <= size || n-size <= leeway:
		return a[0]
	}
	s := needText(a[0])
	r.build(len(s))
	head := cut(s, 0, size-runeCount(end))
	if !isTrue(a[2]) {
		if i := strings.LastIndexByte(head, ' '); i >= 0 {
			head = head[:i]
		}
	}
	return like(a[0], head+end)
}

// filterStriptags drops comments and tags, brings white space to single blanks and reads entities.
func filterStriptags(r *run, a []value) value {
	s := str(&r.meter, a[0])
	r.build(2 * len(s))
	r.buildWords(s)
	s = between(s, "<!--", "-->")
	s = between(s, "<", ">")
	return html.UnescapeString(strings.Join(fields(s, -1), " "))
}

// between drops what stands between two marks, marks included. A mark that is not closed stays.
func between(s, open, end string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, open)
		if i < 0 {
			break
		}
		j := strings.Index(s[i:], end)
		if j < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i+j+len(end):]
	}
	return b.String() + s
}

func filterURLEncode(r *run, a []value) value {
	m := &r.meter
	if s, ok := asString(a[0]); ok {
		return percentEncode(m, s, false)
	}
	if _, ok := iterate(m, a[0]); !ok {
		return percentEncode(m, str(m, a[0]), false)
	}
	pairs := a[0]
	if d, ok := pairs.(*dict); ok {
		pairs = &view{"dict_items", d}
	}
	var parts []string
	for _, pair := range elements(m, pairs) {
		kv := unpack(m, pair, 2)
		parts = append(parts, percentEncode(m, str(m, kv[0]), true)+"="+percentEncode(m, str(m, kv[1]), true))
	}
	return joinText(m, parts, "&")
}

// percentEncode is urllib's quote; in a query a blank is a plus and a slash is written out.
func percentEncode(m *meter, s string, query bool) string {
	m.build(3 * len(s))
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', strings.IndexByte("_.-~", c) >= 0, c == '/' && !query:
			b.WriteByte(c)
		case c == ' ' && query:
			b.WriteByte('+')
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func filterXMLAttr(r *run, a []value) value {
	d, ok := a[0].(*dict)
	if !ok {
		raise("AttributeError", "'%s' object has no attribute 'items'", typeName(a[0]))
	}
	var parts []string
	for i, k := range d.keys {
		if _, missing := d.values[i].(*undefined); missing || d.values[i] == (none{}) {
			continue
		}
		key, ok := asString(k)
		if !ok {
			raise("TypeError", "expected string or bytes-like object, got '%s'", typeName(k))
		}
		if strings.ContainsAny(key, " \t\n\r\f\v/>=") {
			raise("ValueError", "Invalid character in attribute name: %s", shown(key))
		}
		parts = append(parts, string(escape(&r.meter, key))+`="`+string(escape(&r.meter, d.values[i]))+`"`)
	}
	out := joinText(&r.meter, parts, " ")
	if out != "" && (a[1] == nil || truth(a[1])) {
		out = " " + out
	}
	return r.captured(out)
}

// filterPprint writes what fits a line as repr does, with the keys of dicts sorted. Longer values are not broken into lines here.
func filterPprint(r *run, a []value) value {
	s := repr(&r.meter, a[0])
	if runeCount(s) > 80 {
		raise("NotImplementedError", "pprint of values that need more than one line is not supported in chat templates")
	}
	if d, ok := a[0].(*dict); ok {
		byKey := newDict()
		items := sorted(&r.meter, (&view{"dict_items", d}).items(&r.meter), d.keys, false)
		for _, pair := range items {
			kv := pair.(*tuple).items
			byKey.set(&r.meter, kv[0], kv[1])
		}
		return repr(&r.meter, byKey)
	}
	return s
}

func filterFileSize(r *run, a []value) value {
	n := 0.0
	if s, ok := asString(a[0]); ok {
		r.scan(8 * len(s)) // it is read several times
		if n, ok = parseFloat(s); !ok {
			raise("ValueError", "could not convert string to float: %s", shown(s))
		}
	} else if u, missing := a[0].(*undefined); missing {
		u.fail(&r.meter)
	} else if isNumber(a[0]) {
		n = toFloat(a[0])
	} else {
		raise("TypeError", "float() argument must be a string or a real number, not '%s'", typeName(a[0]))
	}
	base, units := 1000.0, strings.Fields("kB MB GB TB PB EB ZB YB")
	if isTrue(a[1]) {
		base, units = 1024, strings.Fields("KiB MiB GiB TiB PiB EiB ZiB YiB")
	}
	switch {
	case n == 1:
		return "1 Byte"
	case n < base:
		return intText(truncate(n)) + " Bytes"
	}
	for i, u := range units {
		unit := math.Pow(base, float64(i+2))
		if n < unit || i == len(units)-1 {
			return fmt.Sprintf("%.1f %s", base*n/unit, u)
		}
	}
	return ""
}
