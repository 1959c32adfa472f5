//go:build unix

package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

// A folder that may be written but not listed takes outputs: one, and a set in the place of another.
func TestUnlistedFolder(t *testing.T) {
	dir := t.TempDir()
	old := oldSet(t, dir, "a", "b")
	if err := os.Chmod(dir, 0o333); err != nil {
		t.Fatal(err)
	}
	f := create(t, filepath.Join(dir, "c"))
	f.WriteString("new")
	s := fileSet(t, dir, "a", "b")
	one, both := f.Commit(), s.Commit()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, dir); one != nil || both != nil || got != "a: new, b: new, c: new" {
		t.Errorf("%v, %v, %q after %q", one, both, got, old)
	}
}
