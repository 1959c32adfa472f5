package eval_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/infer/eval"
	"github.com/ggufkit/ggufkit/internal/kernel"
)

// The multiplications of a token with the weights of load's model: seven matrices of a block, and the output.
const blockWeights, attentionWeights, outputWeights = 7 * 8 * 8, 3 * 8 * 8, 8 * vocab

func TestBenchNames(t *testing.T) {
	for want, test := range map[string]eval.BenchTest{
		"pp512":         {Prompt: 512},
		"tg128":         {Gen: 128},
		"pp512+tg64":    {Prompt: 512, Gen: 64},
		"tg32 @ d4096":  {Gen: 32, Depth: 4096},
		"pp8+tg2 @ d1":  {Prompt: 8, Gen: 2, Depth: 1},
		"pp2048 @ d100": {Prompt: 2048, Depth: 100},
	} {
		if got := test.String(); got != want {
			t.Errorf("%+v is called %q, want %q", test, got, want)
		}
	}
}

// TestBench: runs, work and operations of a test are what it asks for.
func TestBench(t *testing.T) {
	for _, test := range []eval.BenchTest{{Prompt: 9}, {Gen: 4}, {Prompt: 6, Gen: 3, Depth: 5}} {
		t.Run(test.String(), func(t *testing.T) {
			var timed, counted *eval.BenchResult
			for _, mode := range []struct {
				timed bool
				out   **eval.BenchResult
			}{{false, &counted}, {true, &timed}} {
				trace := &infer.Trace{Timed: mode.timed}
				m := load(t, infer.Options{Trace: trace, Context: 20, Batch: 4})
				var steps [][2]int
				start := time.Now()
				r, err := eval.Bench(t.Context(), m, test, eval.BenchOptions{Runs: 3, Trace: trace, Progress: func(done, total int) { steps = append(steps, [2]int{done, total}) }})
				if err != nil {
					t.Fatal(err)
				}
				elapsed := time.Since(start)
				if len(r.Runs) != 3 || len(steps) != 4 || steps[0] != [2]int{0, 3} || steps[3] != [2]int{3, 3} {
					t.Errorf("%d runs, progress %v", len(r.Runs), steps)
				}
				var sum time.Duration
				for _, d := range r.Runs {
					sum += d
				}
				if sum <= 0 || sum > elapsed {
					t.Errorf("the runs took %v of %v", sum, elapsed)
				}
				*mode.out = r
			}
			if counted.Ops != nil {
				t.Error("operations without times")
			}
			var ops time.Duration
			for _, op := range timed.Ops {
				ops += op.Time
			}
			if all := timed.Runs[0] + timed.Runs[1] + timed.Runs[2]; ops <= 0 || ops > all {
				t.Errorf("operations took %v of %v", ops, all)
			}
			// Every token meets the block up to attention, every made one and the last of each piece of a prompt the rest and the output.
			tokens, outputs := test.Tokens(), test.Gen+(test.Prompt+3)/4
			if want := float64(tokens*attentionWeights + outputs*(blockWeights-attentionWeights+outputWeights)); timed.Work.Floats != want || counted.Work.Floats != want || timed.Work.Integers != 0 {
				t.Errorf("%g and %g multiplications, want %g", timed.Work.Floats, counted.Work.Floats, want)
			}
			if math.Abs(timed.Work.Bytes-counted.Work.Bytes) > 0.05*timed.Work.Bytes {
				t.Errorf("%g bytes in the runs, %g expected from the warm-up", timed.Work.Bytes, counted.Work.Bytes)
			}
		})
	}
}

func TestBenchRefuses(t *testing.T) {
	m := load(t, infer.Options{Context: 20})
	for _, c := range []struct {
		test eval.BenchTest
		runs int
	}{{eval.BenchTest{}, 1}, {eval.BenchTest{Prompt: -1, Gen: 2}, 1}, {eval.BenchTest{Prompt: 1}, 0}} {
		if _, err := eval.Bench(t.Context(), m, c.test, eval.BenchOptions{Runs: c.runs}); err == nil {
			t.Errorf("%+v with %d runs: no error", c.test, c.runs)
		}
	}
	if _, err := eval.Bench(t.Context(), m, eval.BenchTest{Prompt: 10, Gen: 6, Depth: 5}, eval.BenchOptions{Runs: 1}); !errors.Is(err, infer.ErrContextFull) {
		t.Errorf("more than the context: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := eval.Bench(ctx, m, eval.BenchTest{Gen: 2}, eval.BenchOptions{Runs: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestBenchRecord: rates and shares follow from times and work.
func TestBenchRecord(t *testing.T) {
	result := &eval.BenchResult{
		Runs: []time.Duration{2 * time.Second, time.Second, 4 * time.Second},
		Work: eval.Work{Integers: 100e9, Floats: 10e9, Others: 5e9, Bytes: 14e9},
		Ops: []infer.TraceOp{
			{Kind: "matmul", Weights: "a", Types: "Q8_0", Layer: 0, Integer: true, Calls: 3, Time: 1500 * time.Millisecond, MACs: 150e9, Bytes: 6e9},
			{Kind: "norm", Layer: 0, Calls: 6, Time: time.Second},
			{Kind: "matmul", Weights: "a", Types: "Q8_0", Layer: 1, Integer: true, Calls: 3, Time: 1500 * time.Millisecond, MACs: 150e9, Bytes: 6e9},
			{Kind: "attention", Layer: 1, Calls: 3, Time: 1500 * time.Millisecond, MACs: 15e9, Bytes: 3e9},
		},
	}
	var r eval.BenchRecord
	r.Record(eval.BenchTest{Prompt: 8}, result, eval.Peak{Peak: kernel.Peak{Bytes: 200, Floats: 50}, Read: 12})
	const mean = 7.0 / 3 // seconds
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6*math.Abs(want) {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	near("mean time", float64(r.AvgNS), mean*1e9)
	near("deviation of time", float64(r.StddevNS), 1e9*math.Sqrt((1./9+16./9+25./9)/2))
	near("rate", r.TokensPerSecond, (4.+8+2)/3)
	near("deviation of rate", r.Stddev, math.Sqrt(((4-14./3)*(4-14./3)+(8-14./3)*(8-14./3)+(2-14./3)*(2-14./3))/2))
	near("multiplications", r.GMACs, 110/mean)
	near("bytes", r.GBs, 14/mean)
	near("share of the peak", r.ShareOfPeak, (100./200+10./50)/mean)
	near("share of reading", r.ShareOfReading, 14./12/mean)
	if len(r.Ops) != 4 || r.Ops[0].Weights != "a" || r.Ops[1].Op != "attention" || r.Ops[2].Op != "norm" || r.Ops[3].Op != "between operations" {
		t.Fatalf("operations: %+v", r.Ops)
	}
	near("calls", r.Ops[0].Calls, 2)
	near("time of an operation", r.Ops[0].NS, 1e9)
	near("share of time", r.Ops[0].ShareOfTime, 1/mean)
	near("multiplications of an operation", r.Ops[0].GMACs, 100)
	near("bytes of an operation", r.Ops[0].GBs, 4)
	near("share of the integer peak", r.Ops[0].ShareOfPeak, 0.5)
	near("share of the float peak", r.Ops[1].ShareOfPeak, 0.2)
	near("share of reading", r.Ops[1].ShareOfReading, 2./12)
	near("the rest", r.Ops[3].NS, (mean-11./6)*1e9)
}
