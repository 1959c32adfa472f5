package chat

import (
	"math/big"
	"slices"
	"strings"
)

// attribute is v.name: an attribute, else an item.
func (r *run) attribute(v value, name string) value {
	if a := r.member(v, name); a != nil {
		return a
	}
	if item, ok := r.index(v, name); ok {
		return item
	}
	return &undefined{obj: v, name: name, kind: "UndefinedError"}
}

// item is v[key]: an item, else an attribute.
func (r *run) item(v, key value) value {
	if item, ok := r.index(v, key); ok {
		return item
	}
	if name, ok := asString(key); ok {
		if a := r.member(v, name); a != nil {
			return a
		}
	}
	return &undefined{obj: v, name: key, kind: "UndefinedError"}
}

// index looks an item up; false if there is none.
func (r *run) index(v, key value) (value, bool) {
	if u, ok := v.(*undefined); ok {
		u.fail(&r.meter)
	}
	if d, ok := v.(*dict); ok {
		switch key.(type) {
		case *list, *dict, *view:
			return nil, false
		}
		return d.get(&r.meter, key)
	}
	i, ok := small(key)
	if !ok {
		return nil, false
	}
	switch v.(type) {
	case string, markup, bytes, *list, *tuple, *rng:
	default:
		return nil, false
	}
	s, _ := asString(v)
	r.scan(len(s))
	n, _ := length(v)
	if i < 0 {
		i += int64(n)
	}
	if i < 0 || i >= int64(n) {
		return nil, false
	}
	switch v := v.(type) {
	case *list:
		return v.items[i], true
	case *tuple:
		return v.items[i], true
	case *rng:
		return v.at(int(i)), true
	case bytes:
		return int64(v[i]), true
	}
	return like(v, cut(s, int(i), int(i)+1)), true
}

