package atomicfile

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fileSet starts outputs of these names in a folder.
func fileSet(t *testing.T, dir string, list ...string) *Set {
	t.Helper()
	var outputs []Output
	for _, name := range list {
		outputs = append(outputs, Output{Path: filepath.Join(dir, name)})
	}
	s, err := CreateSet(filepath.Join(dir, "set"), outputs)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range s.Files {
		if _, err := f.WriteString("new"); err != nil {
			t.Fatal(err)
		}
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

// While a set is written no other of the name is begun. It ends with its process, and what that leaves is taken over.
func TestSetInUse(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "set")
	outputs := []Output{{Path: name + "-1"}, {Path: name + "-2"}}
	refused := func() {
		t.Helper()
		s, err := CreateSet(name, outputs)
		if !errors.Is(err, ErrInUse) || err.Error() != outputs[0].Path+": cannot be written: another run is writing these files\nhint: wait until it has ended, or choose another output name" {
			t.Errorf("%v, %v", s, err)
		}
	}
	s := fileSet(t, dir, "set-1", "set-2")
	refused()
	if err := s.Commit(); err != nil || names(t, name) != "set-1 set-2" {
		t.Errorf("%s, %v", names(t, name), err)
	}
	s.Abort()
	s = fileSet(t, dir, "set-1", "set-2")
	refused()
	s.Abort()
	fileSet(t, dir, "one").Abort() // one file needs no other to fit it
	cmd := startWriter(t, setEnv, name)
	refused()
	cmd.Process.Kill()
	cmd.Wait()
	if s, err := CreateSet(name, outputs); err != nil {
		t.Error(err)
	} else if err := s.Commit(); err != nil || names(t, name) != "set-1 set-2" {
		t.Errorf("%s, %v", names(t, name), err)
	}
}

// What stands where the lock belongs, and is none, stays.
func TestSetLockInTheWay(t *testing.T) {
	name := filepath.Join(t.TempDir(), "set")
	if err := os.WriteFile(name+".ggufkit-lock", []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := CreateSet(name, []Output{{Path: name + "-1"}, {Path: name + "-2"}})
	if err == nil || !strings.Contains(err.Error(), "set-1: cannot be written: "+name+".ggufkit-lock is in the way") || names(t, name) != "set.ggufkit-lock" {
		t.Errorf("%v, %v, %s", s, err, names(t, name))
	}
}

// Room is asked for all files of a disk together, though each would fit.
func TestSetSpace(t *testing.T) {
	dir := t.TempDir()
	room, ok := available(dir)
	if !ok {
		t.Fatal("no figure for the room on the disk")
	}
	size := room/3*2 + 1
	outputs := []Output{{filepath.Join(dir, "a"), size}, {filepath.Join(dir, "b"), size}}
	s, err := CreateSet(filepath.Join(dir, "set"), outputs)
	var space *SpaceError
	if !errors.As(err, &space) || space.Needed != 2*size || space.Files != 2 || !strings.Contains(err.Error(), "bytes needed for 2 files, ") || names(t, outputs[0].Path) != "" {
		t.Errorf("%v, %v, %s", s, err, names(t, outputs[0].Path))
	}
	outputs[0].Bytes = math.MaxUint64
	if s, err := CreateSet(filepath.Join(dir, "set"), outputs); !errors.As(err, &space) {
		t.Errorf("%v, %v", s, err)
	}
}
