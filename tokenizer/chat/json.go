package chat

import (
	stdbytes "bytes"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// toJSON is the filter tojson as transformers defines it: json.dumps with ensure_ascii off and the arguments indent, separators and sort_keys.
func toJSON(r *run, a []value) value {
	e := &encoder{text: text{m: &r.meter}, item: ", ", key: ": "}
	e.ascii = a[1] != nil && truth(a[1])
	e.sort = a[4] != nil && truth(a[4])
	if a[2] != nil && a[2] != (none{}) {
		e.indented, e.item = true, ","
		if s, ok := asString(a[2]); ok {
			e.indent = s
		} else {
			e.indent = repeat(&r.meter, " ", toIndex(a[2]))
		}
	}
	if a[3] != nil && a[3] != (none{}) {
		pair := unpack(&r.meter, a[3], 2)
		item, ok1 := asString(pair[0])
		key, ok2 := asString(pair[1])
		if !ok1 || !ok2 {
			raise("TypeError", "separators must be texts")
		}
		e.item, e.key = item, key
	}
	e.value(a[0], 0)
	return e.String()
}

// encoder writes JSON as Python does.
type encoder struct {
	text
	item, key string // separators
	indented  bool
	indent    string
	ascii     bool
	sort      bool
}

func (e *encoder) value(v value, depth int) {
	if depth > valueDepth {
		raiseLimit("values within values, more than %d deep", valueDepth)
	}
	switch v := v.(type) {
	case none:
		e.write("null")
	case bool:
		e.write(strings.ToLower(boolText(v)))
	case int64, *big.Int:
		e.write(intText(v))
	case float64:
		e.write(jsonFloat(v))
	case string:
		e.str(v)
	case markup:
		e.str(string(v))
	case *list:
		e.group('[', ']', len(v.items), depth, func(i int) { e.value(v.items[i], depth+1) })
	case *tuple:
		e.group('[', ']', len(v.items), depth, func(i int) { e.value(v.items[i], depth+1) })
	case *dict:
		e.dict(v, depth)
	default:
		raise("TypeError", "Object of type %s is not JSON serializable", typeName(v))
	}
}

func (e *encoder) dict(d *dict, depth int) {
	places := make([]int, d.len())
	for i := range places {
		places[i] = i
	}
	if e.sort {
		slices.SortStableFunc(places, func(a, b int) int {
			c, _ := order(e.m, d.keys[a], d.keys[b], "<")
			return c
		})
	}
	e.group('{', '}', d.len(), depth, func(i int) {
		e.str(jsonKey(d.keys[places[i]]))
		e.write(e.key)
		e.value(d.values[places[i]], depth+1)
	})
}

// jsonKey is how json.dumps writes a key that is no text.
func jsonKey(k value) string {
	switch k := k.(type) {
	case string:
		return k
	case markup:
		return string(k)
	case none:
		return "null"
	case bool:
		return strings.ToLower(boolText(k))
	case int64, *big.Int:
		return intText(k)
	case float64:
		return jsonFloat(k)
	}
	raise("TypeError", "keys must be str, int, float, bool or None, not %s", typeName(k))
	return ""
}

func jsonFloat(f float64) string {
	switch s := floatText(f); s {
	case "nan":
		return "NaN"
	case "inf":
		return "Infinity"
	case "-inf":
		return "-Infinity"
	default:
		return s
	}
}

// group writes n elements between brackets.
func (e *encoder) group(open, end byte, n, depth int, element func(i int)) {
	e.writeByte(open)
	for i := range n {
		if i > 0 {
			e.write(e.item)
		}
		e.newline(depth + 1)
		element(i)
	}
	if n > 0 {
		e.newline(depth)
	}
	e.writeByte(end)
}

func (e *encoder) newline(depth int) {
	if e.indented {
		e.writeByte('\n')
		e.write(repeat(e.m, e.indent, depth))
	}
}

// jsonEscapes are the short ones of Python's json module.
var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

// str writes a string with the escapes of Python's json module.
func (e *encoder) str(s string) {
	e.m.build(len(s) + 2)
	e.b.WriteByte('"')
	for _, r := range s {
		short, ok := jsonEscapes[r]
		switch {
		case ok:
			e.b.WriteString(short)
		case r > 0xffff && e.ascii:
			r -= 0x10000
			e.write(fmt.Sprintf(`\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff))
		case r < 0x20 || r > 0x7e && e.ascii:
			e.write(fmt.Sprintf(`\u%04x`, r))
		default:
			e.b.WriteRune(r)
		}
	}
	e.b.WriteByte('"')
}

// jsonDepth is how deep JSON from outside may nest.
const jsonDepth = 500

// parseJSON reads one JSON value; objects keep their order, a name that comes twice has its last value.
func parseJSON(data []byte) (value, error) {
	d := jsontext.NewDecoder(stdbytes.NewReader(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := readValue(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, fmt.Errorf("more than one JSON value (at byte %d)", d.InputOffset())
	}
	return v, nil
}

func readValue(d *jsontext.Decoder) (value, error) {
	if d.StackDepth() > jsonDepth {
		return nil, fmt.Errorf("%w: JSON nests more than %d deep (at byte %d)", ErrLimit, jsonDepth, d.InputOffset())
	}
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case '{':
		return readObject(d)
	case '[':
		l := &list{}
		for d.PeekKind() != ']' {
			v, err := readValue(d)
			if err != nil {
				return nil, err
			}
			l.items = append(l.items, v)
		}
		_, err := d.ReadToken()
		return l, err
	case '"':
		return t.String(), nil
	case '0':
		return jsonNumber(t.String())
	case 't', 'f':
		return t.Bool(), nil
	}
	return none{}, nil
}

func readObject(d *jsontext.Decoder) (value, error) {
	o := newDict()
	for d.PeekKind() != '}' {
		t, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := t.String()
		v, err := readValue(d)
		if err != nil {
			return nil, err
		}
		o.put(key, v)
	}
	_, err := d.ReadToken()
	return o, err
}

// put is set for keys that are texts, outside of a run.
func (d *dict) put(key string, v value) {
	if i, ok := d.index[key]; ok {
		d.values[i] = v
		return
	}
	d.index[key] = len(d.keys)
	d.keys = append(d.keys, key)
	d.values = append(d.values, v)
}

// jsonNumber keeps apart what has a point or an exponent and what has not, as Python does.
func jsonNumber(s string) (value, error) {
	if strings.ContainsAny(s, ".eE") {
		f, _ := parseFloat(s)
		return f, nil
	}
	i, ok := new(big.Int).SetString(s, 10)
	if !ok || len(s) > digitLimit {
		return nil, fmt.Errorf("%w: an integer of more than %d digits", ErrLimit, digitLimit)
	}
	return shrink(i), nil
}