// mutators are the methods that change an object: the sandbox refuses them.
var mutators = map[string][]string{
	"list": {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"},
	"dict": {"clear", "pop", "popitem", "setdefault", "update"},
}

// internals are attributes that every object of Python has, and that the sandbox refuses.
var internals = strings.Fields(`__class__ __delattr__ __dir__ __doc__ __eq__ __format__ __ge__ __getattribute__ __getstate__ __gt__ __hash__ __init__
	__init_subclass__ __le__ __lt__ __ne__ __new__ __reduce__ __reduce_ex__ __repr__ __setattr__ __sizeof__ __str__ __subclasshook__`)

// member is an attribute of an object; nil if there is none.
func (r *run) member(v value, name string) value {
	if u, ok := v.(*undefined); ok && !(strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")) {
		u.fail(&r.meter)
	}
	if ns, ok := v.(*namespace); ok {
		a, found := ns.attrs.get(&r.meter, name)
		if !found {
			return nil
		}
		return a
	}
	if slices.Contains(mutators[typeName(v)], name) || slices.Contains(internals, name) {
		return &undefined{
			hint: "access to attribute " + quote(name) + " of '" + typeName(v) + "' object is unsafe.",
			obj:  v, name: name, kind: "SecurityError",
		}
	}
	switch v := v.(type) {
	case string, markup:
		s, _ := asString(v)
		if name == "format" || name == "format_map" {
			return formatMethod(v, s, name)
		}
		if m, ok := strMethods[name]; ok {
			return method(v, name, func(r *run, args []value, named []kwarg) value { return m.call(r, name, v, s, args, named) })
		}
	case bool, int64, *big.Int:
		return intMember(v, name)
	case float64:
		return floatMember(v, name)
	case *dict:
		return dictMember(v, name)
	case *list:
		if name == "copy" {
			return method(v, name, func(r *run, args []value, _ []kwarg) value { return newList(&r.meter, v.items) })
		}
		return itemsMember(v, v.items, name)
	case *tuple:
		return itemsMember(v, v.items, name)
	case bytes:
		if name == "decode" {
			return method(v, name, func(r *run, args []value, _ []kwarg) value { return strings.ToValidUTF8(string(v), "\ufffd") })
		}
	case *rng:
		if i := slices.Index([]string{"start", "stop", "step"}, name); i >= 0 {
			return []int64{v.start, v.stop, v.step}[i]
		}
	default:
		return jinjaMember(r, v, name)
	}
	return nil
}

// jinjaMember is an attribute of one of Jinja's own objects.
func jinjaMember(r *run, v value, name string) value {
	switch v := v.(type) {
	case *loop:
		return v.attr(name)
	case *macro:
		switch name {
		case "name":
			return v.def.name
		case "arguments":
			names := make([]value, len(v.def.params))
			for i, p := range v.def.params {
				names[i] = p
			}
			return &tuple{names}
		case "caller":
			return v.def.usesCaller
		case "catch_kwargs":
			return v.def.usesKwargs
		case "catch_varargs":
			return v.def.usesVarargs
		}
	case *cycler:
		switch name {
		case "current":
			return v.items[v.pos]
		case "items":
			return &tuple{v.items}
		case "pos":
			return int64(v.pos)
		case "next":
			return method(v, name, func(*run, []value, []kwarg) value {
				item := v.items[v.pos]
				v.pos = (v.pos + 1) % len(v.items)
				return item
			})
		case "reset":
			return method(v, name, func(*run, []value, []kwarg) value {
				v.pos = 0
				return none{}
			})
		}
	case *joiner:
		switch name {
		case "sep":
			return v.sep
		case "used":
			return v.used
		}
	case *blocks:
		if b := r.t.blocks[name]; b != nil {
			return &function{name: name, class: "BlockReference", call: func(r *run, _ []value, _ []kwarg) value {
				r.enterCall()
				defer r.leaveCall()
				return r.captured(r.capture(func() { r.statements(b.body, r.root.inner()) }))
			}}
		}
	}
	return nil
}

// method binds a function to an object.
func method(self value, name string, call func(r *run, args []value, named []kwarg) value) value {
	return &function{name: name, self: self, class: "builtin_function_or_method", call: call}
}

// plain makes a method without arguments that gives one value.
func plain(self value, name string, v value) value {
	return method(self, name, func(*run, []value, []kwarg) value { return v })
}

func intMember(v value, name string) value {
	i, _ := integer(v)
	switch name {
	case "real", "numerator":
		return shrink(i)
	case "imag":
		return int64(0)
	case "denominator":
		return int64(1)
	case "bit_length":
		return plain(v, name, int64(i.BitLen()))
	case "conjugate":
		return plain(v, name, shrink(i))
	}
	return nil
}

func floatMember(f float64, name string) value {
	switch name {
	case "real":
		return f
	case "imag":
		return 0.0
	case "is_integer":
		return plain(f, name, f == float64(int64(f)) || f > 1e18 && f < 1e308 || f < -1e18 && f > -1e308)
	case "conjugate":
		return plain(f, name, f)
	}
	return nil
}

// itemsMember is a method that lists and tuples have.
func itemsMember(self value, items []value, name string) value {
	switch name {
	case "count":
		return method(self, name, func(r *run, args []value, named []kwarg) value {
			a := bind(name, []string{"value"}, 1, args, named)
			n := int64(0)
			for _, item := range items {
				if same(item, a[0]) || equal(&r.meter, item, a[0]) {
					n++
				}
			}
			return n
		})
	case "index":
		return method(self, name, func(r *run, args []value, named []kwarg) value {
			a := bind(name, []string{"value", "start", "stop"}, 1, args, named)
			start, stop, _ := sliceBounds(len(items), []value{a[1], a[2], nil})
			for i := start; i < stop; i++ {
				if same(items[i], a[0]) || equal(&r.meter, items[i], a[0]) {
					return int64(i)
				}
			}
			raise("ValueError", "%s is not in %s", repr(&r.meter, a[0]), typeName(self))
			return nil
		})
	}
	return nil
}

func dictMember(d *dict, name string) value {
	switch name {
	case "items", "keys", "values":
		return method(d, name, func(r *run, args []value, named []kwarg) value {
			bind(name, nil, 0, args, named)
			return &view{"dict_" + name, d}
		})
	case "get":
		return method(d, name, func(r *run, args []value, named []kwarg) value {
			a := bind(name, []string{"key", "default"}, 1, args, named)
			if v, ok := d.get(&r.meter, a[0]); ok {
				return v
			}
			if a[1] == nil {
				return none{}
			}
			return a[1]
		})
	case "copy":
		return method(d, name, func(r *run, _ []value, _ []kwarg) value { return d.copy(&r.meter) })
	case "fromkeys":
		return method(d, name, func(r *run, args []value, named []kwarg) value {
			a := bind(name, []string{"iterable", "value"}, 1, args, named)
			if a[1] == nil {
				a[1] = none{}
			}
			c := newDict()
			for _, k := range elements(&r.meter, a[0]) {
				c.set(&r.meter, k, a[1])
			}
			return c
		})
	}
	return nil
}

// call calls a value.
func (r *run) call(fn value, args []value, named []kwarg) value {
	switch f := fn.(type) {
	case *function:
		return f.call(r, args, named)
	case *macro:
		return f.call(r, args, named)
	case *loop:
		a := bind("loop", []string{"iterable"}, 1, args, named)
		if f.again == nil {
			raise("TypeError", "The loop must have the 'recursive' marker to be called recursively.")
		}
		return f.again(a[0], f.depth0+1)
	case *joiner:
		if !f.used {
			f.used = true
			return ""
		}
		return f.sep
	case *undefined:
		f.fail(&r.meter)
	}
	raise("TypeError", "'%s' object is not callable", typeName(fn))
	return nil
}

// bind spreads the arguments of a call over parameters, of which the first ones are required. What is not given is nil.
func bind(fn string, params []string, required int, args []value, named []kwarg) []value {
	bound := make([]value, len(params))
	if len(args) > len(params) {
		raise("TypeError", "%s() takes at most %d arguments (%d given)", fn, len(params), len(args))
	}
	copy(bound, args)
	for _, k := range named {
		i := slices.Index(params, k.name)
		switch {
		case i < 0:
			raise("TypeError", "%s() got an unexpected keyword argument '%s'", fn, k.name)
		case bound[i] != nil:
			raise("TypeError", "%s() got multiple values for argument '%s'", fn, k.name)
		}
		bound[i] = k.v
	}
	for i := range required {
		if bound[i] == nil {
			raise("TypeError", "%s() missing required argument: '%s'", fn, params[i])
		}
	}
	return bound
}

// macro is a macro, or the body of a call block, with the variables of the place where it stands.
type macro struct {
	def   *macroStmt
	scope *scope
}

// call runs the body and gives what it wrote.
func (m *macro) call(r *run, args []value, named []kwarg) value {
	r.enterCall()
	defer r.leaveCall()
	r.build(64)
	d, in := m.def, m.scope.inner()
	given := map[string]value{}
	for i, p := range d.params[:min(len(args), len(d.params))] {
		given[p] = args[i]
	}
	rest := newDict()
	for _, k := range named {
		_, twice := given[k.name]
		if !twice && slices.Contains(d.params, k.name) {
			given[k.name] = k.v
			continue
		}
		rest.put(k.name, k.v)
	}
	m.special(r, in, rest, args)
	for i, p := range d.params {
		v, ok := given[p]
		if !ok {
			if j := i - (len(d.params) - len(d.defaults)); j >= 0 {
				v = r.eval(d.defaults[j], in)
			} else {
				v = &undefined{hint: "parameter " + quote(p) + " was not provided", name: p, kind: "UndefinedError"}
			}
		}
		in.set(p, v)
	}
	return r.captured(r.capture(func() { r.statements(d.body, in) }))
}

// special sets caller, kwargs and varargs, and refuses arguments that have no place.
func (m *macro) special(r *run, in *scope, rest *dict, args []value) {
	d, caller := m.def, value(nil)
	if d.usesCaller && !slices.Contains(d.params, "caller") {
		if i, ok := rest.index["caller"]; ok {
			caller = rest.values[i]
			without := newDict()
			for i, k := range rest.keys {
				if k != "caller" {
					without.put(k.(string), rest.values[i])
				}
			}
			*rest = *without
		} else {
			caller = &undefined{hint: "No caller defined", name: "caller", kind: "UndefinedError"}
		}
		in.set("caller", caller)
	}
	if d.usesKwargs {
		in.set("kwargs", rest)
	} else if rest.len() > 0 {
		if _, ok := rest.index["caller"]; ok {
			raise("TypeError", "macro %s was invoked with two values for the special caller argument. This is most likely a bug.", shown(d.name))
		}
		raise("TypeError", "macro %s takes no keyword argument %s", shown(d.name), repr(&r.meter, rest.keys[0]))
	}
	extra := args[min(len(args), len(d.params)):]
	if d.usesVarargs {
		in.set("varargs", &tuple{extra})
	} else if len(extra) > 0 {
		raise("TypeError", "macro %s takes not more than %d argument(s)", shown(d.name), len(d.params))
	}
}
