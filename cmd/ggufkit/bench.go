package main

import (
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/infer/eval"
	"github.com/ggufkit/ggufkit/internal/cpu"
	"github.com/urfave/cli/v2"
)

func benchCommand(u *ui) *cli.Command {
	list := func(name, usage string, aliases ...string) cli.Flag {
		return &cli.StringSliceFlag{Name: name, Aliases: aliases, Usage: usage}
	}
	return &cli.Command{
		Name:      "bench",
		Usage:     "measure how fast models run",
		UsageText: "ggufkit bench -m MODEL [-p 512] [-n 128] [-t N] [-o table|json|jsonl|csv|md|sql] [flags]",
		Description: `Tests are those of llama-bench: ppN is a prompt of N random tokens, tgN the making of N tokens one by one, ppN+tgM (--pg N,M) one after
the other, and "@ dN" either with N tokens already in the context. Flags that take a list try all combinations: 1,2,8 or a range as 1-4,
64-256*2 or 0-1024+512, and may be given several times. A first run of each test warms up and is not timed.

The share of the peak compares with the multiplications that this processor did at most just before, the share of reading with the bytes
that it read from memory, as four streams for each thread, between the runs and in pauses of them. --ops tells both of every operation.

Examples:
  ggufkit bench -m model.gguf
  ggufkit bench -m a.gguf,b.gguf -p 512 -n 64 -t 1,2 -r 3 -o md
  ggufkit bench -m model.gguf -p 0 -n 32 -d 0,4096 --cache-type f16,q8_0 -o json
  ggufkit bench -m model.gguf -p 512 -n 16 --ops
  ggufkit bench -m model.gguf --cpuprofile cpu.prof --trace trace.json`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "model", Aliases: []string{"m"}, Usage: "the GGUF `FILES` to load", Required: true, TakesFile: true},
			list("prompt", "prompts of `N` tokens; 0: none (default: 512)", "p", "n-prompt"),
			list("gen", "make `N` tokens; 0: none (default: 128)", "n", "n-gen"),
			list("pg", "a prompt of N tokens, then M more: `N,M`"),
			list("depth", "start with `N` tokens in the context (default: 0)", "d", "n-depth"),
			list("threads", "use `N` threads (default: 0, all cores that the process may use)", "t"),
			list("batch", "compute at most `N` tokens at once (default: 512)", "b", "batch-size", "ub", "ubatch-size"),
			list("cache-type", "keep keys and values as `TYPE`: f16 or q8_0 (default: f16; exact precision has f32)", "ctk", "ctv"),
			list("precision", "`P` is exact (float32 throughout) or fast (activations in 8 bits; default)"),
			&cli.IntFlag{Name: "repetitions", Aliases: []string{"r"}, Value: 5, Usage: "time each test `N` times"},
			&cli.BoolFlag{Name: "no-warmup", Usage: "time the first run too; without --ops there are no shares then"},
			&cli.Uint64Flag{Name: "seed", Aliases: []string{"s"}, Value: 1, Usage: "the same `SEED` gives the same tokens"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "print as `FORMAT`: " + strings.Join(benchFormats, ", ")},
			&cli.BoolFlag{Name: "json", Usage: "the same as -o json"},
			&cli.BoolFlag{Name: "ops", Usage: "tell of every operation what it takes (table, json and jsonl)"},
			&cli.StringFlag{Name: "cpuprofile", Usage: "write a profile for 'go tool pprof' to `FILE`, with the labels layer and operation", TakesFile: true},
			traceFlag(), quietFlag(),
		},
		Action: u.action(0, -1, func(c *cli.Context) error { return bench(c, u) }),
	}
}

