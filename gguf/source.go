package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/ggufkit/ggufkit/internal/atomicfile"
	"github.com/ggufkit/ggufkit/internal/mmap"
)

// Source is where the bytes of a file come from: a mapping, an open file, bytes in memory, or later a remote file that
// hands out ranges. Ranges passed to View lie inside the file.
type Source interface {
	io.ReaderAt
	// Size is the length of the file in bytes.
	Size() uint64
	// View gives n bytes at offset off. They are not changed, and stay valid while the source is open.
	View(off, n uint64) ([]byte, error)
}

// Bytes is a file held in memory.
func Bytes(b []byte) Source { return memory{bytes.NewReader(b), b} }

type memory struct {
	*bytes.Reader
	b []byte
}

func (m memory) Size() uint64                       { return uint64(len(m.b)) }
func (m memory) View(off, n uint64) ([]byte, error) { return m.b[off : off+n : off+n], nil }

// mapping is the bytes of files that are open as long as a File is.
type mapping interface {
	io.Closer
	// advise passes advice about a range that lies inside.
	advise(off, n uint64, a mmap.Advice) error
}

// mapped is a mapped file. Where the address space is too small for all of it, ranges are mapped as they are asked for.
type mapped struct {
	wholeFile
	opened fs.FileInfo
	whole  *mmap.Mapping // nil when only parts are mapped

	mu    sync.Mutex
	parts map[[2]uint64]*mmap.Mapping
}

// maxWhole is the largest file that is mapped whole by a 32-bit program, in bytes; a 64-bit one maps any.
const maxWhole = 1 << 29

// largeAddressSpace is true where a file of any size can be mapped whole.
const largeAddressSpace = ^uint(0)>>32 != 0

// openMapped opens and maps the file at path, after an edit that was interrupted is settled. As long as it is open, nobody
// edits the file in place.
func openMapped(path string) (*mapped, error) {
	f, err := openSettled(path)
	if err != nil {
		return nil, err
	}
	m, err := mapFile(f, largeAddressSpace)
	if err != nil {
		f.Close()
	}
	return m, err
}

// mapFile maps an open file: whole where the address space is large or the file small enough.
func mapFile(f *os.File, large bool) (*mapped, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkRegular(f.Name(), st); err != nil {
		return nil, err
	}
	m := &mapped{wholeFile: wholeFile{f, uint64(st.Size())}, opened: st, parts: map[[2]uint64]*mmap.Mapping{}}
	if large || m.size <= maxWhole {
		if m.whole, err = mmap.Map(f, 0, st.Size()); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// HintMissing is what to do about a file that is not there.
const HintMissing = "check the name; without a folder in front it is looked for in the current one"

// unopened is what is said of a file that cannot be opened.
func unopened(path string, err error) *Error {
	e := &Error{Path: path, Offset: noOffset, Err: err}
	var cause *fs.PathError
	if errors.As(err, &cause) {
		e.Err = cause.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Hint = HintMissing
	case atomicfile.TooManyOpen(err):
		e.Hint = atomicfile.HintOpenFiles
	}
	return e
}

// checkRegular refuses folders, pipes and devices.
func checkRegular(path string, st fs.FileInfo) error {
	if st.Mode().IsRegular() {
		return nil
	}
	e := &Error{Path: path, Offset: noOffset, Err: fmt.Errorf("%w: not a regular file", ErrMagic), Hint: "copy what it gives into a file first"}
	if st.IsDir() {
		e.Err, e.Hint = fmt.Errorf("%w: it is a folder", ErrMagic), "name a .gguf file in it; 'ggufkit convert' makes one of a checkpoint folder"
	}
	return e
}

// wholeFile is a file of a known size.
type wholeFile struct {
	*os.File
	size uint64
}

// ReadAt reads as os.File does; that the file ends before its size is an error which is not io.EOF.
func (f wholeFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if err == io.EOF && uint64(off)+uint64(n) < f.size {
		err = mmap.Cut(f.Name(), off+int64(n), int64(f.size))
	}
	return n, err
}

func (m *mapped) Size() uint64 { return m.size }

func (m *mapped) View(off, n uint64) ([]byte, error) {
	if m.whole != nil {
		return m.whole.Bytes()[off : off+n : off+n], nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := [2]uint64{off, n}
	if p, ok := m.parts[at]; ok {
		return p.Bytes(), nil
	}
	p, err := mmap.Map(m.File, int64(off), int64(n))
	if err != nil {
		return nil, err
	}
	m.parts[at] = p
	return p.Bytes(), nil
}

// advise passes advice about a range that lies inside the file.
func (m *mapped) advise(off, n uint64, a mmap.Advice) error {
	if m.whole == nil {
		return nil
	}
	return m.whole.Advise(int(off), int(n), a)
}

func (m *mapped) Close() error {
	err := m.File.Close()
	if m.whole != nil {
		if e := m.whole.Close(); err == nil {
			err = e
		}
	}
	for _, p := range m.parts {
		if e := p.Close(); err == nil {
			err = e
		}
	}
	return err
}
