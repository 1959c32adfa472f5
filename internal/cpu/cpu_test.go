package cpu

import (
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	best, missing := detect()
	for limit, want := range map[string]Level{"": best, "generic": Generic, "GENERIC": Generic} {
		if got, err := choose(limit); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", limit, got, err, want)
		}
	}
	if got, err := choose("sse9"); err == nil || got != best || !strings.Contains(err.Error(), "generic or avx2") {
		t.Errorf("unknown level: %v, %v", got, err)
	}
	got, err := choose("avx2")
	switch {
	case got != best:
		t.Errorf("avx2: %v", got)
	case best >= AVX2 && err != nil:
		t.Errorf("avx2: %v", err)
	case best < AVX2 && (err == nil || !strings.Contains(err.Error(), missing(AVX2)[0])):
		t.Errorf("avx2 on a processor without it: %v", err)
	}
}
