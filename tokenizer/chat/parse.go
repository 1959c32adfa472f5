package chat

import (
	"fmt"
	"slices"
	"strings"
)

// parser turns tokens into a tree by recursive descent; statements are here, expressions in parseexpr.go.
type parser struct {
	tokens []token
	i      int
	depth  int
	tags   []string   // open statements, innermost last
	ends   [][]string // the tags that would end them
	blocks map[string]*blockStmt
}

// parse reads the source of a template. Faults of syntax raise.
func parse(t *Template) ([]stmt, map[string]*blockStmt) {
	p := &parser{tokens: lex(t.src), blocks: map[string]*blockStmt{}}
	body := p.statements(nil)
	t.checkBody(body, false, false)
	return body, p.blocks
}

func (p *parser) cur() token { return p.tokens[p.i] }

// look is the token behind the current one.
func (p *parser) look() token { return p.tokens[min(p.i+1, len(p.tokens)-1)] }

// next takes the current token.
func (p *parser) next() token {
	t := p.tokens[p.i]
	if t.kind != tokEOF {
		p.i++
	}
	return t
}

func (p *parser) fail(pos int, format string, args ...any) {
	panic(failure{kind: "TemplateSyntaxError", message: fmt.Sprintf(format, args...), pos: pos})
}

// enter guards what calls itself; the caller defers leave.
func (p *parser) enter() {
	if p.depth++; p.depth > nestingLimit {
		panic(failure{kind: "LimitError", message: fmt.Sprintf("brackets and blocks nest more than %d deep", nestingLimit), pos: p.cur().pos, limit: true})
	}
}

func (p *parser) leave() { p.depth-- }

// chain guards what stands in a row: n is the number of links so far.
func (p *parser) chain(n int) {
	if n > chainLimit {
		panic(failure{kind: "LimitError", message: fmt.Sprintf("more than %d operators in a row", chainLimit), pos: p.cur().pos, limit: true})
	}
}

// skip takes the current token if it is of a kind.
func (p *parser) skip(kind tokenKind) bool {
	if p.cur().kind != kind {
		return false
	}
	p.next()
	return true
}

