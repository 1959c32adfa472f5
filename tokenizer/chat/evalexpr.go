package chat

import (
	"math/big"
	"strings"
)

// eval computes an expression.
func (r *run) eval(x expr, s *scope) value {
	r.enter()
	defer r.leave()
	r.spend(1)
	switch x := x.(type) {
	case *constExpr:
		return x.v
	case *nameExpr:
		if v, ok := s.get(x.name); ok {
			return v
		}
		return undefinedName(x.name)
	case *tupleExpr:
		return &tuple{r.evalAll(x.items, s)}
	case *listExpr:
		return &list{r.evalAll(x.items, s)}
	case *dictExpr:
		d := newDict()
		for i, k := range x.keys {
			key := r.eval(k, s)
			v := r.eval(x.values[i], s)
			r.pos = k.at()
			d.set(&r.meter, key, v)
		}
		return d
	case *condExpr:
		switch {
		case truth(r.eval(x.test, s)):
			return r.eval(x.then, s)
		case x.other != nil:
			return r.eval(x.other, s)
		}
		return undefinedHint("the inline if-expression evaluated to false and no else section was defined.")
	case *logicExpr:
		left := r.eval(x.left, s)
		if truth(left) == x.or {
			return left
		}
		return r.eval(x.right, s)
	case *unaryExpr:
		v := r.eval(x.x, s)
		r.pos = x.pos
		return r.unary(x.op, v)
	case *binaryExpr:
		left, right := r.eval(x.left, s), r.eval(x.right, s)
		r.pos = x.pos
		return r.binary(x.op, left, right)
	case *compareExpr:
		return r.comparison(x, s)
	case *concatExpr:
		return r.concat(x, s)
	}
	return r.access(x, s)
}

// access computes what takes something out of a value, or hands it on.
func (r *run) access(x expr, s *scope) value {
	switch x := x.(type) {
	case *attrExpr:
		v := r.eval(x.x, s)
		r.pos = x.pos
		return r.attribute(v, x.name)
	case *itemExpr:
		v := r.eval(x.x, s)
		if sl, ok := x.arg.(*sliceExpr); ok {
			bounds := make([]value, 3)
			for i, b := range []expr{sl.start, sl.stop, sl.step} {
				if b != nil {
					bounds[i] = r.eval(b, s)
				}
			}
			r.pos = x.pos
			return slice(&r.meter, v, bounds)
		}
		key := r.eval(x.arg, s)
		r.pos = x.pos
		return r.item(v, key)
	case *callExpr:
		fn := r.eval(x.fn, s)
		args, named := r.arguments(x.args, s)
		r.pos = x.pos
		return r.call(fn, args, named)
	case *filterExpr:
		v := r.eval(x.x, s)
		args, named := r.arguments(x.args, s)
		r.pos = x.pos
		return r.applyFilter(x.name, v, args, named)
	case *testExpr:
		v := r.eval(x.x, s)
		args, named := r.arguments(x.args, s)
		r.pos = x.pos
		return r.applyTest(x.name, v, args, named)
	}
	return none{}
}

func (r *run) evalAll(list []expr, s *scope) []value {
	r.build(24 + 16*len(list))
	items := make([]value, len(list))
	for i, x := range list {
		items[i] = r.eval(x, s)
	}
	return items
}

// arguments computes those of a call.
func (r *run) arguments(a arguments, s *scope) (args []value, named []kwarg) {
	args = r.evalAll(a.list, s)
	for _, k := range a.named {
		named = append(named, kwarg{k.name, r.eval(k.x, s)})
	}
	if a.extra != nil {
		v := r.eval(a.extra, s)
		r.pos = a.extra.at()
		extra := elements(&r.meter, v)
		r.build(16 * len(extra))
		args = append(args, extra...)
	}
	if a.extras != nil {
		v := r.eval(a.extras, s)
		r.pos = a.extras.at()
		d, ok := v.(*dict)
		if !ok {
			raise("TypeError", "argument after ** must be a mapping, not %s", typeName(v))
		}
		r.build(32 * d.len())
		written := named
		for i, k := range d.keys {
			name, ok := asString(k)
			if !ok {
				raise("TypeError", "keywords must be strings")
			}
			for _, n := range written {
				if n.name == name {
					raise("TypeError", "got multiple values for keyword argument '%s'", name)
				}
			}
			named = append(named, kwarg{name, d.values[i]})
		}
	}
	return args, named
}

