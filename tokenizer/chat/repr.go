package chat

import (
	"cmp"
	"math/big"
	"strings"
)

// str is str() of a value.
func str(m *meter, v value) string {
	switch v := v.(type) {
	case string:
		return v
	case markup:
		return string(v)
	case *undefined:
		return ""
	}
	return repr(m, v)
}

// repr is repr() of a value. Objects that have no text of their own get their class, without the address that Python writes.
func repr(m *meter, v value) string {
	t := text{m: m}
	t.repr(v, 0)
	return t.String()
}

func (t *text) repr(v value, depth int) {
	if depth > valueDepth {
		raiseLimit("values within values, more than %d deep", valueDepth)
	}
	switch v := v.(type) {
	case none:
		t.write("None")
	case bool:
		t.write(boolText(v))
	case int64, *big.Int:
		t.write(intText(v))
	case float64:
		t.write(floatText(v))
	case string:
		t.m.build(3 * len(v)) // escapes may be that much longer
		t.write(quote(v))
	case markup:
		t.m.build(3 * len(v))
		t.write("Markup(" + quote(string(v)) + ")")
	case bytes:
		t.m.build(3 * len(v))
		t.write(quoteBytes(v))
	case *list:
		t.reprItems("[", "]", v.items, depth)
	case *tuple:
		end := ")"
		if len(v.items) == 1 {
			end = ",)"
		}
		t.reprItems("(", end, v.items, depth)
	case *dict:
		t.reprDict(v, depth)
	case *view:
		t.reprItems(v.kind+"([", "])", v.items(t.m), depth)
	case *namespace:
		t.write("<Namespace ")
		t.reprDict(v.attrs, depth)
		t.write(">")
	default:
		t.write(objectText(v))
	}
}

func (t *text) reprItems(open, end string, items []value, depth int) {
	t.write(open)
	for i, item := range items {
		if i > 0 {
			t.write(", ")
		}
		t.repr(item, depth+1)
	}
	t.write(end)
}

func (t *text) reprDict(d *dict, depth int) {
	t.write("{")
	for i, k := range d.keys {
		if i > 0 {
			t.write(", ")
		}
		t.repr(k, depth+1)
		t.write(": ")
		t.repr(d.values[i], depth+1)
	}
	t.write("}")
}

