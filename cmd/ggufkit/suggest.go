package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// nearest is the name that a misspelled word most likely means, "" if none is close: at most one slip in three letters. Case,
// hyphens and underscores do not count.
func nearest(word string, names []string) string {
	plain := func(s string) string { return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s)) }
	best, least := "", max(1, len(word)/3)+1
	for _, name := range names {
		if d := slips(plain(word), plain(name)); d < least && d < len(name) {
			best, least = name, d
		}
	}
	return best
}

// slips counts the letters to insert, drop or replace that make a into b (Levenshtein's distance).
func slips(a, b string) int {
	row := make([]int, len(b)+1) // distances of what was read of a from each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// didYouMean is the start of a hint, "" if there is no name to offer.
func didYouMean(name string) string {
	if name == "" {
		return ""
	}
	return "did you mean " + name + "? "
}

// commandNames lists a command table.
func commandNames(table []*cli.Command) []string {
	names := make([]string, len(table))
	for i, c := range table {
		names[i] = c.Name
	}
	return names
}

// nearestFlag is the flag of a command that a misspelled one such as "--jsn" most likely means, as it is written; "" if none is close.
func nearestFlag(cmd *cli.Command, word string) string {
	var names []string
	for _, f := range cmd.Flags {
		names = append(names, f.Names()...)
	}
	switch name := nearest(strings.TrimLeft(word, "-"), names); len(name) {
	case 0:
		return ""
	case 1:
		return "-" + name
	default:
		return "--" + name
	}
}
