package chat

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// Names that the rewritten template calls. Templates have no reason to use them.
const (
	fnStep   = "ggufkit_step"   // an iteration of a loop
	fnEnter  = "ggufkit_enter"  // the start of a macro
	fnLeave  = "ggufkit_leave"  // its end
	fnCheck  = "ggufkit_check"  // a variable that was set
	fnToJSON = "ggufkit_tojson" // the filter tojson
	sink     = "ggufkit_"       // where the results of these calls go
)

// Methods that change a list or a dict in place: Python's sandbox for chat templates forbids them. Under another name they are unknown
// to the engine too, so that a value cannot be made to hold itself.
var mutators = map[string]bool{
	"append": true, "insert": true, "pop": true, "extend": true, "remove": true, "reverse": true, "sort": true, "clear": true,
	"update": true, "setdefault": true, "popitem": true,
}

// prepare rewrites a template for the engine. Text becomes expressions with a literal, so that the engine, which treats white space
// differently, finds none to treat; loops, macros and assignments call the guard.
func prepare(template string) (string, error) {
	if len(template) > templateLimit {
		return "", fmt.Errorf("%w: %d bytes are more than %d", ErrLimit, len(template), templateLimit)
	}
	segs, err := lex(template)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	var blocks []string // the open ones; of a set block "set NAME"
	call := func(fn, arg string) { fmt.Fprintf(&b, "{%% set %s = %s(%s) %%}", sink, fn, arg) }
	for _, s := range segs {
		if s.kind == 't' {
			b.WriteString("{{" + quote(s.text) + "}}")
			continue
		}
		body := rewrite(s.text)
		if s.kind == '{' {
			b.WriteString("{{ " + body + " }}")
			continue
		}
		keyword, rest, _ := strings.Cut(strings.TrimSpace(body), " ")
		tag := "{% " + body + " %}"
		switch {
		case keyword == "endmacro":
			call(fnLeave, "")
			b.WriteString(tag)
		case keyword == "set" && strings.Contains(rest, "="):
			name, _, _ := strings.Cut(rest, "=")
			b.WriteString(tag)
			if root, _, _ := strings.Cut(strings.TrimSpace(name), "."); isName(root) {
				call(fnCheck, root)
			}
		default:
			b.WriteString(tag)
		}
		switch {
		case keyword == "for":
			call(fnStep, "")
			blocks = append(blocks, keyword)
		case keyword == "macro":
			call(fnEnter, "")
			blocks = append(blocks, keyword)
		case keyword == "set" && !strings.Contains(rest, "="):
			blocks = append(blocks, "set "+strings.TrimSpace(rest))
		case strings.HasPrefix(keyword, "end") && len(blocks) > 0:
			if name, ok := strings.CutPrefix(blocks[len(blocks)-1], "set "); ok && isName(name) {
				call(fnCheck, name)
			}
			blocks = blocks[:len(blocks)-1]
		case keyword == "if" || strings.HasPrefix(keyword, "call") || keyword == "filter" || keyword == "generation":
			blocks = append(blocks, keyword)
		}
		if len(blocks) > nestingLimit {
			return "", fmt.Errorf("%w: blocks nested more than %d deep", ErrLimit, nestingLimit)
		}
	}
	return b.String(), nil
}

// quote writes a literal as the engine reads it.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// isName reports whether s is an identifier.
func isName(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i], i == 0) {
			return false
		}
	}
	return s != ""
}

func isNameByte(c byte, first bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || !first && c >= '0' && c <= '9'
}

// rewrite changes the code of a tag: filters and methods of which the engine has its own idea get other names, and brackets that would
// look like the end of the tag are set apart.
func rewrite(code string) string {
	var b strings.Builder
	before := byte(0) // the last character that is no white space
	for i := 0; i < len(code); {
		c := code[i]
		n := 1
		switch {
		case c == '\'' || c == '"':
			n = max(stringEnd(code[i:]), 1)
			b.WriteString(literal(code[i : i+n]))
		case isNameByte(c, true):
			for i+n < len(code) && isNameByte(code[i+n], false) {
				n++
			}
			word := code[i : i+n]
			switch {
			case before == '|' && word == "tojson":
				word = fnToJSON
			case before == '.' && mutators[word] && strings.HasPrefix(strings.TrimSpace(code[i+n:]), "("):
				word = "forbidden_" + word
			}
			b.WriteString(word)
		case (c == '}' || c == '%') && i+1 < len(code) && code[i+1] == '}':
			b.WriteString(string(c) + " ")
		default:
			b.WriteByte(c)
		}
		if last := code[i+n-1]; last != ' ' && last != '\n' && last != '\t' {
			before = last
		}
		i += n
	}
	return b.String()
}

