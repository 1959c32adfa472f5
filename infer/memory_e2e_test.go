//go:build e2e && linux

package infer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// A process that runs a real model takes, beyond the mapped weights, what the model tells.
func TestMemoryOfSmolLM2(t *testing.T) {
	if os.Getenv(memoryChild) == "" {
		_, after, told := measured(t)
		closeTo(t, after, told)
		return
	}
	report(t, func() *Model {
		f, err := gguf.Open(filepath.Join(os.Getenv("GGUFKIT_MODELS"), "SmolLM2-135M-Instruct.Q4_1.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		m, err := Load(f, f.Meta, Options{Context: 2048})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}, (*arch.Memory).Anonymous)
}
