// Package atomicfile writes files that appear whole under their final name or not at all.
//
// An output is written to a temporary file beside its final name ("model.gguf.4711-0a1b2c3d.tmp") and renamed at the
// end. The writer holds a lock on the temporary file; one without a holder was left by a killed run and is removed when
// the same output is started again. Files that a Set replaces are kept beside it until it is whole ("model.gguf.4711-0a1b2c3d.old").
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
)

// ErrIsInput means that an output would replace one of the files it is made from.
var ErrIsInput = errors.New("output is one of the inputs")

// File is an output in the making: a temporary file beside the final name.
type File struct {
	*os.File
	path string // final name, links resolved
	size uint64 // of the whole output, 0 while unknown
	done bool
}

// Create starts an output for path. It refuses a path that is one of the inputs, also through a link or another spelling.
// Leftovers of killed runs for the same path are removed. A path that is a symbolic link stays one: the file it points
// to is replaced. The new file gets the mode of the file it replaces, else the usual one (0666 less the umask).
func Create(path string, inputs ...string) (*File, error) {
	final, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	removeLeftovers(final)
	return start(path, final, statAll(inputs))
}

// Check reports what Create refuses about these outputs, as far as can be told when nothing is written or locked.
func Check(paths []string, inputs ...string) error {
	in := statAll(inputs)
	for _, path := range paths {
		final, err := Resolve(path)
		if err == nil {
			_, err = replaced(path, final, in)
		}
		if err != nil {
			return err
		}
		if err := writable(filepath.Dir(final)); err != nil {
			return cannotCreate(path, filepath.Dir(final), err)
		}
	}
	return nil
}

// input is a file that no output may replace.
type input struct {
	path string
	info fs.FileInfo
}

// statAll looks up the inputs that are there.
func statAll(paths []string) (list []input) {
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil {
			list = append(list, input{p, st})
		}
	}
	return list
}

// start is Create for an output whose path is resolved to final.
func start(path, final string, inputs []input) (*File, error) {
	old, err := replaced(path, final, inputs)
	if err != nil {
		return nil, err
	}
	f, err := createTemp(final)
	if err != nil {
		return nil, cannotCreate(path, filepath.Dir(final), err)
	}
	out := &File{File: f, path: final}
	if old != nil {
		if err := keepOwner(f, old); err != nil {
			out.Abort()
			return nil, err
		}
	}
	return out, nil
}

// replaced is the file that an output replaces, nil where there is none. It refuses what is no file or an input.
func replaced(path, final string, inputs []input) (fs.FileInfo, error) {
	old, err := os.Stat(final)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, cannotCreate(path, filepath.Dir(final), err)
	case old.IsDir():
		return nil, fmt.Errorf("%s: cannot be written: it is a folder\nhint: name a file in it", path)
	case !old.Mode().IsRegular():
		return nil, fmt.Errorf("%s: cannot be written: it is a %s, not a regular file\nhint: write to a file, and copy that", path, kind(old.Mode()))
	}
	for _, in := range inputs {
		if os.SameFile(in.info, old) {
			return nil, fmt.Errorf("%s: %w (%s)\nhint: choose another output name", path, ErrIsInput, in.path)
		}
	}
	return old, nil
}

// cannotCreate tells of the output and its folder, not of the temporary file.
func cannotCreate(path, dir string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint = "\nhint: make the folder " + dir + " first"
	case ReadOnly(err):
		hint = "\nhint: choose an output in a folder that may be written; " + dir + " may not"
	case TooManyOpen(err):
		hint = "\nhint: " + HintOpenFiles
	case isFull(err):
		hint = "\nhint: the disk, or this user's share of it, takes no more files ('df -i' counts them): make room there, or write to another disk"
	}
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("%s: cannot be written: %w%s", path, err, hint)
}

// HintOpenFiles is what to do about an error that TooManyOpen knows.
const HintOpenFiles = "let the session open more files at a time (ulimit -n)"

// kind names what stands where a regular file is wanted.
func kind(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// maxLinks bounds a chain of symbolic links, as systems do.
const maxLinks = 40

// Resolve follows symbolic links at the end of path, also to a target that does not exist yet.
func Resolve(path string) (string, error) {
	p := path
	for range maxLinks {
		st, err := os.Lstat(p)
		if err != nil || st.Mode()&fs.ModeSymlink == 0 {
			return p, nil // a missing file is fine here; other errors show up when the file is created
		}
		to, err := os.Readlink(p)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(p), to)
		}
		p = to
	}
	return "", fmt.Errorf("%s: more than %d symbolic links in a row", path, maxLinks)
}

