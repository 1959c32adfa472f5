//go:build unix

package mmap

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

// sink keeps reads from being left out.
var sink byte

// A file that is cut while it is mapped is an error that names it and says what to do, wherever the bytes are read.
func TestGuard(t *testing.T) {
	const size = 1 << 20
	for _, c := range []struct {
		name string
		read func(b []byte)
	}{
		{"a byte", func(b []byte) { sink = b[len(b)-1] }},
		{"a copy", func(b []byte) { copy(make([]byte, len(b)), b) }},
		{"a count", func(b []byte) { sink = byte(bytes.Count(b, []byte{7})) }},
	} {
		path, _ := file(t, size)
		other, _ := file(t, size)
		m, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		intact, err := Open(other)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 5000); err != nil {
			t.Fatal(err)
		}
		err = Guard(func() error {
			c.read(intact.Bytes())
			c.read(m.Bytes())
			return nil
		})
		var fault *FaultError
		if !errors.As(err, &fault) || fault.Path != path || fault.Offset < 5000 || fault.Offset >= size {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, part := range []string{path + ": the file changed while it was read", "5000 bytes", "1048576", "\nhint: "} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", c.name, err, part)
			}
		}
		if strings.Contains(err.Error(), other) {
			t.Errorf("%s: the other file is blamed: %v", c.name, err)
		}
		if err := errors.Join(m.Close(), intact.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A part of a file tells offsets in the file; a file that is whole again is not said to be short.
func TestGuardOfPart(t *testing.T) {
	path, data := file(t, 1<<20)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := Map(f, 500_001, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	err = Guard(func() error {
		defer func() {
			if err := os.WriteFile(path, data, 0o666); err != nil {
				t.Error(err)
			}
		}()
		sink = m.Bytes()[99]
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "byte 500100 ") || strings.Contains(err.Error(), "1048576") {
		t.Error(err)
	}
}

// What is no fault of a mapping passes.
func TestGuardPasses(t *testing.T) {
	want := errors.New("another error")
	if err := Guard(func() error { return want }); err != want {
		t.Error(err)
	}
	if err := Guard(func() error { return nil }); err != nil {
		t.Error(err)
	}
	for name, f := range map[string]func(){
		"a panic of ours": func() { panic("mine") },
		"a nil pointer":   func() { sink = *(*byte)(nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not pass", name)
				}
			}()
			t.Error(name, Guard(func() error { f(); return nil }))
		}()
	}
}

// Deferred calls that close the mapping while the fault's panic passes do not hide whose it is.
func TestGuardOfClosed(t *testing.T) {
	path, _ := file(t, 1<<20)
	err := Guard(func() error {
		m, err := Open(path)
		if err != nil {
			return err
		}
		defer m.Close()
		if err := os.Truncate(path, 5000); err != nil {
			return err
		}
		sink = m.Bytes()[1<<20-1]
		return nil
	})
	var fault *FaultError
	if !errors.As(err, &fault) || fault.Path != path {
		t.Fatal(err)
	}
	if open.closed != nil || open.guards != 0 {
		t.Errorf("%d places, %d guards are left", len(open.closed), open.guards)
	}
}
