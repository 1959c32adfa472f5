package chat

import (
	"slices"
	"strings"
)

// expression reads one expression, conditions included.
func (p *parser) expression() expr {
	p.enter()
	defer p.leave()
	pos := p.cur().pos
	x := p.or()
	for n := 0; p.skipName("if"); n++ {
		p.chain(n)
		c := &condExpr{node: node{pos}, then: x, test: p.or()}
		if p.skipName("else") {
			c.other = p.expression()
		}
		x = c
	}
	return x
}

func (p *parser) or() expr {
	x := p.and()
	for n := 0; p.cur().is("or"); n++ {
		p.chain(n)
		pos := p.next().pos
		x = &logicExpr{node{pos}, true, x, p.and()}
	}
	return x
}

func (p *parser) and() expr {
	x := p.not()
	for n := 0; p.cur().is("and"); n++ {
		p.chain(n)
		pos := p.next().pos
		x = &logicExpr{node{pos}, false, x, p.not()}
	}
	return x
}

func (p *parser) not() expr {
	if !p.cur().is("not") {
		return p.comparison()
	}
	p.enter()
	defer p.leave()
	pos := p.next().pos
	return &unaryExpr{node{pos}, "not", p.not()}
}

var comparisons = []tokenKind{"==", "!=", "<", "<=", ">", ">="}

func (p *parser) comparison() expr {
	c := &compareExpr{node: node{p.cur().pos}, first: p.sum()}
	for {
		op := string(p.cur().kind)
		switch {
		case slices.Contains(comparisons, p.cur().kind):
			p.next()
		case p.skipName("in"):
			op = "in"
		case p.cur().is("not") && p.look().is("in"):
			p.next()
			p.next()
			op = "not in"
		case len(c.ops) == 0:
			return c.first
		default:
			return c
		}
		c.ops = append(c.ops, op)
		c.rest = append(c.rest, p.sum())
	}
}

func (p *parser) sum() expr { return p.binary(p.concat, "+", "-") }

func (p *parser) concat() expr {
	c := &concatExpr{node{p.cur().pos}, []expr{p.product()}}
	for p.skip("~") {
		c.parts = append(c.parts, p.product())
	}
	if len(c.parts) == 1 {
		return c.parts[0]
	}
	return c
}

func (p *parser) product() expr { return p.binary(p.power, "*", "/", "//", "%") }

func (p *parser) power() expr { return p.binary(func() expr { return p.unary(true) }, "**") }

// binary reads operators of one rank, from the left.
func (p *parser) binary(operand func() expr, ops ...tokenKind) expr {
	x := operand()
	for n := 0; slices.Contains(ops, p.cur().kind); n++ {
		p.chain(n)
		op := p.next()
		x = &binaryExpr{node{op.pos}, string(op.kind), x, operand()}
	}
	return x
}

func (p *parser) unary(filtered bool) expr {
	p.enter()
	defer p.leave()
	var x expr
	switch t := p.cur(); t.kind {
	case "-", "+":
		p.next()
		x = &unaryExpr{node{t.pos}, string(t.kind), p.unary(false)}
	default:
		x = p.primary(false)
	}
	x = p.postfix(x)
	if filtered {
		x = p.filterTail(x)
	}
	return x
}

// primary reads a name, a literal or something in brackets. attrs allows ns.attr as the target of an assignment.
func (p *parser) primary(attrs bool) expr {
	t := p.next()
	at := node{t.pos}
	switch t.kind {
	case tokName:
		switch t.text {
		case "true", "True":
			return &constExpr{at, true}
		case "false", "False":
			return &constExpr{at, false}
		case "none", "None":
			return &constExpr{at, none{}}
		}
		if attrs && p.skip(".") {
			return &attrTarget{at, t.text, p.expect(tokName).text}
		}
		return &nameExpr{at, t.text}
	case tokString:
		parts := []string{t.text}
		for p.cur().kind == tokString {
			parts = append(parts, p.next().text)
		}
		return &constExpr{at, strings.Join(parts, "")}
	case tokInt, tokFloat:
		return &constExpr{at, t.num}
	case "(":
		x := p.tuple(tupleMode{condition: true, brackets: true})
		p.expect(")")
		return x
	case "[":
		l := &listExpr{node: at}
		for p.cur().kind != "]" {
			if l.items = append(l.items, p.expression()); p.cur().kind != "]" {
				p.expect(",")
			}
		}
		p.next()
		return l
	case "{":
		return p.dict(at)
	}
	p.fail(t.pos, "unexpected '%s'", t.describe())
	return nil
}

