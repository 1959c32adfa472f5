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
