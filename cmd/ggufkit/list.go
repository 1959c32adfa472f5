package main

import (
	"bufio"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// list prints rows as table does, for vocabularies and other lists of hundreds of thousands of rows: the library behind table measures each cell several
// times and keeps what it finds, which takes ten times as long.
func (u *ui) list(header []string, rows [][]string, right ...string) error {
	widths := make([]int, len(header))
	measure := func(row []string) {
		for i := range row {
			row[i] = visible(row[i])
			widths[i] = max(widths[i], width(row[i]))
		}
	}
	measure(header)
	for _, row := range rows {
		measure(row)
	}
	out := bufio.NewWriter(u.out)
	var line strings.Builder
	print := func(row []string) {
		line.Reset()
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-width(cell))
			if slices.Contains(right, header[i]) {
				cell, gap = gap+cell, ""
			}
			line.WriteString(cell + gap + "  ")
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	print(header)
	for _, row := range rows {
		print(row)
	}
	return out.Flush() // it has the errors of all writes
}

// width is how many columns of a terminal a visible text takes.
func width(s string) int {
	if strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return twwidth.WidthNoCache(s)
	}
	return len(s)
}
