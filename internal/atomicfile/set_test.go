package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

// fileSet starts outputs of these names in a new folder.
func fileSet(t *testing.T, dir string, list ...string) Set {
	t.Helper()
	var s Set
	for _, name := range list {
		f := create(t, filepath.Join(dir, name))
		if _, err := f.WriteString("new"); err != nil {
			t.Fatal(err)
		}
		s = append(s, f)
	}
	return s
}

func TestSet(t *testing.T) {
	dir := t.TempDir()
	first := filepath.Join(dir, "a")
	if err := os.WriteFile(first, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	s := fileSet(t, dir, "a", "b", "c")
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	s.Abort()
	if b, err := os.ReadFile(first); names(t, first) != "a b c" || err != nil || string(b) != "new" {
		t.Errorf("%s, %q, %v", names(t, first), b, err)
	}
}

// A name that one of the outputs cannot take leaves none of them behind.
func TestSetAllOrNothing(t *testing.T) {
	for _, folder := range []string{"a", "b", "c"} {
		dir := t.TempDir()
		s := fileSet(t, dir, "a", "b", "c")
		path := filepath.Join(dir, folder)
		if err := os.Mkdir(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(); err == nil {
			t.Error("a folder was replaced")
		}
		if names(t, path) != folder {
			t.Errorf("left behind: %s", names(t, path))
		}
	}
}
