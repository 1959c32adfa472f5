package chat

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// spec is a format specification, of str.format or of %.
type spec struct {
	fill      string
	align     byte // < > ^ = or 0
	sign      byte // + - space or 0
	alternate bool // #
	zero      bool
	width     int
	group     string // , or _
	precision int    // -1: none
	verb      byte   // 0: none
}

// widthLimit bounds widths and precisions before anything is built.
const widthLimit = 1 << 20

// parseSpec reads [[fill]align][sign][#][0][width][grouping][.precision][type].
func parseSpec(s string) spec {
	p := spec{fill: " ", precision: -1}
	whole := s
	if s != "" {
		if n := runeLen(s); n < len(s) && strings.IndexByte("<>^=", s[n]) >= 0 {
			p.fill, p.align, s = s[:n], s[n], s[n+1:]
		} else if strings.IndexByte("<>^=", s[0]) >= 0 {
			p.align, s = s[0], s[1:]
		}
	}
	if s != "" && strings.IndexByte("+- ", s[0]) >= 0 {
		p.sign, s = s[0], s[1:]
	}
	if strings.HasPrefix(s, "#") {
		p.alternate, s = true, s[1:]
	}
	if strings.HasPrefix(s, "0") {
		p.zero, s = true, s[1:]
		if p.align == 0 {
			p.fill, p.align = "0", '='
		}
	}
	p.width, s = leadingNumber(s)
	if s != "" && (s[0] == ',' || s[0] == '_') {
		p.group, s = s[:1], s[1:]
	}
	if strings.HasPrefix(s, ".") {
		if len(s) < 2 || s[1] < '0' || s[1] > '9' {
			raise("ValueError", "Format specifier missing precision")
		}
		p.precision, s = leadingNumber(s[1:])
	}
	if s != "" {
		p.verb, s = s[0], s[1:]
	}
	if s != "" {
		raise("ValueError", "Invalid format specifier %s", shown(whole))
	}
	return p
}

// leadingNumber reads decimal digits, at most widthLimit.
func leadingNumber(s string) (int, string) {
	n := 0
	for s != "" && s[0] >= '0' && s[0] <= '9' {
		if n = n*10 + int(s[0]-'0'); n > widthLimit {
			raiseLimit("a width or precision of more than %d", widthLimit)
		}
		s = s[1:]
	}
	return n, s
}

// formatValue is format(v, s).
func formatValue(m *meter, v value, s string) string {
	switch x := v.(type) {
	case string, markup:
		p := parseSpec(s)
		if p.verb != 0 && p.verb != 's' {
			raise("ValueError", "Unknown format code '%c' for object of type 'str'", p.verb)
		}
		if p.sign != 0 || p.alternate || p.group != "" || p.align == '=' && !p.zero {
			raise("ValueError", "Sign, '#', ',' or '=' not allowed in string format specifier")
		}
		t, _ := asString(x)
		return p.text(m, t)
	case bool:
		if s == "" {
			return boolText(x)
		}
		return parseSpec(s).number(m, toInt(x))
	case int64, *big.Int, float64:
		return parseSpec(s).number(m, v)
	}
	if s != "" {
		raise("TypeError", "unsupported format string passed to %s.__format__", typeName(v))
	}
	return str(m, v)
}

// text formats a string.
func (p spec) text(m *meter, s string) string {
	if p.precision >= 0 && p.precision < runeCount(s) {
		s = cut(s, 0, p.precision)
	}
	align := p.align
	if align == 0 || align == '=' {
		align = '<'
	}
	return pad(m, s, p.fill, p.width, align)
}

// number formats an int or a float.
func (p spec) number(m *meter, v value) string {
	f, isFloat := v.(float64)
	if !isFloat && strings.IndexByte("eEfFgG%", p.verb) >= 0 && p.verb != 0 {
		f, isFloat = toFloat(v), true
	}
	var digits, prefix string
	negative := false
	switch {
	case isFloat:
		m.build(p.precision + 400)
		digits = p.floatDigits(math.Abs(f))
		negative = math.Signbit(f) && !math.IsNaN(f)
	case p.verb == 'c':
		if p.sign != 0 || p.precision >= 0 {
			raise("ValueError", "Sign or precision not allowed with integer format specifier 'c'")
		}
		return spec{fill: p.fill, align: p.align, width: p.width, precision: -1}.text(m, character(v))
	default:
		i, _ := integer(v)
		negative = i.Sign() < 0
		digits, prefix = p.intDigits(new(big.Int).Abs(i))
	}
	sign := ""
	switch {
	case negative:
		sign = "-"
	case p.sign == '+' || p.sign == ' ':
		sign = string(p.sign)
	}
	return p.finish(m, sign+prefix, digits)
}

