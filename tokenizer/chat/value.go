package chat

import (
	"math"
	"math/big"
	"strings"
)

// value is a value of Python:
//
//	none, bool, int64 or *big.Int (int), float64, string, markup, bytes, *list, *tuple, *dict, *undefined, *rng, *iterator, *view,
//	*function, *macro, *namespace, *loop, *cycler, *joiner, *blocks
//
// An int is an int64 wherever it fits. A Go nil stands for an argument that was not given.
type value any

type none struct{}

// markup is text that is marked as safe: what is joined to it gets HTML's escapes.
type markup string

type bytes string

// list and tuple never change once they are made: the sandbox of chat templates allows no change.
type (
	list  struct{ items []value }
	tuple struct{ items []value }
)

// rng is what range() gives.
type rng struct{ start, stop, step int64 }

// iterator is a generator or another iterator: it can be walked once.
type iterator struct {
	kind string // its class in Python
	name string // of the generator's function
	next func() (value, bool)
}

// view shows the items, keys or values of a dict.
type view struct {
	kind string // dict_items, dict_keys, dict_values
	d    *dict
}

// function is a function or method that templates can call.
type function struct {
	name  string
	self  value // nil for a function
	class string
	call  func(r *run, args []value, kwargs []kwarg) value
}

// kwarg is an argument with a name.
type kwarg struct {
	name string
	v    value
}

type namespace struct{ attrs *dict }

type cycler struct {
	items []value
	pos   int
}

type joiner struct {
	sep  value
	used bool
}

// blocks is the variable self: the template's blocks by name.
type blocks struct{}

// undefined is what a name that nobody set, or an attribute that is not there, gives. It may be printed, tested and iterated.
type undefined struct {
	hint string // the message, if it is not made from obj and name
	obj  value  // nil: a name
	name value
	kind string // of the error on use
}

func undefinedName(name string) *undefined {
	return &undefined{name: name, kind: "UndefinedError"}
}

func undefinedHint(hint string) *undefined {
	return &undefined{hint: hint, kind: "UndefinedError"}
}

// fail raises what any real use of an undefined value raises.
func (u *undefined) fail(m *meter) {
	switch name, isString := u.name.(string); {
	case u.hint != "":
		raise(u.kind, "%s", u.hint)
	case u.obj == nil:
		raise(u.kind, "%s is undefined", repr(m, u.name))
	case !isString:
		raise(u.kind, "%s has no element %s", objectType(u.obj), repr(m, u.name))
	default:
		raise(u.kind, "'%s' has no attribute %s", objectType(u.obj), repr(m, name))
	}
}

// dict is a mapping that keeps the order of insertion. Only the code that makes one changes it.
type dict struct {
	keys   []value
	values []value
	index  map[any]int // by hash
}

func newDict() *dict { return &dict{index: map[any]int{}} }

func (d *dict) len() int { return len(d.keys) }

// set puts a value under a key; a key that is there keeps its place.
func (d *dict) set(m *meter, key, v value) {
	h := hash(m, key)
	if i, ok := d.index[h]; ok {
		d.values[i] = v
		return
	}
	m.build(64)
	d.index[h] = len(d.keys)
	d.keys = append(d.keys, key)
	d.values = append(d.values, v)
}

func (d *dict) get(m *meter, key value) (value, bool) {
	if i, ok := d.index[hash(m, key)]; ok {
		return d.values[i], true
	}
	return nil, false
}

func (d *dict) copy(m *meter) *dict {
	c := newDict()
	for i, k := range d.keys {
		c.set(m, k, d.values[i])
	}
	return c
}

// Kinds of keys beside Go's own strings and integers.
type (
	bigKey   string
	tupleKey string
	bytesKey string
	undefKey struct{}
	nanKey   *float64
)

// hash gives equal values the same comparable Go value, and others another one. What cannot be a key in Python raises.
func hash(m *meter, v value) any {
	m.spend(1)
	switch v := v.(type) {
	case string:
		m.scan(len(v))
		return v
	case markup:
		m.scan(len(v))
		return string(v)
	case bool:
		return int64(toInt(v))
	case int64, none:
		return v
	case *big.Int:
		return bigKey(v.Text(16))
	case float64:
		if math.IsNaN(v) {
			return nanKey(&v)
		}
		if v == math.Trunc(v) && !math.IsInf(v, 0) {
			i, _ := big.NewFloat(v).Int(nil)
			return hash(m, shrink(i))
		}
		return v
	case *undefined:
		return undefKey{}
	case bytes:
		m.scan(len(v))
		return bytesKey(v)
	case *tuple:
		return hashTuple(m, v)
	case *list, *dict:
		raise("TypeError", "unhashable type: '%s'", typeName(v))
	case *view:
		if v.kind != "dict_values" {
			raise("TypeError", "unhashable type: '%s'", v.kind)
		}
	}
	return v
}

// hashTuple writes the hashes of the items one after another, each with its kind and length.
func hashTuple(m *meter, t *tuple) any {
	m.enter()
	defer m.leave()
	b := text{m: m}
	for _, item := range t.items {
		s := hashText(hash(m, item))
		b.write(itoa(int64(len(s))))
		b.writeByte(':')
		b.write(s)
	}
	return tupleKey(b.String())
}

// objectType is how messages name the type of an object.
func objectType(v value) string {
	switch name := typeName(v); name {
	case "NoneType":
		return "None"
	case "Namespace", "Cycler", "Joiner":
		return "jinja2.utils." + name + " object"
	case "LoopContext", "Macro", "TemplateReference", "BlockReference":
		return "jinja2.runtime." + name + " object"
	case "Markup":
		return "markupsafe.Markup object"
	default:
		return name + " object"
	}
}

