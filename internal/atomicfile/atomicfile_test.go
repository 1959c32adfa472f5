package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// names lists the folder of path.
func names(t *testing.T, path string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func create(t *testing.T, path string, inputs ...string) *File {
	t.Helper()
	f, err := Create(path, inputs...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	f := create(t, path)
	if f.Path() != path || filepath.Dir(f.Name()) != filepath.Dir(path) {
		t.Error(f.Path(), f.Name())
	}
	if _, err := f.WriteString("new"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the output is there before Commit", err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	f.Abort()
	if err := f.Commit(); err == nil {
		t.Error("a second Commit")
	}
	if b, err := os.ReadFile(path); string(b) != "new" || err != nil || names(t, path) != "out" {
		t.Errorf("%q, %v, %s", b, err, names(t, path))
	}
}

func TestAbort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	f := create(t, path)
	f.WriteString("new")
	f.Abort()
	f.Abort()
	if b, _ := os.ReadFile(path); string(b) != "old" || names(t, path) != "out" {
		t.Errorf("%q, %s", b, names(t, path))
	}
}

// An output that is an input is refused however it is spelled.
func TestIsInput(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, []byte("input"), 0o666); err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(dir, "sub")
	spellings := []string{in, dir + "/./in", dir + "/sub/../in", filepath.Join(sub, "link"), filepath.Join(sub, "link2"), filepath.Join(dir, "hard"), filepath.Join(dir, "alias", "in")}
	err := errors.Join(os.Mkdir(sub, 0o777), os.Symlink(in, spellings[3]), os.Symlink("link", spellings[4]), os.Link(in, spellings[5]), os.Symlink(dir, filepath.Join(dir, "alias")))
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range spellings {
		for _, input := range spellings {
			if f, err := Create(out, filepath.Join(dir, "none"), input); !errors.Is(err, ErrIsInput) || !strings.Contains(err.Error(), out) || !strings.Contains(err.Error(), "hint: ") {
				t.Errorf("%s from %s: %v %v", out, input, f, err)
			}
		}
	}
	if got := names(t, in); got != "alias hard in sub" {
		t.Error(got)
	}
	create(t, filepath.Join(dir, "other"), in).Abort()
}

// An output through a link replaces the file behind it, or makes it.
func TestLinks(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	target := filepath.Join(other, "target")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "second"} {
		f := create(t, link)
		f.WriteString(text)
		if err := f.Commit(); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(target); string(b) != text || err != nil || names(t, target) != "target" || names(t, link) != "link" {
			t.Errorf("%q, %v", b, err)
		}
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(loop); err == nil || !strings.Contains(err.Error(), "symbolic links") {
		t.Error(err)
	}
}

func TestMode(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	usual, err := os.Stat(plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o600, 0o644, 0o444, 0o755} {
		path := filepath.Join(dir, fmt.Sprintf("old-%o", mode))
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		if err := create(t, path).Commit(); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode() != mode {
			t.Errorf("%v became %v, %v", mode, st.Mode(), err)
		}
	}
	path := filepath.Join(dir, "new")
	if err := create(t, path).Commit(); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != usual.Mode() {
		t.Errorf("a new file has mode %v, want %v, %v", st.Mode(), usual.Mode(), err)
	}
}

func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Create(dir); err == nil || !strings.Contains(err.Error(), "it is a folder") {
		t.Error(err)
	}
	if _, err := Create("/dev/null"); err == nil || !strings.Contains(err.Error(), "it is a device") {
		t.Error(err)
	}
	lost := filepath.Join(dir, "none", "out")
	if _, err := Create(lost); !errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), ".tmp") ||
		!strings.HasPrefix(err.Error(), lost+": cannot be written: ") || !strings.Contains(err.Error(), "hint: make the folder "+filepath.Dir(lost)) {
		t.Error(err)
	}
	// What fails later names the output too.
	out := filepath.Join(dir, "out")
	f := create(t, out)
	f.File.Close()
	_, write := f.Write([]byte("x"))
	_, writeAt := f.WriteAt([]byte("x"), 0)
	for _, err := range []error{write, writeAt, f.Commit()} {
		if err == nil || strings.Contains(err.Error(), ".tmp") || !strings.Contains(err.Error(), out) {
			t.Error(err)
		}
	}
	f = create(t, out)
	if err := os.Mkdir(out, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err == nil || strings.Contains(err.Error(), ".tmp") || !strings.Contains(err.Error(), out) {
		t.Error(err)
	}
}

