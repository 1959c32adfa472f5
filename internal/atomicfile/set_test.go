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
	s, err := CreateSet(filepath.Join(dir, "set"), outputs, nil)
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
		s, err := CreateSet(name, outputs, nil)
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
	if s, err := CreateSet(name, outputs, nil); err != nil {
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
	s, err := CreateSet(name, []Output{{Path: name + "-1"}, {Path: name + "-2"}}, nil)
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
	s, err := CreateSet(filepath.Join(dir, "set"), outputs, nil)
	var space *SpaceError
	if !errors.As(err, &space) || space.Needed != 2*size || space.Files != 2 || !strings.Contains(err.Error(), "bytes needed for 2 files, ") || names(t, outputs[0].Path) != "" {
		t.Errorf("%v, %v, %s", s, err, names(t, outputs[0].Path))
	}
	outputs[0].Bytes = math.MaxUint64
	if s, err := CreateSet(filepath.Join(dir, "set"), outputs, nil); !errors.As(err, &space) {
		t.Errorf("%v, %v", s, err)
	}
}

// oldSet writes outputs of an earlier run, and gives what they hold.
func oldSet(t *testing.T, dir string, list ...string) string {
	t.Helper()
	for _, name := range list {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("old "+name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return contents(t, dir)
}

// contents lists the files of a folder with what they hold.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var list []string
	for _, name := range strings.Fields(names(t, filepath.Join(dir, "x"))) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			b = []byte("a folder")
		}
		list = append(list, name+": "+string(b))
	}
	return strings.Join(list, ", ")
}

// An output that cannot get its name leaves the set of an earlier run as it was, whichever of them it is.
func TestSetKeepsOld(t *testing.T) {
	for _, broken := range []int{0, 1, 2} {
		for _, old := range [][]string{{"a", "b", "c"}, {"a", "b"}, {"a", "c"}, {"b", "c"}, {"a"}, nil} {
			dir := t.TempDir()
			want := oldSet(t, dir, old...)
			s := fileSet(t, dir, "a", "b", "c")
			if err := os.Remove(s.Files[broken].Name()); err != nil {
				t.Fatal(err)
			}
			err := s.Commit()
			if err == nil || !strings.Contains(err.Error(), s.Files[broken].Path()) || strings.Contains(err.Error(), ".tmp") || !strings.Contains(err.Error(), "\nhint: ") {
				t.Error(err)
			}
			if got := contents(t, dir); got != want {
				t.Errorf("output %d, old %v: %q, want %q", broken, old, got, want)
			}
		}
	}
}

// What cannot have two names is moved, and moved back: here links that have come to be in the places of outputs.
func TestSetKeepsMoved(t *testing.T) {
	for _, broken := range []string{"a", "b", "c", ""} {
		dir := t.TempDir()
		s := fileSet(t, dir, "a", "b", "c")
		for _, f := range s.Files {
			if err := os.Symlink("to-"+filepath.Base(f.Path()), f.Path()); err != nil {
				t.Fatal(err)
			}
			if filepath.Base(f.Path()) == broken {
				os.Remove(f.Name())
			}
		}
		err := s.Commit()
		if (err == nil) != (broken == "") || names(t, filepath.Join(dir, "a")) != "a b c" {
			t.Errorf("%q: %v, %s", broken, err, names(t, filepath.Join(dir, "a")))
		}
		for _, name := range []string{"a", "b", "c"} {
			to, _ := os.Readlink(filepath.Join(dir, name))
			if want := "to-" + name; (broken != "") != (to == want) {
				t.Errorf("%q: %s leads to %q", broken, name, to)
			}
		}
	}
}

// A folder in the place of an output, or of a temporary file, stays, and so do the old files.
func TestSetKeepsFolders(t *testing.T) {
	for i := range 3 {
		dir := t.TempDir()
		oldSet(t, dir, "a", "b", "c")
		s := fileSet(t, dir, "a", "b", "c")
		temp := s.Files[i].Name()
		if err := errors.Join(os.Remove(temp), os.Mkdir(temp, 0o777)); err != nil {
			t.Fatal(err)
		}
		want := "a: old a, b: old b, c: old c"
		if err := s.Commit(); err == nil {
			t.Error("a folder became an output")
		}
		if st, err := os.Stat(temp); err != nil || !st.IsDir() {
			t.Error("the folder is gone", err)
		}
		os.Remove(temp)
		if got := contents(t, dir); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		path := s.Files[i].Path()
		s = fileSet(t, dir, "a", "b", "c")
		if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o777)); err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		want = strings.Replace(want, name+": old "+name, name+": a folder", 1)
		if err := s.Commit(); err == nil || !strings.Contains(err.Error(), path) {
			t.Error(err)
		}
		if got := contents(t, dir); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What a killed run has kept is removed by the next set of those names that is complete, unless it is an input, and by nothing else.
