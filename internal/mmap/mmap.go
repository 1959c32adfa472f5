// Package mmap maps files into memory.
package mmap

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
)

// ErrTooLarge means that a file does not fit into the address space of this build; map a part of it with Map.
var ErrTooLarge = errors.New("file is too large to be mapped whole by a 32-bit program")

// Mapping is a mapped file or a part of one. Bytes is valid until Close; an empty file maps to an empty slice.
//
// A file that someone else shortens while it is mapped makes the process die on access, as for every program that maps
// files, but for accesses under Guard. Writers of this module never shorten a file: they rename a new one over it.
type Mapping struct {
	data   []byte // what the caller asked for
	region []byte // what was mapped: data plus what rounding the offset down to a page added in front
	path   string
	offset int64 // of region in the file
	size   int64 // of the file when it was mapped
	once   sync.Once
	err    error
}

// Open maps a file read-only and shared.
func Open(path string) (*Mapping, error) { return openWhole(path, false) }

// OpenPrivate maps a file copy-on-write: writes to Bytes stay in memory and never reach the file.
func OpenPrivate(path string) (*Mapping, error) { return openWhole(path, true) }

// openWhole maps all of a regular file; the mapping outlives the descriptor.
func openWhole(path string, private bool) (*Mapping, error) {
	// Opening a pipe would wait for someone to write to it.
	if st, err := os.Stat(path); err != nil {
		return nil, err
	} else if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: cannot be mapped: not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return newMapping(f, 0, st.Size(), st.Size(), private)
}

// Map maps n bytes of an open file from offset off (any offset, not only page borders), read-only and shared.
// The range must lie inside the file. The mapping stays valid after f is closed.
func Map(f *os.File, off, n int64) (*Mapping, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if off < 0 || n < 0 || off > st.Size() || n > st.Size()-off {
		return nil, fmt.Errorf("%s: cannot map %d bytes at offset %d: the file has %d bytes", f.Name(), n, off, st.Size())
	}
	return newMapping(f, off, n, st.Size(), false)
}

// newMapping rounds the offset down to what the system can map and keeps the slack out of Bytes. size is that of the file.
func newMapping(f *os.File, off, n, size int64, private bool) (*Mapping, error) {
	if n == 0 {
		return &Mapping{}, nil
	}
	slack := off % granularity()
	if n > math.MaxInt-slack {
		return nil, fmt.Errorf("%s: %w: %d bytes", f.Name(), ErrTooLarge, n)
	}
	m := &Mapping{path: f.Name(), offset: off - slack, size: size}
	if err := m.mapRegion(f, off-slack, int(n+slack), private); err != nil {
		return nil, fmt.Errorf("%s: cannot map %d bytes: %w%s", f.Name(), n, err, mapHint(err))
	}
	m.data = m.region[slack:len(m.region):len(m.region)]
	open.add(m)
	return m, nil
}

// Bytes is the mapped range. Its capacity is its length, so an append copies.
func (m *Mapping) Bytes() []byte { return m.data }

// Advice tells the kernel how a range will be read.
type Advice int

// Kinds of advice.
const (
	Sequential Advice = iota
	Random
	WillNeed
	DontNeed
)

// Advise passes advice for the byte range [off, off+n) of Bytes; where the system has none it does nothing.
// DontNeed gives up only pages that lie wholly inside the range, the others act on every page touched.
func (m *Mapping) Advise(off, n int, a Advice) error {
	if off < 0 || n < 0 || off > len(m.data) || n > len(m.data)-off {
		return fmt.Errorf("advice for bytes %d to %d of a mapping of %d bytes", off, off+n, len(m.data))
	}
	page := os.Getpagesize()
	first := off + len(m.region) - len(m.data)
	last := first + n
	if a == DontNeed {
		first = (first + page - 1) / page * page
		if last != len(m.region) {
			last = last / page * page
		}
	} else {
		first = first / page * page
	}
	if first >= last {
		return nil
	}
	return m.advise(first, last, a)
}

// Close unmaps. No view may be used afterwards. A second Close does nothing.
func (m *Mapping) Close() error {
	m.once.Do(func() {
		if m.region != nil {
			open.remove(m)
			m.err = m.unmap()
		}
		m.data, m.region = nil, nil
	})
	return m.err
}