// maxBase keeps temporary names under the 255 bytes that file systems allow.
const maxBase = 200

// tempBase is what temporary names for the final name start with: its base, shortened.
func tempBase(final string) string {
	base := filepath.Base(final)
	return base[:min(len(base), maxBase)]
}

// newName is a temporary name beside the final one, which no file has.
func newName(final, ending string) string {
	return filepath.Join(filepath.Dir(final), fmt.Sprintf("%s.%d-%08x.%s", tempBase(final), os.Getpid(), rand.Uint32(), ending))
}

// createTemp makes and locks a new temporary file.
func createTemp(final string) (*os.File, error) {
	const attempts = 100
	var last error
	for range attempts {
		name := newName(final, "tmp")
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			last = err
			continue
		}
		if err != nil {
			return nil, err
		}
		// Between creation and lock another run may take the file for a leftover; it holds the lock until the file is gone. Then make another.
		if TryLock(f) != ErrLocked && IsAt(f, name) {
			return f, nil
		}
		last = fmt.Errorf("%s: was taken away by another run", name)
		f.Close()
	}
	return nil, last
}

// IsAt reports whether the open file is the one that path names now.
func IsAt(f *os.File, path string) bool {
	st, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(st, now)
}

// Path is the final name, symbolic links resolved.
func (f *File) Path() string { return f.path }

// Write writes to the temporary file. A full disk gives a *SpaceError.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if err != nil {
		err = f.fault(err, uint64(len(p)-n))
	}
	return n, err
}

// WriteAt writes to the temporary file. A full disk gives a *SpaceError.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	return n, Full(f.final(err), f.path, uint64(len(p)-n))
}

// final names the output in an error of the temporary file.
func (f *File) final(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return &fs.PathError{Op: path.Op, Path: f.path, Err: path.Err}
	case errors.As(err, &link):
		return &fs.PathError{Op: link.Op, Path: f.path, Err: link.Err}
	}
	return err
}

// WriteString writes to the temporary file. A full disk gives a *SpaceError.
func (f *File) WriteString(s string) (int, error) { return f.Write([]byte(s)) }

// ReadFrom copies r to the temporary file. A full disk gives a *SpaceError.
func (f *File) ReadFrom(r io.Reader) (int64, error) {
	n, err := f.File.ReadFrom(r)
	return n, f.fault(err, 0)
}

// Sync brings what was written to the disk. A full one gives a *SpaceError.
func (f *File) Sync() error { return f.fault(f.File.Sync(), 0) }

// Commit syncs, renames to the final name and closes. After an error nothing of the output is left, unless only its folder could not be synced.
func (f *File) Commit() error {
	if f.done {
		return fmt.Errorf("%s: already finished", f.path)
	}
	defer f.Abort()
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.rename(); err != nil {
		return f.unplaced(err)
	}
	return SyncDir(filepath.Dir(f.path))
}

// rename gives the file its final name. It stays locked until then, so that no other run takes it for a leftover.
func (f *File) rename() error {
	if !IsAt(f.File, f.Name()) {
		return &fs.PathError{Op: "rename", Path: f.path, Err: syscall.ENOENT}
	}
	if closedToRename {
		if err := f.Close(); err != nil {
			return err
		}
	}
	if err := os.Rename(f.Name(), f.path); err != nil {
		return err
	}
	f.done = true
	f.Close() // everything was synced
	return nil
}

// unplaced is an error of rename, or of the older file that is in its way, with what to do.
func (f *File) unplaced(err error) error {
	err = Full(f.final(err), f.path, 0)
	hint := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint = "its temporary file or its folder was taken away during the run: run the command again"
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.EISDIR):
		hint = "a folder is in its place: delete that, or choose another output name"
	case ReadOnly(err):
		hint = "the file that is there, or its folder, may not be changed by this user: choose another output name"
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w\nhint: %s", err, hint)
}

// Abort closes and removes the temporary file. After Commit it does nothing, so it can be deferred.
func (f *File) Abort() {
	if f.done {
		return
	}
	f.done = true
	remove(f.File, f.Name())
}

// remove deletes the file at path and closes it, in this order, so that its lock ends last. What else has come to be at path stays.
func remove(f *os.File, path string) {
	if _, err := f.Stat(); err == nil && !IsAt(f, path) {
		f.Close()
		return
	}
	removed := os.Remove(path) == nil
	f.Close()
	if !removed {
		os.Remove(path) // Windows removes closed files only
	}
}