// Leftovers of dead writers are removed, those of living ones and other files are not.
func TestLeftovers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	living := create(t, path)
	defer living.Abort()
	keep := []string{"out.tmp", "out.12-0123abcd.tmp.bak", "out.x-0123abcd.tmp", "other.12-0123abcd.tmp", "out.12-0123abcd", "out.12-0123abcz.tmp"}
	for _, n := range append(keep, "out.12-0123abcd.tmp", "out.99999999-ffffffff.tmp") {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), n), nil, 0o444); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(filepath.Dir(path), "out.13-0123abcd.tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	second := create(t, path)
	second.Abort()
	got := " " + names(t, path) + " "
	for _, n := range append(keep, "out.13-0123abcd.tmp", filepath.Base(living.Name())) {
		if !strings.Contains(got, " "+n+" ") {
			t.Errorf("%s is gone", n)
		}
	}
	if n := len(strings.Fields(got)); n != len(keep)+2 {
		t.Error(got)
	}
	living.WriteString("living")
	if err := living.Commit(); err != nil {
		t.Error(err)
	}
}

// writeEnv and setEnv make the test binary start the output, or the set of two, that they name and wait to be killed.
const writeEnv, setEnv = "GGUFKIT_TEST_WRITE", "GGUFKIT_TEST_WRITE_SET"

func TestMain(m *testing.M) {
	var f *File
	var err error
	if path := os.Getenv(writeEnv); path != "" {
		f, err = Create(path)
	} else if path := os.Getenv(setEnv); path != "" {
		var s *Set
		if s, err = CreateSet(path, []Output{{Path: path + "-1"}, {Path: path + "-2"}}, nil); err == nil {
			f = s.Files[0]
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if f != nil {
		f.WriteString("half")
		fmt.Println("ready")
		time.Sleep(time.Hour) // not select{}, which the runtime takes for a deadlock and ends
	}
	os.Exit(m.Run())
}

// startWriter starts a process that writes to path until it is killed; env says what.
func startWriter(t *testing.T, env, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), env+"="+path)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, 6)
	if _, err := stdout.Read(ready); err != nil || string(ready) != "ready\n" {
		t.Fatalf("%q, %v", ready, err)
	}
	return cmd
}

// A killed writer leaves nothing under the final name, and the next one removes what it left.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	cmd := startWriter(t, writeEnv, path)
	create(t, path).Abort()
	left := names(t, path)
	if !strings.HasPrefix(left, "out.") {
		t.Errorf("the living writer's file is gone: %q", left)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if got := names(t, path); got != left {
		t.Errorf("%q", got)
	}
	create(t, path).Abort()
	if got := names(t, path); got != "" {
		t.Errorf("%q is left", got)
	}
}

// A long name still leaves room for what a temporary name adds.
func TestLongName(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 250))
	f := create(t, path)
	f.WriteString("x")
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestSpace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	f := create(t, path)
	defer f.Abort()
	for _, size := range []uint64{0, 1 << 16} {
		if err := f.Preallocate(size); err != nil {
			t.Error(size, err)
		}
	}
	if st, err := f.Stat(); err != nil || st.Size() != 0 {
		t.Error("the file has grown", err)
	}
	for _, size := range []uint64{1 << 60, math.MaxUint64} {
		err := f.Preallocate(size)
		var space *SpaceError
		if !errors.Is(err, ErrNoSpace) || !errors.As(err, &space) || space.Needed != size || space.Available == 0 || space.Available > 1<<59 {
			t.Error(err)
		}
		if want := fmt.Sprintf("%s: disk full: %d bytes needed, %d bytes available in %s\nhint: ", path, size, space.Available, filepath.Dir(path)); !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestReadFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	f := create(t, path)
	want := bytes.Repeat([]byte("0123456789"), 1000)
	if n, err := f.ReadFrom(bytes.NewReader(want)); n != int64(len(want)) || err != nil {
		t.Error(n, err)
	}
	if n, err := f.WriteAt([]byte("X"), 5); n != 1 || err != nil {
		t.Error(n, err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	want[5] = 'X'
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Error(len(got), err)
	}
}

// Runs that begin the same output at the same time do not take each other's files, which are not locked when they come to be.
func TestBegunAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	const runs, tries = 4, 300
	errs := make(chan error, runs)
	for range runs {
		go func() {
			for range tries {
				f, err := Create(path)
				if err == nil && !IsAt(f.File, f.Name()) {
					err = errors.New("the file of a living run was removed")
				}
				if err == nil {
					err = f.Commit()
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range runs {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if names(t, path) != "out" {
		t.Error(names(t, path))
	}
}
