//go:build oracle

package gguf

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Every vocabulary file opens without a fatal defect, and comes out byte for byte; the one of version 2 but for its version.
func TestOracleVocabularies(t *testing.T) {
	root := os.Getenv("ORACLE")
	if root == "" {
		t.Fatal("ORACLE is not set: it names the folder of the oracle kit")
	}
	files, err := filepath.Glob(filepath.Join(root, "vocab", "*.gguf"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d vocabulary files in %s, %v", len(files), root, err)
	}
	for _, path := range files {
		f, err := Open(path)
		if err != nil {
			t.Error(err)
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if f.Version == 2 {
			want[4] = 3
			padding := f.DataOffset - f.headerSize
			want = append(want[:f.headerSize], make([]byte, padding)...)
		}
		var got bytes.Buffer
		if _, err := f.WriteTo(&got); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: WriteTo gives %d bytes, want the %d of the file", path, got.Len(), len(want))
		}
		if tokens, err := f.Meta.Strings("tokenizer.ggml.tokens"); err != nil || len(tokens) < 1000 {
			t.Errorf("%s: %d tokens, %v", path, len(tokens), err)
		}
		f.Close()
	}
}
