//go:build unix

package gguf

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ggufkit/ggufkit/internal/mmap"
)

// TestCopyOfCutFile: what copies the weights of a file that was cut since it was opened fails and names it. It takes no short copy for a whole one.
func TestCopyOfCutFile(t *testing.T) {
	f := fiveTensors(t, false)
	parts, err := Split(f.Meta, slices.Clone(f.Tensors), PartLimits{Tensors: 2})
	if err != nil {
		t.Fatal(err)
	}
	for name, copyOf := range map[string]func(f *File, r *Reader) error{
		"joined": func(f *File, _ *Reader) error {
			_, err := f.WriteTo(io.Discard)
			return err
		},
		"split anew": func(f *File, _ *Reader) error {
			parts, err := Split(f.Meta, slices.Clone(f.Tensors), PartLimits{Tensors: 3})
			if err != nil {
				return err
			}
			return errors.Join(f.WritePart(io.Discard, parts[0]), f.WritePart(io.Discard, parts[1]))
		},
		"read again": func(f *File, r *Reader) error {
			_, err = io.Copy(io.Discard, io.NewSectionReader(r, 0, int64(f.Size)))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			paths := writeParts(t, f, filepath.Join(t.TempDir(), "m.gguf"), parts)
			whole, err := OpenModel(paths[0])
			if err != nil {
				t.Fatal(err)
			}
			defer whole.Close()
			st, err := os.Stat(paths[1])
			if err != nil {
				t.Fatal(err)
			}
			r, err := whole.Reopen()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if err := os.Truncate(paths[1], st.Size()-40); err != nil {
				t.Fatal(err)
			}
			var fault *mmap.FaultError
			if err := copyOf(whole, r); !errors.As(err, &fault) || fault.Path != paths[1] {
				t.Errorf("%v, want a fault in %s", err, paths[1])
			}
		})
	}
}
