package chat

// The tree of a template. Every node knows the byte offset where it starts, for errors.

type (
	expr interface{ at() int }
	stmt interface{ at() int }
	node struct{ pos int }
)

func (n node) at() int { return n.pos }

// Expressions.
type (
	constExpr struct {
		node
		v value
	}
	nameExpr struct {
		node
		name string
	}
	// attrTarget is ns.attr as the target of a set.
	attrTarget struct {
		node
		name, attr string
	}
	tupleExpr struct {
		node
		items []expr
	}
	listExpr struct {
		node
		items []expr
	}
	dictExpr struct {
		node
		keys, values []expr
	}
	condExpr struct {
		node
		then, test, other expr // other may be nil
	}
	logicExpr struct { // and, or
		node
		or          bool
		left, right expr
	}
	unaryExpr struct { // not, -, +
		node
		op string
		x  expr
	}
	binaryExpr struct { // + - * / // % **
		node
		op          string
		left, right expr
	}
	compareExpr struct { // a < b < c
		node
		first expr
		ops   []string
		rest  []expr
	}
	concatExpr struct { // ~
		node
		parts []expr
	}
	attrExpr struct {
		node
		x    expr
		name string
	}
	itemExpr struct {
		node
		x, arg expr
	}
	sliceExpr struct { // as the arg of an itemExpr alone; parts may be nil
		node
		start, stop, step expr
	}
	callExpr struct {
		node
		fn   expr
		args arguments
	}
	filterExpr struct {
		node
		x    expr // nil: what a block wrote
		name string
		args arguments
	}
	testExpr struct {
		node
		x    expr
		name string
		args arguments
	}
)

// arguments are those of a call: (a, k=v, *extra, **named).
type arguments struct {
	list   []expr
	named  []namedExpr
	extra  expr // nil: none
	extras expr // nil: none
}

type namedExpr struct {
	name string
	x    expr
}

// Statements.
type (
	textStmt struct {
		node
		text string
	}
	outputStmt struct {
		node
		x expr
	}
	forStmt struct {
		node
		target      expr
		iter, test  expr // test may be nil
		recursive   bool
		body, other []stmt
	}
	ifStmt struct {
		node
		tests  []expr
		bodies [][]stmt
		other  []stmt
	}
	setStmt struct {
		node
		target, x expr
	}
	captureStmt struct { // {% set x %}...{% endset %}, {% filter f %}...{% endfilter %} (target nil)
		node
		target expr
		filter *filterExpr
		body   []stmt
	}
	withStmt struct {
		node
		targets, values []expr
		body            []stmt
	}
	macroStmt struct { // also the body of a call block
		node
		name     string
		params   []string
		defaults []expr // of the last params
		body     []stmt
		// what the body reads beside its parameters
		usesCaller, usesKwargs, usesVarargs bool
	}
	callStmt struct {
		node
		call *callExpr // nil: a generation block, which writes its body
		body *macroStmt
	}
	blockStmt struct {
		node
		name   string
		scoped bool
		body   []stmt
	}
	escapeStmt struct { // autoescape
		node
		on   expr
		body []stmt
	}
	jumpStmt struct { // break, continue
		node
		exit bool
	}
	loadStmt struct { // extends, include, import, from: there is nothing to load from
		node
		template expr
	}
)

// walkTree calls f for a node and all below it, in the order in which Jinja's own visitors see them. f returns false to skip what is below.
func walkTree(n any, f func(n any) bool) {
	if !f(n) {
		return
	}
	each := func(list ...expr) {
		for _, x := range list {
			if x != nil {
				walkTree(x, f)
			}
		}
	}
	body := func(list []stmt) {
		for _, s := range list {
			walkTree(s, f)
		}
	}
	args := func(a arguments) {
		each(a.list...)
		for _, k := range a.named {
			each(k.x)
		}
		each(a.extra, a.extras)
	}
	if walkExpr(n, each, args) {
		return
	}
	switch n := n.(type) {
	case *outputStmt:
		each(n.x)
	case *forStmt:
		each(n.target, n.iter)
		body(n.body)
		body(n.other)
		each(n.test)
	case *ifStmt:
		for i, t := range n.tests {
			each(t)
			body(n.bodies[i])
		}
		body(n.other)
	case *setStmt:
		each(n.target, n.x)
	case *captureStmt:
		each(n.target)
		if n.filter != nil {
			each(n.filter)
		}
		body(n.body)
	case *withStmt:
		each(n.targets...)
		each(n.values...)
		body(n.body)
	case *macroStmt:
		each(n.defaults...)
		body(n.body)
	case *callStmt:
		if n.call != nil {
			each(n.call)
		}
		walkTree(n.body, f)
	case *blockStmt:
		body(n.body)
	case *escapeStmt:
		each(n.on)
		body(n.body)
	case *loadStmt:
		each(n.template)
	}
}

// walkExpr visits the parts of an expression; false if n is a statement.
func walkExpr(n any, each func(...expr), args func(arguments)) bool {
	switch n := n.(type) {
	case *constExpr, *nameExpr, *attrTarget:
	case *tupleExpr:
		each(n.items...)
	case *listExpr:
		each(n.items...)
	case *dictExpr:
		for i := range n.keys {
			each(n.keys[i], n.values[i])
		}
	case *condExpr:
		each(n.test, n.then, n.other)
	case *logicExpr:
		each(n.left, n.right)
	case *unaryExpr:
		each(n.x)
	case *binaryExpr:
		each(n.left, n.right)
	case *compareExpr:
		each(n.first)
		each(n.rest...)
	case *concatExpr:
		each(n.parts...)
	case *attrExpr:
		each(n.x)
	case *itemExpr:
		each(n.x, n.arg)
	case *sliceExpr:
		each(n.start, n.stop, n.step)
	case *callExpr:
		each(n.fn)
		args(n.args)
	case *filterExpr:
		each(n.x)
		args(n.args)
	case *testExpr:
		each(n.x)
		args(n.args)
	default:
		return false
	}
	return true
}

// reads reports whether a body reads a name that it has not set before.
func reads(body []stmt, name string) bool {
	found, set := false, false
	for _, s := range body {
		walkTree(s, func(n any) bool {
			switch n := n.(type) {
			case *blockStmt:
				return false
			case *nameExpr:
				found = found || n.name == name && !set
			case *setStmt:
				set = set || targets(n.target, name)
			case *captureStmt:
				set = set || targets(n.target, name)
			case *forStmt:
				set = set || targets(n.target, name)
			case *macroStmt:
				for _, p := range n.params {
					set = set || p == name
				}
			}
			return !found
		})
	}
	return found
}

// targets reports whether an assignment to a target sets a name.
func targets(target expr, name string) bool {
	switch t := target.(type) {
	case *nameExpr:
		return t.name == name
	case *tupleExpr:
		for _, item := range t.items {
			if targets(item, name) {
				return true
			}
		}
	}
	return false
}
