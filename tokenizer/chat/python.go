package chat

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// toJSON is the filter tojson as transformers defines it: json.dumps with ensure_ascii off and the arguments indent, separators
// and sort_keys.
func toJSON(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	names := []string{"ensure_ascii", "indent", "separators", "sort_keys"}
	if len(args) == 0 || len(args) > 1+len(names) {
		return jinja.None(), fmt.Errorf("tojson: wrong number of arguments")
	}
	option := func(i int) jinja.Value {
		if len(args) > i+1 {
			return args[i+1]
		}
		return kwargs[names[i]]
	}
	e := &encoder{item: ", ", key: ": ", ascii: option(0).IsTruthy(), sort: option(3).IsTruthy()}
	if indent := option(1); indent.IsInt() {
		e.indented, e.indent = true, strings.Repeat(" ", int(min(max(indent.AsInt(), 0), 80)))
		e.item = ","
	} else if indent.IsString() {
		e.indented, e.indent = true, indent.AsString()
		e.item = ","
	}
	if s := option(2); s.IsList() && s.AsList().Len() == 2 && s.AsList().Get(0).IsString() && s.AsList().Get(1).IsString() {
		e.item, e.key = s.AsList().Get(0).AsString(), s.AsList().Get(1).AsString()
	}
	err := e.value(args[0], 0)
	return jinja.NewString(e.b.String()), err
}

// encoder writes JSON as Python does.
type encoder struct {
	b         strings.Builder
	item, key string // separators
	indented  bool
	indent    string
	ascii     bool
	sort      bool
}

func (e *encoder) value(v jinja.Value, depth int) error {
	if depth > nestingLimit {
		return fmt.Errorf("%w: values nested more than %d deep", ErrLimit, nestingLimit)
	}
	switch {
	case v.IsNone():
		e.b.WriteString("null")
	case v.IsBool():
		e.b.WriteString(strconv.FormatBool(v.AsBool()))
	case v.IsInt():
		e.b.WriteString(strconv.FormatInt(v.AsInt(), 10))
	case v.IsFloat():
		e.b.WriteString(pythonFloat(v.AsFloat()))
	case v.IsString():
		e.str(v.AsString())
	case v.IsList():
		items := v.AsList().Items
		return e.group('[', ']', len(items), depth, func(i int) error { return e.value(items[i], depth+1) })
	case v.IsDict():
		d := v.AsDict()
		keys := d.OrderedKeys()
		if e.sort {
			slices.Sort(keys)
		}
		return e.group('{', '}', len(keys), depth, func(i int) error {
			e.str(keys[i])
			e.b.WriteString(e.key)
			item, _ := d.Get(keys[i])
			return e.value(item, depth+1)
		})
	default:
		return fmt.Errorf("tojson: a value that is not defined cannot be written as JSON")
	}
	return nil
}

// group writes n elements between brackets.
func (e *encoder) group(open, end byte, n, depth int, element func(i int) error) error {
	e.b.WriteByte(open)
	for i := range n {
		if i > 0 {
			e.b.WriteString(e.item)
		}
		e.newline(depth + 1)
		if err := element(i); err != nil {
			return err
		}
	}
	if n > 0 {
		e.newline(depth)
	}
	e.b.WriteByte(end)
	return nil
}

func (e *encoder) newline(depth int) {
	if e.indented {
		e.b.WriteByte('\n')
		e.b.WriteString(strings.Repeat(e.indent, depth))
	}
}

// str writes a string with the escapes of Python's json module.
func (e *encoder) str(s string) {
	e.b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			e.b.WriteByte('\\')
			e.b.WriteRune(r)
		case r == '\n':
			e.b.WriteString(`\n`)
		case r == '\r':
			e.b.WriteString(`\r`)
		case r == '\t':
			e.b.WriteString(`\t`)
		case r == '\b':
			e.b.WriteString(`\b`)
		case r == '\f':
			e.b.WriteString(`\f`)
		case r > 0xffff && e.ascii:
			r -= 0x10000
			fmt.Fprintf(&e.b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		case r < 0x20 || r > 0x7e && e.ascii:
			fmt.Fprintf(&e.b, `\u%04x`, r)
		default:
			e.b.WriteRune(r)
		}
	}
	e.b.WriteByte('"')
}

// pythonFloat is repr of a float: the shortest digits that read back, in plain notation for exponents from -4 to 15.
func pythonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// strftime is strftime_now of chat templates, in English.
func (g *guard) strftime(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) != 1 || !args[0].IsString() {
		return jinja.None(), fmt.Errorf("strftime_now takes one format")
	}
	layouts := map[byte]string{
		'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM",
		'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon", 'j': "002", 'z': "-0700", 'Z': "MST",
		'F': "2006-01-02", 'T': "15:04:05", 'e': "_2", 'x': "01/02/06", 'X': "15:04:05", 'c': "Mon Jan _2 15:04:05 2006", 'f': "000000",
	}
	format := args[0].AsString()
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		padded := true
		if format[i] == '-' && i+1 < len(format) { // no leading zeros
			padded = false
			i++
		}
		if format[i] == '%' {
			b.WriteByte('%')
			continue
		}
		layout, ok := layouts[format[i]]
		if !ok {
			return jinja.None(), fmt.Errorf("strftime_now: %%%c is not supported", format[i])
		}
		s := g.now.Format(layout)
		if !padded {
			s = strings.TrimLeft(s, "0 ")
			if s == "" {
				s = "0"
			}
		}
		b.WriteString(s)
	}
	return jinja.NewString(b.String()), nil
}
