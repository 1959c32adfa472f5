// Package chat renders chat templates.
//
// Templates are Jinja, written for Python: they come with models and are not to be trusted. The engine here gives, byte for byte, what Python's
// Jinja2 gives in the sandbox that transformers sets up for chat templates (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls,
// its own tojson), and fails where that fails. Whatever a template does, it ends soon, in bounded memory: see the limits in limit.go.
//
// A template goes through lex.go (text to tokens), parse.go and parseexpr.go (tokens to the tree of ast.go), and eval.go and evalexpr.go, which walk
// the tree. value.go, number.go, str.go, repr.go, json.go, format.go and formatters.go hold Python's values and what they do; methods.go, attr.go, filters.go,
// filterseq.go, filtertext.go, tests.go and globals.go what templates can call.
package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Value is any JSON value. Objects keep the order of their members, integers may have any size. The zero Value is null.
type Value struct{ v value }

// ParseJSON reads a JSON value.
func ParseJSON(data []byte) (Value, error) {
	v, err := parseJSON(data)
	return Value{v}, err
}

// UnmarshalJSON lets a Value be a part of what is read from JSON.
func (v *Value) UnmarshalJSON(data []byte) error {
	var err error
	v.v, err = parseJSON(data)
	return err
}

// Text makes a Value of a text.
func Text(s string) Value { return Value{strings.ToValidUTF8(s, "\ufffd")} }

// Bool makes a Value of a truth value.
func Bool(b bool) Value { return Value{b} }

// IsList reports whether the value is a JSON array.
func (v Value) IsList() bool {
	_, ok := v.v.(*list)
	return ok
}

// List returns the elements of a JSON array, nil for any other value.
func (v Value) List() []Value {
	l, ok := v.v.(*list)
	if !ok {
		return nil
	}
	items := make([]Value, len(l.items))
	for i, item := range l.items {
		items[i] = Value{item}
	}
	return items
}

// Names returns the names of a JSON object's members in order, nil for any other value.
func (v Value) Names() []string {
	d, ok := v.v.(*dict)
	if !ok {
		return nil
	}
	names := make([]string, d.len())
	for i, k := range d.keys {
		names[i], _ = asString(k)
	}
	return names
}

// Member returns a member of a JSON object; false if there is none.
func (v Value) Member(name string) (Value, bool) {
	d, ok := v.v.(*dict)
	if !ok {
		return Value{}, false
	}
	i, ok := d.index[name]
	if !ok {
		return Value{}, false
	}
	return Value{d.values[i]}, true
}

// String returns the text of a JSON string, "" for any other value.
func (v Value) String() string {
	s, _ := asString(v.v)
	return s
}

// Message is one turn. Content that is not plain text, tool calls and whatever else a template may look at is in Object.
type Message struct {
	Role    string
	Content string // of a message made of several parts: the texts among them, joined
	Object  Value  // the whole message, if it came as JSON; templates see this and not the fields above
}

// UnmarshalJSON reads a message as MessageOf does.
func (m *Message) UnmarshalJSON(data []byte) error {
	o, err := ParseJSON(data)
	if err == nil {
		*m, err = MessageOf(o)
	}
	return err
}

// MessageOf makes a message of a JSON object as chat interfaces have it, with a role and mostly a content. Templates see all its members.
func MessageOf(o Value) (Message, error) {
	role, ok := o.Member("role")
	if !ok || role.String() == "" {
		return Message{}, errors.New(`a message is an object with a "role"`)
	}
	content, _ := o.Member("content")
	m := Message{Role: role.String(), Content: content.String(), Object: o}
	for _, part := range content.List() {
		text, _ := part.Member("text")
		m.Content += text.String()
	}
	return m, nil
}

// value is what a template sees of a message.
func (m Message) value() value {
	if m.Object.v != nil {
		return m.Object.v
	}
	d := newDict()
	d.put("role", Text(m.Role).v)
	d.put("content", Text(m.Content).v)
	return d
}

// Context is what a template sees.
type Context struct {
	Messages            []Message
	Tools               []Value // descriptions of functions; nil: the variable is None
	Documents           []Value // nil: the variable is None
	AddGenerationPrompt bool
	BOS, EOS            string           // as bos_token and eos_token; "" leaves the variable undefined, as transformers does for a token that does not exist
	Variables           map[string]Value // more variables, such as enable_thinking or pad_token; they win over those above
	// Now is the time that a template is told if it asks; the zero value stands for the current time.
	Now time.Time
}

