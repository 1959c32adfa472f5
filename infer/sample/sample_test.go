package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var inf = float32(math.Inf(1))

// neutral switches everything off but the draw at temperature 1.
func neutral() Options { return Options{Temperature: 1, TopP: 1, RepeatPenalty: 1} }

func newSampler(t testing.TB, o Options) *Sampler {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func next(t testing.TB, s *Sampler, logits []float32) int32 {
	t.Helper()
	id, err := s.Next(logits)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// tied is n logits of which all from first on are the highest.
func tied(n, first int) []float32 {
	logits := make([]float32, n)
	for i := first; i < n; i++ {
		logits[i] = 2
	}
	return logits
}

// Greedy (R079) is the most likely token, of equal ones that with the lowest id.
func TestGreedy(t *testing.T) {
	for _, c := range []struct {
		logits []float32
		want   int32
	}{
		{[]float32{1, 3, 2}, 1},
		{[]float32{3, 1, 3, 3}, 0},
		{[]float32{-inf, -5, -inf, -5}, 1},
		{tied(1000, 0), 0},
		{tied(1000, 37), 37},
		{tied(262144, 131071), 131071},
	} {
		o := neutral()
		o.Temperature = 0
		if got := next(t, newSampler(t, o), c.logits); got != c.want {
			t.Errorf("%d logits: token %d, want %d", len(c.logits), got, c.want)
		}
	}
}

func TestBadLogits(t *testing.T) {
	nan := float32(math.NaN())
	for _, logits := range [][]float32{nil, {nan}, {1, nan}, {nan, 1}, {1, inf}, {-inf, -inf}} {
		for _, temperature := range []float32{0, 0.8} {
			o := neutral()
			o.Temperature = temperature
			if id, err := newSampler(t, o).Next(logits); err == nil {
				t.Errorf("%v at temperature %g: token %d", logits, temperature, id)
			}
		}
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	nan := float32(math.NaN())
	for name, change := range map[string]func(*Options){
		"temperature":     func(o *Options) { o.Temperature = -0.1 },
		"temperature nan": func(o *Options) { o.Temperature = nan },
		"temperature inf": func(o *Options) { o.Temperature = inf },
		"top-k":           func(o *Options) { o.TopK = -1 },
		"top-p":           func(o *Options) { o.TopP = 1.1 },
		"top-p nan":       func(o *Options) { o.TopP = nan },
		"min-p":           func(o *Options) { o.MinP = -1 },
		"penalty":         func(o *Options) { o.RepeatPenalty = 0 },
		"penalty nan":     func(o *Options) { o.RepeatPenalty = nan },
		"window":          func(o *Options) { o.RepeatLastN = -2 },
		"frequency":       func(o *Options) { o.FrequencyPenalty = 1001 },
		"frequency nan":   func(o *Options) { o.FrequencyPenalty = nan },
		"presence":        func(o *Options) { o.PresencePenalty = -inf },
	} {
		o := neutral()
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// R080: the repeat penalty looks at the documented window over prompt and output: positive logits are divided, negative ones multiplied, once per token.
func TestRepeatPenalty(t *testing.T) {
	logits := []float32{2.5, -2, 2, 0, -2.5}
	for _, c := range []struct {
		lastN    int
		accepted []int32
		want     []float32
	}{
		{64, []int32{0, 1, 0, 3}, []float32{1.25, -4, 2, 0, -2.5}},
		{0, []int32{0, 1}, []float32{2.5, -2, 2, 0, -2.5}},
		{-1, []int32{0, 1, 2, 3, 4, 4, 4}, []float32{1.25, -4, 1, 0, -5}},
		{2, []int32{0, 4, 1}, []float32{2.5, -4, 2, 0, -5}},
		{2, []int32{4, 4, 4, 1, 1}, []float32{2.5, -4, 2, 0, -2.5}},
		{3, []int32{99, -7, 0}, []float32{1.25, -2, 2, 0, -2.5}}, // ids that are no tokens change nothing
	} {
		o := neutral()
		o.RepeatPenalty, o.RepeatLastN = 2, c.lastN
		for prompt := range len(c.accepted) + 1 { // it makes no difference where the output begins
			s := newSampler(t, o)
			s.AcceptPrompt(c.accepted[:prompt])
			for _, id := range c.accepted[prompt:] {
				s.Accept(id)
			}
			before := slices.Clone(logits)
			if got := s.penalize(logits); !slices.Equal(got, c.want) {
				t.Errorf("window %d after %v: %v, want %v", c.lastN, c.accepted, got, c.want)
			}
			if !slices.Equal(before, logits) {
				t.Fatal("the caller's logits changed")
			}
		}
	}
}

// R080: presence and frequency count the output alone, whatever the window of the repeat penalty, and each does something of its own.
func TestOutputPenalties(t *testing.T) {
	logits := []float32{2.5, -2, 2, 0.5}
	for _, c := range []struct {
		name   string
		set    func(*Options)
		prompt []int32
		output []int32
		want   []float32
	}{
		{name: "frequency", set: func(o *Options) { o.FrequencyPenalty = 1 }, prompt: []int32{0, 2}, output: []int32{1, 3, 1}, want: []float32{2.5, -4, 2, -0.5}},
		{name: "presence", set: func(o *Options) { o.PresencePenalty = 0.75 }, prompt: []int32{0, 2}, output: []int32{1, 3, 1}, want: []float32{2.5, -2.75, 2, -0.25}},
		{name: "both", set: func(o *Options) { o.FrequencyPenalty, o.PresencePenalty = 1, 0.75 }, output: []int32{2, 2}, want: []float32{2.5, -2, -0.75, 0.5}},
		{name: "negative", set: func(o *Options) { o.FrequencyPenalty = -1 }, output: []int32{2, 2}, want: []float32{2.5, -2, 4, 0.5}},
		{name: "window off", set: func(o *Options) { o.FrequencyPenalty, o.RepeatPenalty, o.RepeatLastN = 1, 1.25, 0 }, prompt: []int32{0}, output: []int32{2, 2}, want: []float32{2.5, -2, 0, 0.5}},
		{name: "after repeat", set: func(o *Options) { o.PresencePenalty, o.RepeatPenalty, o.RepeatLastN = 0.5, 1.25, -1 }, prompt: []int32{0, 1}, output: []int32{1}, want: []float32{2, -3, 2, 0.5}},
		{name: "prompt only", set: func(o *Options) { o.FrequencyPenalty, o.PresencePenalty = 1, 1 }, prompt: []int32{0, 1, 2, 3}, want: logits},
		{name: "forbidden", set: func(o *Options) { o.Forbidden = []int32{0, 3, 4, -1} }, want: []float32{-inf, -2, 2, -inf}},
	} {
		o := neutral()
		c.set(&o)
		s := newSampler(t, o)
		s.AcceptPrompt(c.prompt)
		for _, id := range c.output {
			s.Accept(id)
		}
		if got := s.penalize(logits); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	// The figures of the report, on a token of logit 3: lowered by 2.0, by 0.7 once, divided or multiplied by 1.3.
	for _, c := range []struct {
		o     Options
		logit float32
		want  float64
	}{
		{Options{FrequencyPenalty: 1, RepeatPenalty: 1}, 3, 1},
		{Options{PresencePenalty: 0.7, RepeatPenalty: 1}, 3, 2.3},
		{Options{RepeatPenalty: 1.3, RepeatLastN: 64}, 3, 3 / 1.3},
		{Options{RepeatPenalty: 1.3, RepeatLastN: 64}, -3, -3 * 1.3},
	} {
		s := newSampler(t, c.o)
		s.Accept(1)
		s.Accept(1)
		if got := s.penalize([]float32{0, c.logit})[1]; math.Abs(float64(got)-c.want) > 1e-6 {
			t.Errorf("%+v: %g, want %g", c.o, got, c.want)
		}
	}
}

// support is the sorted set of tokens that n draws gave, with their frequencies.
func support(t *testing.T, o Options, logits []float32, n int) map[int32]float64 {
	t.Helper()
	s := newSampler(t, o)
	freq := map[int32]float64{}
	for range n {
		freq[next(t, s, logits)] += 1 / float64(n)
	}
	return freq
}

// logProbs gives logits of known probabilities, shifted since only differences count.
func logProbs(p ...float64) []float32 {
	out := make([]float32, len(p))
	for i, v := range p {
		out[i] = float32(math.Log(v)) + 3
	}
	return out
}

func TestFilters(t *testing.T) {
	logits := logProbs(0.1, 0.4, 0.05, 0.3, 0.15)
	for _, c := range []struct {
		name string
		set  func(*Options)
		want map[int32]float64
	}{
		{"none", func(o *Options) {}, map[int32]float64{0: 0.1, 1: 0.4, 2: 0.05, 3: 0.3, 4: 0.15}},
		{"top-k 2", func(o *Options) { o.TopK = 2 }, map[int32]float64{1: 4. / 7, 3: 3. / 7}},
		{"top-k above", func(o *Options) { o.TopK = 9 }, map[int32]float64{0: 0.1, 1: 0.4, 2: 0.05, 3: 0.3, 4: 0.15}},
		{"top-k 1", func(o *Options) { o.TopK = 1 }, map[int32]float64{1: 1}},
		{"top-p 0.69", func(o *Options) { o.TopP = 0.69 }, map[int32]float64{1: 4. / 7, 3: 3. / 7}},
		{"top-p 0.71", func(o *Options) { o.TopP = 0.71 }, map[int32]float64{1: 40. / 85, 3: 30. / 85, 4: 15. / 85}},
		{"top-p 0", func(o *Options) { o.TopP = 0 }, map[int32]float64{1: 1}},
		// After top-k 3 the probabilities are 40/85, 30/85, 15/85, so that two of them reach 0.8.
		{"top-k 3, top-p 0.8", func(o *Options) { o.TopK, o.TopP = 3, 0.8 }, map[int32]float64{1: 4. / 7, 3: 3. / 7}},
		{"min-p 0.3", func(o *Options) { o.MinP = 0.3 }, map[int32]float64{1: 40. / 85, 3: 30. / 85, 4: 15. / 85}},
		{"min-p 1", func(o *Options) { o.MinP = 1 }, map[int32]float64{1: 1}},
		// At temperature 1/2 probabilities are squared; the filters come before.
		{"top-k 2, cold", func(o *Options) { o.TopK, o.Temperature = 2, 0.5 }, map[int32]float64{1: 16. / 25, 3: 9. / 25}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := neutral()
			o.Seed = 7
			c.set(&o)
			got := support(t, o, logits, 20000)
			if len(got) != len(c.want) {
				t.Fatalf("tokens %v, want %v", got, c.want)
			}
			for id, p := range c.want {
				if math.Abs(got[id]-p) > 0.02 {
					t.Errorf("token %d with frequency %.3f, want %.3f", id, got[id], p)
				}
			}
		})
	}
}

func TestSeed(t *testing.T) {
	logits := make([]float32, 1000)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range logits {
		logits[i] = float32(rng.NormFloat64())
	}
	draw := func(seed uint64) []int32 {
		o := Options{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1.1, RepeatLastN: 64, Seed: seed}
		s := newSampler(t, o)
		var ids []int32
		for range 50 {
			id := next(t, s, logits)
			s.Accept(id)
			ids = append(ids, id)
		}
		return ids
	}
	first := draw(7)
	for range 3 {
		if !slices.Equal(draw(7), first) {
			t.Fatal("the same seed gives other tokens")
		}
	}
	if slices.Equal(draw(8), first) {
		t.Error("another seed gives the same tokens")
	}
}

// The partial orders keep what sorting everything keeps.
func TestFiltersAgainstSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(rapid.Float32Range(-4, 4), 1, 60).Draw(t, "logits")
		for i := range logits { // ties are likely
			logits[i] = float32(math.Round(float64(logits[i])*2) / 2)
		}
		o := neutral()
		o.TopK = rapid.IntRange(0, 70).Draw(t, "k")
		o.TopP = rapid.Float32Range(0, 1).Draw(t, "p")
		o.MinP = rapid.Float32Range(0, 1).Draw(t, "min")
		want := sorted(logits, o)
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		top, err := argmax(logits)
		if err != nil {
			t.Fatal(err)
		}
		s.filter(logits, logits[top])
		got := slices.Clone(s.kept)
		slices.SortFunc(got, candidate.compare)
		if !slices.Equal([]candidate(got), want) {
			t.Fatalf("%+v: kept %v, want %v", o, got, want)
		}
	})
}

// sorted filters by sorting everything.
func sorted(logits []float32, o Options) []candidate {
	var all []candidate
	for id, l := range logits {
		all = append(all, candidate{int32(id), l})
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		switch {
		case a.logit > b.logit:
			return -1
		case a.logit < b.logit:
			return 1
		}
		return 0
	})
	if o.TopK > 0 && o.TopK < len(all) {
		all = all[:o.TopK]
	}
	top := all[0].logit
	total, sum := 0.0, 0.0
	for _, c := range all {
		total += math.Exp(float64(c.logit - top))
	}
	if o.TopP < 1 {
		for i, c := range all {
			if sum += math.Exp(float64(c.logit - top)); sum >= float64(o.TopP)*total*(1-rounding) {
				all = all[:i+1]
				break
			}
		}
	}
	for i, c := range all {
		if o.MinP > 0 && c.logit < top+float32(math.Log(float64(o.MinP))) {
			return all[:i]
		}
	}
	return all
}

func BenchmarkNext(b *testing.B) {
	logits := make([]float32, 262144)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	for name, o := range map[string]Options{
		"greedy": {TopP: 1, RepeatPenalty: 1},
		"usual":  {Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1.1, RepeatLastN: 64},
		"top-p":  {Temperature: 0.8, TopP: 0.95, RepeatPenalty: 1},
		"plain":  {Temperature: 0.8, TopP: 1, RepeatPenalty: 1},
	} {
		b.Run(name, func(b *testing.B) {
			s := newSampler(b, o)
			s.Accept(3)
			for b.Loop() {
				next(b, s, logits)
			}
		})
	}
}
