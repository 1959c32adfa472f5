//go:build unix

package mmap

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// granularity is what offsets of mappings must be multiples of, in bytes.
func granularity() int64 { return int64(os.Getpagesize()) }

func (m *Mapping) mapRegion(f *os.File, off int64, n int, private bool) error {
	prot, flags := unix.PROT_READ, unix.MAP_SHARED
	if private {
		prot, flags = unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE
	}
	b, err := unix.Mmap(int(f.Fd()), off, n, prot, flags)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	hugePages(b)
	m.region = b
	return nil
}

func (m *Mapping) unmap() error { return os.NewSyscallError("munmap", unix.Munmap(m.region)) }

func (m *Mapping) advise(first, last int, a Advice) error {
	advice := map[Advice]int{
		Sequential: unix.MADV_SEQUENTIAL,
		Random:     unix.MADV_RANDOM,
		WillNeed:   unix.MADV_WILLNEED,
		DontNeed:   unix.MADV_DONTNEED,
	}[a]
	err := unix.Madvise(m.region[first:last], advice)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return nil // some file systems take no advice; nothing depends on it
	}
	return os.NewSyscallError("madvise", err)
}

// mapHint says what to do about a failure to map; it starts a new line, or is empty.
func mapHint(err error) string {
	if errors.Is(err, unix.ENOMEM) {
		return "\nhint: the address space or the number of mappings is used up: see ulimit -v and, on Linux, sysctl vm.max_map_count"
	}
	return ""
}
