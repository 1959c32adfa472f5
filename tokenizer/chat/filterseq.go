package chat

import (
	"slices"
	"strconv"
	"strings"
)

// getter makes a function that takes an attribute, such as a.b.0, out of an item. Those who compare ignore the case of texts with fold.
func (r *run) getter(attribute, otherwise value, fold bool) func(value) value {
	var parts []value
	switch a := attribute.(type) {
	case none:
	case string, markup:
		s, _ := asString(a)
		r.buildParts(1 + strings.Count(s, "."))
		parts = attributePath(s)
	default:
		parts = []value{a}
	}
	return func(item value) value {
		for _, p := range parts {
			r.spend(1)
			item = r.item(item, p)
			if _, missing := item.(*undefined); missing && otherwise != nil && otherwise != (none{}) {
				item = otherwise
			}
		}
		if fold {
			return r.folded(item)
		}
		return item
	}
}

// attributePath cuts a path at its points; parts of digits are indices.
func attributePath(s string) []value {
	var parts []value
	for _, p := range strings.Split(s, ".") {
		if n, err := strconv.ParseInt(p, 10, 64); err == nil && all(p, isDigitRune) {
			parts = append(parts, n)
		} else {
			parts = append(parts, p)
		}
	}
	return parts
}

// folded is a text in lower case, and anything else as it is.
func (r *run) folded(v value) value {
	if s, ok := asString(v); ok {
		r.build(len(s))
		return lowerText(s)
	}
	return v
}

// generator wraps a function as an iterator that runs when it is asked. One that asks another is a level below it.
func (r *run) generator(name string, next func() (value, bool)) *iterator {
	r.build(128)
	done := false
	return &iterator{kind: "generator", name: name, next: func() (value, bool) {
		if done {
			return nil, false
		}
		r.enter()
		defer r.leave()
		v, ok := next()
		done = !ok
		return v, ok
	}}
}

// lazily makes an iterator whose source is opened on the first step; what is false has no elements.
func (r *run) lazily(name string, v value, open func() func(item value) (value, bool)) value {
	var next func() (value, bool)
	var step func(item value) (value, bool)
	return r.generator(name, func() (value, bool) {
		if next == nil {
			if !truth(v) {
				return nil, false
			}
			step = open()
			next = walk(&r.meter, v)
		}
		for {
			item, ok := next()
			if !ok {
				return nil, false
			}
			if out, take := step(item); take {
				return out, true
			}
		}
	})
}

func filterMap(r *run, v value, args []value, named []kwarg) value {
	return r.lazily("sync_do_map", v, func() func(value) (value, bool) {
		if len(args) == 0 && slices.ContainsFunc(named, func(k kwarg) bool { return k.name == "attribute" }) {
			var attribute, otherwise value
			for _, k := range named {
				switch k.name {
				case "attribute":
					attribute = k.v
				case "default":
					otherwise = k.v
				default:
					raise("FilterArgumentError", "Unexpected keyword argument %s", shown(k.name))
				}
			}
			get := r.getter(attribute, otherwise, false)
			return func(item value) (value, bool) { return get(item), true }
		}
		if len(args) == 0 {
			raise("FilterArgumentError", "map requires a filter argument")
		}
		name := r.callable(args[0], "filter", func(s string) bool { _, ok := r.t.filters[s]; return ok })
		return func(item value) (value, bool) { return r.applyFilter(name, item, args[1:], named), true }
	})
}

// callable is the name of a filter or test that another filter is to use.
func (r *run) callable(v value, kind string, known func(string) bool) string {
	name, ok := asString(v)
	if !ok || !known(name) {
		raise("TemplateRuntimeError", "No %s named %s.", kind, repr(&r.meter, v))
	}
	return name
}

// selector is select, reject, selectattr or rejectattr.
func selector(reject, attribute bool) func(r *run, v value, args []value, named []kwarg) value {
	return func(r *run, v value, args []value, named []kwarg) value {
		return r.lazily("select_or_reject", v, func() func(value) (value, bool) {
			get := func(item value) value { return item }
			rest := args
			if attribute {
				if len(args) == 0 {
					raise("FilterArgumentError", "Missing parameter for attribute name")
				}
				get, rest = r.getter(args[0], nil, false), args[1:]
			}
			passes := func(item value) bool { return truth(get(item)) }
			if len(rest) > 0 {
				name := r.callable(rest[0], "test", func(s string) bool { _, ok := r.t.tests[s]; return ok })
				passes = func(item value) bool { return truth(r.applyTest(name, get(item), rest[1:], named)) }
			}
			return func(item value) (value, bool) { return item, passes(item) != reject }
		})
	}
}

