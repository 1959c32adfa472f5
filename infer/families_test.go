package infer

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// zoo is small models by name.
type zoo map[string]tiny

// add makes a model of a family, without the biases that are optional.
func (z zoo) add(name, family string, layers int, change func(*tiny)) {
	m := llamaTiny()
	spec, err := arch.ForGGUF(family)
	if err != nil {
		panic(err)
	}
	m.spec, m.layers, m.noOptional, m.keys = spec, layers, true, map[string]gguf.Value{}
	change(&m)
	z[name] = m
}

func f32(f float64) gguf.Value { return gguf.New(float32(f)) }
func u32(n uint32) gguf.Value  { return gguf.New(n) }

// families are small models of all families, with settings that each of them notices.
func families() map[string]tiny {
	z := zoo{}
	z.gemmas()
	z.phis()
	z.add("mistral", "llama", 2, func(m *tiny) {
		m.keys["attention.sliding_window"] = u32(40)
		m.want.window = []int{40, 40}
	})
	z.add("qwen3", "qwen3", 2, func(*tiny) {})
	z.add("scale", "llama", 2, func(m *tiny) {
		m.keys["attention.scale"] = f32(0.75)
		m.want.scale = 0.75
	})
	yes, no := rotated{base: 10000}, rotated{}
	z.add("smollm3", "smollm3", 5, func(m *tiny) { m.want.rotation = []rotated{yes, yes, yes, no, yes} })
	z.add("smollm3 with a list of blocks", "smollm3", 3, func(m *tiny) {
		m.keys["attention.rope_pattern"] = gguf.NewArray([]uint32{0, 1, 0})
		m.want.rotation = []rotated{no, yes, no}
	})
	z.add("starcoder2", "starcoder2", 2, func(m *tiny) { m.noOptional, m.tied = false, true })
	z.add("gpt2", "gpt2", 2, func(m *tiny) { m.noOptional, m.tied = false, true })
	return z
}

func (z zoo) gemmas() {
	scale := math.Sqrt(24)
	z.add("gemma", "gemma", 2, func(m *tiny) { m.want.embedScale = scale })
	z.add("gemma2", "gemma2", 4, func(m *tiny) {
		m.keys["attention.sliding_window"] = u32(9)
		m.keys["attn_logit_softcapping"], m.keys["final_logit_softcapping"] = f32(2), f32(3)
		m.want = expected{embedScale: scale, window: []int{9, 0, 9, 0}, attnCap: 2, finalCap: 3}
	})
	// Files of the first weeks say nothing of caps and window; 46 blocks are the model that scales by the embedding's share of a head.
	z.add("gemma2 27b", "gemma2", 46, func(m *tiny) {
		m.want = expected{embedScale: scale, attnCap: 50, finalCap: 30, scale: 1 / math.Sqrt(24./6)}
	})
	// Other programs leave out the base of windowed blocks, and none writes which blocks they are.
	local, global := rotated{1e4, 1}, rotated{1e6, 8}
	z.add("gemma3", "gemma3", 7, func(m *tiny) {
		m.keys["attention.sliding_window"], m.keys["rope.freq_base"] = u32(33), f32(1e6)
		m.keys["rope.scaling.type"], m.keys["rope.scaling.factor"] = gguf.New("linear"), f32(8)
		m.want = expected{embedScale: scale, window: []int{33, 33, 33, 33, 33, 0, 33}, rotation: []rotated{local, local, local, local, local, global, local}}
	})
	global.factor = 1
	z.add("gemma3 with a pattern of three", "gemma3", 4, func(m *tiny) {
		m.keys["attention.sliding_window"], m.keys["attention.sliding_window_pattern"] = u32(7), u32(3)
		m.keys["rope.freq_base"], m.keys["rope.freq_base_swa"] = f32(1e6), f32(500)
		local := rotated{500, 1}
		m.want = expected{embedScale: scale, window: []int{7, 7, 0, 7}, rotation: []rotated{local, local, global, local}}
	})
	z.add("gemma3 with a list of blocks", "gemma3", 3, func(m *tiny) {
		m.keys["attention.sliding_window"], m.keys["attention.sliding_window_pattern"] = u32(7), gguf.NewArray([]bool{false, true, false})
		m.keys["rope.freq_base"] = f32(1e6)
		m.want = expected{embedScale: scale, window: []int{0, 7, 0}, rotation: []rotated{global, local, global}}
	})
	z.add("gemma3 without a window", "gemma3", 2, func(m *tiny) {
		m.keys["rope.freq_base"], m.keys["final_logit_softcapping"] = f32(1e6), f32(3)
		m.want = expected{embedScale: scale, finalCap: 3, rotation: []rotated{global, global}}
	})
}

func (z zoo) phis() {
	longrope := func(original uint32, divisors []float32) func(m *tiny) {
		return func(m *tiny) {
			m.factors = map[string][]float32{"rope_factors_long.weight": {2, 3}, "rope_factors_short.weight": {1, 1.5}}
			m.keys["rope.dimension_count"], m.keys["rope.scaling.original_context_length"] = u32(4), u32(original)
			m.keys["rope.scaling.attn_factor"] = f32(1.25)
			m.want = expected{divisors: divisors, magnitude: 1.25}
		}
	}
	z.add("phi3", "phi3", 2, longrope(999, []float32{2, 3})) // trained on 1000 positions in the end
	z.add("phi3 within its first context", "phi3", 2, longrope(1000, []float32{1, 1.5}))
	z.add("phi3 without longrope", "phi3", 2, func(m *tiny) { m.keys["attention.sliding_window"] = u32(0) })
}

