package chat

import (
	"strings"
	"unicode"
)

// strMethod is a method of str. Those that give text give the class of the text they were called on.
type strMethod struct {
	params   string // names, separated by blanks
	required int
	f        func(r *run, self value, s string, a []value) value
}

func (m strMethod) call(r *run, name string, self value, s string, args []value, named []kwarg) value {
	r.build(len(s))
	return m.f(r, self, s, bind(name, strings.Fields(m.params), m.required, args, named))
}

// mapped is a method without arguments that makes one text of another.
func mapped(f func(string) string) strMethod {
	return strMethod{f: func(_ *run, self value, s string, _ []value) value { return like(self, f(s)) }}
}

// asked is a method without arguments that answers yes or no.
func asked(f func(string) bool) strMethod {
	return strMethod{f: func(_ *run, _ value, s string, _ []value) value { return f(s) }}
}

// askedOfAll is a method that asks something of each character.
func askedOfAll(f func(rune) bool) strMethod { return asked(func(s string) bool { return all(s, f) }) }

// needText is the text of an argument.
func needText(v value) string {
	s, ok := asString(v)
	if !ok {
		raise("TypeError", "must be str, not %s", typeName(v))
	}
	return s
}

// optText is the text of an argument that may be left out or None.
func optText(v value, otherwise string) string {
	if v == nil || v == (none{}) {
		return otherwise
	}
	return needText(v)
}

func optInt(v value, otherwise int) int {
	if v == nil {
		return otherwise
	}
	return toIndex(v)
}

