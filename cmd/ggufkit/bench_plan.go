package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/infer/eval"
	"github.com/urfave/cli/v2"
)

// benchFormats are what --output can be.
var benchFormats = []string{"table", "json", "jsonl", "csv", "md", "sql"}

// Limits of what a benchmark may ask for.
const (
	maxRepetitions = 1 << 16
	maxListed      = 1 << 10 // values of a list
)

// benchPlan is all that the flags ask for.
type benchPlan struct {
	files   []string
	configs []infer.Options // for each file
	tests   []eval.BenchTest
	runs    int
	format  string
}

// planBench reads the flags. Lists multiply in llama-bench's order: files, batches, cache types, threads, depths, tests.
func planBench(c *cli.Context) (*benchPlan, error) {
	p := &benchPlan{runs: c.Int("repetitions"), format: strings.ToLower(c.String("output"))}
	if c.Bool("json") {
		if c.IsSet("output") && p.format != "json" {
			return nil, usagef("give one of them", "--json and --output %s", c.String("output"))
		}
		p.format = "json"
	}
	if !slices.Contains(benchFormats, p.format) {
		return nil, usagef("the formats are "+strings.Join(benchFormats, ", "), "no format is called %q", p.format)
	}
	if c.Bool("ops") && !slices.Contains([]string{"table", "json", "jsonl"}, p.format) {
		return nil, usagef("choose table, json or jsonl", "--ops does not fit into %s", p.format)
	}
	if p.runs < 1 || p.runs > maxRepetitions {
		return nil, usagef("", "--repetitions %d: expected 1 to %d", p.runs, maxRepetitions)
	}
	var err error
	if p.files, err = benchFiles(c); err != nil {
		return nil, err
	}
	if p.tests, err = benchTests(c); err != nil {
		return nil, err
	}
	p.configs, err = benchConfigs(c)
	need := 0
	for _, t := range p.tests {
		if t.Depth+t.Tokens() > arch.MaxContext {
			return nil, usagef("", "--depth %d and a test of %s: expected at most %d tokens together", t.Depth, plural(t.Tokens(), "token"), arch.MaxContext)
		}
		need = max(need, t.Depth+t.Tokens())
	}
	for i := range p.configs {
		p.configs[i].Context = need
	}
	return p, err
}

// benchFiles are the models: those of --model, which may be several with commas between, and the arguments.
func benchFiles(c *cli.Context) ([]string, error) {
	var files []string
	for _, m := range c.StringSlice("model") {
		if _, err := os.Stat(m); err == nil {
			files = append(files, m) // the name itself may have commas
		} else {
			files = append(files, strings.Split(m, ",")...)
		}
	}
	files = append(files, c.Args().Slice()...)
	if slices.Contains(files, "") {
		return nil, usagef("usage: "+c.Command.UsageText, "--model names no file: the value is empty")
	}
	return files, nil
}

// benchTests are the tests of each depth.
func benchTests(c *cli.Context) ([]eval.BenchTest, error) {
	prompts, err := intList(c, "prompt", arch.MaxContext, 512)
	if err != nil {
		return nil, err
	}
	gens, err := intList(c, "gen", arch.MaxContext, 128)
	if err != nil {
		return nil, err
	}
	depths, err := intList(c, "depth", arch.MaxContext, 0)
	if err != nil {
		return nil, err
	}
	var both []eval.BenchTest
	for _, text := range c.StringSlice("pg") {
		first, second, ok := strings.Cut(text, ",")
		prompt, err1 := strconv.ParseUint(first, 10, 31)
		gen, err2 := strconv.ParseUint(second, 10, 31)
		if !ok || cmp.Or(err1, err2) != nil || min(prompt, gen) < 1 || max(prompt, gen) > arch.MaxContext {
			return nil, usagef("write --pg 512,128", "--pg %q: expected the tokens of a prompt and those to make, 1 to %d each", text, arch.MaxContext)
		}
		both = append(both, eval.BenchTest{Prompt: int(prompt), Gen: int(gen)})
	}
	var tests []eval.BenchTest
	for _, depth := range depths {
		for _, n := range prompts {
			tests = append(tests, eval.BenchTest{Prompt: n, Depth: depth})
		}
		for _, n := range gens {
			tests = append(tests, eval.BenchTest{Gen: n, Depth: depth})
		}
		for _, t := range both {
			tests = append(tests, eval.BenchTest{Prompt: t.Prompt, Gen: t.Gen, Depth: depth})
		}
	}
	tests = slices.DeleteFunc(tests, func(t eval.BenchTest) bool { return t.Tokens() == 0 })
	if len(tests) == 0 {
		return nil, usagef("give -p, -n or --pg a number of tokens", "there is nothing to measure: no prompt and no tokens to make")
	}
	return tests, nil
}

