//go:build unix

package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A disk that fills up while writing gives the same kind of error.
func TestFull(t *testing.T) {
	f := create(t, filepath.Join(t.TempDir(), "out"))
	defer f.Abort()
	for _, cause := range []error{unix.ENOSPC, unix.EDQUOT} {
		err := f.fault(&os.PathError{Op: "write", Path: f.Name(), Err: cause}, 77)
		var space *SpaceError
		if !errors.Is(err, ErrNoSpace) || !errors.As(err, &space) || space.Needed != 77 || !strings.Contains(err.Error(), "disk full: 77 bytes needed") {
			t.Error(err)
		}
	}
	// With the size of the output known, the rest of it is what is needed.
	if err := f.Preallocate(1000); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("12345678"); err != nil {
		t.Fatal(err)
	}
	if err := f.fault(unix.ENOSPC, 77); !strings.Contains(err.Error(), "disk full: 992 bytes needed") {
		t.Error(err)
	}
	if err := f.fault(unix.EIO, 1); !errors.Is(err, unix.EIO) {
		t.Error(err)
	}
}

// What the system refuses comes with what to do about it, and stays what it is.
func TestHints(t *testing.T) {
	f := create(t, filepath.Join(t.TempDir(), "out"))
	defer f.Abort()
	large := &os.PathError{Op: "write", Path: f.Name(), Err: unix.EFBIG}
	if err := f.fault(large, 1); !errors.Is(err, unix.EFBIG) || !strings.Contains(err.Error(), "out: file too large\nhint: ") || strings.Count(err.Error(), "hint: ") != 1 {
		t.Error(err)
	}
	for cause, want := range map[error]string{
		unix.EROFS:  "x/out: cannot be written: read-only file system\nhint: choose an output in a folder that may be written; x may not",
		unix.EACCES: "x/out: cannot be written: permission denied\nhint: choose an output in a folder that may be written; x may not",
		unix.EMFILE: "x/out: cannot be written: too many open files\nhint: let the session open more files at a time (ulimit -n)",
		unix.ENOSPC: "x/out: cannot be written: no space left on device\nhint: the disk, or this user's share of it, takes no more files ('df -i' counts them): make room there, or write to another disk",
		unix.EIO:    "x/out: cannot be written: input/output error",
	} {
		err := cannotCreate("x/out", "x", &os.PathError{Op: "open", Path: "x/out.1.tmp", Err: cause})
		if !errors.Is(err, cause) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
