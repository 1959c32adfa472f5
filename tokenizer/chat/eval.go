package chat

import (
	"slices"
	"strings"
	"time"
)

// run is one rendering of a template. Statements are here, expressions in evalexpr.go.
type run struct {
	meter
	t      *Template
	now    time.Time
	root   *scope
	out    *strings.Builder // what is written goes here; captures put another one in place
	total  int              // bytes written, captured ones included
	escape bool             // autoescape
	pos    int              // of the node that runs, for errors
}

// scope holds the variables of a part of a template; names that are not there are looked up further out.
type scope struct {
	vars   map[string]value
	parent *scope
}

func (s *scope) inner() *scope { return &scope{parent: s} }

func (s *scope) set(name string, v value) {
	if s.vars == nil {
		s.vars = map[string]value{}
	}
	s.vars[name] = v
}

func (s *scope) get(name string) (value, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}

// jump is how a list of statements ended.
type jump int

const (
	jumpNone jump = iota
	jumpBreak
	jumpContinue
)

func (r *run) write(s string) {
	if r.total += len(s); r.total > outputLimit {
		raiseLimit("the template writes more than %d bytes", outputLimit)
	}
	r.spend(1 + len(s)/64)
	r.out.WriteString(s)
}

// print writes a value as {{ }} does.
func (r *run) print(v value) {
	if r.escape {
		r.write(string(escape(&r.meter, v)))
		return
	}
	r.write(str(&r.meter, v))
}

// capture runs f and returns what it wrote.
func (r *run) capture(f func()) string {
	outer := r.out
	r.out = &strings.Builder{}
	defer func() { r.out = outer }()
	f()
	r.build(r.out.Len())
	return r.out.String()
}

// captured is what a capture wrote as a value.
func (r *run) captured(s string) value {
	if r.escape {
		return markup(s)
	}
	return s
}

func (r *run) statements(body []stmt, s *scope) jump {
	r.enter()
	defer r.leave()
	for _, st := range body {
		r.spend(1)
		if j := r.statement(st, s); j != jumpNone {
			return j
		}
	}
	return jumpNone
}

func (r *run) statement(st stmt, s *scope) (j jump) {
	r.pos = st.at()
	switch st := st.(type) {
	case *textStmt:
		r.write(st.text)
	case *outputStmt:
		r.print(r.eval(st.x, s))
	case *ifStmt:
		for i, t := range st.tests {
			if truth(r.eval(t, s)) {
				return r.statements(st.bodies[i], s)
			}
		}
		return r.statements(st.other, s)
	case *forStmt:
		return r.forLoop(st, s)
	case *setStmt:
		r.checkNamespaces(st.target, s)
		r.assign(st.target, r.eval(st.x, s), s)
	case *captureStmt:
		return r.captureBlock(st, s)
	case *withStmt:
		in := s.inner()
		for i, t := range st.targets {
			r.assign(t, r.eval(st.values[i], s), in)
		}
		return r.statements(st.body, in)
	case *macroStmt:
		s.set(st.name, &macro{def: st, scope: s})
	case *callStmt:
		caller := &macro{def: st.body, scope: s}
		if st.call == nil {
			r.print(caller.call(r, nil, nil))
			return jumpNone
		}
		fn := r.eval(st.call.fn, s)
		args, named := r.arguments(st.call.args, s)
		r.pos = st.call.pos
		r.print(r.call(fn, args, append(named, kwarg{"caller", caller})))
	case *blockStmt:
		in := r.root
		if st.scoped {
			in = s
		}
		r.statements(st.body, in.inner())
	case *escapeStmt:
		before := r.escape
		r.escape = truth(r.eval(st.on, s))
		j = r.statements(st.body, s.inner())
		r.escape = before
	case *jumpStmt:
		if st.exit {
			return jumpBreak
		}
		return jumpContinue
	case *loadStmt:
		r.eval(st.template, s)
		r.pos = st.pos
		raise("TypeError", "no loader for this environment specified")
	}
	return j
}