func (p *parser) dict(at node) expr {
	d := &dictExpr{node: at}
	for p.cur().kind != "}" {
		d.keys = append(d.keys, p.expression())
		p.expect(":")
		if d.values = append(d.values, p.expression()); p.cur().kind != "}" {
			p.expect(",")
		}
	}
	p.next()
	return d
}

// tupleMode says how to read what may be several expressions with commas between them.
type tupleMode struct {
	simple    bool   // names and literals only
	attrs     bool   // with simple: ns.attr too
	condition bool   // a if b else c is allowed
	brackets  bool   // it stands in brackets, so it may be empty
	end       string // a name that ends it
}

func (p *parser) tuple(mode tupleMode) expr {
	p.enter()
	defer p.leave()
	t := &tupleExpr{node: node{p.cur().pos}}
	isTuple := false
	for {
		if len(t.items) > 0 {
			p.expect(",")
		}
		switch c := p.cur(); {
		case c.kind == tokVarEnd, c.kind == tokEnd, c.kind == ")", mode.end != "" && c.is(mode.end):
			if isTuple || mode.brackets {
				return t
			}
			p.fail(c.pos, "Expected an expression, got '%s'", c.describe())
		case mode.simple:
			t.items = append(t.items, p.primary(mode.attrs))
		case mode.condition:
			t.items = append(t.items, p.expression())
		default:
			t.items = append(t.items, p.or())
		}
		if p.cur().kind == "," {
			isTuple = true
			continue
		}
		if isTuple {
			return t
		}
		return t.items[0]
	}
}

// target reads what an assignment may set.
func (p *parser) target(mode tupleMode) expr {
	x := p.tuple(mode)
	p.checkTarget(x)
	return x
}

func (p *parser) checkTarget(x expr) {
	var kind string
	switch x := x.(type) {
	case *nameExpr, *attrTarget:
		return
	case *tupleExpr:
		for _, item := range x.items {
			p.checkTarget(item)
		}
		return
	case *constExpr:
		kind = "const"
	case *listExpr:
		kind = "list"
	case *dictExpr:
		kind = "dict"
	default:
		kind = "expression"
	}
	p.fail(x.at(), "can't assign to '%s'", kind)
}

func (p *parser) targetName() string {
	t := p.expect(tokName)
	if slices.Contains([]string{"true", "false", "none", "True", "False", "None"}, t.text) {
		p.fail(t.pos, "can't assign to 'name'")
	}
	return t.text
}

// postfix reads subscripts and calls.
func (p *parser) postfix(x expr) expr {
	for n := 0; ; n++ {
		p.chain(n)
		switch t := p.cur(); t.kind {
		case ".":
			p.next()
			switch a := p.next(); a.kind {
			case tokName:
				x = &attrExpr{node{a.pos}, x, a.text}
			case tokInt:
				x = &itemExpr{node{a.pos}, x, &constExpr{node{a.pos}, a.num}}
			default:
				p.fail(a.pos, "expected name or number")
			}
		case "[":
			p.next()
			x = p.subscript(x, t.pos)
		case "(":
			x = &callExpr{node{t.pos}, x, p.arguments()}
		default:
			return x
		}
	}
}

func (p *parser) subscript(x expr, pos int) expr {
	var args []expr
	for p.cur().kind != "]" {
		if len(args) > 0 {
			p.expect(",")
		}
		args = append(args, p.index())
	}
	p.next()
	if len(args) == 1 {
		return &itemExpr{node{pos}, x, args[0]}
	}
	for _, a := range args {
		if _, ok := a.(*sliceExpr); ok {
			p.fail(pos, "invalid syntax: a slice among several subscripts")
		}
	}
	return &itemExpr{node{pos}, x, &tupleExpr{node{pos}, args}}
}

