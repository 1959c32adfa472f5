package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/ggufkit/ggufkit/infer/eval"
)

// test is what is measured: a benchmark, or a perplexity run beside one.
type test struct {
	eval.BenchTest
	perplexity perplexityRun // of no text: there is none
}

func (t test) String() string {
	if t.perplexity.text != "" {
		return fmt.Sprintf("perplexity %d", window)
	}
	return t.BenchTest.String()
}

// comparison is a test of one model with one number of threads: for each program, ours first, its rounds; none for a peer that failed.
type comparison struct {
	model    string
	threads  int
	test     test
	programs []program
	runs     [][]measured
}

// best is the round with a program's fastest run.
func (c *comparison) best(program int) measured {
	return slices.MaxFunc(c.runs[program], func(a, b measured) int { return cmp.Compare(a.best(), b.best()) })
}

// ratio is how many times as fast our best run is as a peer's, and the least and the most of the rounds.
func (c *comparison) ratio(peer int) (best, least, most float64) {
	ours, theirs := c.best(0), c.best(peer)
	best = ours.best() / theirs.best()
	least, most = best, best
	for round := range c.runs[peer] {
		r := c.runs[0][round].best() / c.runs[peer][round].best()
		least, most = min(least, r), max(most, r)
	}
	return best, least, most
}

// fastest is the peer with the fastest run, 0 if all failed.
func (c *comparison) fastest() (peer int) {
	for i := 1; i < len(c.programs); i++ {
		if len(c.runs[i]) == 0 || c.programs[i].kind == ggufkit {
			continue
		}
		if a, b := c.best(i), c.best(peer); peer == 0 || a.best() > b.best() {
			peer = i
		}
	}
	return peer
}

// others is the most processors that other programs kept busy during a round.
func (c *comparison) others() (most float64) {
	for _, rounds := range c.runs {
		for _, m := range rounds {
			most = max(most, m.others)
		}
	}
	return most
}

// print writes a few lines about a test.
func (c *comparison) print(w io.Writer) {
	ours := c.best(0)
	fmt.Fprintf(w, "%s, %s, threads %d: %s of the multiplying peak, %s of reading\n",
		filepath.Base(c.model), c.test, c.threads, share(ours.ShareOfPeak), share(ours.ShareOfRead))
	for i, p := range c.programs {
		if len(c.runs[i]) == 0 {
			fmt.Fprintf(w, "  %-10s failed\n", p.name)
			continue
		}
		m := c.best(i)
		best, slowest := m.best(), m.best()
		for _, m := range c.runs[i] {
			slowest = min(slowest, m.best())
		}
		fmt.Fprintf(w, "  %-10s %9.2f tokens/s (from %.2f), %9.3f ms per token", p.name, best, slowest, 1000/best)
		if i > 0 {
			ratio, least, most := c.ratio(i)
			fmt.Fprintf(w, "   ours is %.2f x as fast (%.2f to %.2f)", ratio, least, most)
		}
		if m.perplexity > 0 {
			fmt.Fprintf(w, "   perplexity %.4f", m.perplexity)
		}
		fmt.Fprintln(w)
	}
	if n := c.others(); n > eval.QuietLimit {
		fmt.Fprintf(w, "  disturbed: other programs kept up to %.1f processors busy\n", n)
	}
}

// share is a share of what the machine can do, which a perplexity run does not tell.
func share(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*x)
}

// summarize writes a table of all tests in Markdown, and whether the machine was quiet.
func summarize(w io.Writer, rows []*comparison) {
	if len(rows) == 0 {
		return
	}
	peers := rows[0].programs[1:]
	line := func(cells ...string) {
		for _, cell := range cells {
			fmt.Fprintf(w, "| %s ", cell)
		}
		fmt.Fprintln(w, "|")
	}
	header := []string{"model", "test", "threads", "tokens/s", "of peak", "of reading"}
	for _, p := range peers {
		header = append(header, "x "+p.name)
	}
	header = append(header, "x the best peer")
	line(header...)
	line(slices.Repeat([]string{"---"}, len(header))...)
	worst := 0.0
	for _, c := range rows {
		m := c.best(0)
		cells := []string{filepath.Base(c.model), c.test.String(), fmt.Sprint(c.threads), fmt.Sprintf("%.2f", m.best()),
			share(m.ShareOfPeak), share(m.ShareOfRead)}
		for i := range peers {
			if len(c.runs[i+1]) == 0 {
				cells = append(cells, "failed")
				continue
			}
			ratio, least, most := c.ratio(i + 1)
			cells = append(cells, fmt.Sprintf("%.2f (%.2f to %.2f)", ratio, least, most))
		}
		best := "-"
		if peer := c.fastest(); peer > 0 {
			ratio, _, _ := c.ratio(peer)
			best = fmt.Sprintf("%.2f", ratio)
		}
		line(append(cells, best)...)
		worst = max(worst, c.others())
	}
	if worst > eval.QuietLimit {
		fmt.Fprintf(w, "\nTHE MACHINE WAS NOT QUIET: other programs kept up to %.1f processors busy. The ratios say little.\n", worst)
	} else {
		fmt.Fprintf(w, "\nThe machine was quiet: other programs kept at most %.2f processors busy.\n", worst)
	}
}