// captureBlock runs a set block or a filter block.
func (r *run) captureBlock(st *captureStmt, s *scope) jump {
	in := s.inner()
	j := jumpNone
	text := r.captured(r.capture(func() { j = r.statements(st.body, in) }))
	if j != jumpNone {
		return j // Python leaves with what was written so far lost
	}
	if st.filter != nil {
		text = r.filterChain(st.filter, text, in)
	}
	if st.target == nil {
		r.print(text)
		return jumpNone
	}
	if t, ok := asString(text); ok && r.escape {
		text = markup(t)
	}
	r.assign(st.target, text, s)
	return jumpNone
}

// filterChain applies filters whose innermost takes what a block wrote.
func (r *run) filterChain(f *filterExpr, text value, s *scope) value {
	r.enter()
	defer r.leave()
	if inner, ok := f.x.(*filterExpr); ok {
		text = r.filterChain(inner, text, s)
	}
	args, named := r.arguments(f.args, s)
	r.pos = f.pos
	return r.applyFilter(f.name, text, args, named)
}

// checkNamespaces makes sure before an assignment that what has attributes set is a namespace.
func (r *run) checkNamespaces(target expr, s *scope) {
	switch t := target.(type) {
	case *attrTarget:
		v, _ := s.get(t.name)
		if _, ok := v.(*namespace); !ok {
			raise("TemplateRuntimeError", "cannot assign attribute on non-namespace object")
		}
	case *tupleExpr:
		for _, item := range t.items {
			r.checkNamespaces(item, s)
		}
	}
}

func (r *run) assign(target expr, v value, s *scope) {
	switch t := target.(type) {
	case *nameExpr:
		s.set(t.name, v)
	case *attrTarget:
		ns, _ := s.get(t.name)
		ns.(*namespace).attrs.set(&r.meter, t.attr, v)
	case *tupleExpr:
		r.pos = t.pos
		for i, item := range unpack(&r.meter, v, len(t.items)) {
			r.assign(t.items[i], item, s)
		}
	}
}

// unpack spreads a value over n targets.
func unpack(m *meter, v value, n int) []value {
	next, ok := iterate(m, v)
	if !ok {
		raise("TypeError", "cannot unpack non-iterable %s object", typeName(v))
	}
	var items []value
	for {
		item, ok := next()
		switch {
		case ok && len(items) == n:
			raise("ValueError", "too many values to unpack (expected %d)", n)
		case !ok && len(items) < n:
			raise("ValueError", "not enough values to unpack (expected %d, got %d)", n, len(items))
		case !ok:
			return items
		}
		items = append(items, item)
	}
}

// forLoop runs a for statement.
func (r *run) forLoop(st *forStmt, s *scope) jump {
	iter := r.eval(st.iter, s)
	if !st.recursive {
		return r.loopOver(st, s, iter, nil, 0)
	}
	var again func(iter value, depth int) value
	again = func(iter value, depth int) value {
		r.enterCall()
		defer r.leaveCall()
		return r.captured(r.capture(func() { r.loopOver(st, s, iter, again, depth) }))
	}
	r.write(r.capture(func() { r.loopOver(st, s, iter, again, 0) }))
	return jumpNone
}

// loopOver runs the body for each element. The result is that of a jump within the else part, which belongs to an outer loop.
func (r *run) loopOver(st *forStmt, s *scope, iter value, again func(value, int) value, depth int) jump {
	r.pos = st.iter.at()
	l := &loop{m: &r.meter, over: iter, size: -1, index0: -1, again: again, depth0: depth}
	l.next = walk(&r.meter, iter)
	if st.test != nil {
		l.over, l.next = nil, r.loopFilter(st, s, l.next)
	}
	finished := false // as in Python: some body ran to its end
	for {
		item, ok := l.step()
		if !ok {
			break
		}
		in := s.inner()
		r.assign(st.target, item, in)
		in.set("loop", l)
		if j := r.statements(st.body, in); j == jumpBreak {
			break
		} else if j == jumpNone {
			finished = true
		}
	}
	if !finished {
		return r.statements(st.other, s.inner())
	}
	return jumpNone
}

