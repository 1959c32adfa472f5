//go:build unix

package mmap

import (
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
	if _, err := newMapping(f, 0, 1<<62, false); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	if hint := mapHint(os.NewSyscallError("mmap", unix.ENOMEM)); !strings.Contains(hint, "vm.max_map_count") {
		t.Error(hint)
	}
	if hint := mapHint(unix.EACCES); hint != "" {
		t.Error(hint)
	}
}
