package mmap

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// file makes a file of n counted bytes.
func file(t *testing.T, n int) (string, []byte) {
	t.Helper()
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return path, b
}

func TestOpen(t *testing.T) {
	for _, n := range []int{0, 1, 4095, 4096, 4097, 200_000} {
		path, want := file(t, n)
		for name, open := range map[string]func(string) (*Mapping, error){"shared": Open, "private": OpenPrivate} {
			m, err := open(path)
			if err != nil {
				t.Fatal(n, name, err)
			}
			if b := m.Bytes(); !bytes.Equal(b, want) || cap(b) != len(b) {
				t.Errorf("%d bytes, %s: %d bytes with capacity %d", n, name, len(b), cap(b))
			}
			for a := Sequential; a <= DontNeed; a++ {
				if err := m.Advise(0, n, a); err != nil {
					t.Errorf("%d bytes, %s: advice %d: %v", n, name, a, err)
				}
			}
			if !bytes.Equal(m.Bytes(), want) {
				t.Errorf("%d bytes, %s: advice changed the bytes", n, name)
			}
			for range 2 {
				if err := m.Close(); err != nil || m.Bytes() != nil {
					t.Error(n, name, err)
				}
			}
		}
	}
}

// Writes to a private mapping stay in memory.
func TestPrivate(t *testing.T) {
	path, want := file(t, 10_000)
	m, err := OpenPrivate(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	clear(m.Bytes())
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Error("the file has changed", err)
	}
}

// Any range of a file can be mapped, not only whole pages.
func TestMap(t *testing.T) {
	path, want := file(t, 300_000)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2]int64{{0, 1}, {1, 4096}, {4095, 2}, {4096, 4096}, {65_537, 100_000}, {299_999, 1}, {300_000, 0}, {5, 0}} {
		m, err := Map(f, r[0], r[1])
		if err != nil {
			t.Fatal(r, err)
		}
		if !bytes.Equal(m.Bytes(), want[r[0]:r[0]+r[1]]) {
			t.Errorf("%v: other bytes", r)
		}
		if err := m.Advise(0, int(r[1]), WillNeed); err != nil {
			t.Error(r, err)
		}
		if err := m.Advise(int(r[1]/2), int(r[1]-r[1]/2), DontNeed); err != nil {
			t.Error(r, err)
		}
		if err := m.Advise(1, int(r[1]), Random); err == nil {
			t.Errorf("%v: advice beyond the end is taken", r)
		}
		if !bytes.Equal(m.Bytes(), want[r[0]:r[0]+r[1]]) {
			t.Errorf("%v: other bytes after advice", r)
		}
		m.Close()
	}
	for _, r := range [][2]int64{{0, 300_001}, {300_001, 0}, {-1, 5}, {5, -1}, {1, 1<<63 - 1}} {
		if m, err := Map(f, r[0], r[1]); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%v: %v %v", r, m, err)
		}
	}
	m, err := Map(f, 10, 10)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if !bytes.Equal(m.Bytes(), want[10:20]) {
		t.Error("the mapping does not outlive the file")
	}
	m.Close()
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Error(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), dir+": cannot be mapped: not a regular file") {
		t.Error(err)
	}
}
