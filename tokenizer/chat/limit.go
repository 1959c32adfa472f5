package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits on templates and on what they do. Each is far beyond what chat templates need.
const (
	templateLimit = 1 << 20  // bytes of source; the longest known ones have some 30 KB
	nestingLimit  = 200      // brackets within brackets, blocks within blocks
	chainLimit    = 2_000    // operators, filters or subscripts in a row
	callLimit     = 200      // calls of macros and recursive loops within each other
	depthLimit    = 10_000   // steps within each other, of all kinds
	valueDepth    = 1_000    // values within values, where they are written out or compared
	outputLimit   = 64 << 20 // bytes of the result
	messageLimit  = 1 << 16  // bytes of the message of an error
	stepLimit     = 5_000_000
	rangeLimit    = 100_000 // elements of a range(); Jinja's sandbox has the same
	intBits       = 1 << 16 // the longest integer
	digitLimit    = 4300    // digits of an integer that is written out; Python has the same
	memoryLimit   = 256 << 20
	sizeFactor    = 64 // steps and bytes that are allowed for each byte of the conversation, beside stepLimit and memoryLimit
	timeLimit     = 10 * time.Second
)

// ErrLimit is wrapped by the errors for templates that are too big, too deep or run for too long.
var ErrLimit = errors.New("limit exceeded")

// Error is a fault of a template: of its syntax, or what came up while it ran.
type Error struct {
	Template     string // its name
	Line, Column int    // where, from 1 on, in lines and characters; 0 where there is no place
	Kind         string // Python's name for the class of the error, such as TypeError or UndefinedError
	Message      string // as Python has it where Python has the error

	limit bool
}

func (e *Error) Error() string {
	at := e.Template
	if e.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", e.Template, e.Line, e.Column)
	}
	if e.limit {
		return fmt.Sprintf("%s: %v: %s", at, ErrLimit, e.Message)
	}
	return fmt.Sprintf("%s: %s (%s)", at, e.Message, e.Kind)
}

// Unwrap returns ErrLimit for errors of that kind.
func (e *Error) Unwrap() error {
	if e.limit {
		return ErrLimit
	}
	return nil
}

// failure ends the parsing or the run of a template from any depth. It is a panic that never leaves the package: compile and run turn it into an
// error, as the standard library's template package does.
type failure struct {
	kind, message string
	pos           int // byte offset in the source; -1: where the run is
	limit         bool
}

// raise ends the run with an error of a Python class.
func raise(kind, format string, args ...any) {
	panic(failure{kind: kind, message: fmt.Sprintf(format, args...), pos: -1})
}

// raiseLimit ends the run since a limit was reached.
func raiseLimit(format string, args ...any) {
	panic(failure{kind: "LimitError", message: fmt.Sprintf(format, args...), pos: -1, limit: true})
}

// place turns a byte offset into a line and a column.
func place(src string, pos int) (line, column int) {
	pos = min(pos, len(src))
	start := strings.LastIndexByte(src[:pos], '\n') + 1
	return 1 + strings.Count(src[:pos], "\n"), 1 + utf8.RuneCountInString(src[start:pos])
}

// meter counts what a run has cost.
type meter struct {
	steps    int
	allowed  int // steps
	memory   int // bytes built
	most     int // of memory
	depth    int
	calls    int
	deadline time.Time
}

// spend counts n steps.
func (m *meter) spend(n int) {
	before := m.steps
	m.steps += n
	if m.steps > m.allowed {
		raiseLimit("the template takes more than %d steps", m.allowed)
	}
	if before>>12 != m.steps>>12 && time.Now().After(m.deadline) {
		raiseLimit("the template runs for more than %v", timeLimit)
	}
}

// build counts n bytes of new values, before they are made.
func (m *meter) build(n int) {
	if n < 0 || n > m.most-m.memory {
		raiseLimit("the template builds more than %d bytes of values", m.most)
	}
	m.memory += n
	m.spend(1 + n/64)
}

// buildParts counts n parts that a text is about to be cut into; buildWords and buildLines find out how many there are.
func (m *meter) buildParts(n int) { m.build(48 * n) }

func (m *meter) buildWords(s string) {
	m.buildParts(words(s, func(r rune) bool { return !isSpace(r) }))
}

func (m *meter) buildLines(s string) {
	m.buildParts(words(s, func(r rune) bool { return !isLineEnd(r) }) + strings.Count(s, "\n"))
}

// scan counts the work of looking through n bytes.
func (m *meter) scan(n int) { m.spend(1 + n/64) }

// enter goes one level down; leave comes back.
func (m *meter) enter() {
	if m.depth++; m.depth > depthLimit {
		raiseLimit("the template nests more than %d steps", depthLimit)
	}
}

func (m *meter) leave() { m.depth-- }

// text builds a string under a meter.
type text struct {
	m *meter
	b strings.Builder
}

func (t *text) write(s string) {
	t.m.build(len(s))
	t.b.WriteString(s)
}

func (t *text) writeByte(c byte) {
	t.m.build(1)
	t.b.WriteByte(c)
}

func (t *text) String() string { return t.b.String() }
