package chat

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// percent is s % v, the formatting of C.
func (r *run) percent(s string, self, v value) string {
	f := &percentArgs{args: []value{v}}
	switch v := v.(type) {
	case *tuple:
		f.args = v.items
	case *dict:
		f.named = v
	case *list, *rng, *undefined, bytes: // Python lets what has items stay unused
		f.optional = true
	}
	t := text{m: &r.meter}
	for s != "" {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			t.write(s)
			break
		}
		t.write(s[:i])
		if s = s[i+1:]; strings.HasPrefix(s, "%") {
			t.write("%")
			s = s[1:]
			continue
		}
		var out string
		out, s = r.directive(s, self, f)
		t.write(out)
	}
	if f.used < len(f.args) && f.named == nil && !f.optional {
		raise("TypeError", "not all arguments converted during string formatting")
	}
	return t.String()
}

// percentArgs hands out the arguments of percent.
type percentArgs struct {
	args     []value
	named    *dict
	used     int
	optional bool
}

func (f *percentArgs) next() value {
	if f.used >= len(f.args) {
		raise("TypeError", "not enough arguments for format string")
	}
	f.used++
	return f.args[f.used-1]
}

// directive formats what follows a % and returns what is behind it.
func (r *run) directive(s string, self value, f *percentArgs) (out, rest string) {
	var v value
	if strings.HasPrefix(s, "(") {
		key, after, ok := strings.Cut(s[1:], ")")
		switch {
		case f.named == nil:
			raise("TypeError", "format requires a mapping")
		case !ok:
			raise("ValueError", "incomplete format key")
		}
		if v, ok = f.named.get(&r.meter, key); !ok {
			raise("KeyError", "%s", shown(key))
		}
		s = after
	}
	p := spec{fill: " ", precision: -1, align: '>'}
	for ; s != "" && strings.IndexByte("-+ #0", s[0]) >= 0; s = s[1:] {
		switch s[0] {
		case '-':
			p.align = '<'
		case '+':
			p.sign = '+'
		case ' ':
			if p.sign == 0 {
				p.sign = ' '
			}
		case '#':
			p.alternate = true
		case '0':
			p.zero = true
		}
	}
	if p.width, s = r.starOrNumber(s, f); p.width < 0 {
		p.align, p.width = '<', -p.width
	}
	if strings.HasPrefix(s, ".") {
		p.precision, s = r.starOrNumber(s[1:], f)
		p.precision = max(p.precision, 0)
	}
	if s != "" && strings.IndexByte("hlL", s[0]) >= 0 {
		s = s[1:]
	}
	if s == "" {
		raise("ValueError", "incomplete format")
	}
	p.verb = s[0]
	if v == nil {
		v = f.next()
	}
	return r.converted(p, self, v), s[1:]
}

// starOrNumber is a width or precision: digits, or a * that stands for an argument.
func (r *run) starOrNumber(s string, f *percentArgs) (int, string) {
	if !strings.HasPrefix(s, "*") {
		return leadingNumber(s)
	}
	n, ok := small(f.next())
	if !ok {
		raise("TypeError", "* wants int")
	}
	if n > widthLimit || n < -widthLimit {
		raiseLimit("a width or precision of more than %d", widthLimit)
	}
	return int(n), s[1:]
}

// converted formats one argument of percent.
func (r *run) converted(p spec, self, v value) string {
	m := &r.meter
	switch p.verb {
	case 's', 'r', 'a':
		var s string
		switch {
		case p.verb != 's':
			s = repr(m, v)
		case isMarkup(self):
			s = string(escape(m, v))
		default:
			s = str(m, v)
		}
		return p.text(m, s)
	case 'c':
		if s, ok := asString(v); ok && runeCount(s) == 1 {
			return p.text(m, s)
		}
		return p.text(m, character(v))
	case 'd', 'i', 'u', 'x', 'X', 'o':
		return r.percentInt(p, v)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		if u, ok := v.(*undefined); ok {
			u.fail(m)
		}
		if !isNumber(v) {
			raise("TypeError", "must be real number, not %s", typeName(v))
		}
		if p.zero && p.align != '<' {
			p.fill, p.align = "0", '='
		}
		return p.number(m, toFloat(v))
	}
	raise("ValueError", "unsupported format character '%c' (0x%x)", p.verb, p.verb)
	return ""
}

func isMarkup(v value) bool {
	_, ok := v.(markup)
	return ok
}

// percentInt formats an int, with at least as many digits as the precision says.
func (r *run) percentInt(p spec, v value) string {
	decimal := strings.IndexByte("diu", p.verb) >= 0
	if u, ok := v.(*undefined); ok && decimal {
		u.fail(&r.meter)
	}
	if f, ok := v.(float64); ok && decimal {
		v = truncate(f)
	}
	i, ok := integer(v)
	switch {
	case !ok && decimal:
		raise("TypeError", "%%%c format: a real number is required, not %s", p.verb, typeName(v))
	case !ok:
		raise("TypeError", "%%%c format: an integer is required, not %s", p.verb, typeName(v))
	}
	least := p.precision
	p.precision = -1
	if decimal {
		p.verb = 'd'
	}
	digits, prefix := p.intDigits(new(big.Int).Abs(i))
	digits = pad(&r.meter, digits, "0", least, '>')
	sign := ""
	switch {
	case i.Sign() < 0:
		sign = "-"
	case p.sign != 0:
		sign = string(p.sign)
	}
	if p.zero && p.align != '<' {
		digits = pad(&r.meter, digits, "0", p.width-len(sign+prefix), '>')
	}
	return pad(&r.meter, sign+prefix+digits, " ", p.width, p.align)
}

