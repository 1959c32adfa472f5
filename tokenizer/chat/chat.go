// Package chat renders chat templates.
package chat

import "errors"

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
}

// Render renders a Jinja chat template. Templates come from untrusted files: errors, never panics; a template's own raise_exception is an *Exception.
func Render(template string, c Context) (string, error) { return "", errors.New("todo") }

// Exception is an error that the template itself raised.
type Exception struct{ Message string }

func (e *Exception) Error() string { return e.Message }
