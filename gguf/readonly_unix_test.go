//go:build unix

package gguf

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A file that may not be written is named, with a way out.
func TestEditReadOnly(t *testing.T) {
	for _, cause := range []error{syscall.EACCES, syscall.EROFS} {
		err := unwritable("x.gguf", &os.PathError{Op: "open", Path: "x.gguf", Err: cause})
		if !errors.Is(err, cause) || err.Error() != "x.gguf: "+cause.Error()+"\nhint: -o OUT writes a changed copy elsewhere" {
			t.Error(err)
		}
	}
	path := filepath.Join(t.TempDir(), "none.gguf")
	if _, err := Edit(path, "", setKey("x", New(true))); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), path+": no such file or directory\nhint: check the name") {
		t.Error(err)
	}
}
