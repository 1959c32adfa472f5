package infer

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// A cache of Q8_0 rounds each element to a 127th of the largest of its 32 or nearer, about as activations in 8 bits are rounded: logits are as far off.
func TestCacheOfQ8(t *testing.T) {
	m := quantTiny(gguf.F32)
	ids := m.ids(150)
	exact := all(t, newSession(t, m.load(t, Options{Precision: Exact})), ids, 150)
	want := make([][]float64, len(exact))
	for i := range exact {
		want[i] = widen(exact[i])
	}
	plain := all(t, newSession(t, m.load(t, Options{})), ids, 150)
	eight := m.load(t, Options{Cache: CacheQ8_0})
	for _, piece := range []int{150, 40, 1} {
		within(t, "q8_0", all(t, newSession(t, eight), ids, piece), want, 0.03)
	}
	within(t, "f16", plain, want, 0.003)
}

// Cuts, forks and snapshots of a cache of Q8_0 leave a sequence what it computes alone, and what a cut forgets is gone.
func TestSequencesOfQ8(t *testing.T) {
	m := quantTiny(gguf.Q4_K)
	model := m.load(t, Options{Cache: CacheQ8_0, Context: 200})
	ids := m.ids(100)
	alone := newSession(t, model)
	all(t, alone, ids[:70], 70)
	want := all(t, alone, ids[70:], 30)

	s := newSession(t, model)
	all(t, s, ids[:70], 70)
	bad := s.tokens(make([]int32, 10))
	for i := range bad {
		bad[i].Embed = make([]float32, m.embd)
		bad[i].Embed[0] = float32(math.NaN())
	}
	if err := model.Step(bad, nil); err != nil {
		t.Fatal(err)
	}
	fork := s.Fork()
	for _, s := range []*Session{s, fork} {
		if err := s.Truncate(70); err != nil {
			t.Fatal(err)
		}
	}
	var saved bytes.Buffer
	if err := s.Snapshot(&saved); err != nil {
		t.Fatal(err)
	}
	restored := newSession(t, model)
	if err := restored.Restore(bytes.NewReader(saved.Bytes())); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Session{"cut": s, "fork": fork, "restored": restored} {
		sameBits(t, name, all(t, s, ids[70:], 30), want)
	}
	other := newSession(t, m.load(t, Options{Context: 200}))
	if err := other.Restore(bytes.NewReader(saved.Bytes())); err == nil || !strings.Contains(err.Error(), "type of cache") {
		t.Errorf("restored with another type of cache: %v", err)
	}
}

// Positions are attended to in chunks that threads share: the bits are those of one thread, which takes them in turn, and of any batch in exact precision.
func TestChunksOfAttention(t *testing.T) {
	for name, m := range map[string]tiny{"all": quantTiny(gguf.Q4_K), "window": quantTiny(gguf.F16)} {
		if name == "window" {
			m.keys = map[string]gguf.Value{"attention.sliding_window": u32(700)}
		}
		ids := m.ids(2*attentionChunk + 10)
		held := ids[:len(ids)-8]
		for _, p := range []Precision{Fast, Exact} {
			var want [][]float32
			for i, o := range []Options{{Threads: 1}, {Threads: 2}, {Threads: 5}} {
				o.Precision, o.Batch, o.Context = p, 256, 2048
				model := m.load(t, o)
				s := newSession(t, model)
				if _, err := s.Append(held); err != nil {
					t.Fatal(err)
				}
				// Two sequences in one batch, of which one has a shorter past.
				short := newSession(t, model)
				all(t, short, ids[:40], 40)
				got := all(t, s, ids[len(held):len(held)+4], 1)
				batch := append(append([]Token{}, s.tokens(ids[len(held)+4:])...), short.tokens(ids[40:43])...)
				for i := range batch {
					batch[i].Logits = true
				}
				err := model.Step(batch, func(_ int, logits []float32) error {
					got = append(got, append([]float32{}, logits...))
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					want = got
				}
				sameBits(t, name, got, want)
				if p == Exact && i == 2 {
					whole := newSession(t, model)
					if _, err := whole.Append(held[:5]); err != nil {
						t.Fatal(err)
					}
					rest := all(t, whole, ids[5:], 311)
					sameBits(t, "whole", got[:8], rest[len(rest)-8:])
				}
			}
		}
	}
}
