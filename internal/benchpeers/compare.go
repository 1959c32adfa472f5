package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/ggufkit/ggufkit/infer/eval"
)

// comparison is a test of one model with one number of threads: for each program, ours first, its rounds.
type comparison struct {
	model    string
	threads  int
	test     eval.BenchTest
	programs []program
	runs     [][]measured
}

// best is the fastest round of a program.
func (c *comparison) best(program int) measured {
	return slices.MaxFunc(c.runs[program], func(a, b measured) int {
		switch {
		case a.Rate < b.Rate:
			return -1
		case a.Rate > b.Rate:
			return 1
		}
		return 0
	})
}

// ratio is how many times as fast our best round is as a peer's, and the least and the most of rounds that followed each other.
func (c *comparison) ratio(peer int) (best, least, most float64) {
	best = c.best(0).Rate / c.best(peer).Rate
	least, most = best, best
	for round := range c.runs[peer] {
		r := c.runs[0][round].Rate / c.runs[peer][round].Rate
		least, most = min(least, r), max(most, r)
	}
	return best, least, most
}

// print writes a few lines about a test.
func (c *comparison) print(w io.Writer) {
	ours := c.best(0)
	fmt.Fprintf(w, "%s, %s, threads %d: %.1f%% of the multiplying peak, %.1f%% of reading\n",
		filepath.Base(c.model), c.test, c.threads, 100*ours.ShareOfPeak, 100*ours.ShareOfRead)
	for i, p := range c.programs {
		best := c.best(i)
		slowest := best.Rate
		for _, m := range c.runs[i] {
			slowest = min(slowest, m.Rate)
		}
		fmt.Fprintf(w, "  %-10s %9.2f tokens/s (from %.2f), %9.3f ms per token", p.name, best.Rate, slowest, 1000/best.Rate)
		if i > 0 {
			ratio, least, most := c.ratio(i)
			fmt.Fprintf(w, "   ours is %.2f x as fast (%.2f to %.2f)", ratio, least, most)
		}
		fmt.Fprintln(w)
	}
	for i := range c.programs {
		if slices.ContainsFunc(c.runs[i], func(m measured) bool { return m.others > eval.QuietLimit }) {
			fmt.Fprintln(w, "  (disturbed: other programs ran)")
			return
		}
	}
}
