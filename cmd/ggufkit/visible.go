package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// visible spells out, as Go does in quotes, what a terminal would act on instead of showing it: control characters, marks that
// reorder text or take no room, bytes that are no text. Names in untrusted files stay in their line and colour.
func visible(s string) string { return spellOut(s, "") }

// longest is how many bytes of a line of a message are shown. Messages quote files, which may hold anything of any length.
const longest = 4096

// shorten takes the middle out of lines that are too long to be read.
func shorten(s string) string {
	if len(s) <= longest {
		return s
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		if n := len(line) - longest; n > 0 {
			line = fmt.Sprintf("%s ... (%d bytes) ... %s", line[:longest/2], n, line[len(line)-longest/2:])
		}
		b.WriteString(line)
	}
	return b.String()
}

// message is a text of any origin, of several lines, for stderr.
func message(s string) string { return spellOut(shorten(s), "\n") }

// spellOut is visible for a text that may hold the characters of keep.
func spellOut(s, keep string) string {
	shown := func(r rune) bool { return strconv.IsPrint(r) || strings.ContainsRune(keep, r) }
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !shown(r) }) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case shown(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		s = s[n:]
	}
	return b.String()
}
