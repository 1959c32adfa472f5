package main

import (
	"bytes"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/infer/eval"
)

// TestParseRecorded reads what the programs have printed, also after lines that are no part of the result.
func TestParseRecorded(t *testing.T) {
	for name, want := range map[string]measured{
		"llama.json": {Rates: []float64{0.36475}, Gen: 4, Depth: 32, Threads: 2},
		"ik.json":    {Rates: []float64{0.387445}, Prompt: 32, Gen: 4, Threads: 2},
	} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, before := range []string{"", "=== Repacked 211 tensors [x]\n"} {
			if got, err := parseResult([]byte(before + string(data))); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "error: failed to load model", "[", "[]", `[{"avg_ts": 1}]`, `[{"samples_ts": [0]}]`,
		`[{"samples_ts": [1]}, {"samples_ts": [2]}]`, `[{"samples_ts": "fast"}]`} {
		if m, err := parseResult([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, m)
		}
	}
}

func TestArgs(t *testing.T) {
	deep := eval.BenchTest{Gen: 16, Depth: 4096}
	for _, c := range []struct {
		p    program
		test eval.BenchTest
		want string
	}{
		{program{kind: ggufkit}, eval.BenchTest{Prompt: 512}, "bench -m a.gguf -t 2 -r 3 -o json -p 512 -n 0"},
		{program{kind: ggufkit}, deep, "bench -m a.gguf -t 2 -r 3 -o json -p 0 -n 16 -d 4096"},
		{program{kind: llamaCPP}, deep, "-m a.gguf -t 2 -r 3 -o json -p 0 -n 16 -d 4096"},
		{program{kind: ikLlama}, deep, "-m a.gguf -t 2 -r 3 -o json -p 0 -n 0 -gp 4096,16"},
		{program{kind: ikLlama, flags: []string{"-rtr", "1"}}, eval.BenchTest{Gen: 64}, "-m a.gguf -t 2 -r 3 -o json -p 0 -n 64 -rtr 1"},
	} {
		if got := strings.Join(c.p.args("a.gguf", 2, test{BenchTest: c.test}, 3), " "); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

func TestPlan(t *testing.T) {
	p, err := parse([]string{"-llama", "l", "-ik", "i", "-threads", "1,4", "-p", "100", "-n", "0", "m.gguf", "n.gguf"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, program := range p.programs {
		names = append(names, program.name)
	}
	if want := []string{"ggufkit", "llama.cpp", "ik", "ik -rtr"}; !slices.Equal(names, want) {
		t.Errorf("programs %v, want %v", names, want)
	}
	if p.readers != nil {
		t.Errorf("perplexity runs of %v, which nobody asked for", p.readers)
	}
	if !slices.Equal(p.threads, []int{1, 4}) || !slices.Equal(p.models, []string{"m.gguf", "n.gguf"}) {
		t.Errorf("threads %v, models %v", p.threads, p.models)
	}
	if want := []eval.BenchTest{{Prompt: 100}, {Gen: 16, Depth: 4096}}; !slices.Equal(p.tests, want) {
		t.Errorf("tests %v, want %v", p.tests, want)
	}
	for _, args := range [][]string{{"m.gguf"}, {"-llama", "l"}, {"-llama", "l", "-threads", "0", "m.gguf"}, {"-llama", "l", "-rounds", "0", "m.gguf"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

// TestParsePerplexity reads what the programs have printed of perplexity runs; of llama-perplexity both streams, one after the other.
func TestParsePerplexity(t *testing.T) {
	for name, c := range map[string]struct {
		kind kind
		want measured
	}{
		"llama-perplexity.txt": {llamaPerplexity, measured{Rates: []float64{3 * 512 / (60.933684 - 0.258997)}, perplexity: 119.6129}},
		"ours.json":            {ggufkitPerplexity, measured{Rates: []float64{2048}, perplexity: 119.25}},
	} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		p := program{kind: c.kind}
		got, err := p.parse(data, nil)
		if err != nil || math.Abs(got.best()/c.want.best()-1) > 1e-12 || got.perplexity != c.want.perplexity {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
		for _, cut := range []int{0, len(data) / 2} {
			if m, err := p.parse(data[:cut], nil); err == nil {
				t.Errorf("%s, %d bytes: %+v", name, cut, m)
			}
		}
	}
}

func TestPerplexityPlan(t *testing.T) {
	p, err := parse([]string{"-perplexity", "dir/llama-perplexity", "-text", "t.txt", "-chunks", "2", "m.gguf"})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.tests) != 0 {
		t.Errorf("benchmarks %v without a peer", p.tests)
	}
	var lines []string
	for _, r := range p.readers {
		lines = append(lines, r.name+": "+r.path+" "+strings.Join(r.args("m.gguf", 2, p.reading, 3), " "))
	}
	const run = "-m m.gguf -f t.txt -t 2 -c 512 -b 512 --chunks 2"
	want := []string{
		"ggufkit: bin/ggufkit perplexity " + run + " --json -q",
		"llama.cpp: dir/llama-perplexity " + run + " --log-prefix --log-timestamps",
		"our pp512: bin/ggufkit bench -m m.gguf -t 2 -r 3 -o json -p 512 -n 0",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
	if name := p.reading.String(); name != "perplexity 512" {
		t.Errorf("it is called %q", name)
	}
}

// TestRatio: the best rounds are compared, and the spread is that of rounds that belong together.
func TestRatio(t *testing.T) {
	c := comparison{
		model: "dir/m.gguf", threads: 2, test: test{BenchTest: eval.BenchTest{Prompt: 512}},
		programs: []program{{name: "ggufkit"}, {name: "llama.cpp", kind: llamaCPP}, {name: "ik", kind: ikLlama}, {name: "ik -rtr", kind: ikLlama}},
		runs: [][]measured{
			{{Rates: []float64{100, 90}}, {Rates: []float64{60, 120}, ShareOfPeak: 0.755, others: 0.5}},
			{{Rates: []float64{40}}, {Rates: []float64{80, 50}}},
			nil,
			{{Rates: []float64{60}}, {Rates: []float64{60}}},
		},
	}
	if peer := c.fastest(); peer != 1 {
		t.Errorf("the fastest peer is %d", peer)
	}
	best, least, most := c.ratio(1)
	for _, x := range []struct{ got, want float64 }{{best, 1.5}, {least, 1.5}, {most, 2.5}} {
		if math.Abs(x.got-x.want) > 1e-12 {
			t.Errorf("ratio %g (%g to %g)", best, least, most)
		}
	}
	var out bytes.Buffer
	c.print(&out)
	summarize(&out, []*comparison{&c})
	for _, want := range []string{"m.gguf, pp512, threads 2: 75.5% of", "120.00 tokens/s (from 100.00)", "12.500 ms per token", "1.50 x as fast (1.50 to 2.50)", "disturbed",
		"ik         failed", "| m.gguf | pp512 | 2 | 120.00 | 75.5% | - | 1.50 (1.50 to 2.50) | failed | 2.00 (1.67 to 2.00) | 1.50 |", "NOT QUIET: other programs kept up to 0.5"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
