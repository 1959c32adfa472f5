//go:build unix

package kernel

import (
	"os"
	"syscall"
	"testing"
)

// guarded returns n bytes that end where memory that cannot be touched begins, and start after such memory if they fill whole pages.
func guarded(tb testing.TB, n int) []byte {
	tb.Helper()
	b := guardedPages(tb, n)
	return b[len(b)-n : len(b) : len(b)]
}

// guardedStart returns n bytes that start behind such memory.
func guardedStart(tb testing.TB, n int) []byte {
	tb.Helper()
	return guardedPages(tb, n)[:n:n]
}

func guardedPages(tb testing.TB, n int) []byte {
	tb.Helper()
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	b, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { syscall.Munmap(b) })
	for _, guard := range [][]byte{b[:page], b[page+size:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			tb.Fatal(err)
		}
	}
	return b[page : page+size]
}
