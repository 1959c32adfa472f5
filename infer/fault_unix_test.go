//go:build unix

package infer

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/mmap"
)

// A file that is cut while a model runs is an error that names the file, in every kernel and on every thread; what the sequence held before stays.
func TestCutFile(t *testing.T) {
	for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q4_K, gguf.Q6_K} {
		for _, o := range []Options{{Threads: 1}, {Threads: 3}, {Threads: 3, Precision: Exact}} {
			for _, n := range []int{1, 40} { // the kernels of a token and of a prompt
				m := quantTiny(typ)
				path := filepath.Join(t.TempDir(), "model.gguf")
				m.write(t, path)
				f, err := gguf.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				model, err := Load(f, f.Meta, o)
				if err != nil {
					t.Fatal(err)
				}
				s := newSession(t, model)
				if _, err := s.Append(m.ids(5)); err != nil {
					t.Fatal(err)
				}
				// Tables that are looked up stand first: the products meet the end.
				if err := os.Truncate(path, int64(f.DataOffset)+int64(f.Size-f.DataOffset)/2); err != nil {
					t.Fatal(err)
				}
				_, err = s.Append(m.ids(n))
				var fault *mmap.FaultError
				if !errors.As(err, &fault) || fault.Path != path {
					t.Errorf("%s, %d threads, precision %d, %d tokens: %v", typ, o.Threads, o.Precision, n, err)
				}
				if s.Len() != 5 {
					t.Errorf("the sequence holds %d positions after the fault", s.Len())
				}
				s.Close()
				if err := errors.Join(model.Close(), f.Close()); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// write makes a file of the model.
func (m *tiny) write(t testing.TB, path string) {
	t.Helper()
	src, meta := m.build(t)
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := gguf.NewWriter(out, meta, src.tensors)
	if err != nil {
		t.Fatal(err)
	}
	for _, tensor := range src.tensors {
		err := w.Begin(tensor.Name)
		if err == nil {
			_, err = w.Write(src.data[tensor.Name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// Load reads norms and biases.
func TestCutFileOfLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	m := quantTiny(gguf.F32)
	m.write(t, path)
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	_, err = Load(f, f.Meta, Options{})
	var fault *mmap.FaultError
	if !errors.As(err, &fault) || fault.Path != path {
		t.Error(err)
	}
}
