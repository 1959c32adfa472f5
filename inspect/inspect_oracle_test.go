//go:build oracle

package inspect

import (
	"os"
	"path/filepath"
	"testing"
)

// TestVocabularyFiles: files that hold a vocabulary alone are reported without faults, whatever their architecture.
func TestVocabularyFiles(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(os.Getenv("ORACLE"), "vocab", "*.gguf"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in $ORACLE/vocab (%v)", err)
	}
	for _, path := range paths {
		r, err := Read(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if r.Fatal() != nil || r.TokenCount == 0 || r.TensorCount != 0 || r.Architecture == "" || r.Tokens[0].Text == "" {
			t.Errorf("%s: fatal %v, summary %+v", path, r.Fatal(), r.Summary)
		}
	}
}