// truncate is int() of a float.
func truncate(f float64) value {
	switch {
	case math.IsNaN(f):
		raise("ValueError", "cannot convert float NaN to integer")
	case math.IsInf(f, 0):
		raise("OverflowError", "cannot convert float infinity to integer")
	}
	i, _ := big.NewFloat(f).Int(nil)
	return shrink(i)
}

// format is str.format.
func (r *run) format(s string, self value, args []value, named *dict) string {
	f := &formatter{run: r, args: args, named: named, safe: isMarkup(self)}
	return f.fields(s, 2)
}

type formatter struct {
	*run
	args  []value
	named *dict
	auto  int // the next automatic number; -1 once fields are numbered by hand
	safe  bool
}

// fields replaces the fields of a format. Fields may stand within the specifications of others, depth times.
func (f *formatter) fields(s string, depth int) string {
	if depth < 0 {
		raise("ValueError", "Max string recursion exceeded")
	}
	t := text{m: &f.meter}
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			t.write(s)
			break
		}
		t.write(s[:i])
		c := s[i]
		s = s[i+1:]
		switch {
		case strings.HasPrefix(s, string(c)):
			t.write(string(c))
			s = s[1:]
		case c == '}':
			raise("ValueError", "Single '}' encountered in format string")
		default:
			end := fieldEnd(s)
			if end < 0 {
				if s == "" {
					raise("ValueError", "Single '{' encountered in format string")
				}
				raise("ValueError", "expected '}' before end of string")
			}
			t.write(f.field(s[:end], depth))
			s = s[end+1:]
		}
	}
	return t.String()
}

// fieldEnd is where the } of a field is, -1 if there is none.
func fieldEnd(s string) int {
	depth, bracket := 1, false
	for i := range len(s) {
		switch c := s[i]; {
		case c == '[' && depth == 1:
			bracket = true
		case c == ']':
			bracket = false
		case c == '{' && !bracket:
			depth++
		case c == '}' && !bracket:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// field formats name!conversion:spec.
func (f *formatter) field(s string, depth int) string {
	name, format, conversion := s, "", ""
	inBracket := false
	for i := range len(s) {
		if c := s[i]; c == '[' || c == ']' {
			inBracket = c == '['
		} else if !inBracket && (c == '!' || c == ':') {
			name = s[:i]
			if rest := s[i+1:]; c == ':' {
				format = rest
			} else {
				conversion, format, _ = strings.Cut(rest, ":")
			}
			break
		}
	}
	v := f.lookup(name)
	switch conversion {
	case "":
	case "s":
		v = str(&f.meter, v)
	case "r", "a":
		v = repr(&f.meter, v)
	default:
		raise("ValueError", "Unknown conversion specifier '%s'", conversion)
	}
	out := formatValue(&f.meter, v, f.fields(format, depth-1))
	if _, marked := v.(markup); f.safe && !marked {
		return string(escape(&f.meter, out))
	}
	return out
}

// lookup finds the value of a field: an argument, then attributes and items of it.
func (f *formatter) lookup(path string) value {
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		end = len(path)
	}
	first, rest := path[:end], path[end:]
	v := f.argument(first)
	for rest != "" {
		if rest[0] == '.' {
			end := strings.IndexAny(rest[1:], ".[") + 1
			if end == 0 {
				end = len(rest)
			}
			v = f.attribute(v, rest[1:end])
			rest = rest[end:]
			continue
		}
		key, after, ok := strings.Cut(rest[1:], "]")
		if rest[0] != '[' || !ok {
			raise("ValueError", "Missing ']' in format string")
		}
		if n, err := strconv.ParseInt(key, 10, 64); err == nil && n >= 0 {
			v = f.item(v, n)
		} else {
			v = f.item(v, key)
		}
		rest = after
	}
	return v
}

func (f *formatter) argument(name string) value {
	n, err := strconv.Atoi(name)
	switch {
	case name == "":
		if f.auto < 0 {
			raise("ValueError", "cannot switch from manual field specification to automatic field numbering")
		}
		n = f.auto
		f.auto++
	case err == nil && n >= 0:
		if f.auto > 0 {
			raise("ValueError", "cannot switch from automatic field numbering to manual field specification")
		}
		f.auto = -1
	default:
		v, ok := f.named.get(&f.meter, name)
		if !ok {
			raise("KeyError", "%s", shown(name))
		}
		return v
	}
	if n >= len(f.args) {
		raise("IndexError", "Replacement index %d out of range for positional args tuple", n)
	}
	return f.args[n]
}
