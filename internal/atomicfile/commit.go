package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Commit gives all files their names, the first one last. The files of those names are kept beside them until then: after an error they are there again, and
// nothing of the outputs is left. Whoever is stopped in between leaves no first file, not even the older one: it would stand for parts of two models.
// All data is on the disk before the first name changes, so the time in between is that of a few system calls.
func (s *Set) Commit() error {
	defer s.Abort()
	if len(s.Files) == 1 {
		return s.Files[0].Commit()
	}
	for _, f := range s.Files {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	list := make([]swap, len(s.Files))
	for i, f := range s.Files {
		list[i].File = f
	}
	if err := replace(list); err != nil {
		return restore(list, err)
	}
	for _, w := range list {
		if w.kept != "" {
			os.Remove(w.kept)
		}
	}
	for _, path := range s.kept {
		os.Remove(path)
	}
	return nil
}

// swap is an output that takes the place of an older file.
type swap struct {
	*File
	kept   string // temporary name of the older file, "" where there is none
	linked bool   // it has that name already
	gone   bool   // it has lost its own
	placed bool   // the output has it
}

// replace puts the outputs in place.
func replace(list []swap) error {
	for i := range list {
		if err := list[i].keep(); err != nil {
			return list[i].unplaced(err)
		}
	}
	if err := list[0].clear(); err != nil {
		return list[0].unplaced(err)
	}
	for i := len(list) - 1; i >= 0; i-- {
		if err := list[i].place(); err != nil {
			return list[i].unplaced(err)
		}
	}
	return syncAll(list)
}

// syncAll syncs the folders of the outputs, each once.
func syncAll(list []swap) error {
	seen := map[string]bool{}
	for _, w := range list {
		dir := filepath.Dir(w.path)
		if seen[dir] {
			continue
		}
		seen[dir] = true
		if err := SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// keep gives the older file a second name, where the file system can: then it is replaced in one step.
func (w *swap) keep() error {
	st, err := os.Lstat(w.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.IsDir():
		return &fs.PathError{Op: "rename", Path: w.path, Err: syscall.EISDIR}
	}
	w.kept = newName(w.path, "old")
	w.linked = st.Mode().IsRegular() && owned(st) && os.Link(w.path, w.kept) == nil
	return nil
}

// clear takes the older file's name from it.
func (w *swap) clear() (err error) {
	switch {
	case w.kept == "":
		return nil
	case w.linked:
		err = os.Remove(w.path)
	default:
		err = os.Rename(w.path, w.kept)
	}
	w.gone = err == nil
	return err
}

// place gives the output its name.
func (w *swap) place() error {
	if !w.linked && !w.gone {
		if err := w.clear(); err != nil {
			return err
		}
	}
	err := w.rename()
	w.placed = err == nil
	return err
}

// restore undoes what replace has done before it failed with cause. The first file comes last here too: while it is away nothing passes for a whole set. If
// an older file cannot get its name back, the first one stays away, and the error tells where they are.
func restore(list []swap, cause error) error {
	first := &list[0]
	if first.placed {
		if err := os.Remove(first.path); err != nil {
			return cause // all outputs are in place
		}
		first.placed, first.gone = false, first.kept != ""
	}
	var lost []string
	for i := len(list) - 1; i >= 0; i-- {
		w := &list[i]
		if i == 0 && len(lost) > 0 && w.gone || w.back() != nil {
			lost = append(lost, w.where())
		}
	}
	_ = syncAll(list) // cause is what matters
	if len(lost) > 0 {
		return fmt.Errorf("%w\nhint: what was there before could not be put back: %s", cause, strings.Join(lost, ", "))
	}
	return cause
}

// where says what is to be done by hand if back has failed.
func (w *swap) where() string {
	if w.kept == "" {
		return "delete " + w.path
	}
	return fmt.Sprintf("rename %s to %s", w.kept, w.path)
}

// back gives the older file its name back, and takes away the output.
func (w *swap) back() error {
	switch {
	case w.kept == "" && w.placed:
		return os.Remove(w.path)
	case w.kept == "" || !w.linked && !w.gone:
		return nil
	case !w.gone && !w.placed:
		return os.Remove(w.kept)
	}
	return os.Rename(w.kept, w.path)
}
