package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Set is several outputs that appear together, the first one last: whoever opens that finds the others.
type Set struct {
	Files []*File
	lock  *setLock
	kept  []string // older files of these names that killed runs have left
}

// Output is a file of a Set.
type Output struct {
	Path  string
	Bytes uint64 // of the whole file, 0 while unknown
}

// CreateSet starts outputs, each as Create does, with room for all of them. Of two runs that write the outputs called name, the later one is refused: the
// names of their files would be given in turns, and what stands in the end could be some of each. What killed runs have left of these outputs is removed from
// the folder of name, and of others whose base names related reports; it sees the first 200 bytes of them. Older files that such runs have kept stay until
// Commit: they may be all that there is of them.
func CreateSet(name string, outputs []Output, related func(base string) bool, inputs ...string) (*Set, error) {
	if len(outputs) == 1 {
		f, err := Create(outputs[0].Path, inputs...)
		if err != nil {
			return nil, err
		}
		return (&Set{Files: []*File{f}}).preallocate(outputs)
	}
	lock, err := lockSet(name, outputs[0].Path)
	if err != nil {
		return nil, err
	}
	s := &Set{lock: lock}
	finals, err := resolveAll(outputs)
	if err != nil {
		s.Abort()
		return nil, err
	}
	in := statAll(inputs)
	s.kept = removeSetLeftovers(filepath.Dir(name), finals, related, in)
	for i, o := range outputs {
		f, err := start(o.Path, finals[i], in)
		if err != nil {
			s.Abort()
			return nil, err
		}
		s.Files = append(s.Files, f)
	}
	return s.preallocate(outputs)
}

// resolveAll gives the final names of outputs.
func resolveAll(outputs []Output) ([]string, error) {
	finals := make([]string, len(outputs))
	for i, o := range outputs {
		var err error
		if finals[i], err = Resolve(o.Path); err != nil {
			return nil, err
		}
	}
	return finals, nil
}

// preallocate is Preallocate for all outputs. What each folder must hold is known before anything is reserved, so that the error tells all that is missing.
func (s *Set) preallocate(outputs []Output) (*Set, error) {
	if err := s.reserve(outputs); err != nil {
		s.Abort()
		return nil, err
	}
	return s, nil
}

func (s *Set) reserve(outputs []Output) error {
	total, files := map[string]uint64{}, map[string]int{}
	for i, f := range s.Files {
		dir := filepath.Dir(f.path)
		total[dir] += outputs[i].Bytes
		files[dir]++
	}
	for _, f := range s.Files {
		dir := filepath.Dir(f.path)
		if avail, ok := available(dir); ok && avail < total[dir] {
			return &SpaceError{Path: f.path, Files: files[dir], Needed: total[dir], Available: avail}
		}
		total[dir] = 0 // asked once
	}
	for i, f := range s.Files {
		if err := f.Preallocate(outputs[i].Bytes); err != nil {
			return err
		}
	}
	return nil
}

// Abort removes the temporary files. After Commit it does nothing, so it can be deferred.
func (s *Set) Abort() {
	for _, f := range s.Files {
		f.Abort()
	}
	s.lock.release()
	s.lock = nil
}

// ErrInUse means that another run is writing the same outputs.
var ErrInUse = errors.New("another run is writing these files")

// setLock is an empty file beside the outputs of a Set that its writer has locked. The lock ends with its process; the file that a killed one leaves is
// taken over by the next.
type setLock struct {
	f    *os.File
	path string
}

// lockSet locks the outputs called name, of which path is the first.
func lockSet(name, path string) (*setLock, error) {
	l := &setLock{path: name + ".ggufkit-lock"}
	for {
		if st, err := os.Lstat(l.path); err == nil && (!st.Mode().IsRegular() || st.Size() > 0) {
			return nil, fmt.Errorf("%s: cannot be written: %s is in the way, which no run has left\nhint: delete it, or choose another output name", path, l.path)
		}
		f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o666)
		if errors.Is(err, fs.ErrPermission) { // some systems refuse O_CREATE for another user's file
			other, e := openToLock(l.path)
			switch {
			case e == nil:
				f, err = other, nil
			case errors.Is(e, fs.ErrPermission):
				return nil, notOurs(path, l.path, e)
			}
		}
		if err != nil {
			return nil, cannotCreate(path, filepath.Dir(l.path), err)
		}
		// Where there are no locks, runs are not kept apart.
		locked := TryLock(f)
		if l.f = f; locked != ErrLocked && IsAt(f, l.path) {
			return l, nil
		}
		f.Close()
		if locked == ErrLocked {
			return nil, fmt.Errorf("%s: cannot be written: %w\nhint: wait until it has ended, or choose another output name", path, ErrInUse)
		}
	}
}

// notOurs is the error for a lock that this user may not open, or not look for.
func notOurs(path, lock string, err error) error {
	if _, e := os.Lstat(lock); e != nil {
		return cannotCreate(path, filepath.Dir(lock), err)
	}
	return fmt.Errorf("%s: cannot be written: the lock %s is another user's: %w\nhint: wait until that user's run has ended; if there is none, have the lock deleted, or choose another output name", path, lock, fs.ErrPermission)
}

// release lets other runs go on.
func (l *setLock) release() {
	if l == nil {
		return
	}
	ours := IsAt(l.f, l.path) // unless somebody has deleted it, and another run has made a new one
	removed := ours && os.Remove(l.path) == nil
	l.f.Close()
	if ours && !removed {
		os.Remove(l.path) // Windows removes closed files only
	}
}
