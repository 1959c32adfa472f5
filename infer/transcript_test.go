package infer

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
)

// R083: off by default, a full context ends the text with reason length; with a shift the limit still counts the tokens that were generated; after a
// shift the logits equal those of a fresh run on the tokens that were kept. For every family.
func TestContextShift(t *testing.T) {
	const size, keep = 64, 5
	models := families()
	models["llama"] = llamaTiny()
	for name, m := range models {
		limit, shifts := 130, 3
		if name == "llama" {
			limit, shifts = 500, 10
		}
		t.Run(name, func(t *testing.T) {
			model := m.load(t, Options{Precision: Exact, Context: size})
			prompt := m.ids(20)
			o := GenerateOptions{MaxTokens: limit}
			tr := newTranscript(t, model)
			got, reason := generate(t, tr, prompt, greedy, o)
			if reason != StopLength || len(tr.IDs()) != size || len(prompt)+len(got) != size {
				t.Fatalf("without a shift: %s after %d tokens, %d held", reason, len(got), len(tr.IDs()))
			}

			o.Shift, o.Keep = true, keep
			tr = newTranscript(t, model)
			watched := &watcher{t: t, model: model, held: slices.Clone(prompt), keep: keep}
			if _, err := Generate(t.Context(), tr, prompt, watched, withoutEnd(o), func(id int32) error {
				watched.last = append(watched.last, id)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if len(watched.last) != limit || watched.shifts < shifts {
				t.Fatalf("with shifts: %d tokens, %d shifts", len(watched.last), watched.shifts)
			}
			if !slices.Equal(tr.IDs()[:keep], prompt[:keep]) {
				t.Errorf("held at the end: %v", tr.IDs())
			}
		})
	}
}

func withoutEnd(o GenerateOptions) GenerateOptions {
	o.EOG = func(int32) bool { return false }
	return o
}

// watcher is a sampler that knows which tokens must be held, and after each shift compares the logits with those of a fresh run.
type watcher struct {
	t      *testing.T
	model  *Model
	held   []int32 // by the transcript
	keep   int
	last   []int32 // emitted
	shifts int
}

func (w *watcher) AcceptPrompt([]int32) {}

func (w *watcher) Accept(id int32) {
	if len(w.held) == w.model.Context {
		w.held = slices.Delete(w.held, w.keep, w.keep+(len(w.held)-w.keep)/2)
		w.shifts++
	}
	w.held = append(w.held, id)
}

func (w *watcher) Next(logits []float32) (int32, error) {
	if w.shifts > 0 && w.shifts < 3 && len(w.held) < w.model.Context/2+8 {
		fresh := newSession(w.t, w.model)
		defer fresh.Close()
		want, err := fresh.Append(w.held)
		if err != nil {
			return 0, err
		}
		sameBits(w.t, "after a shift", [][]float32{logits}, [][]float32{want})
	}
	best := 0
	for id := range logits {
		if logits[id] > logits[best] {
			best = id
		}
	}
	return int32(best), nil
}

// A generation without any end can be interrupted, and a context with nothing to drop ends it.
func TestShiftEnds(t *testing.T) {
	m := llamaTiny()
	model := m.load(t, Options{Context: 16})
	ctx, cancel := context.WithCancel(t.Context())
	count := 0
	_, err := Generate(ctx, newTranscript(t, model), m.ids(4), fixed{}, withoutEnd(GenerateOptions{MaxTokens: -1, Shift: true}), func(int32) error {
		if count++; count == 200 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || count != 200 {
		t.Errorf("%v after %d tokens", err, count)
	}
	got, reason := generate(t, newTranscript(t, model), m.ids(4), greedy, GenerateOptions{MaxTokens: -1, Shift: true, Keep: 15})
	// The last token is chosen and finds no place.
	if reason != StopLength || len(got) != 13 {
		t.Errorf("with all kept: %s after %d tokens", reason, len(got))
	}
}

// A prompt computes only what differs from what is held, and gives what a fresh run gives.
func TestTranscriptReuse(t *testing.T) {
	m := llamaTiny()
	model := m.load(t, Options{Precision: Exact, Context: 100})
	ids := m.ids(60)
	other := slices.Concat(ids[:30], []int32{1, 2, 3})
	tr := newTranscript(t, model)
	for _, c := range []struct {
		ids    []int32
		reused int
	}{{ids[:40], 0}, {ids, 40}, {ids, 60}, {other, 30}, {ids[:30], 29}, {ids[:31], 30}, {m.ids(1), 0}} {
		got, reused, err := tr.Run(t.Context(), c.ids)
		if err != nil || reused != c.reused || !slices.Equal(tr.IDs(), c.ids) {
			t.Fatalf("%d tokens: %d reused, %d held, %v; want %d", len(c.ids), reused, len(tr.IDs()), err, c.reused)
		}
		want, err := newSession(t, model).Append(c.ids)
		if err != nil {
			t.Fatal(err)
		}
		sameBits(t, "logits", [][]float32{got}, [][]float32{want})
	}
	// A fork knows the last logits too, whatever becomes of its origin.
	want, _, err := tr.Run(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	want = slices.Clone(want)
	fork := tr.Fork()
	if _, _, err := tr.Run(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	got, reused, err := fork.Run(t.Context(), ids)
	if err != nil || reused != len(ids) {
		t.Fatalf("%d reused, %v", reused, err)
	}
	sameBits(t, "a fork's logits", [][]float32{got}, [][]float32{want})
	fork.Close()
	tr.Close()
}

// Tokens that are none leave the transcript with those before them.
func TestTranscriptErrors(t *testing.T) {
	m := llamaTiny()
	model := m.load(t, Options{Context: 20, Batch: 4})
	tr := newTranscript(t, model)
	bad := slices.Concat(m.ids(6), []int32{-1})
	if _, _, err := tr.Run(t.Context(), bad); err == nil || len(tr.IDs()) != 4 {
		t.Errorf("%v, %d held", err, len(tr.IDs()))
	}
	if _, _, err := tr.Run(t.Context(), m.ids(21)); !errors.Is(err, ErrContextFull) {
		t.Error(err)
	}
	if _, reused, err := tr.Run(t.Context(), m.ids(20)); err != nil || reused != 4 {
		t.Errorf("%d reused, %v", reused, err)
	}
}

// forward is a memory that cannot go back except to the start.
type forward struct{ State }

func (f forward) Truncate(n int) error {
	if n > 0 && n < f.Len() {
		return io.ErrUnexpectedEOF
	}
	return f.State.Truncate(n)
}

func TestTranscriptWithoutGoingBack(t *testing.T) {
	m := llamaTiny()
	model := m.load(t, Options{Precision: Exact, Context: 100})
	tr := newTranscript(t, model)
	tr.session.state = forward{tr.session.state}
	if _, _, err := tr.Run(t.Context(), m.ids(40)); err != nil {
		t.Fatal(err)
	}
	got, reused, err := tr.Run(t.Context(), m.ids(30))
	if err != nil || reused != 0 {
		t.Fatalf("%d reused, %v", reused, err)
	}
	want, err := newSession(t, model).Append(m.ids(30))
	if err != nil {
		t.Fatal(err)
	}
	sameBits(t, "logits", [][]float32{got}, [][]float32{want})
}
