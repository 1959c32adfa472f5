//go:build !noasm

package kernel

import "github.com/ggufkit/ggufkit/internal/cpu"

// assembled is the sets in assembly that this processor can run.
func assembled() []*set {
	if level, _ := cpu.Choose(); level >= cpu.AVX2 {
		return []*set{&avx2}
	}
	return nil
}
