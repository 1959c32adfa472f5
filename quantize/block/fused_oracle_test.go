//go:build oracle

package block_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// The compiler may fuse a product and a sum, also across statements, unless the product is converted explicitly; the bytes
// would then differ from one machine to another. On arm64 it does wherever it may, so its code for that shows every place.
func TestNothingIsFused(t *testing.T) {
	for _, pkg := range []string{"quantize/block", "quantize/encode"} {
		cmd := exec.Command("go", "build", "-gcflags=-S", "-o", filepath.Join(t.TempDir(), "out"), "github.com/ggufkit/ggufkit/"+pkg)
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
		listing, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, listing)
		}
		if !regexp.MustCompile(`\tFMUL[SD]\t`).Match(listing) {
			t.Fatalf("%s: the listing has no product at all", pkg)
		}
		for _, line := range regexp.MustCompile(`\(.*:\d+\)\tFN?M(ADD|SUB)[SD]\t`).FindAll(listing, 5) {
			t.Errorf("%s: %s", pkg, line)
		}
	}
}