func TestSetKeptLeftovers(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	oldSet(t, dir, "a.12-0123abcd.old", "a.12-0123abcd.tmp", "b.12-0123abcd.old", "b.13-0123abcd.old", "c.12-0123abcd.old", "a.old")
	create(t, at("a")).Abort()
	fileSet(t, dir, "a", "b").Abort()
	if got, want := names(t, at("a")), "a.12-0123abcd.old a.old b.12-0123abcd.old b.13-0123abcd.old c.12-0123abcd.old"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s, err := CreateSet(at("set"), []Output{{Path: at("a")}, {Path: dir + "/./b"}}, func(string) bool { return true }, at("b.13-0123abcd.old"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, at("a")), "a a.old b b.13-0123abcd.old c.12-0123abcd.old"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A run that is killed while its outputs get their names, after any of the steps, has lost nothing of an older set, and what it has kept of that stays until
// a later run of the same names is complete; one that fails, or of other names, leaves it.
func TestSetKilledDuringCommit(t *testing.T) {
	for steps := range 8 {
		dir := t.TempDir()
		oldSet(t, dir, "a", "b", "c")
		s := fileSet(t, dir, "a", "b", "c")
		var list []swap
		for _, f := range s.Files {
			list = append(list, swap{File: f})
		}
		todo := []func() error{list[0].keep, list[1].keep, list[2].keep, list[0].clear, list[2].place, list[1].place, list[0].place}
		for _, step := range todo[:steps] {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		s.lock.f.Close() // the system does that for one that is killed, and nothing else
		for _, f := range s.Files {
			f.File.Close()
		}
		fileSet(t, dir, "a", "b", "c").Abort()
		if err := fileSet(t, dir, "d", "e").Commit(); err != nil {
			t.Fatal(err)
		}
		got := contents(t, dir)
		for _, old := range []string{": old a", ": old b", ": old c"} {
			if !strings.Contains(got, old) {
				t.Errorf("killed after %d steps: %q, without %q", steps, got, old)
			}
		}
		if err := fileSet(t, dir, "a", "b", "c").Commit(); err != nil {
			t.Fatal(err)
		}
		if got, want := contents(t, dir), "a: new, b: new, c: new, d: new, e: new"; got != want {
			t.Errorf("killed after %d steps: %q in the end, want %q", steps, got, want)
		}
	}
}

// A check says what Create would, beside a run that writes the same outputs, and leaves no trace.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	oldSet(t, dir, "a", "a.99999999-0123abcd.tmp", "b.99999999-0123abcd.old", "set.99999999-0123abcd.tmp")
	before := names(t, a)
	if err := Check([]string{a, b}, filepath.Join(dir, "in")); err != nil || names(t, a) != before {
		t.Errorf("%v, %s", err, names(t, a))
	}
	s := fileSet(t, dir, "a", "b")
	defer s.Abort()
	if err := Check([]string{a, b}); err != nil {
		t.Error(err)
	}
	for _, paths := range [][]string{{b, a}, {dir}, {filepath.Join(dir, "none", "out")}, {filepath.Join(a, "out")}} {
		err := Check(paths, a)
		_, want := Create(paths[len(paths)-1], a)
		if err == nil || err.Error() != want.Error() {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// A lock that may not be opened is named; where there is none the folder is what may not be written.
func TestSetLockOfAnother(t *testing.T) {
	name := filepath.Join(t.TempDir(), "set")
	lock := name + ".ggufkit-lock"
	if err := notOurs("out", lock, os.ErrPermission); !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "hint: choose an output in a folder that may be written; "+filepath.Dir(lock)) {
		t.Error(err)
	}
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := notOurs("out", lock, os.ErrPermission); !errors.Is(err, os.ErrPermission) || !strings.HasPrefix(err.Error(), "out: cannot be written: the lock "+lock+" is another user's: ") || !strings.Contains(err.Error(), "\nhint: wait until") {
		t.Error(err)
	}
}
