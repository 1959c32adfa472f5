// Package chat renders chat templates.
//
// Templates are Jinja, written for Python: they come with models and are not to be trusted. A template engine from outside does the work for
// now; what it gets is rewritten (see lex.go and guard.go) so that white space comes out as in Python and runaway templates end in an error.
// One thing is out of the guard's reach: the memory that a single expression takes ('x' * 10000000000).
package chat

import (
	"errors"
	"fmt"
	"time"

	"github.com/ardanlabs/jinja"
)

// Message is one turn.
type Message struct {
	Role    string
	Content string
}

// Context is what a template sees.
type Context struct {
	Messages            []Message
	AddGenerationPrompt bool
	BOS, EOS            string
	// Now is the time that a template is told if it asks; the zero value stands for the current time.
	Now time.Time
}

// Exception is an error that the template itself raised.
type Exception struct{ Message string }

func (e *Exception) Error() string { return e.Message }

// ErrLimit is wrapped by the errors for templates that are too big, too deep or run for too long.
var ErrLimit = errors.New("limit exceeded")

// Limits on templates.
const (
	templateLimit = 256 << 10 // bytes of source; the longest known ones have some 30 KB
	nestingLimit  = 100       // brackets within brackets, blocks within blocks, macros that call macros
	outputLimit   = 64 << 20  // bytes
	stepLimit     = 2_000_000 // iterations, macro calls and values looked at
	rangeLimit    = 100_000   // elements of a range()
	timeLimit     = 10 * time.Second
)

// Render renders a Jinja chat template. Templates come from untrusted files: errors, never panics; a template's own raise_exception is an *Exception.
func Render(template string, c Context) (string, error) {
	messages := make([]jinja.Value, len(c.Messages))
	for i, m := range c.Messages {
		d := jinja.NewDict()
		d.AsDict().Set("role", jinja.NewString(m.Role))
		d.AsDict().Set("content", jinja.NewString(m.Content))
		messages[i] = d
	}
	return render(template, c.Now, map[string]jinja.Value{
		"messages":              jinja.NewList(messages),
		"tools":                 jinja.None(),
		"documents":             jinja.None(),
		"add_generation_prompt": jinja.NewBool(c.AddGenerationPrompt),
		"bos_token":             jinja.NewString(c.BOS),
		"eos_token":             jinja.NewString(c.EOS),
	})
}

// render runs a template with the given variables.
func render(template string, now time.Time, vars map[string]jinja.Value) (string, error) {
	src, err := prepare(template)
	if err != nil {
		return "", fmt.Errorf("chat template: %w", err)
	}
	if now.IsZero() {
		now = time.Now()
	}
	g := &guard{now: now, deadline: time.Now().Add(timeLimit)}
	g.addTo(vars)
	out, err := run(src, vars)
	var raised *Exception
	switch {
	case errors.As(err, &raised):
		return "", raised
	case err != nil:
		return "", fmt.Errorf("chat template: %w", err)
	case len(out) > outputLimit:
		return "", fmt.Errorf("chat template: %w: it writes more than %d bytes", ErrLimit, outputLimit)
	}
	return out, nil
}

// run compiles and executes; panics of the engine become errors.
func run(src string, vars map[string]jinja.Value) (out string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the template engine failed: %v", r)
		}
	}()
	t, err := jinja.Compile(src)
	if err != nil {
		return "", err
	}
	return t.RenderValues(vars)
}
