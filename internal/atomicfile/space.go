package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// ErrNoSpace is what every *SpaceError is.
var ErrNoSpace = errors.New("disk full")

// SpaceError says that an output does not fit on its disk.
type SpaceError struct {
	Path  string // of the output, or the first of several
	Files int    // that the bytes are needed for, where there are several
	// Needed is the number of bytes that were wanted: the whole output before writing, else the rest of one write; 0 when unknown.
	Needed uint64
	// Available is the number of bytes that the disk has left for this user.
	Available uint64
}

// Error names the output, the disk and both figures, and says what to do.
func (e *SpaceError) Error() string {
	need := ""
	if e.Needed > 0 {
		need = fmt.Sprintf("%d bytes needed, ", e.Needed)
	}
	if e.Files > 1 {
		need = fmt.Sprintf("%d bytes needed for %d files, ", e.Needed, e.Files)
	}
	return fmt.Sprintf("%s: %v: %s%d bytes available in %s\nhint: make room there, or write to another disk", e.Path, ErrNoSpace, need, e.Available, filepath.Dir(e.Path))
}

// Is makes errors.Is(err, ErrNoSpace) true.
func (e *SpaceError) Is(target error) bool { return target == ErrNoSpace }

// Preallocate checks, before anything is written, that the disk has room for an output of size bytes, and reserves it
// where the file system can. The file keeps its length. Too little room is a *SpaceError.
func (f *File) Preallocate(size uint64) error {
	f.size = size
	if avail, ok := available(filepath.Dir(f.path)); ok && avail < size {
		return &SpaceError{Path: f.path, Needed: size, Available: avail}
	}
	if err := reserve(f.File, size); isFull(err) || isTooLarge(err) {
		return Full(err, f.path, size)
	}
	return nil // no reservation is no fault: the writes will tell
}

// Full turns "no space left on device" into a *SpaceError for the file at path, which needed so many bytes more. A file that may not be so large
// gets a hint. Other errors, and nil, stay as they are.
func Full(err error, path string, needed uint64) error {
	if isTooLarge(err) {
		return fmt.Errorf("%w\nhint: the file system (FAT: 4 GB), or a limit of the session (ulimit -f), allows no larger file: write to another disk, or several files", err)
	}
	if !isFull(err) {
		return err
	}
	avail, _ := available(filepath.Dir(path))
	return &SpaceError{Path: path, Needed: needed, Available: avail}
}

// NamesFile reports whether an error is one of the system about a file, or of a full disk: those begin with the file.
func NamesFile(err error) bool {
	return errors.Is(err, ErrNoSpace) || errors.As(err, new(*fs.PathError))
}

// fault is Full for a write of the output that lacked so many bytes. Where the size of the output is known, its rest counts.
func (f *File) fault(err error, needed uint64) error {
	if pos, e := f.Seek(0, io.SeekCurrent); e == nil && uint64(pos) < f.size {
		needed = max(needed, f.size-uint64(pos))
	}
	return Full(f.final(err), f.path, needed)
}
