package gguf

import "errors"

// Sentinel errors; errors returned by this package wrap one of them and name file, key or tensor, and offset.
var (
	ErrMagic     = errors.New("not a GGUF file")
	ErrVersion   = errors.New("unsupported GGUF version")
	ErrTruncated = errors.New("file ends too early")
	ErrLimit     = errors.New("limit exceeded")
	ErrOverflow  = errors.New("size overflows 64 bits")
	ErrType      = errors.New("unknown tensor type")
	ErrValueType = errors.New("wrong metadata value type")
	ErrNoKey     = errors.New("no such metadata key")
	ErrDuplicate = errors.New("duplicate name")
	ErrAlignment = errors.New("bad alignment")
	ErrShape     = errors.New("bad tensor shape")
	ErrOffset    = errors.New("bad tensor offset")
	ErrEncoding  = errors.New("text is not valid UTF-8")
)
