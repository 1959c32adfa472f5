package atomicfile

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// reserve allocates disk blocks without changing the length of the file.
func reserve(f *os.File, size uint64) error {
	if size == 0 || size > math.MaxInt64 {
		return nil
	}
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, int64(size))
}