// index reads one subscript: an expression, or a slice.
func (p *parser) index() expr {
	pos := p.cur().pos
	ends := func() bool { return slices.Contains([]tokenKind{":", "]", ","}, p.cur().kind) }
	var start expr
	if p.cur().kind != ":" {
		if start = p.expression(); p.cur().kind != ":" {
			return start
		}
	}
	p.next()
	s := &sliceExpr{node: node{pos}, start: start}
	if !ends() {
		s.stop = p.expression()
	}
	if p.skip(":") && !ends() {
		s.step = p.expression()
	}
	return s
}

// filterTail reads filters, tests and calls.
func (p *parser) filterTail(x expr) expr {
	for n := 0; ; n++ {
		p.chain(n)
		switch t := p.cur(); {
		case t.kind == "|":
			p.next()
			x = p.filter(x)
		case t.is("is"):
			x = p.test(x)
		case t.kind == "(":
			x = &callExpr{node{t.pos}, x, p.arguments()}
		default:
			return x
		}
	}
}

// filters reads "| f | g"; nil if there is none and x is nil.
func (p *parser) filters(x expr) expr {
	for n := 0; p.skip("|"); n++ {
		p.chain(n)
		x = p.filter(x)
	}
	return x
}

// filter reads the name of a filter and its arguments.
func (p *parser) filter(x expr) *filterExpr {
	name, pos := p.dotted()
	f := &filterExpr{node: node{pos}, x: x, name: name}
	if p.cur().kind == "(" {
		f.args = p.arguments()
	}
	return f
}

func (p *parser) dotted() (string, int) {
	t := p.expect(tokName)
	name := t.text
	for p.skip(".") {
		name += "." + p.expect(tokName).text
	}
	return name, t.pos
}

func (p *parser) test(x expr) expr {
	pos := p.next().pos
	negated := p.skipName("not")
	name, _ := p.dotted()
	t := &testExpr{node: node{pos}, x: x, name: name}
	switch c := p.cur(); {
	case c.kind == "(":
		t.args = p.arguments()
	case c.is("else"), c.is("or"), c.is("and"):
	case c.is("is"):
		p.fail(c.pos, "You cannot chain multiple tests with is")
	case slices.Contains([]tokenKind{tokName, tokString, tokInt, tokFloat, "[", "{"}, c.kind):
		p.enter()
		t.args.list = []expr{p.postfix(p.primary(false))}
		p.leave()
	}
	if negated {
		return &unaryExpr{node{pos}, "not", t}
	}
	return t
}

// arguments reads those of a call, brackets included.
func (p *parser) arguments() arguments {
	open := p.expect("(")
	var a arguments
	ensure := func(ok bool) {
		if !ok {
			p.fail(open.pos, "invalid syntax for function call expression")
		}
	}
	for first := true; p.cur().kind != ")"; first = false {
		if !first {
			if p.expect(","); p.cur().kind == ")" {
				break
			}
		}
		switch t := p.cur(); {
		case t.kind == "*":
			ensure(a.extra == nil && a.extras == nil)
			p.next()
			a.extra = p.expression()
		case t.kind == "**":
			ensure(a.extras == nil)
			p.next()
			a.extras = p.expression()
		case t.kind == tokName && p.look().kind == "=":
			ensure(a.extras == nil)
			p.next()
			p.next()
			if slices.ContainsFunc(a.named, func(k namedExpr) bool { return k.name == t.text }) {
				p.fail(t.pos, "keyword argument repeated: %s", t.text)
			}
			a.named = append(a.named, namedExpr{t.text, p.expression()})
		default:
			ensure(a.extra == nil && a.extras == nil && a.named == nil)
			a.list = append(a.list, p.expression())
		}
	}
	p.expect(")")
	return a
}
