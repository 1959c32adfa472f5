//go:build !unix

package kernel

import "testing"

// guarded returns n bytes; there are no guard pages on this system.
func guarded(_ testing.TB, n int) []byte { return make([]byte, n) }

func guardedStart(tb testing.TB, n int) []byte { return guarded(tb, n) }
