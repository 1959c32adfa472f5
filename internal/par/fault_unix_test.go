//go:build unix

package par

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
)

// A fault in a mapping, whichever worker meets it, is a panic in a caller that asks for one, and the pool goes on to work.
func TestFault(t *testing.T) {
	const size = 1 << 16
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, size), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(data)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	p := NewPool(3, nil)
	defer p.Close()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for name, loop := range map[string]func(f func(worker, i int)){
		"For":      func(f func(worker, i int)) { For(3, 100, f) },
		"Pool.For": func(f func(worker, i int)) { p.For(100, f) },
	} {
		for faulty := range 3 {
			var sum [3]int
			met := make(chan bool, 3) // every worker has an item, so that the faulty one does
			fault := caught(func() {
				loop(func(worker, i int) {
					if i < 3 {
						met <- true
						for len(met) < 3 {
							runtime.Gosched()
						}
					}
					if worker == faulty {
						sum[worker] += int(data[i*100])
					}
				})
			})
			if _, ok := fault.(interface{ Addr() uintptr }); !ok {
				t.Errorf("%s, worker %d: %v is no fault", name, faulty, fault)
			}
		}
	}
	done := make([]bool, 100)
	p.For(len(done), func(_, i int) { done[i] = true })
	for i, ok := range done {
		if !ok {
			t.Errorf("item %d is left out after a fault", i)
		}
	}
}

// caught is what f panics with.
func caught(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}