// loopFilter lets through the elements that pass the condition of the loop.
func (r *run) loopFilter(st *forStmt, s *scope, next func() (value, bool)) func() (value, bool) {
	return func() (value, bool) {
		for {
			item, ok := next()
			if !ok {
				return nil, false
			}
			in := s.inner()
			if _, nested := s.get("loop"); !nested {
				in.set("loop", undefinedHint("'loop' is undefined. The filter section of a loop as well as the else block don't have access to the special 'loop' variable of the current loop."))
			}
			r.assign(st.target, item, in)
			if truth(r.eval(st.test, in)) {
				return item, true
			}
		}
	}
}

// enterCall goes into a macro or a recursive loop.
func (r *run) enterCall() {
	r.enter()
	if r.calls++; r.calls > callLimit {
		raiseLimit("macros and loops call themselves more than %d deep", callLimit)
	}
}

func (r *run) leaveCall() {
	r.calls--
	r.leave()
}

// loop is the variable loop.
type loop struct {
	m                      *meter
	over                   value // nil if its length is not known beforehand
	next                   func() (value, bool)
	size                   int // -1: not known yet
	index0, depth0         int
	ahead, before, current value // ahead: peeked at
	ended                  bool  // peeked at, and there is no more
	changed                []value
	again                  func(iter value, depth int) value
}

// step goes to the next element.
func (l *loop) step() (value, bool) {
	item, ok := l.peek()
	if !ok {
		return nil, false
	}
	l.ahead = nil
	l.index0++
	l.before, l.current = l.current, item
	return item, true
}

// each is step for code that iterates over the loop itself.
func (l *loop) each() (value, bool) {
	l.m.enter()
	defer l.m.leave()
	item, ok := l.step()
	if !ok {
		return nil, false
	}
	return &tuple{[]value{item, l}}, true
}

// peek looks at the next element.
func (l *loop) peek() (value, bool) {
	if l.ahead == nil && !l.ended {
		item, ok := l.next()
		l.ahead, l.ended = item, !ok
	}
	return l.ahead, l.ahead != nil
}

// length is the number of elements. Those of an iterator are read for it.
func (l *loop) length() int {
	if l.size >= 0 {
		return l.size
	}
	if l.over != nil {
		if n, ok := length(l.over); ok {
			l.size = n
			return n
		}
	}
	var rest []value
	for {
		item, ok := l.next()
		if !ok {
			break
		}
		l.m.build(16)
		rest = append(rest, item)
	}
	l.size = l.index0 + 1 + len(rest)
	if l.ahead != nil {
		l.size++
	}
	l.next = func() (value, bool) {
		if len(rest) == 0 {
			return nil, false
		}
		item := rest[0]
		rest = rest[1:]
		return item, true
	}
	return l.size
}

// attr is an attribute of the variable loop; nil if there is none.
func (l *loop) attr(name string) value {
	switch name {
	case "index":
		return int64(l.index0 + 1)
	case "index0":
		return int64(l.index0)
	case "revindex":
		return int64(l.length() - l.index0)
	case "revindex0":
		return int64(l.length() - l.index0 - 1)
	case "first":
		return l.index0 == 0
	case "last":
		_, more := l.peek()
		return !more
	case "length":
		return int64(l.length())
	case "depth":
		return int64(l.depth0 + 1)
	case "depth0":
		return int64(l.depth0)
	case "previtem":
		if l.index0 == 0 {
			return undefinedHint("there is no previous item")
		}
		return l.before
	case "nextitem":
		if item, ok := l.peek(); ok {
			return item
		}
		return undefinedHint("there is no next item")
	case "cycle":
		return method(l, name, func(r *run, args []value, _ []kwarg) value {
			if len(args) == 0 {
				raise("TypeError", "no items for cycling given")
			}
			return args[l.index0%len(args)]
		})
	case "changed":
		return method(l, name, func(r *run, args []value, _ []kwarg) value {
			if l.changed != nil && equalItems(l.m, l.changed, args) {
				return false
			}
			l.changed = slices.Concat([]value{}, args)
			return true
		})
	}
	return nil
}
