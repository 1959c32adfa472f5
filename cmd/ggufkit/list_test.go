package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A long list looks like a table.
func TestListIsTable(t *testing.T) {
	for _, rows := range [][][]string{
		nil,
		{{"1", "a", ""}},
		{{"1", `"日本語"`, "wide"}, {"262143", `"é"`, ""}, {"3", "e\u0301 and \U0001F600", "combining"}, {"", "\x1b[31m\n\xff", "hostile"}, {"-5", "", "empty"}},
	} {
		var table, list bytes.Buffer
		header := []string{"id", "text", "note"}
		if err := errors.Join(
			newUI(nil, &table, nil).table(header, clone(rows), "id"),
			newUI(nil, &list, nil).list(header, clone(rows), "id"),
		); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(table.String(), list.String()); d != "" {
			t.Error(d)
		}
	}
}

func clone(rows [][]string) [][]string {
	var c [][]string
	for _, row := range rows {
		c = append(c, slices.Clone(row))
	}
	return c
}

// A vocabulary of 262,144 tokens takes a second where table takes ten: it does more for each row, and allocates a hundred times for one.
func TestListOfVocabulary(t *testing.T) {
	rows := make([][]string, 1000)
	for i := range rows {
		rows[i] = []string{"1", strings.Repeat("日", i%20), "normal", "0"}
	}
	n := testing.AllocsPerRun(3, func() {
		var out bytes.Buffer
		if err := newUI(nil, &out, nil).list([]string{"id", "text", "type", "score"}, rows); err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(out.Bytes(), []byte("\n")); n != len(rows)+1 {
			t.Errorf("%d lines", n)
		}
	})
	if most := float64(20 * len(rows)); n > most {
		t.Errorf("%v allocations for %d rows", n, len(rows))
	}
}
