package gguf

import (
	"errors"
	"fmt"
	"strings"
)

// Sentinel errors; errors returned by this package wrap one of them and name file, key or tensor, and offset.
var (
	ErrMagic     = errors.New("not a GGUF file")
	ErrVersion   = errors.New("unsupported GGUF version")
	ErrTruncated = errors.New("file ends too early")
	ErrLimit     = errors.New("limit exceeded")
	ErrOverflow  = errors.New("size overflows 64 bits")
	ErrType      = errors.New("unknown tensor type")
	ErrValueType = errors.New("wrong metadata value type")
	ErrValue     = errors.New("bad metadata value")
	ErrNoKey     = errors.New("no such metadata key")
	ErrDuplicate = errors.New("duplicate name")
	ErrName      = errors.New("bad name")
	ErrAlignment = errors.New("bad alignment")
	ErrShape     = errors.New("bad tensor shape")
	ErrOffset    = errors.New("bad tensor offset")
	ErrEncoding  = errors.New("text is not valid UTF-8")
	ErrUnused    = errors.New("bytes that belong to nothing")
	ErrSplit     = errors.New("inconsistent split keys")
	ErrJournal   = errors.New("an interrupted edit cannot be undone")
)

// noOffset is the Offset of an error that has no place in a file.
const noOffset = -1

// Error is the form of all errors of this package that concern a file, a key or a tensor. A program that prints
// hints its own way finds it with errors.As.
type Error struct {
	Path   string // of the file, "" where there is none
	Where  string // as keyPlace or tensorPlace give it: key "general.name", tensor "output.weight"; "" for the header
	Offset int64  // in the file, in bytes; -1 where there is none
	Err    error  // what is wrong; wraps a sentinel
	Hint   string // what to do about it, "" where there is nothing to say
}

// Error gives file, key or tensor, offset and fault on one line, and the hint on a second.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Path != "" {
		fmt.Fprintf(&b, "%s: ", e.Path)
	}
	switch {
	case e.Where != "" && e.Offset >= 0:
		fmt.Fprintf(&b, "%s at offset %d: ", e.Where, e.Offset)
	case e.Where != "":
		fmt.Fprintf(&b, "%s: ", e.Where)
	case e.Offset >= 0:
		fmt.Fprintf(&b, "at offset %d: ", e.Offset)
	}
	b.WriteString(e.Err.Error())
	if e.Hint != "" {
		fmt.Fprintf(&b, "\nhint: %s", e.Hint)
	}
	return b.String()
}

// Unwrap gives the fault without its place.
func (e *Error) Unwrap() error { return e.Err }

// keyPlace is how errors name a metadata key; quoting keeps control characters off the terminal.
func keyPlace(key string) string { return fmt.Sprintf("key %q", key) }

// tensorPlace is how errors name a tensor.
func tensorPlace(name string) string { return fmt.Sprintf("tensor %q", name) }

// Defect is one fault of a file. Err wraps a sentinel; Fatal ones make Open fail. The others are kept as they
// are when the file is written again.
type Defect struct {
	Offset uint64 // in the file, in bytes
	Where  string // key or tensor, "" for the header
	Fatal  bool
	Err    error
	Hint   string // what to do about it, "" where there is nothing to say
}

// Error makes the error that Open returns for the defect.
func (d Defect) Error(path string) error {
	return &Error{Path: path, Where: d.Where, Offset: int64(d.Offset), Err: d.Err, Hint: d.Hint}
}
