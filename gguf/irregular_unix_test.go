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

// Pipes and devices are refused at once: opening a pipe would wait for a writer.
func TestIrregular(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	change := func(*Meta) error { return nil }
	for _, path := range []string{pipe, os.DevNull} {
		_, err := Open(path)
		_, inPlace := Edit(path, "", change)
		_, copied := Edit(path, filepath.Join(t.TempDir(), "out"), change)
		for _, err := range []error{err, inPlace, copied} {
			if !errors.Is(err, ErrMagic) || !strings.Contains(err.Error(), path+": not a GGUF file: not a regular file\nhint: ") {
				t.Error(err)
			}
		}
	}
}

// What lies where a journal would, and is none, is neither read nor written.
func TestIrregularJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.gguf")
	if err := os.WriteFile(path, writeBytes(t, NewMeta(), nil), 0o666); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for what, make := range map[string]func(string) error{
		"pipe": func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"link": func(p string) error { return os.Symlink(other, p) },
	} {
		if err := make(journalPath(path)); err != nil {
			t.Fatal(err)
		}
		_, open := Open(path)
		_, edit := Edit(path, "", func(m *Meta) error { m.Set("a", New(true)); return nil })
		for _, err := range []error{open, edit} {
			if !errors.Is(err, ErrJournal) || !strings.Contains(err.Error(), "hint: delete "+journalPath(path)) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := os.Remove(journalPath(path)); err != nil {
			t.Error(what, err)
		}
	}
	if st, err := os.Stat(other); err != nil || st.Size() != 0 {
		t.Error("what the link points to was changed", err)
	}
}