func (r *run) unary(op string, v value) value {
	if op == "not" {
		return !truth(v)
	}
	switch x := v.(type) {
	case bool:
		return r.unary(op, toInt(x))
	case float64:
		if op == "-" {
			return -x
		}
		return x
	case int64, *big.Int:
		if op == "-" {
			i, _ := integer(x)
			return shrink(new(big.Int).Neg(i))
		}
		return x
	case *undefined:
		x.fail(&r.meter)
	}
	raise("TypeError", "bad operand type for unary %s: '%s'", op, typeName(v))
	return nil
}

// binary computes l op r.
func (r *run) binary(op string, l, right value) value {
	if isNumber(l) && isNumber(right) {
		return arithmetic(&r.meter, op, l, right)
	}
	if op == "%" {
		if s, ok := asString(l); ok {
			return like(l, r.percent(s, l, right))
		}
	}
	for _, v := range []value{l, right} {
		if u, ok := v.(*undefined); ok {
			u.fail(&r.meter)
		}
	}
	switch op {
	case "+":
		return r.add(l, right)
	case "*":
		for _, pair := range [][2]value{{l, right}, {right, l}} {
			if _, big := pair[1].(*big.Int); big && isSequence(pair[0]) {
				raise("OverflowError", "cannot fit 'int' into an index-sized integer")
			}
		}
		if n, ok := small(right); ok {
			if v := r.times(l, n); v != nil {
				return v
			}
		}
		if n, ok := small(l); ok {
			if v := r.times(right, n); v != nil {
				return v
			}
		}
		for _, pair := range [][2]value{{l, right}, {right, l}} {
			if isSequence(pair[0]) {
				raise("TypeError", "can't multiply sequence by non-int of type '%s'", typeName(pair[1]))
			}
		}
	}
	r.unsupported(op, l, right)
	return nil
}

