package chat

import (
	"math/big"
	"strings"
)

// applyTest runs a test.
func (r *run) applyTest(name string, v value, args []value, named []kwarg) value {
	t, ok := r.t.tests[name]
	if !ok {
		raise("TemplateRuntimeError", "No test named %s found.", shown(name))
	}
	return t.f(r, bind(name, strings.Fields(t.params), t.required, append([]value{v}, args...), named))
}

// testTable lists all tests. They have the form of filters.
func testTable() map[string]filter {
	one := func(f func(r *run, v value) bool) filter {
		return filter{params: "value", required: 1, f: func(r *run, a []value) value { return f(r, a[0]) }}
	}
	two := func(f func(r *run, v, other value) bool) filter {
		return filter{params: "value other", required: 2, f: func(r *run, a []value) value { return f(r, a[0], a[1]) }}
	}
	isNumberOf := func(kinds ...string) filter {
		return one(func(_ *run, v value) bool {
			for _, k := range kinds {
				if typeName(v) == k {
					return true
				}
			}
			return false
		})
	}
	remainder := func(want int64) filter {
		return one(func(r *run, v value) bool { return equal(&r.meter, r.binary("%", v, int64(2)), want) })
	}
	t := map[string]filter{
		"odd": remainder(1), "even": remainder(0),
		"divisibleby": {params: "value num", required: 2, f: func(r *run, a []value) value {
			return equal(&r.meter, r.binary("%", a[0], a[1]), int64(0))
		}},
		"defined":   one(func(_ *run, v value) bool { return !isUndefined(v) }),
		"undefined": one(func(_ *run, v value) bool { return isUndefined(v) }),
		"filter":    one(func(r *run, v value) bool { return named(r, r.t.filters, v) }),
		"test":      one(func(r *run, v value) bool { return named(r, r.t.tests, v) }),
		"none":      one(func(_ *run, v value) bool { return v == none{} }),
		"boolean":   isNumberOf("bool"), "integer": isNumberOf("int"), "float": isNumberOf("float"), "number": isNumberOf("bool", "int", "float"),
		"string": isNumberOf("str", "Markup"), "mapping": isNumberOf("dict"), "escaped": isNumberOf("Markup"),
		"false":    one(func(_ *run, v value) bool { return v == false }),
		"true":     one(func(_ *run, v value) bool { return v == true }),
		"lower":    one(func(r *run, v value) bool { return allCased(str(&r.meter, v), isLower) }),
		"upper":    one(func(r *run, v value) bool { return allCased(str(&r.meter, v), isUpper) }),
		"sequence": isNumberOf("str", "Markup", "bytes", "list", "tuple", "dict", "range", "Undefined"),
		"iterable": one(func(r *run, v value) bool { _, ok := iterate(&r.meter, v); return ok }),
		"callable": one(func(_ *run, v value) bool { return isCallable(v) }),
		"sameas":   two(func(_ *run, v, other value) bool { return identical(v, other) }),
		"in":       two(func(r *run, v, other value) bool { return contains(&r.meter, other, v) }),
	}
	for op, names := range map[string]string{"==": "eq equalto", "!=": "ne", ">": "gt greaterthan", ">=": "ge", "<": "lt lessthan", "<=": "le"} {
		for _, name := range append(strings.Fields(names), op) {
			t[name] = two(func(r *run, v, other value) bool { return compare(&r.meter, op, v, other) })
		}
	}
	return t
}

// named reports whether a table has an entry of this name.
func named(r *run, table map[string]filter, v value) bool {
	name, ok := hash(&r.meter, v).(string)
	_, found := table[name]
	return ok && found
}

func isUndefined(v value) bool {
	_, ok := v.(*undefined)
	return ok
}

func isCallable(v value) bool {
	switch v.(type) {
	case *function, *macro, *loop, *joiner, *undefined: // Python finds a method to call on undefined values, which raises
		return true
	}
	return false
}

// identical is "is": equal numbers of different classes are not the same.
func identical(l, r value) bool {
	if a, ok := l.(*big.Int); ok {
		b, ok := r.(*big.Int)
		return ok && a.Cmp(b) == 0
	}
	return l == r
}