// literal resolves the escapes of a Python string that the engine does not know, and quotes it anew.
func literal(s string) string {
	if !strings.Contains(s, `\`) || len(s) < 2 {
		return s
	}
	text := s[1 : len(s)-1]
	var b strings.Builder
	for text != "" {
		if strings.HasPrefix(text, "\\\n") { // a continued line
			text = text[2:]
			continue
		}
		if strings.HasPrefix(text, `\'`) || strings.HasPrefix(text, `\"`) {
			b.WriteByte(text[1])
			text = text[2:]
			continue
		}
		r, _, rest, err := strconv.UnquoteChar(text, s[0])
		if err != nil { // unknown escapes stand for themselves
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		b.WriteRune(r)
		text = rest
	}
	return quote(b.String())
}

// guard holds the budget of one rendering.
type guard struct {
	now      time.Time
	deadline time.Time
	steps    int
	depth    int
}

// function is the shape of what templates call.
type function = func(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error)

// addTo defines the functions that templates may use, and those that rewritten ones do.
func (g *guard) addTo(vars map[string]jinja.Value) {
	for name, f := range map[string]function{
		fnStep: g.step, fnEnter: g.enter, fnLeave: g.leave, fnCheck: g.check, fnToJSON: toJSON,
		"range": g.rangeOf, "raise_exception": raise, "strftime_now": g.strftime,
	} {
		vars[name] = jinja.NewCallable(name, f)
	}
}

// spend takes n steps off the budget.
func (g *guard) spend(n int) error {
	if g.steps += n; g.steps > stepLimit {
		return fmt.Errorf("%w: it takes more than %d steps", ErrLimit, stepLimit)
	}
	if g.steps%1024 < n && time.Now().After(g.deadline) {
		return fmt.Errorf("%w: it takes longer than %v", ErrLimit, timeLimit)
	}
	return nil
}

func (g *guard) step([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	return jinja.None(), g.spend(1)
}

func (g *guard) enter([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	if g.depth++; g.depth > nestingLimit {
		return jinja.None(), fmt.Errorf("%w: macros call each other more than %d deep", ErrLimit, nestingLimit)
	}
	return jinja.None(), g.spend(1)
}

func (g *guard) leave([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	g.depth--
	return jinja.None(), nil
}

// check refuses values that are nested too deep, which those are that hold themselves, and texts that are too long.
func (g *guard) check(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.None(), nil
	}
	return jinja.None(), g.walk(args[0], 0)
}

func (g *guard) walk(v jinja.Value, depth int) error {
	if depth > nestingLimit {
		return fmt.Errorf("%w: values nested more than %d deep", ErrLimit, nestingLimit)
	}
	if err := g.spend(1); err != nil {
		return err
	}
	switch {
	case v.IsString():
		if len(v.AsString()) > outputLimit {
			return fmt.Errorf("%w: a text of more than %d bytes", ErrLimit, outputLimit)
		}
	case v.IsList():
		for _, item := range v.AsList().Items {
			if err := g.walk(item, depth+1); err != nil {
				return err
			}
		}
	case v.IsDict():
		for _, item := range v.AsDict().Data {
			if err := g.walk(item, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// rangeOf is Python's range as a list, of bounded length.
func (g *guard) rangeOf(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	var n []int64
	for _, a := range args {
		if !a.IsInt() {
			return jinja.None(), fmt.Errorf("range: %s is not an integer", a)
		}
		n = append(n, a.AsInt())
	}
	start, stop, step := int64(0), int64(0), int64(1)
	switch len(n) {
	case 1:
		stop = n[0]
	case 2:
		start, stop = n[0], n[1]
	case 3:
		start, stop, step = n[0], n[1], n[2]
	}
	if len(n) < 1 || len(n) > 3 || step == 0 {
		return jinja.None(), fmt.Errorf("range: wrong arguments")
	}
	var items []jinja.Value
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(items) == rangeLimit {
			return jinja.None(), fmt.Errorf("%w: a range of more than %d numbers", ErrLimit, rangeLimit)
		}
		items = append(items, jinja.NewInt(i))
		if i > 0 && i+step < i && step > 0 || i < 0 && i+step > i && step < 0 {
			break // overflow
		}
	}
	return jinja.NewList(items), g.spend(len(items))
}

func raise(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	message := ""
	if len(args) > 0 {
		message = args[0].String()
		if args[0].IsString() {
			message = args[0].AsString()
		}
	}
	return jinja.None(), &Exception{message}
}
