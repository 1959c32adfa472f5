package infer

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// R085: a stop text that spans tokens is found, and no part of it comes out.
func TestStops(t *testing.T) {
	for _, c := range []struct {
		stops  []string
		pieces []string
		want   []string // what each piece brings out, and the flush
		found  string
	}{
		{[]string{"beta g"}, []string{"al", "pha be", "ta ga", "mma"}, []string{"al", "pha ", ""}, "beta g"},
		{[]string{"\nUser:"}, []string{"yes\n", "Us", "er:"}, []string{"yes", "", ""}, "\nUser:"},
		{[]string{"\nUser:"}, []string{"yes\n", "Us", "ing"}, []string{"yes", "", "\nUsing", ""}, ""},
		{[]string{"\nUser:"}, []string{"yes\nUser"}, []string{"yes", "\nUser"}, ""},
		{[]string{"aab"}, []string{"a", "a", "a", "b"}, []string{"", "", "a", ""}, "aab"},
		{[]string{"b", "abc"}, []string{"a", "bc"}, []string{"", "a"}, "b"},
		{[]string{"c", "abc", "bc"}, []string{"xab", "c"}, []string{"x", ""}, "abc"},
		{[]string{"é!"}, []string{"caf", "é", "?é!"}, []string{"caf", "", "é?"}, "é!"},
		{nil, []string{"a", ""}, []string{"a", "", ""}, ""},
	} {
		s := NewStops(c.stops)
		var got []string
		done := false
		for _, p := range c.pieces {
			var text string
			text, done = s.Push(p)
			got = append(got, text)
			if done {
				break
			}
		}
		if !done {
			got = append(got, s.Flush())
		}
		if strings.Join(got, "|") != strings.Join(c.want, "|") || s.Found() != c.found {
			t.Errorf("stops %q in %q: %q and %q, want %q and %q", c.stops, c.pieces, got, s.Found(), c.want, c.found)
		}
	}
}

// However a text is cut, the same comes out, at every moment as much as is sure, and in whole characters if the pieces are.
func TestStopsOverAllSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SampledFrom([]rune("aabé€😀\n"))
		word := func(least, most int) *rapid.Generator[string] { return rapid.StringOfN(letters, least, most, -1) }
		text := word(0, 24).Draw(t, "text")
		stops := rapid.SliceOfN(word(1, 5), 0, 4).Draw(t, "stops")
		want, found := searched(text, stops)

		s := NewStops(stops)
		out, seen, done := "", 0, false
		for seen < len(text) && !done {
			n := rapid.IntRange(1, len(text)-seen).Draw(t, "piece")
			for !utf8.RuneStart((text + " ")[seen+n]) {
				n++
			}
			var piece string
			piece, done = s.Push(text[seen : seen+n])
			seen += n
			out += piece
			if !utf8.ValidString(piece) {
				t.Fatalf("%q is no whole text", piece)
			}
			if !done && len(out) != seen-undecided(text[:seen], stops) {
				t.Fatalf("after %q: %q came out", text[:seen], out)
			}
		}
		if !done {
			out += s.Flush()
		}
		if out != want || s.Found() != found || done != (found != "") {
			t.Fatalf("%q and %q, want %q and %q", out, s.Found(), want, found)
		}
	})
}

// searched is what comes before the stop text that ends first, and that stop text, found by looking at the whole text.
func searched(text string, stops []string) (before, found string) {
	best := len(text) + 1
	for _, stop := range stops {
		i := strings.Index(text, stop)
		if i < 0 {
			continue
		}
		if end := i + len(stop); end < best || end == best && len(stop) > len(found) {
			best, found = end, stop
		}
	}
	if found == "" {
		return text, ""
	}
	return text[:best-len(found)], found
}

// undecided is the length of the longest end of the text that starts a stop text.
func undecided(text string, stops []string) int {
	for n := len(text); n > 0; n-- {
		for _, stop := range stops {
			if strings.HasPrefix(stop, text[len(text)-n:]) {
				return n
			}
		}
	}
	return 0
}
