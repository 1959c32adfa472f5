package infer

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// family is a small model of another family, without the biases that are optional.
func family(name string, layers int) tiny {
	m := llamaTiny()
	spec, err := arch.ForGGUF(name)
	if err != nil {
		panic(err)
	}
	m.spec, m.layers, m.noOptional = spec, layers, true
	return m
}

// families are small models of all families, with settings that each of them notices.
func families() map[string]tiny {
	out := map[string]tiny{}
	add := func(name, kind string, layers int, change func(*tiny)) {
		m := family(kind, layers)
		m.keys = map[string]gguf.Value{}
		change(&m)
		out[name] = m
	}
	f32 := func(f float64) gguf.Value { return gguf.New(float32(f)) }
	u32 := func(n uint32) gguf.Value { return gguf.New(n) }

	add("mistral", "llama", 2, func(m *tiny) {
		m.keys["attention.sliding_window"] = u32(40)
		m.want.window = []int{40, 40}
	})
	add("qwen3", "qwen3", 2, func(*tiny) {})
	add("scale", "llama", 2, func(m *tiny) {
		m.keys["attention.scale"] = f32(0.75)
		m.want.scale = 0.75
	})
	add("gemma", "gemma", 2, func(m *tiny) { m.want.embedScale = math.Sqrt(24) })
	add("gemma2", "gemma2", 4, func(m *tiny) {
		m.keys["attention.sliding_window"] = u32(9)
		m.keys["attn_logit_softcapping"], m.keys["final_logit_softcapping"] = f32(2), f32(3)
		m.want = expected{embedScale: math.Sqrt(24), window: []int{9, 0, 9, 0}, attnCap: 2, finalCap: 3}
	})
	// Files of the first weeks say nothing of caps and window; 46 blocks are the model that scales by the embedding's share of a head.
	add("gemma2 27b", "gemma2", 46, func(m *tiny) {
		m.want = expected{embedScale: math.Sqrt(24), attnCap: 50, finalCap: 30, scale: 1 / math.Sqrt(24./6)}
	})
	gemma3 := func(windowed []bool, window int, base, local rotated) expected {
		want := expected{embedScale: math.Sqrt(24)}
		for _, w := range windowed {
			if w {
				want.window, want.rotation = append(want.window, window), append(want.rotation, local)
			} else {
				want.window, want.rotation = append(want.window, 0), append(want.rotation, base)
			}
		}
		return want
	}
	// Other programs leave out the base of windowed blocks, and none writes which blocks they are.
	add("gemma3", "gemma3", 7, func(m *tiny) {
		m.keys["attention.sliding_window"], m.keys["rope.freq_base"] = u32(33), f32(1e6)
		m.keys["rope.scaling.type"], m.keys["rope.scaling.factor"] = gguf.New("linear"), f32(8)
		m.want = gemma3([]bool{true, true, true, true, true, false, true}, 33, rotated{1e6, 8}, rotated{1e4, 1})
	})
	add("gemma3 with a pattern of three", "gemma3", 4, func(m *tiny) {
		m.keys["attention.sliding_window"], m.keys["attention.sliding_window_pattern"] = u32(7), u32(3)
		m.keys["rope.freq_base"], m.keys["rope.freq_base_swa"] = f32(1e6), f32(500)
		m.want = gemma3([]bool{true, true, false, true}, 7, rotated{1e6, 1}, rotated{500, 1})
	})
	add("gemma3 with a list of blocks", "gemma3", 3, func(m *tiny) {
		m.keys["attention.sliding_window"], m.keys["attention.sliding_window_pattern"] = u32(7), gguf.NewArray([]bool{false, true, false})
		m.keys["rope.freq_base"] = f32(1e6)
		m.want = gemma3([]bool{false, true, false}, 7, rotated{1e6, 1}, rotated{1e4, 1})
	})
	add("gemma3 without a window", "gemma3", 2, func(m *tiny) {
		m.keys["rope.freq_base"], m.keys["final_logit_softcapping"] = f32(1e6), f32(3)
		m.want = gemma3([]bool{false, false}, 0, rotated{1e6, 1}, rotated{})
		m.want.finalCap = 3
	})
	longrope := func(original uint32, divisors []float32) func(m *tiny) {
		return func(m *tiny) {
			m.factors = map[string][]float32{"rope_factors_long.weight": {2, 3}, "rope_factors_short.weight": {1, 1.5}}
			m.keys["rope.dimension_count"], m.keys["rope.scaling.original_context_length"] = u32(4), u32(original)
			m.keys["rope.scaling.attn_factor"] = f32(1.25)
			m.want = expected{divisors: divisors, magnitude: 1.25}
		}
	}
	add("phi3", "phi3", 2, longrope(999, []float32{2, 3})) // trained on 1000 positions in the end
	add("phi3 within its first context", "phi3", 2, longrope(1000, []float32{1, 1.5}))
	add("phi3 without longrope", "phi3", 2, func(m *tiny) { m.keys["attention.sliding_window"] = u32(0) })
	turns := func(flags ...bool) (out []rotated) {
		for _, f := range flags {
			turn := rotated{}
			if f {
				turn.base = 10000
			}
			out = append(out, turn)
		}
		return out
	}
	add("smollm3", "smollm3", 5, func(m *tiny) { m.want.rotation = turns(true, true, true, false, true) })
	add("smollm3 with a list of blocks", "smollm3", 3, func(m *tiny) {
		m.keys["attention.rope_pattern"] = gguf.NewArray([]uint32{0, 1, 0})
		m.want.rotation = turns(false, true, false)
	})
	add("starcoder2", "starcoder2", 2, func(m *tiny) { m.noOptional, m.tied = false, true })
	add("gpt2", "gpt2", 2, func(m *tiny) { m.noOptional, m.tied = false, true })
	return out
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

// A model with learned positions has no others, and longrope needs both of its lists.
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