func filterItems(r *run, a []value) value {
	var items []value
	i := -1
	return r.generator("do_items", func() (value, bool) {
		if i < 0 {
			switch v := a[0].(type) {
			case *undefined:
			case *dict:
				items = (&view{"dict_items", v}).items(&r.meter)
			default:
				raise("TypeError", "Can only get item pairs from a mapping.")
			}
		}
		if i++; i >= len(items) {
			return nil, false
		}
		return items[i], true
	})
}

func filterJoin(r *run, a []value) value {
	m := &r.meter
	get := r.getter(orNone(a[2]), nil, false)
	var sep value = ""
	if a[1] != nil {
		sep = a[1]
	}
	var items []value
	safe := isMarkup(sep)
	for next := walk(m, a[0]); ; {
		item, ok := next()
		if !ok {
			break
		}
		r.build(16)
		item = get(item)
		safe = safe || isMarkup(item)
		items = append(items, item)
	}
	safe = safe && r.escape
	parts := make([]string, len(items))
	for i, item := range items {
		if safe {
			parts[i] = string(escape(m, item))
		} else {
			parts[i] = str(m, item)
		}
	}
	if safe {
		return markup(joinText(m, parts, string(escape(m, sep))))
	}
	return joinText(m, parts, str(m, sep))
}

func filterFirst(r *run, a []value) value {
	if v, ok := walk(&r.meter, a[0])(); ok {
		return v
	}
	return undefinedHint("No first item, sequence was empty.")
}

// backwards is reversed(); false where Python has none.
func backwards(m *meter, v value) ([]value, bool) {
	switch v.(type) {
	case string, markup, bytes, *list, *tuple, *dict, *view, *rng, *undefined:
	default:
		return nil, false
	}
	items := slices.Clone(elements(m, v))
	m.build(16 * len(items))
	slices.Reverse(items)
	return items, true
}

func filterLast(r *run, a []value) value {
	items, ok := backwards(&r.meter, a[0])
	switch {
	case !ok:
		raise("TypeError", "'%s' object is not reversible", typeName(a[0]))
	case len(items) == 0:
		return undefinedHint("No last item, sequence was empty.")
	}
	return items[0]
}

func filterReverse(r *run, a []value) value {
	if s, ok := asString(a[0]); ok {
		r.build(5 * len(s))
		runes := []rune(s)
		slices.Reverse(runes)
		return like(a[0], string(runes))
	}
	items, ok := backwards(&r.meter, a[0])
	if !ok {
		if _, ok := iterate(&r.meter, a[0]); !ok {
			raise("FilterArgumentError", "argument must be iterable")
		}
		items = slices.Clone(elements(&r.meter, a[0]))
		slices.Reverse(items)
		return newList(&r.meter, items)
	}
	i := -1
	kind := map[string]string{"list": "list_reverseiterator", "dict": "dict_reversekeyiterator", "range": "range_iterator"}[typeName(a[0])]
	if kind == "" {
		kind = "reversed"
	}
	return &iterator{kind: kind, next: func() (value, bool) {
		r.spend(1)
		if i++; i >= len(items) {
			return nil, false
		}
		return items[i], true
	}}
}

func filterBatch(r *run, a []value) value {
	size := toIndex(a[1])
	var next func() (value, bool)
	var pending []value
	return r.generator("do_batch", func() (value, bool) {
		if next == nil {
			next = walk(&r.meter, a[0])
		}
		row := pending
		pending = nil
		for {
			item, ok := next()
			if !ok {
				break
			}
			if len(row) == size {
				pending = []value{item}
				return newList(&r.meter, row), true
			}
			r.build(16)
			row = append(row, item)
		}
		if len(row) == 0 {
			return nil, false
		}
		if a[2] != nil && a[2] != (none{}) && len(row) < size {
			r.build(16 * min(size-len(row), r.most))
			for len(row) < size {
				row = append(row, a[2])
			}
		}
		next = func() (value, bool) { return nil, false }
		return newList(&r.meter, row), true
	})
}

func filterSlice(r *run, a []value) value {
	slot, offset := 0, 0
	var items []value
	return r.generator("sync_do_slice", func() (value, bool) {
		n := toIndex(a[1])
		if slot == 0 {
			items = elements(&r.meter, a[0])
			if n == 0 {
				raise("ZeroDivisionError", "integer division or modulo by zero")
			}
		}
		if slot >= n {
			return nil, false
		}
		r.spend(1)
		each, extra := len(items)/n, len(items)%n
		start := offset + slot*each
		if slot < extra {
			offset++
		}
		r.build(16 * each)
		part := slices.Clone(items[start : offset+(slot+1)*each])
		if a[2] != nil && a[2] != (none{}) && slot >= extra {
			part = append(part, a[2])
		}
		slot++
		return newList(&r.meter, part), true
	})
}