// Exception is an error that the template itself raised.
type Exception struct{ Message string }

func (e *Exception) Error() string { return e.Message }

// Template is a parsed template. It can be rendered by several goroutines at once.
type Template struct {
	name    string
	src     string
	body    []stmt
	blocks  map[string]*blockStmt
	filters map[string]filter
	tests   map[string]filter
}

// Parse reads a template. name is for errors, which are of type *Error.
func Parse(name, src string) (t *Template, err error) {
	t = &Template{name: name, src: normalize(src), filters: filterTable(), tests: testTable()}
	switch {
	case len(src) > templateLimit:
		return nil, &Error{Template: name, Kind: "LimitError", Message: fmt.Sprintf("it has %d bytes, at most %d are read", len(src), templateLimit), limit: true}
	case !utf8.ValidString(src):
		return nil, &Error{Template: name, Kind: "UnicodeDecodeError", Message: "it is not UTF-8"}
	}
	defer t.caught(nil, &err)
	t.body, t.blocks = parse(t)
	return t, nil
}

// Render renders a conversation. Errors are an *Exception if the template raised it itself, else an *Error.
func (t *Template) Render(c Context) (string, error) {
	vars, size := c.variables()
	return t.render(c.Now, vars, size)
}

// Render parses and renders a chat template. Templates come from untrusted files: errors, never panics; a template's own raise_exception is an *Exception.
func Render(template string, c Context) (string, error) {
	t, err := Parse("chat template", template)
	if err != nil {
		return "", err
	}
	return t.Render(c)
}

// variables are those that transformers sets, and about how many bytes they have.
func (c Context) variables() (map[string]value, int) {
	seq := func(items []Value) value {
		if items == nil {
			return none{}
		}
		l := &list{}
		for _, item := range items {
			l.items = append(l.items, orNone(item.v))
		}
		return l
	}
	messages := &list{}
	for _, m := range c.Messages {
		messages.items = append(messages.items, m.value())
	}
	vars := map[string]value{
		"messages": messages, "tools": seq(c.Tools), "documents": seq(c.Documents), "add_generation_prompt": c.AddGenerationPrompt,
	}
	for name, token := range map[string]string{"bos_token": c.BOS, "eos_token": c.EOS} {
		if token != "" {
			vars[name] = Text(token).v
		}
	}
	for name, v := range c.Variables {
		vars[name] = orNone(v.v)
	}
	size := 0
	for _, v := range vars {
		size += weight(v)
	}
	return vars, size
}

// weight is about how many bytes a value from outside has.
func weight(v value) int {
	n := 16
	switch v := v.(type) {
	case string:
		n += len(v)
	case *list:
		for _, item := range v.items {
			n += weight(item)
		}
	case *dict:
		for i, k := range v.keys {
			n += weight(k) + weight(v.values[i])
		}
	}
	return n
}

// render runs the template with variables that weigh size bytes.
func (t *Template) render(now time.Time, vars map[string]value, size int) (out string, err error) {
	if now.IsZero() {
		now = time.Now()
	}
	r := &run{t: t, now: now, out: &strings.Builder{}}
	r.deadline = time.Now().Add(timeLimit)
	r.allowed, r.most = stepLimit+sizeFactor*size, memoryLimit+sizeFactor*size
	r.root = (&scope{vars: vars, parent: r.globalScope()}).inner()
	defer t.caught(r, &err)
	r.statements(t.body, r.root)
	return r.out.String(), nil
}

// caught turns a panic into an error; r is nil while the template is parsed. It is to be deferred. A panic that is no failure of the template is a
// fault of this package: it becomes an error too, since a template must not be able to end the process.
func (t *Template) caught(r *run, err *error) {
	e := &Error{Template: t.name, Kind: "SystemError"}
	pos := -1
	switch p := recover().(type) {
	case nil:
		return
	case *Exception:
		p.Message = clipped(p.Message)
		*err = p
		return
	case failure:
		e.Kind, e.Message, e.limit, pos = p.kind, clipped(p.message), p.limit, p.pos
	default:
		e.Message = fmt.Sprintf("the template engine failed: %v", p)
	}
	if pos < 0 && r != nil {
		pos = r.pos
	}
	if pos >= 0 {
		e.Line, e.Column = place(t.src, pos)
	}
	*err = e
}

// clipped is a message of a length that can be shown: a template may raise megabytes.
func clipped(message string) string {
	if len(message) <= messageLimit {
		return message
	}
	return strings.ToValidUTF8(message[:messageLimit], "") + "..."
}