func boolText(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// objectText is what other objects print.
func objectText(v value) string {
	switch v := v.(type) {
	case *undefined:
		return "Undefined"
	case *rng:
		if v.step == 1 {
			return "range(" + itoa(v.start) + ", " + itoa(v.stop) + ")"
		}
		return "range(" + itoa(v.start) + ", " + itoa(v.stop) + ", " + itoa(v.step) + ")"
	case *loop:
		return "<LoopContext " + itoa(int64(v.index0)+1) + "/" + itoa(int64(v.length())) + ">"
	case *macro:
		if v.def.name == "" {
			return "<Macro anonymous>"
		}
		return "<Macro " + quote(v.def.name) + ">"
	case *iterator:
		return "<" + strings.TrimSpace(v.kind+" object "+v.name) + ">"
	case *function:
		if v.self != nil {
			return "<built-in method " + v.name + " of " + typeName(v.self) + " object>"
		}
		if v.name == "dict" {
			return "<class 'dict'>"
		}
		return "<function " + v.name + ">"
	}
	return "<" + objectType(v) + ">"
}

// escape is markupsafe's escape: text that is marked as safe stays as it is.
func escape(m *meter, v value) markup {
	if s, ok := v.(markup); ok {
		return s
	}
	s := str(m, v)
	m.build(len(s))
	if strings.ContainsAny(s, "&<>'\"") {
		m.build(4 * len(s))
	}
	return markup(escapes.Replace(s))
}

// equal is ==.
func equal(m *meter, l, r value) bool {
	m.spend(1)
	if isNumber(l) && isNumber(r) {
		c, ok := compareNumbers(l, r)
		return ok && c == 0
	}
	if a, ok := asString(l); ok {
		b, ok := asString(r)
		m.scan(min(len(a), len(b)))
		return ok && a == b
	}
	switch l := l.(type) {
	case *list:
		r, ok := r.(*list)
		return ok && (l == r || equalItems(m, l.items, r.items))
	case *tuple:
		r, ok := r.(*tuple)
		return ok && (l == r || equalItems(m, l.items, r.items))
	case *dict:
		r, ok := r.(*dict)
		return ok && (l == r || equalDicts(m, l, r))
	case *undefined:
		_, ok := r.(*undefined)
		return ok
	case *rng:
		r, ok := r.(*rng)
		return ok && l.len() == r.len() && (l.len() == 0 || l.start == r.start && (l.len() == 1 || l.step == r.step))
	case *view:
		r, ok := r.(*view)
		return ok && l.kind == r.kind && l.kind != "dict_values" && l.d.len() == r.d.len() && subset(m, l, r)
	case bytes:
		m.scan(len(l))
	}
	return l == r
}

// subset reports whether all keys or items of one view are in another.
func subset(m *meter, l, r *view) bool {
	for i, k := range l.d.keys {
		v, ok := r.d.get(m, k)
		if !ok || l.kind == "dict_items" && !equal(m, l.d.values[i], v) {
			return false
		}
	}
	return true
}

func equalItems(m *meter, l, r []value) bool {
	m.enter()
	defer m.leave()
	if len(l) != len(r) {
		return false
	}
	for i := range l {
		if !same(l[i], r[i]) && !equal(m, l[i], r[i]) {
			return false
		}
	}
	return true
}

func equalDicts(m *meter, l, r *dict) bool {
	m.enter()
	defer m.leave()
	if l.len() != r.len() {
		return false
	}
	for i, k := range l.keys {
		v, ok := r.get(m, k)
		if !ok || !same(l.values[i], v) && !equal(m, l.values[i], v) {
			return false
		}
	}
	return true
}

// same is "is", as far as it can be told: equal small things are the same here where Python may have two objects for them. Texts are left to equal,
// which counts what it looks at.
func same(l, r value) bool {
	switch l.(type) {
	case string, markup, bytes:
		return false
	}
	return l == r
}

// order is how l stands to r: -1, 0 or 1; ok is false where all comparisons are false. op is for the message if Python has no order.
func order(m *meter, l, r value, op string) (c int, ok bool) {
	m.spend(1)
	if isNumber(l) && isNumber(r) {
		return compareNumbers(l, r)
	}
	if a, isText := asString(l); isText {
		if b, isText := asString(r); isText {
			m.scan(min(len(a), len(b)))
			return cmp.Compare(a, b), true
		}
	}
	for _, v := range []value{l, r} {
		if u, isUndefined := v.(*undefined); isUndefined {
			u.fail(m)
		}
	}
	switch a := l.(type) {
	case *list:
		if b, isList := r.(*list); isList {
			return orderItems(m, a.items, b.items, op)
		}
	case *tuple:
		if b, isTuple := r.(*tuple); isTuple {
			return orderItems(m, a.items, b.items, op)
		}
	case bytes:
		if b, isBytes := r.(bytes); isBytes {
			m.scan(min(len(a), len(b)))
			return cmp.Compare(a, b), true
		}
	}
	raise("TypeError", "'%s' not supported between instances of '%s' and '%s'", op, typeName(l), typeName(r))
	return 0, false
}

func orderItems(m *meter, l, r []value, op string) (int, bool) {
	m.enter()
	defer m.leave()
	for i := range min(len(l), len(r)) {
		if !same(l[i], r[i]) && !equal(m, l[i], r[i]) {
			return order(m, l[i], r[i], op)
		}
	}
	return cmp.Compare(len(l), len(r)), true
}

// less is <, for sorting.
func less(m *meter, l, r value) bool {
	c, ok := order(m, l, r, "<")
	return ok && c < 0
}

// compare applies one of the six operators.
func compare(m *meter, op string, l, r value) bool {
	switch op {
	case "==":
		return equal(m, l, r)
	case "!=":
		return !equal(m, l, r)
	}
	c, ok := order(m, l, r, op)
	if !ok {
		return false
	}
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// contains is "item in v".
func contains(m *meter, v, item value) bool {
	if s, ok := asString(v); ok {
		sub, ok := asString(item)
		if !ok {
			raise("TypeError", "'in <string>' requires string as left operand, not %s", typeName(item))
		}
		m.scan(len(s))
		return strings.Contains(s, sub)
	}
	switch v := v.(type) {
	case *dict:
		_, ok := v.get(m, item)
		return ok
	case *view:
		if v.kind == "dict_keys" {
			_, ok := v.d.get(m, item)
			return ok
		}
	case bytes:
		sub, ok := item.(bytes)
		if !ok {
			raise("TypeError", "a bytes-like object is required, not '%s'", typeName(item))
		}
		m.scan(len(v))
		return strings.Contains(string(v), string(sub))
	}
	next, ok := iterate(m, v)
	if !ok {
		raise("TypeError", "argument of type '%s' is not iterable", typeName(v))
	}
	for {
		x, ok := next()
		if !ok {
			return false
		}
		if same(x, item) || equal(m, x, item) {
			return true
		}
	}
}

// hashText writes the hash of a value as text that others do not have.
func hashText(h any) string {
	switch h := h.(type) {
	case string:
		return "s" + h
	case int64:
		return "i" + itoa(h)
	case float64:
		return "f" + floatText(h)
	case bigKey:
		return "i" + string(h)
	case tupleKey:
		return "t" + string(h)
	case bytesKey:
		return "b" + string(h)
	case none:
		return "n"
	case undefKey:
		return "u"
	}
	raise("TypeError", "such objects cannot be part of a key here")
	return ""
}
