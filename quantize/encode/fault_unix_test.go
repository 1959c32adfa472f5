//go:build unix

package encode

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/mmap"
)

// TestStreamOfCutFile: a Read that meets bytes of a mapping that are no longer there ends Stream with an error, on any number of threads.
func TestStreamOfCutFile(t *testing.T) {
	const rows, size = 4096, 4096 * 256
	path := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(path, make([]byte, size), 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := mmap.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := os.Truncate(path, size/2); err != nil {
		t.Fatal(err)
	}
	job := Job{Type: gguf.Q8_0, RowLen: 256, Rows: rows, Read: func(lo, hi uint64, dst []float32) error {
		for i, b := range m.Bytes()[lo*256 : hi*256] {
			dst[i] = float32(b)
		}
		return nil
	}}
	for _, threads := range []int{1, 3} {
		_, err := Stream(t.Context(), io.Discard, job, threads)
		var fault *mmap.FaultError
		if !errors.As(err, &fault) || fault.Path != path || fault.Offset != size/2 {
			t.Errorf("%d threads: %v, want a fault in %s at %d", threads, err, path, size/2)
		}
	}
}
