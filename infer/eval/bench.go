package eval

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/ggufkit/ggufkit/infer"
)

// BenchTest is what one measurement does: a prompt at once, then tokens one by one, after a depth of tokens that is not timed.
type BenchTest struct {
	Prompt int `json:"n_prompt"`
	Gen    int `json:"n_gen"`
	Depth  int `json:"n_depth"`
}

// String is the name of the test as llama-bench has it: "pp512", "tg128", "pp512+tg128", "tg64 @ d4096".
func (t BenchTest) String() string {
	name := fmt.Sprintf("pp%d+tg%d", t.Prompt, t.Gen)
	switch {
	case t.Gen == 0:
		name = fmt.Sprintf("pp%d", t.Prompt)
	case t.Prompt == 0:
		name = fmt.Sprintf("tg%d", t.Gen)
	}
	if t.Depth > 0 {
		name += fmt.Sprintf(" @ d%d", t.Depth)
	}
	return name
}

// Tokens is the number that a run is timed for.
func (t BenchTest) Tokens() int { return t.Prompt + t.Gen }

// BenchOptions are those of Bench.
type BenchOptions struct {
	Runs     int // at least 1
	NoWarmup bool
	Seed     uint64 // of the token ids
	// Trace is the one that the model was loaded with. It is paused while the time is taken, unless it is Timed or has Labels.
	Trace    *infer.Trace
	Meter    *Meter                // reads before, in pauses of and after each run; nil: none
	Progress func(done, total int) // after each run; done is 0 after the warm-up
}

// BenchResult is the time of each run and what the engine did in it.
type BenchResult struct {
	Runs []time.Duration
	// Others is the mean number of processors that other programs kept busy meanwhile; 0 too where that is not known.
	Others float64
	// Work is what one run multiplies and reads. It is zero without a trace, and without a warm-up in a trace that is neither Timed nor has Labels.
	Work Work
	// Ops are the operations of all runs together, where the trace is Timed.
	Ops []infer.TraceOp
}

// Bench runs random tokens through a model. Every run starts from an empty sequence, or a fork of one that holds the depth. The
// warm-up is a whole prompt and one token, not timed.
func Bench(ctx context.Context, m *infer.Model, t BenchTest, o BenchOptions) (*BenchResult, error) {
	if t.Prompt < 0 || t.Gen < 0 || t.Depth < 0 || t.Tokens() == 0 || o.Runs < 1 {
		return nil, fmt.Errorf("benchmark %s with %d runs: there is nothing to measure", t, o.Runs)
	}
	if t.Tokens()+t.Depth > m.Context {
		return nil, fmt.Errorf("benchmark %s: %w: it needs %d positions, the model was loaded for %d", t, infer.ErrContextFull, t.Tokens()+t.Depth, m.Context)
	}
	b := &bench{ctx: ctx, model: m, rng: rand.New(rand.NewPCG(o.Seed, 0)), trace: o.Trace, meter: o.Meter}
	if b.trace == nil {
		b.trace = &infer.Trace{}
	}
	start, err := m.NewSession()
	if err != nil {
		return nil, err
	}
	defer start.Close()
	step := func(done int) {
		if o.Progress != nil {
			o.Progress(done, o.Runs)
		}
	}
	b.trace.Paused = true
	if err := b.append(start, t.Depth); err != nil {
		return nil, err
	}
	r := &BenchResult{}
	if !o.NoWarmup {
		if r.Work, err = b.warmUp(start, t); err != nil {
			return nil, err
		}
		step(0)
	}
	b.trace.Reset()
	b.trace.Paused = !b.trace.Timed && !b.trace.Labels
	watch := WatchBusy()
	for i := range o.Runs {
		if o.Meter != nil {
			o.Meter.Read()
		}
		elapsed, err := b.run(start, t)
		if err != nil {
			return nil, err
		}
		r.Runs = append(r.Runs, elapsed)
		step(i + 1)
	}
	r.Others, _ = watch.Others(0)
	if o.Meter != nil {
		o.Meter.Read()
	}
	if !b.trace.Paused {
		r.Work = workOf(b.trace.Ops()).times(1 / float64(o.Runs))
	}
	if b.trace.Timed {
		r.Ops = b.trace.Ops()
	}
	return r, nil
}

// bench is the state of a benchmark.
type bench struct {
	ctx   context.Context
	model *infer.Model
	rng   *rand.Rand
	trace *infer.Trace
	meter *Meter // or nil
}

// append runs n random tokens at once, in pieces so that it can be interrupted.
func (b *bench) append(s *infer.Session, n int) error {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = b.token()
	}
	piece := b.model.Memory().Batch
	for lo := 0; lo < n; lo += piece {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		if _, err := s.Append(ids[lo:min(lo+piece, n)]); err != nil {
			return err
		}
	}
	return nil
}

// readEvery is how often a run pauses to read memory: seldom enough that a small model's tokens find what the last ones have left in caches.
const readEvery = 250 * time.Millisecond

// generate runs n tokens one by one, and gives how long it paused.
func (b *bench) generate(s *infer.Session, n int) (paused time.Duration, err error) {
	last := time.Now()
	for range n {
		if err := b.ctx.Err(); err != nil {
			return 0, err
		}
		if _, err := s.Append([]int32{b.token()}); err != nil {
			return 0, err
		}
		if now := time.Now(); b.meter != nil && now.Sub(last) >= readEvery {
			b.meter.ReadPart()
			last = time.Now()
			paused += last.Sub(now)
		}
	}
	return paused, nil
}

func (b *bench) token() int32 { return b.rng.Int32N(int32(b.model.Params.NVocab)) }

// warmUp brings weights into memory and threads to work. Meanwhile it counts what a run does, taking all tokens that are made to
// be like the first.
func (b *bench) warmUp(start *infer.Session, t BenchTest) (Work, error) {
	s := start.Fork()
	defer s.Close()
	b.trace.Reset()
	timed := b.trace.Timed
	b.trace.Paused, b.trace.Timed = false, false
	defer func() { b.trace.Paused, b.trace.Timed = true, timed }()
	if err := b.append(s, t.Prompt); err != nil {
		return Work{}, err
	}
	work := workOf(b.trace.Ops())
	if t.Gen == 0 {
		return work, nil
	}
	b.trace.Reset()
	if _, err := b.generate(s, 1); err != nil {
		return Work{}, err
	}
	return work.plus(workOf(b.trace.Ops()).times(float64(t.Gen))), nil
}

// run takes the time of a test.
func (b *bench) run(from *infer.Session, t BenchTest) (time.Duration, error) {
	s := from.Fork()
	defer s.Close()
	start := time.Now()
	if err := b.append(s, t.Prompt); err != nil {
		return 0, err
	}
	paused, err := b.generate(s, t.Gen)
	return time.Since(start) - paused, err
}

// meanDeviation is the mean of values and their standard deviation as a sample, 0 for fewer than two.
func meanDeviation(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	if len(values) < 2 {
		return mean, 0
	}
	var squares float64
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(squares / float64(len(values)-1))
}
