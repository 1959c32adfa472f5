//go:build !linux

package atomicfile

import "os"

// reserve does nothing: only Linux reserves blocks without changing the length of the file.
func reserve(*os.File, uint64) error { return nil }