// strMethods are the methods of str, but for format and format_map.
var strMethods = map[string]strMethod{
	"upper": mapped(upperText), "lower": mapped(lowerText), "capitalize": mapped(capitalize), "title": mapped(titleText),
	"swapcase": mapped(swapcase), "casefold": mapped(casefold),

	"isalpha": askedOfAll(unicode.IsLetter), "isspace": askedOfAll(isSpace), "isidentifier": asked(isIdentifier), "istitle": asked(isTitle),
	"isalnum":     askedOfAll(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
	"isdecimal":   askedOfAll(unicode.IsDigit),
	"isdigit":     askedOfAll(isDigitRune),
	"isnumeric":   askedOfAll(unicode.IsNumber),
	"isupper":     asked(func(s string) bool { return allCased(s, isUpper) }),
	"islower":     asked(func(s string) bool { return allCased(s, isLower) }),
	"isascii":     asked(isASCII),
	"isprintable": asked(func(s string) bool { return s == "" || all(s, unicode.IsPrint) }),

	"strip": stripper(true, true), "lstrip": stripper(true, false), "rstrip": stripper(false, true),
	"split": {params: "sep maxsplit", f: strSplit}, "rsplit": {params: "sep maxsplit", f: strRsplit},
	"splitlines": {params: "keepends", f: func(r *run, self value, s string, a []value) value {
		r.buildLines(s)
		return pieces(&r.meter, self, lines(s, a[0] != nil && truth(a[0])))
	}},
	"join":       {params: "iterable", required: 1, f: strJoin},
	"replace":    {params: "old new count", required: 2, f: strReplace},
	"startswith": prober(strings.HasPrefix), "endswith": prober(strings.HasSuffix),
	"find": finder(strings.Index, false), "rfind": finder(strings.LastIndex, false),
	"index": finder(strings.Index, true), "rindex": finder(strings.LastIndex, true),
	"count": {params: "sub start end", required: 1, f: func(r *run, _ value, s string, a []value) value {
		part, _, ok := window(s, a[1], a[2])
		sub := needText(a[0])
		switch {
		case !ok:
			return int64(0)
		case sub == "":
			return int64(runeCount(part) + 1)
		}
		return int64(strings.Count(part, sub))
	}},
	"partition": {params: "sep", required: 1, f: func(_ *run, self value, s string, a []value) value {
		sep := separator(a[0])
		if i := strings.Index(s, sep); i >= 0 {
			return &tuple{[]value{like(self, s[:i]), like(self, sep), like(self, s[i+len(sep):])}}
		}
		return &tuple{[]value{like(self, s), like(self, ""), like(self, "")}}
	}},
	"rpartition": {params: "sep", required: 1, f: func(_ *run, self value, s string, a []value) value {
		sep := separator(a[0])
		if i := strings.LastIndex(s, sep); i >= 0 {
			return &tuple{[]value{like(self, s[:i]), like(self, sep), like(self, s[i+len(sep):])}}
		}
		return &tuple{[]value{like(self, ""), like(self, ""), like(self, s)}}
	}},
	"removeprefix": {params: "prefix", required: 1, f: func(_ *run, self value, s string, a []value) value {
		return like(self, strings.TrimPrefix(s, needText(a[0])))
	}},
	"removesuffix": {params: "suffix", required: 1, f: func(_ *run, self value, s string, a []value) value {
		return like(self, strings.TrimSuffix(s, needText(a[0])))
	}},
	"ljust": padder('<'), "rjust": padder('>'), "center": padder('~'),
	"zfill": {params: "width", required: 1, f: func(r *run, self value, s string, a []value) value {
		sign := ""
		if s != "" && (s[0] == '+' || s[0] == '-') {
			sign = s[:1]
		}
		return like(self, sign+pad(&r.meter, s[len(sign):], "0", toIndex(a[0])-len(sign), '>'))
	}},
	"expandtabs": {params: "tabsize", f: func(r *run, self value, s string, a []value) value {
		return like(self, expandTabs(&r.meter, s, min(optInt(a[0], 8), widthLimit)))
	}},
	"encode": {params: "encoding errors", f: func(_ *run, _ value, s string, a []value) value {
		if e := strings.ToLower(optText(a[0], "utf-8")); e != "utf-8" && e != "utf8" && (e != "ascii" || !isASCII(s)) {
			raise("LookupError", "the encoding %s is not supported", shown(e))
		}
		return bytes(s)
	}},
}

// formatMethod is str.format or str.format_map.
func formatMethod(self value, s, name string) value {
	return method(self, name, func(r *run, args []value, named []kwarg) value {
		r.build(len(s))
		if name == "format" {
			return like(self, r.format(s, self, args, keywords(named)))
		}
		a := bind(name, []string{"mapping"}, 1, args, named)
		d, ok := a[0].(*dict)
		if !ok {
			raise("TypeError", "format_map() argument must be a mapping, not %s", typeName(a[0]))
		}
		return like(self, r.format(s, self, nil, d))
	})
}

// keywords makes a dict of named arguments.
func keywords(named []kwarg) *dict {
	d := newDict()
	for _, k := range named {
		d.put(k.name, k.v)
	}
	return d
}

func isDigitRune(r rune) bool {
	return unicode.IsDigit(r) || unicode.Is(unicode.No, r) && (r == 0xb2 || r == 0xb3 || r == 0xb9 || r >= 0x2070 && r <= 0x2089 || r >= 0x2460 && r <= 0x2468)
}

func stripper(left, right bool) strMethod {
	return strMethod{params: "chars", f: func(r *run, self value, s string, a []value) value {
		if chars, ok := asString(orNone(a[0])); ok && chars == "" {
			return like(self, s) // nothing to strip, while no argument means white space
		}
		chars := optText(a[0], "")
		r.scan(len(chars))
		return like(self, strip(s, chars, left, right))
	}}
}

// orNone is None for an argument that was not given.
func orNone(v value) value {
	if v == nil {
		return none{}
	}
	return v
}

// separator is an argument that must be a text with something in it.
func separator(v value) string {
	sep := needText(v)
	if sep == "" {
		raise("ValueError", "empty separator")
	}
	return sep
}

func strSplit(r *run, self value, s string, a []value) value {
	n := optInt(a[1], -1)
	if orNone(a[0]) == (none{}) {
		r.buildWords(s)
		return pieces(&r.meter, self, fields(s, n))
	}
	r.buildParts(strings.Count(s, separator(a[0])) + 1)
	if n >= 0 {
		n = min(n, len(s)) + 1
	}
	return pieces(&r.meter, self, strings.SplitN(s, separator(a[0]), n))
}

func strRsplit(r *run, self value, s string, a []value) value {
	n := optInt(a[1], -1)
	if orNone(a[0]) == (none{}) {
		r.buildWords(s)
		return pieces(&r.meter, self, fieldsRight(s, n))
	}
	r.buildParts(strings.Count(s, separator(a[0])) + 1)
	parts := strings.Split(s, separator(a[0]))
	if n >= 0 && n < len(parts)-1 {
		k := len(parts) - n
		parts = append([]string{strings.Join(parts[:k], separator(a[0]))}, parts[k:]...)
	}
	return pieces(&r.meter, self, parts)
}

func strJoin(r *run, self value, s string, a []value) value {
	next, ok := iterate(&r.meter, a[0])
	if !ok {
		raise("TypeError", "can only join an iterable")
	}
	_, safe := self.(markup)
	var parts []string
	for {
		item, ok := next()
		if !ok {
			return like(self, joinText(&r.meter, parts, s))
		}
		r.build(16)
		text, isText := asString(item)
		switch {
		case safe:
			text = string(escape(&r.meter, item))
		case !isText:
			raise("TypeError", "sequence item %d: expected str instance, %s found", len(parts), typeName(item))
		}
		parts = append(parts, text)
	}
}

func strReplace(r *run, self value, s string, a []value) value {
	old, with := needText(a[0]), needText(a[1])
	if _, ok := self.(markup); ok {
		with = string(escape(&r.meter, a[1]))
	}
	return like(self, replace(&r.meter, s, old, with, optInt(a[2], -1)))
}

// replace is str.replace under a meter.
func replace(m *meter, s, old, with string, n int) string {
	m.scan(len(s))
	found := strings.Count(s, old)
	if n >= 0 && n < found {
		found = n
	}
	if grow := len(with) - len(old); grow > 0 && found > 0 && grow > m.most/found {
		m.build(m.most + 1) // refused before it is made
	}
	m.build(len(s) + found*(len(with)-len(old)))
	return strings.Replace(s, old, with, n)
}

// window is s[start:end] for the methods that look at a part of a text, and the character it starts at; false if start is behind the end.
func window(s string, start, end value) (string, int, bool) {
	if orNone(start) == (none{}) && orNone(end) == (none{}) {
		return s, 0, true
	}
	n := runeCount(s)
	if i, ok := small(orNone(start)); ok && i > int64(n) {
		return "", 0, false
	}
	from, to, _ := sliceBounds(n, []value{start, end, nil})
	if from > to {
		return "", 0, false
	}
	return cut(s, from, to), from, true
}

// prober is startswith or endswith.
func prober(has func(s, part string) bool) strMethod {
	return strMethod{params: "part start end", required: 1, f: func(r *run, _ value, s string, a []value) value {
		part, _, ok := window(s, a[1], a[2])
		options := []value{a[0]}
		if t, isTuple := a[0].(*tuple); isTuple {
			options = t.items
		}
		for _, o := range options {
			r.spend(1)
			if text, isText := asString(o); !isText {
				raise("TypeError", "startswith and endswith take a str or a tuple of str, not %s", typeName(o))
			} else if r.scan(min(len(part), len(text))); ok && has(part, text) {
				return true
			}
		}
		return false
	}}
}

// finder is find, index and what looks from the right.
func finder(index func(s, sub string) int, must bool) strMethod {
	return strMethod{params: "sub start end", required: 1, f: func(_ *run, _ value, s string, a []value) value {
		part, from, ok := window(s, a[1], a[2])
		if ok {
			if i := index(part, needText(a[0])); i >= 0 {
				return int64(from + runeCount(part[:i]))
			}
		}
		if must {
			raise("ValueError", "substring not found")
		}
		return int64(-1)
	}}
}

func padder(align byte) strMethod {
	return strMethod{params: "width fillchar", required: 1, f: func(r *run, self value, s string, a []value) value {
		fill := optText(a[1], " ")
		if runeCount(fill) != 1 {
			raise("TypeError", "The fill character must be exactly one character long")
		}
		return like(self, pad(&r.meter, s, fill, toIndex(a[0]), align))
	}}
}
