package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/ggufkit/ggufkit/infer/sample"
)

// newTranscript starts a sequence.
func newTranscript(t testing.TB, m *Model) *Transcript {
	t.Helper()
	s, err := m.NewTranscript()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// generate returns the tokens that follow a prompt, and why they end.
func generate(t testing.TB, s *Transcript, prompt []int32, so sample.Options, o GenerateOptions) ([]int32, StopReason) {
	t.Helper()
	sampler, err := sample.New(so)
	if err != nil {
		t.Fatal(err)
	}
	if o.EOG == nil {
		o.EOG = func(int32) bool { return false }
	}
	var out []int32
	reason, err := Generate(t.Context(), s, prompt, sampler, o, func(id int32) error {
		out = append(out, id)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, reason
}

var (
	greedy = sample.Options{TopP: 1, RepeatPenalty: 1}
	random = sample.Options{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1.1, RepeatLastN: 64, Seed: 7}
)

// recorder keeps the logits that a sampler saw.
type recorder struct {
	*sample.Sampler
	logits [][]float32
	other  func() // is called before each choice
}

func (r *recorder) Next(logits []float32) (int32, error) {
	r.logits = append(r.logits, slices.Clone(logits))
	r.other()
	return r.Sampler.Next(logits)
}

// R079: the same request gives the same tokens and logits whatever the threads and the batch, beside other requests, and after a cached prefix.
func TestSameRequestSameTokens(t *testing.T) {
	m := llamaTiny()
	prompt := m.ids(50)
	for _, so := range []sample.Options{greedy, random} {
		run := func(s *Transcript, other func()) ([]int32, [][]float32) {
			t.Helper()
			sampler, err := sample.New(so)
			if err != nil {
				t.Fatal(err)
			}
			r := &recorder{Sampler: sampler, other: other}
			var out []int32
			if _, err := Generate(t.Context(), s, prompt, r, withoutEnd(GenerateOptions{MaxTokens: 40}), func(id int32) error {
				out = append(out, id)
				return nil
			}); err != nil || len(out) != 40 {
				t.Fatalf("%d tokens, %v", len(out), err)
			}
			return out, r.logits
		}
		nothing := func() {}
		want, logits := run(newTranscript(t, m.load(t, Options{Precision: Exact, Threads: 1})), nothing)
		check := func(what string, s *Transcript, other func()) {
			t.Helper()
			got, seen := run(s, other)
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %v, want %v", what, got, want)
			}
			sameBits(t, what, seen, logits)
		}
		for _, threads := range []int{1, 2} {
			for _, batch := range []int{1, 7, 512} {
				model := m.load(t, Options{Precision: Exact, Threads: threads, Batch: batch})
				s := newTranscript(t, model)
				what := fmt.Sprintf("threads %d, batch %d", threads, batch)
				check(what, s, nothing)
				check(what+", all cached", s, nothing)

				prefix := newTranscript(t, model)
				generate(t, prefix, prompt[:30], so, GenerateOptions{MaxTokens: 3})
				cached := prefix.Fork()
				generate(t, prefix, m.ids(20), so, GenerateOptions{MaxTokens: 20}) // goes another way
				check(what+", a cached prefix", cached, nothing)

				others := []*Session{newSession(t, model), newSession(t, model), newSession(t, model)}
				check(what+", beside others", newTranscript(t, model), func() {
					var step []Token
					for i, o := range others {
						step = append(step, Token{Seq: o.ID(), Pos: [4]int32{int32(o.Len())}, ID: int32(i), Logits: true})
					}
					if err := model.Step(step, func(int, []float32) error { return nil }); err != nil {
						t.Fatal(err)
					}
				})
			}
		}
	}
}

// Models of one file in different goroutines do not disturb each other.
func TestModelsSideBySide(t *testing.T) {
	m := llamaTiny()
	want, _ := generate(t, newTranscript(t, m.load(t, Options{})), m.ids(20), random, GenerateOptions{MaxTokens: 20})
	var models []*Model
	for range 3 {
		models = append(models, m.load(t, Options{Threads: 2}))
	}
	var wg sync.WaitGroup
	for _, model := range models {
		wg.Go(func() {
			if got, _ := generate(t, newTranscript(t, model), m.ids(20), random, GenerateOptions{MaxTokens: 20}); !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
	wg.Wait()
}

func TestGenerateStops(t *testing.T) {
	m := llamaTiny()
	model := m.load(t, Options{Precision: Exact, Context: 30})
	prompt := m.ids(10)
	free, reason := generate(t, newTranscript(t, model), prompt, greedy, GenerateOptions{MaxTokens: -1})
	if reason != StopLength || len(free) != 20 {
		t.Errorf("%d tokens in a context of 30 after 10, %s", len(free), reason)
	}
	for _, n := range []int{0, 1, 5} {
		got, reason := generate(t, newTranscript(t, model), prompt, greedy, GenerateOptions{MaxTokens: n})
		if reason != StopLength || !slices.Equal(got, free[:n]) {
			t.Errorf("%d tokens: %v, %s", n, got, reason)
		}
	}
	end := free[7]
	at := slices.Index(free, end)
	got, reason := generate(t, newTranscript(t, model), prompt, greedy, GenerateOptions{MaxTokens: -1, EOG: func(id int32) bool { return id == end }})
	if reason != StopEnd || !slices.Equal(got, free[:at]) {
		t.Errorf("until token %d: %v, %s, want %v", end, got, reason, free[:at])
	}
}

type fixed struct{ err error }

func (fixed) AcceptPrompt([]int32)            {}
func (fixed) Accept(int32)                    {}
func (f fixed) Next([]float32) (int32, error) { return 3, f.err }

func TestGenerateErrors(t *testing.T) {
	m := llamaTiny()
	model := m.load(t, Options{Context: 30, Batch: 4})
	never := GenerateOptions{MaxTokens: 5, EOG: func(int32) bool { return false }}
	stop := errors.New("stop")
	none := func(int32) error { return nil }
	if _, err := Generate(t.Context(), newTranscript(t, model), m.ids(3), fixed{stop}, never, none); !errors.Is(err, stop) {
		t.Errorf("sampler's error: %v", err)
	}
	if _, err := Generate(t.Context(), newTranscript(t, model), m.ids(3), fixed{}, never, func(int32) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("receiver's error: %v", err)
	}
	if _, err := Generate(t.Context(), newTranscript(t, model), m.ids(31), fixed{}, never, none); !errors.Is(err, ErrContextFull) {
		t.Errorf("long prompt: %v", err)
	}
	if _, err := Generate(t.Context(), newTranscript(t, model), nil, fixed{}, never, none); err == nil {
		t.Error("no error for an empty prompt")
	}
	count := 0
	reason, err := Generate(t.Context(), newTranscript(t, model), m.ids(3), fixed{}, never, func(int32) error {
		if count++; count == 2 {
			return fmt.Errorf("found: %w", ErrStop)
		}
		return nil
	})
	if reason != StopText || err != nil || count != 2 {
		t.Errorf("a stop text: %q, %v after %d tokens", reason, err, count)
	}
	ctx, cancel := context.WithCancel(t.Context())
	count = 0
	_, err = Generate(ctx, newTranscript(t, model), m.ids(3), fixed{}, never, func(int32) error {
		if count++; count == 2 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || count != 2 {
		t.Errorf("cancelled: %v after %d tokens", err, count)
	}
	// A long prompt is left between its pieces.
	s := newTranscript(t, model)
	if _, err := Generate(ctx, s, m.ids(20), fixed{}, never, none); !errors.Is(err, context.Canceled) || len(s.IDs()) > 4 {
		t.Errorf("cancelled before the prompt: %v, %d positions", err, len(s.IDs()))
	}
}