func (r *run) unsupported(op string, l, right value) {
	if op == "**" {
		op = "** or pow()"
	}
	raise("TypeError", "unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(l), typeName(right))
}

func isSequence(v value) bool {
	switch v.(type) {
	case string, markup, *list, *tuple, bytes:
		return true
	}
	return false
}

// add is + for what is no number.
func (r *run) add(l, right value) value {
	m := &r.meter
	a, aText := asString(l)
	b, bText := asString(right)
	_, aSafe := l.(markup)
	_, bSafe := right.(markup)
	switch {
	case aText && bText && (aSafe || bSafe):
		return markup(joinText(m, []string{string(escape(m, l)), string(escape(m, right))}, ""))
	case aText && bText:
		return joinText(m, []string{a, b}, "")
	case aText && !aSafe:
		raise("TypeError", "can only concatenate str (not \"%s\") to str", typeName(right))
	}
	switch l := l.(type) {
	case *list:
		if right, ok := right.(*list); ok {
			return newList(m, concatItems(m, l.items, right.items))
		}
		raise("TypeError", "can only concatenate list (not \"%s\") to list", typeName(right))
	case *tuple:
		if right, ok := right.(*tuple); ok {
			return &tuple{concatItems(m, l.items, right.items)}
		}
		raise("TypeError", "can only concatenate tuple (not \"%s\") to tuple", typeName(right))
	case bytes:
		if right, ok := right.(bytes); ok {
			return bytes(joinText(m, []string{string(l), string(right)}, ""))
		}
	}
	r.unsupported("+", l, right)
	return nil
}

func concatItems(m *meter, a, b []value) []value {
	m.build(16 * (len(a) + len(b)))
	return append(append(make([]value, 0, len(a)+len(b)), a...), b...)
}

// times repeats a sequence; nil if v is none.
func (r *run) times(v value, n int64) value {
	count := int(max(min(n, 1<<40), 0))
	items := func(list []value) []value {
		if len(list) == 0 || count == 0 {
			return nil
		}
		if count > r.most/16/len(list) {
			r.build(r.most + 1) // refused before it is made
		}
		r.build(16 * count * len(list))
		all := make([]value, 0, count*len(list))
		for range count {
			all = append(all, list...)
		}
		return all
	}
	switch v := v.(type) {
	case string:
		return repeat(&r.meter, v, count)
	case markup:
		return markup(repeat(&r.meter, string(v), count))
	case bytes:
		return bytes(repeat(&r.meter, string(v), count))
	case *list:
		return newList(&r.meter, items(v.items))
	case *tuple:
		return &tuple{items(v.items)}
	}
	return nil
}

func (r *run) comparison(x *compareExpr, s *scope) value {
	left := r.eval(x.first, s)
	for i, op := range x.ops {
		right := r.eval(x.rest[i], s)
		r.pos = x.rest[i].at()
		var ok bool
		switch op {
		case "in":
			ok = contains(&r.meter, right, left)
		case "not in":
			ok = !contains(&r.meter, right, left)
		default:
			ok = compare(&r.meter, op, left, right)
		}
		if !ok {
			return false
		}
		left = right
	}
	return true
}

// concat is ~.
func (r *run) concat(x *concatExpr, s *scope) value {
	parts := make([]string, len(x.parts))
	values := make([]value, len(x.parts))
	safe := r.escape
	for i, p := range x.parts {
		values[i] = r.eval(p, s)
	}
	r.pos = x.pos
	if safe {
		// With autoescape, text is safe if one part is.
		safe = false
		for _, v := range values {
			if _, ok := v.(markup); ok {
				safe = true
			}
		}
	}
	for i, v := range values {
		if safe {
			parts[i] = string(escape(&r.meter, v))
		} else {
			parts[i] = str(&r.meter, v)
		}
	}
	text := joinText(&r.meter, parts, "")
	if safe {
		return markup(text)
	}
	return text
}

// toIndex is the value of what must be an int: an index or a count, cut to what Go's int holds.
func toIndex(v value) int {
	n, ok := small(v)
	if !ok {
		raise("TypeError", "'%s' object cannot be interpreted as an integer", typeName(v))
	}
	return int(n)
}

// slice is v[start:stop:step].
func slice(m *meter, v value, bounds []value) value {
	if u, ok := v.(*undefined); ok {
		u.fail(m)
	}
	n, ok := length(v)
	switch v.(type) {
	case *dict:
		raise("TypeError", "unhashable type: 'slice'")
	case string, markup, bytes, *list, *tuple, *rng:
	default:
		ok = false
	}
	if !ok {
		raise("TypeError", "'%s' object is not subscriptable", typeName(v))
	}
	start, stop, step := sliceBounds(n, bounds)
	if g, ok := v.(*rng); ok {
		return &rng{g.start + int64(start)*g.step, g.start + int64(stop)*g.step, g.step * int64(step)}
	}
	places := (&rng{int64(start), int64(stop), int64(step)}).len()
	if s, ok := asString(v); ok {
		m.scan(len(s))
		return like(v, sliceText(m, s, start, stop, step, places))
	}
	switch v := v.(type) {
	case bytes:
		m.build(places)
		picked := make([]byte, places)
		for i := range picked {
			picked[i] = v[start+i*step]
		}
		return bytes(picked)
	case *tuple:
		return &tuple{sliceItems(m, v.items, start, stop, step, places)}
	case *list:
		return newList(m, sliceItems(m, v.items, start, stop, step, places))
	}
	return nil
}

// sliceBounds resolves the bounds of a slice for a sequence of n elements, as Python does.
func sliceBounds(n int, bounds []value) (start, stop, step int) {
	get := func(v value, otherwise int) int {
		if v == nil || v == (none{}) {
			return otherwise
		}
		i, ok := small(v)
		if !ok {
			raise("TypeError", "slice indices must be integers or None or have an __index__ method")
		}
		return int(i)
	}
	step = get(bounds[2], 1)
	if step == 0 {
		raise("ValueError", "slice step cannot be zero")
	}
	step = max(min(step, n+1), -n-1) // further steps all lead outside
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	clamp := func(v value, otherwise int) int {
		if v == nil || v == (none{}) {
			return otherwise
		}
		i := get(v, 0)
		if i < 0 {
			i = max(i, -n-1) + n
		}
		return max(min(i, high), low)
	}
	if step < 0 {
		return clamp(bounds[0], high), clamp(bounds[1], low), step
	}
	return clamp(bounds[0], low), clamp(bounds[1], high), step
}

func sliceText(m *meter, s string, start, stop, step, places int) string {
	if places == 0 {
		return ""
	}
	if step == 1 {
		return cut(s, start, stop)
	}
	m.build(5 * len(s))
	runes := []rune(s)
	var b strings.Builder
	for i := range places {
		b.WriteRune(runes[start+i*step])
	}
	return b.String()
}

func sliceItems(m *meter, items []value, start, stop, step, places int) []value {
	if places == 0 {
		return nil
	}
	if step == 1 {
		return items[start:stop:stop]
	}
	m.build(16 * places)
	picked := make([]value, places)
	for i := range picked {
		picked[i] = items[start+i*step]
	}
	return picked
}
