// Package mmap maps files into memory.
package mmap

import "errors"

// Mapping is a mapped file. Bytes is valid until Close; an empty file maps to an empty slice.
type Mapping struct{}

// Open maps a file read-only and shared.
func Open(path string) (*Mapping, error) { return nil, errors.New("todo") }

// OpenPrivate maps a file copy-on-write: writes to Bytes stay in memory and never reach the file.
func OpenPrivate(path string) (*Mapping, error) { return nil, errors.New("todo") }

// Bytes is the whole file.
func (m *Mapping) Bytes() []byte { return nil }

// Advice tells the kernel how a range will be read.
type Advice int

// Kinds of advice.
const (
	Sequential Advice = iota
	Random
	WillNeed
	DontNeed
)

// Advise passes advice for the byte range; where the system has none it does nothing.
func (m *Mapping) Advise(off, n int, a Advice) error { return nil }

// Close unmaps. No view may be used afterwards.
func (m *Mapping) Close() error { return nil }
