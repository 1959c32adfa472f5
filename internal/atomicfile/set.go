package atomicfile

import (
	"os"
	"path/filepath"
)

// Set is several outputs that appear together, the first one last: whoever opens that finds the others.
type Set []*File

// Abort removes the temporary files. After Commit it does nothing, so it can be deferred.
func (s Set) Abort() {
	for _, f := range s {
		f.Abort()
	}
}

// Commit gives all files their names, the first one last. If one cannot get it, the others lose theirs. Whoever is stopped in between leaves
// no first file, not even one of an earlier run: it would stand for parts of two models. The data is on the disk by then, so that the time
// in between is short.
func (s Set) Commit() error {
	defer s.Abort()
	for _, f := range s {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if first := s[0].Path(); len(s) > 1 {
		if st, err := os.Lstat(first); err == nil && st.Mode().IsRegular() {
			if err := os.Remove(first); err != nil {
				return err
			}
			if err := SyncDir(filepath.Dir(first)); err != nil {
				return err
			}
		}
	}
	for i := len(s) - 1; i >= 0; i-- {
		if err := s[i].Commit(); err != nil {
			for _, done := range s[i+1:] {
				os.Remove(done.Path())
			}
			return err
		}
	}
	return nil
}
