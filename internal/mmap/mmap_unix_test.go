//go:build unix

package mmap

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A failure to map names the file and says what to do.
func TestOutOfMemory(t *testing.T) {
	path, _ := file(t, 10)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// More than any address space has.
	_, err = newMapping(f, 0, 1<<62, 1<<62, false)
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	if errors.Is(err, unix.ENOMEM) && !(strings.Contains(err.Error(), "vm.max_map_count") && strings.Contains(err.Error(), "ulimit -v")) {
		t.Error(err)
	}
	if hint := mapHint(os.NewSyscallError("mmap", unix.ENOMEM)); !strings.Contains(hint, "vm.max_map_count") {
		t.Error(hint)
	}
	if hint := mapHint(unix.EACCES); hint != "" {
		t.Error(hint)
	}
}
