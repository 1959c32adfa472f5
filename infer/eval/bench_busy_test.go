package eval

import (
	"testing"
	"time"
)

// Lines as the kernel's documentation of /proc describes them.
func TestBusyTimes(t *testing.T) {
	for stat, want := range map[string]time.Duration{
		"cpu  100 20 30 9999 50 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n": (100 + 20 + 30 + 6 + 7 + 8) * 10 * time.Millisecond,
		"cpu 1 2 3\n":                         -1,
		"intr 1 2 3 4 5 6 7 8 9\n":            -1,
		"cpu  1 x 3 4 5 6 7 8 9 10\ncpu0 1\n": -1,
		"":                                    -1,
	} {
		if got, ok := busyTime(stat); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v, %v; want %v", stat, got, ok, want)
		}
	}
	for stat, want := range map[string]time.Duration{
		"123 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n": (11 + 12) * 10 * time.Millisecond,
		"123 (a": -1,
		"":       -1,
	} {
		if got, ok := processTime(stat); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v, %v; want %v", stat, got, ok, want)
		}
	}
}

func TestCounts(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 12345: "12.3K", 134515008: "135M", 1038682112: "1.04B", 3e12: "3T"} {
		if got := count(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