// character is chr() of an int.
func character(v value) string {
	i, ok := small(v)
	if !ok || i < 0 || i > utf8.MaxRune {
		raise("OverflowError", "%%c arg not in range(0x110000)")
	}
	if !utf8.ValidRune(rune(i)) {
		raise("ValueError", "%d is no character", i)
	}
	return string(rune(i))
}

func (p spec) intDigits(i *big.Int) (digits, prefix string) {
	if p.precision >= 0 {
		raise("ValueError", "Precision not allowed in integer format specifier")
	}
	base := map[byte]int{0: 10, 'd': 10, 'n': 10, 'x': 16, 'X': 16, 'o': 8, 'b': 2}[p.verb]
	if base == 0 {
		raise("ValueError", "Unknown format code '%c' for object of type 'int'", p.verb)
	}
	if base == 10 {
		digits = intText(shrink(i))
	} else {
		digits = i.Text(base)
	}
	if p.alternate && base != 10 {
		prefix = "0" + string(p.verb)
	}
	if p.verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	return digits, prefix
}

// floatDigits writes a float without its sign.
func (p spec) floatDigits(f float64) string {
	verb, precision := p.verb, p.precision
	if verb == 0 && precision < 0 {
		return floatText(f)
	}
	if precision < 0 {
		precision = 6
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		s := strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'f', 0, 64)), "+")
		switch verb {
		case 'E', 'F', 'G':
			return strings.ToUpper(s)
		case '%':
			return s + "%"
		}
		return s
	}
	switch verb {
	case 'f', 'F':
		s := strconv.FormatFloat(f, 'f', precision, 64)
		if p.alternate && precision == 0 {
			s += "."
		}
		return s
	case 'e':
		return strconv.FormatFloat(f, 'e', precision, 64)
	case 'E':
		return strconv.FormatFloat(f, 'E', precision, 64)
	case '%':
		return strconv.FormatFloat(f*100, 'f', precision, 64) + "%"
	case 'g', 'n':
		return general(f, precision, p.alternate, false)
	case 'G':
		return strings.ToUpper(general(f, precision, p.alternate, false))
	case 0:
		return general(f, precision, p.alternate, true)
	}
	raise("ValueError", "Unknown format code '%c' for object of type 'float'", verb)
	return ""
}

// general is the format g: precision digits that count, in plain notation for exponents from -4 to below the precision. point keeps one
// digit behind the point, and goes to exponents one earlier.
func general(f float64, precision int, alternate, point bool) string {
	precision = max(precision, 1)
	s := strconv.FormatFloat(f, 'e', precision-1, 64)
	mantissa, e, _ := strings.Cut(s, "e")
	exponent, _ := strconv.Atoi(e)
	limit := precision
	if point {
		limit--
	}
	if exponent >= -4 && exponent < limit || point && exponent == 0 && precision == 1 {
		plain := strconv.FormatFloat(f, 'f', max(precision-1-exponent, 0), 64)
		if alternate {
			return plain
		}
		plain = trimZeros(plain)
		if point && !strings.Contains(plain, ".") {
			plain += ".0"
		}
		return plain
	}
	if !alternate {
		mantissa = trimZeros(mantissa)
	}
	return mantissa + "e" + e
}

func trimZeros(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// finish groups digits and fills up to the width.
func (p spec) finish(m *meter, sign, digits string) string {
	whole, rest := digits, ""
	if i := strings.IndexFunc(digits, func(r rune) bool { return r == '.' || r == 'e' || r == 'E' || r == '%' }); i >= 0 && p.verb != 'x' && p.verb != 'X' {
		whole, rest = digits[:i], digits[i:]
	}
	size := 3
	if strings.IndexByte("xXob", p.verb) >= 0 && p.verb != 0 {
		size = 4
	}
	zeros := p.fill == "0" && p.align == '='
	if p.group != "" {
		least := 0
		if zeros {
			least = p.width - len(sign) - len(rest)
		}
		whole = grouped(m, whole, p.group, size, least)
	}
	align := p.align
	switch align {
	case 0:
		align = '>'
	case '=':
		return joinText(m, []string{sign, pad(m, whole+rest, p.fill, p.width-runeCount(sign), '>')}, "")
	}
	return pad(m, sign+whole+rest, p.fill, p.width, align)
}

// grouped puts separators between groups of digits, and zeros in front until it has least characters.
func grouped(m *meter, digits, separator string, size, least int) string {
	var b []byte // backwards
	m.build(2*len(digits) + 2*max(least, 0))
	for i, n := len(digits)-1, 0; i >= 0 || len(b) < least; i, n = i-1, n+1 {
		if n > 0 && n%size == 0 {
			b = append(b, separator[0])
		}
		if i >= 0 {
			b = append(b, digits[i])
		} else {
			b = append(b, '0')
		}
	}
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}
