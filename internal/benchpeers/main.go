// Command benchpeers measures ggufkit beside llama.cpp's and ik_llama.cpp's llama-bench, on the same files with the same threads, and prints
// how many times as fast it is. With -perplexity the same is done with perplexity runs of a text beside llama-perplexity, and beside our bench of a prompt.
//
//	benchpeers [-llama PATH] [-ik PATH] [-perplexity PATH -text FILE [-chunks 4]] [-ours bin/ggufkit] [-threads 1,2] [-p 512] [-n 64] [-depth 4096] [-rounds 3] [-r 2] MODEL...
//
// The programs take turns, test by test and round by round, so that a change of the machine's speed meets all of them; of each the best run
// counts. A ratio's spread is that of the rounds. ik_llama.cpp runs as it is, and with its repacking at load.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/ggufkit/ggufkit/infer/eval"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchpeers:", err)
		os.Exit(1)
	}
}

// plan is what the command line asks for.
type plan struct {
	programs []program // ours first, as in those of perplexity runs
	readers  []program // of perplexity runs; none: there are none
	reading  test
	threads  []int
	tests    []eval.BenchTest
	models   []string
	rounds   int
	repeat   int // runs in a round
}

func parse(args []string) (*plan, error) {
	flags := flag.NewFlagSet("benchpeers", flag.ContinueOnError)
	ours := flags.String("ours", "bin/ggufkit", "ggufkit")
	llama := flags.String("llama", "", "llama-bench of llama.cpp; empty: leave it out")
	ik := flags.String("ik", "", "llama-bench of ik_llama.cpp; empty: leave it out")
	perplexity := flags.String("perplexity", "", "llama-perplexity; empty: no perplexity runs")
	text := flags.String("text", "testdata/demo/heldout.txt", "what perplexity runs read")
	chunks := flags.Int("chunks", 4, "windows of a perplexity run")
	threads := flags.String("threads", "1,2", "numbers of threads")
	prompt := flags.Int("p", 512, "tokens of the prompt; 0: leave the test out")
	gen := flags.Int("n", 64, "tokens to make; 0: leave the test out")
	depth := flags.Int("depth", 4096, "make tokens after so many as well; 0: leave the test out")
	depthGen := flags.Int("depth-n", 16, "tokens to make at the depth")
	rounds := flags.Int("rounds", 3, "rounds of each test")
	repeat := flags.Int("r", 2, "runs of each test in a round, after a warm-up")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	p := &plan{models: flags.Args(), rounds: *rounds, repeat: *repeat}
	if len(p.models) == 0 || *rounds < 1 || *repeat < 1 || *prompt < 0 || *gen < 0 || *depth < 0 || *depthGen < 1 || *chunks < 1 || *text == "" {
		return nil, fmt.Errorf("no model is named, or a number is out of range")
	}
	for text := range strings.SplitSeq(*threads, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-threads %q: expected numbers from 1 on, with commas between", *threads)
		}
		p.threads = append(p.threads, n)
	}
	if *prompt > 0 {
		p.tests = append(p.tests, eval.BenchTest{Prompt: *prompt})
	}
	if *gen > 0 {
		p.tests = append(p.tests, eval.BenchTest{Gen: *gen})
	}
	if *depth > 0 {
		p.tests = append(p.tests, eval.BenchTest{Gen: *depthGen, Depth: *depth})
	}
	p.programs = []program{{name: "ggufkit", path: *ours, kind: ggufkit}}
	if *llama != "" {
		p.programs = append(p.programs, program{name: "llama.cpp", path: *llama, kind: llamaCPP})
	}
	if *ik != "" {
		p.programs = append(p.programs, program{name: "ik", path: *ik, kind: ikLlama}, program{name: "ik -rtr", path: *ik, kind: ikLlama, flags: []string{"-rtr", "1"}})
	}
	if *perplexity != "" {
		p.readers = []program{{name: "ggufkit", path: *ours, kind: ggufkitPerplexity}, {name: "llama.cpp", path: *perplexity, kind: llamaPerplexity}, {name: "our pp512", path: *ours, kind: ggufkit}}
		p.reading = test{eval.BenchTest{Prompt: window}, perplexityRun{*text, *chunks}}
	}
	if len(p.programs) == 1 {
		if p.tests = nil; p.readers == nil {
			return nil, fmt.Errorf("no peer is named: give -llama, -ik or -perplexity")
		}
	}
	return p, nil
}

func run(ctx context.Context, args []string) error {
	p, err := parse(args)
	if err != nil {
		return err
	}
	var rows, reads []*comparison
	measure := func(list *[]*comparison, row *comparison) error {
		row.runs = make([][]measured, len(row.programs))
		if err := p.take(ctx, row); err != nil {
			return err
		}
		row.print(os.Stdout)
		*list = append(*list, row)
		return nil
	}
	for _, model := range p.models {
		for _, threads := range p.threads {
			for _, t := range p.tests {
				if err := measure(&rows, &comparison{model: model, threads: threads, test: test{BenchTest: t}, programs: p.programs}); err != nil {
					return err
				}
			}
			if p.readers != nil {
				if err := measure(&reads, &comparison{model: model, threads: threads, test: p.reading, programs: p.readers}); err != nil {
					return err
				}
			}
		}
	}
	for _, list := range [][]*comparison{rows, reads} {
		fmt.Println()
		summarize(os.Stdout, list)
	}
	return nil
}

// take lets the programs take turns at a test. A peer that fails is told of and left out of the rest of it.
func (p *plan) take(ctx context.Context, row *comparison) error {
	for round := range p.rounds {
		for i := range row.programs {
			if len(row.runs[i]) < round {
				continue
			}
			fmt.Fprintf(os.Stderr, "%s, threads %d, %s, round %d of %d: %s\n", row.model, row.threads, row.test, round+1, p.rounds, row.programs[i].name)
			m, err := row.programs[i].measure(ctx, row.model, row.threads, row.test, p.repeat)
			switch {
			case err == nil:
				row.runs[i] = append(row.runs[i], m)
			case i == 0 || ctx.Err() != nil:
				return err
			default:
				fmt.Fprintln(os.Stderr, err)
				row.runs[i] = nil
			}
		}
	}
	return nil
}