// skipName takes the current token if it is a certain name.
func (p *parser) skipName(name string) bool {
	if !p.cur().is(name) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(kind tokenKind) token {
	if p.cur().kind != kind {
		p.wanted(string(kind))
	}
	return p.next()
}

func (p *parser) expectName(name string) token {
	if !p.cur().is(name) {
		p.wanted(name)
	}
	return p.next()
}

func (p *parser) wanted(what string) {
	if p.cur().kind == tokEOF {
		p.fail(p.cur().pos, "unexpected end of template, expected '%s'.", what)
	}
	p.fail(p.cur().pos, "expected token '%s', got '%s'", what, p.cur().describe())
}

// statements reads up to one of the end tags, whose name is then the current token; without end tags up to the end.
func (p *parser) statements(ends []string) []stmt {
	p.enter()
	defer p.leave()
	if ends != nil {
		p.ends = append(p.ends, ends)
		defer func() { p.ends = p.ends[:len(p.ends)-1] }()
	}
	var body []stmt
	for {
		switch t := p.next(); t.kind {
		case tokEOF:
			if ends != nil {
				p.lost("", t.pos)
			}
			return body
		case tokData:
			body = append(body, &textStmt{node{t.pos}, t.text})
		case tokVarBegin:
			x := p.tuple(tupleMode{condition: true})
			p.expect(tokVarEnd)
			body = append(body, &outputStmt{node{x.at()}, x})
		case tokBegin:
			if c := p.cur(); c.kind == tokName && slices.Contains(ends, c.text) {
				return body
			}
			body = append(body, p.statement()...)
			p.expect(tokEnd)
		}
	}
}

// body reads the body of a statement, from the end of its first tag, and takes the name of the tag that ends it.
func (p *parser) body(ends ...string) ([]stmt, string) {
	p.skip(":")
	p.expect(tokEnd)
	list := p.statements(ends)
	return list, p.next().text
}

// lost fails at a tag that nobody knows, or at the end of the template where there is no name.
func (p *parser) lost(name string, pos int) {
	message := "Unexpected end of template."
	if name != "" {
		message = "Encountered unknown tag " + quote(name) + "."
	}
	if len(p.ends) > 0 {
		want := p.ends[len(p.ends)-1]
		quoted := make([]string, len(want))
		for i, w := range want {
			quoted[i] = "'" + w + "'"
		}
		looking := strings.Join(quoted, " or ")
		if slices.ContainsFunc(p.ends, func(e []string) bool { return slices.Contains(e, name) }) {
			message += " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for " + looking + "."
		} else {
			message += " Jinja was looking for the following tags: " + looking + "."
		}
	}
	if len(p.tags) > 0 {
		message += " The innermost block that needs to be closed is '" + p.tags[len(p.tags)-1] + "'."
	}
	p.fail(pos, "%s", message)
}

// statement reads what stands between {% and %}, and the body if there is one.
func (p *parser) statement() []stmt {
	t := p.cur()
	if t.kind != tokName {
		p.fail(t.pos, "tag name expected")
	}
	read, ok := map[string]func(token) stmt{
		"for": p.forLoop, "if": p.ifElse, "set": p.set, "with": p.with, "macro": p.macro, "call": p.callBlock, "filter": p.filterBlock,
		"generation": p.generation, "block": p.block, "autoescape": p.autoescape, "break": p.jump, "continue": p.jump,
		"extends": p.load, "include": p.load, "import": p.load, "from": p.load,
	}[t.text]
	if !ok && t.text != "print" {
		p.lost(t.text, t.pos)
	}
	p.tags = append(p.tags, t.text)
	defer func() { p.tags = p.tags[:len(p.tags)-1] }()
	p.next()
	if t.text == "print" {
		return p.print()
	}
	return []stmt{read(t)}
}

func (p *parser) print() []stmt {
	var list []stmt
	for p.cur().kind != tokEnd {
		if len(list) > 0 {
			p.expect(",")
		}
		x := p.expression()
		list = append(list, &outputStmt{node{x.at()}, x})
	}
	return list
}

func (p *parser) forLoop(t token) stmt {
	f := &forStmt{node: node{t.pos}}
	f.target = p.target(tupleMode{simple: true, end: "in"})
	p.expectName("in")
	f.iter = p.tuple(tupleMode{end: "recursive"})
	if p.skipName("if") {
		f.test = p.expression()
	}
	f.recursive = p.skipName("recursive")
	var end string
	if f.body, end = p.body("endfor", "else"); end == "else" {
		f.other, _ = p.body("endfor")
	}
	if targets(f.target, "loop") {
		panic(failure{kind: "TemplateAssertionError", message: "Can't assign to special loop variable in for-loop target", pos: t.pos})
	}
	return f
}

func (p *parser) ifElse(t token) stmt {
	f := &ifStmt{node: node{t.pos}}
	for {
		f.tests = append(f.tests, p.tuple(tupleMode{}))
		body, end := p.body("elif", "else", "endif")
		f.bodies = append(f.bodies, body)
		switch end {
		case "elif":
			continue
		case "else":
			f.other, _ = p.body("endif")
		}
		return f
	}
}

func (p *parser) set(t token) stmt {
	target := p.target(tupleMode{simple: true, attrs: true})
	if p.skip("=") {
		return &setStmt{node{t.pos}, target, p.tuple(tupleMode{condition: true})}
	}
	c := &captureStmt{node: node{t.pos}, target: target}
	if f := p.filters(nil); f != nil {
		c.filter = f.(*filterExpr)
	}
	c.body, _ = p.body("endset")
	return c
}

func (p *parser) with(t token) stmt {
	w := &withStmt{node: node{t.pos}}
	for p.cur().kind != tokEnd {
		if len(w.targets) > 0 {
			p.expect(",")
		}
		w.targets = append(w.targets, p.target(tupleMode{simple: true}))
		p.expect("=")
		w.values = append(w.values, p.expression())
	}
	w.body, _ = p.body("endwith")
	return w
}

// signature reads the parameters of a macro or a call block.
func (p *parser) signature(m *macroStmt) {
	p.expect("(")
	for p.cur().kind != ")" {
		if len(m.params) > 0 {
			p.expect(",")
		}
		name := p.targetName()
		if slices.Contains(m.params, name) {
			p.fail(p.cur().pos, "duplicate argument '%s' in function definition", name)
		}
		if p.skip("=") {
			m.defaults = append(m.defaults, p.expression())
		} else if len(m.defaults) > 0 {
			p.fail(p.cur().pos, "non-default argument follows default argument")
		}
		m.params = append(m.params, name)
	}
	p.expect(")")
}

// finish reads the body of a macro and looks for what it uses.
func (p *parser) finish(m *macroStmt, end string) {
	m.body, _ = p.body(end)
	m.usesCaller = reads(m.body, "caller")
	m.usesKwargs = reads(m.body, "kwargs") && !slices.Contains(m.params, "kwargs")
	m.usesVarargs = reads(m.body, "varargs") && !slices.Contains(m.params, "varargs")
	i := slices.Index(m.params, "caller")
	if m.usesCaller && i >= 0 && i < len(m.params)-len(m.defaults) {
		p.fail(m.pos, `When defining macros or call blocks the special "caller" argument must be omitted or be given a default.`)
	}
}

func (p *parser) macro(t token) stmt {
	m := &macroStmt{node: node{t.pos}, name: p.targetName()}
	p.signature(m)
	p.finish(m, "endmacro")
	return m
}

func (p *parser) callBlock(t token) stmt {
	c := &callStmt{node: node{t.pos}, body: &macroStmt{node: node{t.pos}}}
	if p.cur().kind == "(" {
		p.signature(c.body)
	}
	call, ok := p.expression().(*callExpr)
	if !ok {
		p.fail(t.pos, "expected call")
	}
	c.call = call
	p.finish(c.body, "endcall")
	return c
}

func (p *parser) filterBlock(t token) stmt {
	c := &captureStmt{node: node{t.pos}}
	f := p.filter(nil)
	for p.cur().kind == "|" {
		p.next()
		f = p.filter(f)
	}
	c.filter = f
	c.body, _ = p.body("endfilter")
	return c
}

// generation marks what an assistant wrote, for training. Rendering writes it as it is.
func (p *parser) generation(t token) stmt {
	c := &callStmt{node: node{t.pos}, body: &macroStmt{node: node{t.pos}}}
	p.finish(c.body, "endgeneration")
	return c
}

func (p *parser) block(t token) stmt {
	b := &blockStmt{node: node{t.pos}, name: p.expect(tokName).text}
	if p.blocks[b.name] != nil {
		p.fail(t.pos, "block '%s' defined twice", b.name)
	}
	p.blocks[b.name] = b
	b.scoped = p.skipName("scoped")
	required := p.skipName("required")
	if p.cur().kind == "-" {
		p.fail(p.cur().pos, "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an underscore instead.")
	}
	b.body, _ = p.body("endblock")
	for _, s := range b.body {
		if data, ok := s.(*textStmt); required && (!ok || !isBlank(data.text)) {
			p.fail(p.cur().pos, "Required blocks can only contain comments or whitespace")
		}
	}
	p.skipName(b.name)
	return b
}

func (p *parser) autoescape(t token) stmt {
	e := &escapeStmt{node: node{t.pos}, on: p.expression()}
	e.body, _ = p.body("endautoescape")
	return e
}

func (p *parser) jump(t token) stmt { return &jumpStmt{node{t.pos}, t.text == "break"} }

// load reads the statements that would load another template; running one fails.
func (p *parser) load(t token) stmt {
	l := &loadStmt{node{t.pos}, p.expression()}
	for p.cur().kind != tokEnd && p.cur().kind != tokEOF {
		if p.cur().kind != tokName && p.cur().kind != "," {
			p.wanted(string(tokEnd))
		}
		p.next()
	}
	return l
}

// checkBody looks for what Python finds before a template runs: jumps outside of loops, and filters and tests that do not exist, other than under
// a condition (soft).
func (t *Template) checkBody(body []stmt, soft, loop bool) {
	for _, s := range body {
		switch s := s.(type) {
		case *jumpStmt:
			if !loop {
				word := "continue' not properly in loop"
				if s.exit {
					word = "break' outside loop"
				}
				panic(failure{kind: "SyntaxError", message: "'" + word, pos: s.pos})
			}
		case *ifStmt:
			for i, test := range s.tests {
				t.checkExpr(test, true)
				t.checkBody(s.bodies[i], true, loop)
			}
			t.checkBody(s.other, true, loop)
		case *forStmt:
			t.checkExpr(s.target, soft)
			t.checkExpr(s.iter, soft)
			if s.test != nil {
				t.checkExpr(s.test, false)
			}
			t.checkBody(s.body, false, true)
			t.checkBody(s.other, false, loop && !s.recursive)
		case *captureStmt:
			if s.filter != nil {
				t.checkExpr(s.filter, false)
			}
			t.checkBody(s.body, false, loop)
		case *withStmt:
			for _, v := range s.values {
				t.checkExpr(v, soft)
			}
			t.checkBody(s.body, false, loop)
		case *macroStmt:
			t.checkMacro(s)
		case *callStmt:
			if s.call != nil {
				t.checkExpr(s.call, soft)
			}
			t.checkMacro(s.body)
		case *blockStmt:
			t.checkBody(s.body, false, false)
		case *escapeStmt:
			t.checkExpr(s.on, soft)
			t.checkBody(s.body, false, loop)
		default:
			t.checkExpr(s, soft)
		}
	}
}

func (t *Template) checkMacro(m *macroStmt) {
	for _, d := range m.defaults {
		t.checkExpr(d, false)
	}
	t.checkBody(m.body, false, false)
}

// checkExpr looks at the names of filters and tests in an expression, or in a statement without a body.
func (t *Template) checkExpr(n any, soft bool) {
	walkTree(n, func(n any) bool {
		switch n := n.(type) {
		case *condExpr:
			return false // looked up when it runs
		case *filterExpr:
			if _, ok := t.filters[n.name]; !ok && !soft {
				panic(failure{kind: "TemplateAssertionError", message: fmt.Sprintf("No filter named '%s'.", n.name), pos: n.pos})
			}
		case *testExpr:
			if _, ok := t.tests[n.name]; !ok && !soft {
				panic(failure{kind: "TemplateAssertionError", message: fmt.Sprintf("No test named '%s'.", n.name), pos: n.pos})
			}
		}
		return true
	})
}