// benchConfigs are the settings that each file is loaded with.
func benchConfigs(c *cli.Context) ([]infer.Options, error) {
	batches, err := intList(c, "batch", counts["batch"], 0)
	if err != nil {
		return nil, err
	}
	threads, err := intList(c, "threads", counts["threads"], 0)
	if err != nil {
		return nil, err
	}
	precisions, err := namedList(c, "precision", parsePrecision, infer.Fast)
	if err != nil {
		return nil, err
	}
	caches, err := namedList(c, "cache-type", infer.ParseCacheType, infer.CacheDefault)
	if err != nil {
		return nil, err
	}
	var list []infer.Options
	for _, batch := range batches {
		for _, precision := range precisions {
			for _, cache := range caches {
				for _, n := range threads {
					list = append(list, infer.Options{Batch: batch, Precision: precision, Cache: cache, Threads: n})
				}
			}
		}
	}
	return list, nil
}

// namedList reads a flag that lists names.
func namedList[T any](c *cli.Context, flag string, parse func(string) (T, error), none T) ([]T, error) {
	if !c.IsSet(flag) {
		return []T{none}, nil
	}
	var list []T
	for _, text := range c.StringSlice(flag) {
		for name := range strings.SplitSeq(text, ",") {
			v, err := parse(name)
			if err != nil {
				return nil, usageOf(err)
			}
			list = append(list, v)
		}
	}
	return list, nil
}

func parsePrecision(name string) (infer.Precision, error) {
	switch name {
	case "fast":
		return infer.Fast, nil
	case "exact":
		return infer.Exact, nil
	}
	return 0, fmt.Errorf("no precision is called %q\nhint: the precisions are exact and fast", name)
}

func precisionName(p infer.Precision) string {
	if p == infer.Exact {
		return "exact"
	}
	return "fast"
}

// intList reads a flag that lists numbers up to most.
func intList(c *cli.Context, flag string, most, none int) ([]int, error) {
	if !c.IsSet(flag) {
		return []int{none}, nil
	}
	var list []int
	for _, text := range c.StringSlice(flag) {
		for item := range strings.SplitSeq(text, ",") {
			values, err := parseRange(item, most)
			if err != nil {
				return nil, usagef("write 512, 1,2,8 or a range: 1-4, 0-1024+512, 64-256*2", "--%s %q: %v", flag, item, err)
			}
			if list = append(list, values...); len(list) > maxListed {
				return nil, usagef("", "--%s lists more than %d values", flag, maxListed)
			}
		}
	}
	return list, nil
}

// parseRange reads N, FIRST-LAST, FIRST-LAST+STEP or FIRST-LAST*FACTOR.
func parseRange(text string, most int) ([]int, error) {
	number := func(s string) (int, error) {
		n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31)
		switch {
		case err == nil && int(n) <= most:
			return int(n), nil
		case s == text:
			return 0, fmt.Errorf("expected a whole number from 0 to %d", most)
		}
		return 0, fmt.Errorf("%q is no whole number from 0 to %d", s, most)
	}
	from, to, isRange := strings.Cut(text, "-")
	if from == "" { // a minus sign
		from, isRange = text, false
	}
	first, err := number(from)
	if err != nil || !isRange {
		return []int{first}, err
	}
	step, factor := 1, 1
	if i := strings.IndexAny(to, "+*"); i >= 0 {
		n, err := number(to[i+1:])
		if err != nil {
			return nil, err
		}
		if to[i] == '+' {
			step = n
		} else {
			step, factor = 0, n
		}
		to = to[:i]
	}
	last, err := number(to)
	if err != nil {
		return nil, err
	}
	if last < first || step == 0 && (factor < 2 || first == 0) {
		return nil, fmt.Errorf("the range does not come to its end")
	}
	var list []int
	for n := first; n <= last && len(list) <= maxListed; n = n*factor + step {
		list = append(list, n)
	}
	return list, nil
}

// processor is the name of the processor where the system tells it, else its architecture.
func processor() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// commit is the start of the commit that the program was built from, "" where the toolchain did not record it.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(len(s.Value), 7)]
		}
	}
	return ""
}
