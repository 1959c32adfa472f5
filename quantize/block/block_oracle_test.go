//go:build oracle

package block_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// All of the reference data: 15 classes of input for every type, with and without importance weights.
func TestOracle(t *testing.T) {
	root := os.Getenv("ORACLE")
	if root == "" {
		t.Fatal("ORACLE is not set: it names the folder of reference data")
	}
	r := openReference(t, filepath.Join(root, "quant"))
	seen := r.check(t)
	for _, typ := range block.Types() {
		want := 30
		switch typ {
		case gguf.F32:
			want = 0
		case gguf.F16, gguf.BF16:
			want = 15
		}
		if seen[typ] != want {
			t.Errorf("%d cases of %s, want %d", seen[typ], typ, want)
		}
	}
	if n := r.checkActivations(t); n != 30 {
		t.Errorf("%d cases of activations, want 30", n)
	}
}
