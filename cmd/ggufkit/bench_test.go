package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/infer/eval"
	"github.com/urfave/cli/v2"
)

func TestParseRange(t *testing.T) {
	for text, want := range map[string][]int{
		"512":        {512},
		"0":          {0},
		"1-4":        {1, 2, 3, 4},
		"5-5":        {5},
		"0-1024+512": {0, 512, 1024},
		"1-8+3":      {1, 4, 7},
		"64-256*2":   {64, 128, 256},
		"3-100*10":   {3, 30},
		"":           nil, "x": nil, "-1": nil, "4-1": nil, "1-": nil, "1-9+0": nil, "1-9*1": nil, "0-9*2": nil, "2000": nil, "1-2000": nil, "1-4*x": nil, "1.5": nil,
	} {
		got, err := parseRange(text, 1024)
		if (err == nil) != (want != nil) || err == nil && !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

// plan reads a command line of bench.
func plan(t *testing.T, args string) (*benchPlan, error) {
	t.Helper()
	var p *benchPlan
	var err error
	app := newApp(newUI(nil, nil, nil))
	app.Command("bench").Action = func(c *cli.Context) error {
		p, err = planBench(c)
		return nil
	}
	words, permuteErr := permute(app, append([]string{"ggufkit", "bench"}, strings.Fields(args)...))
	if permuteErr != nil {
		t.Fatal(permuteErr)
	}
	if runErr := app.Run(words); runErr != nil {
		t.Fatal(runErr)
	}
	return p, err
}

// TestBenchPlan: lists multiply in llama-bench's order.
func TestBenchPlan(t *testing.T) {
	p, err := plan(t, "-m a,b -p 8 -p 16 -n 4 --pg 2,3 -d 0,10 -t 1-2 -b 32,64 c")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.files, []string{"a", "b", "c"}) {
		t.Errorf("files %v", p.files)
	}
	want := []eval.BenchTest{
		{Prompt: 8}, {Prompt: 16}, {Gen: 4}, {Prompt: 2, Gen: 3},
		{Prompt: 8, Depth: 10}, {Prompt: 16, Depth: 10}, {Gen: 4, Depth: 10}, {Prompt: 2, Gen: 3, Depth: 10},
	}
	if !slices.Equal(p.tests, want) {
		t.Errorf("tests %v, want %v", p.tests, want)
	}
	var configs [][3]int
	for _, o := range p.configs {
		configs = append(configs, [3]int{o.Batch, o.Threads, o.Context})
	}
	if want := [][3]int{{32, 1, 26}, {32, 2, 26}, {64, 1, 26}, {64, 2, 26}}; !slices.Equal(configs, want) {
		t.Errorf("settings %v, want %v", configs, want)
	}
	if p, err = plan(t, "-m a"); err != nil || !slices.Equal(p.tests, []eval.BenchTest{{Prompt: 512}, {Gen: 128}}) || p.runs != 5 || p.format != "table" {
		t.Errorf("by default: %+v, %v", p, err)
	}
	if _, err = plan(t, "-m a -t 1-4096"); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a list that is too long: %v", err)
	}
}

// TestBenchColumns: lists of columns hold every field that is no list, under its name in JSON.
func TestBenchColumns(t *testing.T) {
	r := &eval.BenchRecord{CPU: `a "b", it's`, SamplesNS: []uint64{1}, SamplesTS: []float64{1}, Ops: []eval.BenchOp{{Op: "x"}}}
	r.Filename, r.AvgTS = "m.gguf", 1.5
	list, err := columns(r)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"samples_ns", "samples_ts", "ops"} {
		delete(fields, name)
	}
	for _, c := range list {
		if _, ok := fields[c.name]; !ok {
			t.Errorf("column %s is no field", c.name)
		}
		delete(fields, c.name)
		want := map[string]string{"cpu_info": `a "b", it's`, "model_filename": "m.gguf", "avg_ts": "1.5"}
		if w, ok := want[c.name]; ok && c.text() != w {
			t.Errorf("%s is %q, want %q", c.name, c.text(), w)
		}
	}
	if len(fields) > 0 {
		t.Errorf("no columns for %v", fields)
	}
}
