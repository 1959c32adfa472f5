//go:build !amd64 || noasm

package kernel

// assembled is the sets in assembly that this processor can run.
func assembled() []*set { return nil }