// Every family's exact logits are the same bits for any number of threads and any split of the batch.
func TestFamiliesSplit(t *testing.T) {
	for name, m := range families() {
		t.Run(name, func(t *testing.T) {
			ids := m.ids(110)
			want := all(t, newSession(t, m.load(t, Options{Precision: Exact, Threads: 1})), ids, len(ids))
			for _, batch := range []int{1, 7, 50} {
				model := m.load(t, Options{Precision: Exact, Threads: 3, Batch: batch})
				sameBits(t, fmt.Sprintf("batches of %d", batch), all(t, newSession(t, model), ids, 64), want)
			}
		})
	}
}

// A row in a token's place is taken as the blocks get it: already scaled, but without its position.
func TestEmbeddingRowsOfFamilies(t *testing.T) {
	for _, name := range []string{"gemma", "gpt2"} {
		m := families()[name]
		src, _ := m.build(t)
		table := src.values("token_embd.weight")
		model := m.load(t, Options{Precision: Exact})
		ids := m.ids(7)
		want := all(t, newSession(t, model), ids, len(ids))
		s := newSession(t, model)
		batch := s.tokens(ids)
		for i, id := range ids {
			row := slices.Clone(table[int(id)*m.embd:][:m.embd])
			if m.want.embedScale != 0 {
				for k := range row {
					row[k] *= float32(m.want.embedScale)
				}
			}
			batch[i].ID, batch[i].Embed, batch[i].Logits = 0, row, true
		}
		var got [][]float32
		if err := model.Step(batch, func(_ int, l []float32) error { got = append(got, slices.Clone(l)); return nil }); err != nil {
			t.Fatal(err)
		}
		sameBits(t, name, got, want)
	}
}

// windowed are models in which all or some blocks have a window.
func windowed() map[string]tiny {
	out := families()
	for name := range out {
		if !slices.Contains([]string{"mistral", "gemma2", "gemma3"}, name) {
			delete(out, name)
		}
	}
	return out
}

// Cuts and forks anywhere around the windows' ends leave each sequence what it computes alone.
func TestWindowsOfForksAndCuts(t *testing.T) {
	for name, m := range windowed() {
		t.Run(name, func(t *testing.T) {
			model := m.load(t, Options{Precision: Exact, Batch: 50})
			ids, other := m.ids(130), slices.Repeat([]int32{3, 1, 4, 1, 5}, 30)
			alone := func(ids []int32) [][]float32 {
				s := newSession(t, model)
				defer s.Close()
				return all(t, s, ids, 11)
			}
			want := alone(ids)
			for _, n := range []int{1, 8, 9, 10, 32, 40, 41, 64, 97} {
				s := newSession(t, model)
				all(t, s, ids[:100], 100)
				if err := s.Truncate(n); err != nil {
					t.Fatal(err)
				}
				fork := s.Fork()
				branch := all(t, fork, other[:60], 7)
				sameBits(t, fmt.Sprintf("cut at %d", n), all(t, s, ids[n:], 64), want[n:])
				sameBits(t, fmt.Sprintf("fork at %d", n), branch, alone(slices.Concat(ids[:n], other[:60]))[n:])
				s.Close()
				fork.Close()
			}
		})
	}
}

// What a window does not hold costs nothing: the pages before it are never looked at.
func TestWindowCost(t *testing.T) {
	m := families()["mistral"] // every block sees 40 positions
	for _, p := range []Precision{Exact, Fast} {
		model := m.load(t, Options{Precision: p, Threads: 2})
		ids := m.ids(400)
		want := all(t, newSession(t, model), ids, 300)
		s := newSession(t, model)
		all(t, s, ids[:300], 300)
		pages := s.state.(*paged).pages
		for i := range (300 - 40) / pagePositions {
			pages[i] = &page{owners: 1} // a look at it would panic
		}
		sameBits(t, "without the old pages", all(t, s, ids[300:], 100), want[300:])
	}
}

// A model with learned positions has none beyond them, and longrope needs both of its lists.
func TestFamiliesRefuse(t *testing.T) {
	none := func(*source, *gguf.Meta) {}
	drop := func(name string) func(*source, *gguf.Meta) {
		return func(s *source, _ *gguf.Meta) {
			s.tensors = slices.DeleteFunc(s.tensors, func(t gguf.Tensor) bool { return t.Name == name })
		}
	}
	both := families()["phi3"]
	both.factors["rope_freqs.weight"] = []float32{1, 2}
	typed := families()["phi3 without longrope"]
	typed.keys["rope.scaling.type"] = gguf.New("longrope")
	for _, c := range []struct {
		name  string
		m     tiny
		o     Options
		spoil func(*source, *gguf.Meta)
		want  []string
	}{
		{"context beyond the positions", families()["gpt2"], Options{Context: 1001}, none, []string{"position_embd.weight", "1000", "1001"}},
		{"one list of two", families()["phi3"], Options{}, drop("rope_factors_short.weight"), []string{"rope_factors_short.weight", "rope_factors_long.weight"}},
		{"no lists", typed, Options{}, none, []string{"rope_factors_short.weight", "rope_factors_long.weight"}},
		{"lists of two kinds", both, Options{}, none, []string{"rope_freqs.weight", "rope_factors_long.weight"}},
		{"fused rows missing", families()["phi3"], Options{}, func(s *source, _ *gguf.Meta) {
			t, _ := s.Tensor("blk.1.attn_qkv.weight")
			t.Shape[1] -= 5
		}, []string{"blk.1.attn_qkv.weight is [24 53], expected [24 58]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantError(t, c.name, loadError(t, c.m, c.o, c.spoil), c.want...)
		})
	}
}