// typeName is the name of a value's class in Python.
func typeName(v value) string {
	switch v := v.(type) {
	case none:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case markup:
		return "Markup"
	case bytes:
		return "bytes"
	case *list:
		return "list"
	case *tuple:
		return "tuple"
	case *dict:
		return "dict"
	case *undefined:
		return "Undefined"
	case *rng:
		return "range"
	case *iterator:
		return v.kind
	case *view:
		return v.kind
	case *function:
		return v.class
	case *macro:
		return "Macro"
	case *namespace:
		return "Namespace"
	case *loop:
		return "LoopContext"
	case *cycler:
		return "Cycler"
	case *joiner:
		return "Joiner"
	}
	return "TemplateReference"
}

// truth is bool() of a value.
func truth(v value) bool {
	switch v := v.(type) {
	case none, *undefined:
		return false
	case string:
		return v != ""
	case markup:
		return v != ""
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case *view:
		return v.d.len() > 0
	}
	if n, ok := length(v); ok {
		return n > 0
	}
	return true
}

// length is len() of a value; false where it has none.
func length(v value) (int, bool) {
	switch v := v.(type) {
	case string:
		return runeCount(v), true
	case markup:
		return runeCount(string(v)), true
	case bytes:
		return len(v), true
	case *list:
		return len(v.items), true
	case *tuple:
		return len(v.items), true
	case *dict:
		return v.len(), true
	case *view:
		return v.d.len(), true
	case *undefined:
		return 0, true
	case *rng:
		return v.len(), true
	case *loop:
		return v.length(), true
	}
	return 0, false
}

// len is the number of elements; range() makes sure that it is small.
func (g *rng) len() int {
	switch {
	case g.step > 0 && g.start < g.stop:
		return int((uint64(g.stop)-uint64(g.start)-1)/uint64(g.step)) + 1
	case g.step < 0 && g.start > g.stop:
		return int((uint64(g.start)-uint64(g.stop)-1)/(-uint64(g.step))) + 1
	}
	return 0
}

func (g *rng) at(i int) int64 { return g.start + int64(i)*g.step }

// asString is the text of a str, marked as safe or not.
func asString(v value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	}
	return "", false
}

// like gives a text the class of another value.
func like(v value, s string) value {
	if _, ok := v.(markup); ok {
		return markup(s)
	}
	return s
}

func newList(m *meter, items []value) *list {
	m.build(24 + 16*len(items))
	return &list{items}
}

// iterate is iter(): it walks the elements of a value. The second result is false where Python has no iterator.
func iterate(m *meter, v value) (func() (value, bool), bool) {
	slice := func(items []value) func() (value, bool) {
		i := -1
		return func() (value, bool) {
			m.spend(1)
			if i++; i >= len(items) {
				return nil, false
			}
			return items[i], true
		}
	}
	switch v := v.(type) {
	case string:
		return characters(m, v, func(s string) value { return s }), true
	case markup: // Python's str.__iter__ gives plain characters
		return characters(m, string(v), func(s string) value { return s }), true
	case bytes:
		i := -1
		return func() (value, bool) {
			m.spend(1)
			if i++; i >= len(v) {
				return nil, false
			}
			return int64(v[i]), true
		}, true
	case *list:
		return slice(v.items), true
	case *tuple:
		return slice(v.items), true
	case *dict:
		return slice(v.keys), true
	case *view:
		return slice(v.items(m)), true
	case *undefined:
		return slice(nil), true
	case *rng:
		i := -1
		return func() (value, bool) {
			m.spend(1)
			if i++; i >= v.len() {
				return nil, false
			}
			return v.at(i), true
		}, true
	case *iterator:
		return v.next, true
	case *loop:
		return v.each, true
	}
	return nil, false
}

func characters(m *meter, s string, wrap func(string) value) func() (value, bool) {
	return func() (value, bool) {
		m.spend(1)
		if s == "" {
			return nil, false
		}
		n := runeLen(s)
		c := s[:n]
		s = s[n:]
		return wrap(c), true
	}
}

// walk is iterate for code that cannot do without.
func walk(m *meter, v value) func() (value, bool) {
	next, ok := iterate(m, v)
	if !ok {
		raise("TypeError", "'%s' object is not iterable", typeName(v))
	}
	return next
}

// elements is list() of a value.
func elements(m *meter, v value) []value {
	switch v := v.(type) {
	case *list:
		return v.items
	case *tuple:
		return v.items
	}
	var items []value
	for next := walk(m, v); ; {
		item, ok := next()
		if !ok {
			return items
		}
		m.build(40)
		items = append(items, item)
	}
}

// items lists what a view shows.
func (v *view) items(m *meter) []value {
	switch v.kind {
	case "dict_keys":
		return v.d.keys
	case "dict_values":
		return v.d.values
	}
	m.build(64 * v.d.len())
	items := make([]value, v.d.len())
	for i, k := range v.d.keys {
		items[i] = &tuple{[]value{k, v.d.values[i]}}
	}
	return items
}

// pieces turns texts into a list whose elements have the class of v.
func pieces(m *meter, v value, parts []string) *list {
	items := make([]value, len(parts))
	for i, p := range parts {
		items[i] = like(v, p)
	}
	return newList(m, items)
}

// joinText is strings.Join under a meter.
func joinText(m *meter, parts []string, sep string) string {
	n := len(sep) * max(len(parts)-1, 0)
	for _, p := range parts {
		n += len(p)
	}
	m.build(n)
	return strings.Join(parts, sep)
}