func bench(c *cli.Context, u *ui) (err error) {
	plan, err := planBench(c)
	if err != nil {
		return err
	}
	if _, err := cpu.Choose(); err != nil {
		u.note("warning: %v", err)
	}
	trace := &infer.Trace{Timed: c.Bool("ops") || c.IsSet("trace"), Labels: c.IsSet("cpuprofile")}
	if c.IsSet("trace") {
		trace.Spans = maxSpans
	}
	for _, path := range plan.files { // better now than when others are done
		f, err := gguf.OpenModel(path)
		if err != nil {
			return err
		}
		f.Close()
	}
	if err := creatable(c.String("trace"), plan.files...); err != nil {
		return err
	}
	if path := c.String("cpuprofile"); path != "" {
		stop, err := startProfile(path, plan.files)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop(err == nil)) }()
	}
	b := &benchRun{benchPlan: plan, c: c, u: u, trace: trace, printer: newBenchPrinter(u, plan.format, c.Bool("ops"))}
	if err := b.all(); err != nil {
		if len(b.printer.records) > 0 { // what is measured is told
			err = errors.Join(err, b.printer.end())
		}
		return err
	}
	if err := b.printer.end(); err != nil {
		return err
	}
	return writeTrace(u, c.String("trace"), trace, plan.files...)
}

// benchRun carries out a plan.
type benchRun struct {
	*benchPlan
	c       *cli.Context
	u       *ui
	trace   *infer.Trace
	printer *benchPrinter
	done    int // tests
}

// all runs everything.
func (b *benchRun) all() error {
	for _, path := range b.files {
		for _, o := range b.configs {
			if err := b.model(path, o); err != nil {
				return inFile(path, err)
			}
		}
	}
	return nil
}

// model runs all tests on a file with one setting.
func (b *benchRun) model(path string, o infer.Options) error {
	o.Trace = b.trace
	f, err := gguf.OpenModel(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := infer.Load(f, f.Meta, o)
	if err != nil {
		return err
	}
	defer m.Close()
	memory := m.Memory()
	meter := eval.NewMeter(f, memory.Threads)
	defer meter.Close()
	for _, test := range b.tests {
		b.done++
		total := len(b.files) * len(b.configs) * len(b.tests)
		r := &eval.BenchRecord{
			BuildCommit: commit(), CPU: processor(), Backend: "CPU", BenchModel: eval.BenchModelOf(f), Model: path,
			Batch: memory.Batch, Microbatch: memory.Batch, Threads: memory.Threads, ThreadsInUse: memory.Threads,
			KeyType: strings.ToLower(memory.CacheType), ValueType: strings.ToLower(memory.CacheType),
			Precision: precisionName(o.Precision), Time: time.Now().UTC().Truncate(time.Second),
		}
		if test.Depth > 0 {
			b.u.note("test %d of %d: %s, %s: computing the depth", b.done, total, path, test)
		}
		result, err := eval.Bench(b.c.Context, m, test, eval.BenchOptions{
			Runs: b.runs, NoWarmup: b.c.Bool("no-warmup"), Seed: b.c.Uint64("seed"), Trace: b.trace, Meter: meter,
			Progress: func(run, runs int) {
				what := "warm-up"
				if run > 0 {
					what = fmt.Sprintf("run %d of %d", run, runs)
				}
				b.u.note("test %d of %d: %s, %s, %s: %s", b.done, total, path, test, plural(memory.Threads, "thread"), what)
			},
		})
		if err != nil {
			return err
		}
		r.Record(test, result, meter.Peak())
		if r.OtherPrograms > eval.QuietLimit {
			b.u.note("warning: the machine is not quiet: other programs kept %.1f processors busy during %s", r.OtherPrograms, test)
		}
		if !b.c.Bool("ops") {
			r.Ops = nil
		}
		if err := b.printer.record(r); err != nil {
			return err
		}
	}
	return nil
}

// startProfile begins to write a CPU profile. stop ends it, and keeps the file if all went well.
func startProfile(path string, inputs []string) (stop func(keep bool) error, err error) {
	out, err := create(path, inputs...)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		out.Abort()
		return nil, err
	}
	return func(keep bool) error {
		defer out.Abort()
		pprof.StopCPUProfile()
		if !keep {
			return nil
		}
		return out.Commit()
	}, nil
}