// sorted sorts items by their keys and keeps the order of equal ones. Backwards too, as Python does.
func sorted(m *meter, items, keys []value, reverse bool) []value {
	m.build(40 * len(items))
	places := make([]int, len(items))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(x, y int) int {
		if reverse {
			x, y = y, x
		}
		switch {
		case less(m, keys[x], keys[y]):
			return -1
		case less(m, keys[y], keys[x]):
			return 1
		}
		return 0
	})
	out := make([]value, len(items))
	for i, p := range places {
		out[i] = items[p]
	}
	return out
}

func filterSort(r *run, a []value) value {
	var getters []func(value) value
	paths := []value{orNone(a[3])}
	if s, ok := asString(paths[0]); ok {
		r.buildParts(2 * (1 + strings.Count(s, ",")))
		paths = paths[:0]
		for _, p := range strings.Split(s, ",") {
			paths = append(paths, p)
		}
	}
	for _, p := range paths {
		getters = append(getters, r.getter(p, nil, !isTrue(a[2])))
	}
	items := elements(&r.meter, a[0])
	keys := make([]value, len(items))
	for i, item := range items {
		r.build(64 * len(getters))
		parts := make([]value, len(getters))
		for j, get := range getters {
			parts[j] = get(item)
		}
		keys[i] = &list{parts}
	}
	return newList(&r.meter, sorted(&r.meter, items, keys, isTrue(a[1])))
}

func filterDictsort(r *run, a []value) value {
	by := optText(a[2], "key")
	if by != "key" && by != "value" {
		raise("FilterArgumentError", "You can only sort by either \"key\" or \"value\"")
	}
	if u, ok := a[0].(*undefined); ok {
		u.fail(&r.meter)
	}
	d, ok := a[0].(*dict)
	if !ok {
		raise("AttributeError", "'%s' object has no attribute 'items'", typeName(a[0]))
	}
	keys := slices.Clone(d.keys)
	if by == "value" {
		keys = slices.Clone(d.values)
	}
	if !isTrue(a[1]) {
		for i := range keys {
			keys[i] = r.folded(keys[i])
		}
	}
	return newList(&r.meter, sorted(&r.meter, (&view{"dict_items", d}).items(&r.meter), keys, isTrue(a[3])))
}

func filterUnique(r *run, a []value) value {
	get := r.getter(orNone(a[2]), nil, !isTrue(a[1]))
	seen := newDict()
	var next func() (value, bool)
	return r.generator("sync_do_unique", func() (value, bool) {
		if next == nil {
			next = walk(&r.meter, a[0])
		}
		for {
			item, ok := next()
			if !ok {
				return nil, false
			}
			key := get(item)
			if _, old := seen.get(&r.meter, key); !old {
				seen.set(&r.meter, key, true)
				return item, true
			}
		}
	})
}

// extreme is min (sign -1) or max (sign 1); of equal ones it takes the first.
func extreme(sign int) func(r *run, a []value) value {
	op := "<"
	if sign > 0 {
		op = ">"
	}
	return func(r *run, a []value) value {
		get := r.getter(orNone(a[2]), nil, !isTrue(a[1]))
		next := walk(&r.meter, a[0])
		best, ok := next()
		if !ok {
			return undefinedHint("No aggregated item, sequence was empty.")
		}
		key := get(best)
		for {
			item, ok := next()
			if !ok {
				return best
			}
			k := get(item)
			if c, ok := order(&r.meter, k, key, op); ok && c == sign {
				best, key = item, k
			}
		}
	}
}

func filterGroupby(r *run, a []value) value {
	m := &r.meter
	get := r.getter(a[1], a[2], !isTrue(a[3]))
	exact := r.getter(a[1], a[2], false)
	items := elements(m, a[0])
	keys := make([]value, len(items))
	for i, item := range items {
		keys[i] = get(item)
	}
	var groups []value
	var last value
	for _, item := range sorted(m, items, keys, false) {
		key := get(item)
		if last == nil || !equal(m, key, last) {
			groups = append(groups, &tuple{[]value{exact(item), &list{}}})
			last = key
		}
		m.build(64)
		group := groups[len(groups)-1].(*tuple).items[1].(*list)
		group.items = append(group.items, item)
	}
	return newList(m, groups)
}
