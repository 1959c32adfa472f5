package spelling

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0},
		{strings.Repeat("a", 10_000), "a", maxName - 1},
	} {
		for _, got := range []int{Distance(c.a, c.b), Distance(c.b, c.a)} {
			if got != c.want {
				t.Errorf("%.20q and %.20q: %d, want %d", c.a, c.b, got, c.want)
			}
		}
	}
}
