package infer

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// wired is a llama with another block wiring and further tensors.
func wired(change func(*arch.Block), tensors ...arch.Tensor) tiny {
	m := llamaTiny()
	spec := *m.spec
	change(&spec.Block)
	spec.Tensors = append(slices.Clone(spec.Tensors), tensors...)
	m.spec = &spec
	return m
}

// variants are models that differ in wiring, shapes or metadata.
func variants() map[string]tiny {
	out := map[string]tiny{"llama": llamaTiny()}
	vary := func(name string, change func(*tiny)) {
		m := llamaTiny()
		change(&m)
		out[name] = m
	}
	vary("tied", func(m *tiny) { m.tied = true })
	vary("no biases", func(m *tiny) { m.noOptional = true })
	vary("one key head", func(m *tiny) { m.kvHeads = 1 })
	vary("no sharing", func(m *tiny) { m.kvHeads = 6 })
	vary("partial rope", func(m *tiny) { m.keys = map[string]gguf.Value{"rope.dimension_count": gguf.New(uint32(4))} })
	vary("rope base", func(m *tiny) {
		m.keys = map[string]gguf.Value{"rope.freq_base": gguf.New(float32(50))}
		m.want.rotation = []rotated{{base: 50}, {base: 50}}
	})
	vary("rope factors", func(m *tiny) {
		m.want.divisors = []float32{1, 2.5, 8}
		m.factors = map[string][]float32{"rope_freqs.weight": m.want.divisors}
	})
	slowed := []rotated{{base: 10000, factor: 4}, {base: 10000, factor: 4}}
	vary("linear scaling", func(m *tiny) {
		m.keys, m.want.rotation = map[string]gguf.Value{"rope.scaling.factor": gguf.New(float32(4))}, slowed
	})
	vary("legacy linear scaling", func(m *tiny) {
		m.keys, m.want.rotation = map[string]gguf.Value{"rope.scale_linear": gguf.New(float32(4))}, slowed
	})
	vary("per block", func(m *tiny) { m.perBlockKV, m.perBlockFF = []int64{3, 1}, []int64{20, 7} })
	vary("f16", func(m *tiny) { m.matrix = gguf.F16 })
	vary("bf16", func(m *tiny) { m.matrix = gguf.BF16 })
	out["neox"] = wired(func(b *arch.Block) { b.Rope = "neox" })
	out["no rope"] = wired(func(b *arch.Block) { b.Rope = "none" })
	out["gelu"] = wired(func(b *arch.Block) { b.Activation = "gelu" })
	out["gelu tanh"] = wired(func(b *arch.Block) { b.Activation = "gelu_tanh" })
	out["query and key norms"] = wired(func(b *arch.Block) { b.QKNorm = true },
		arch.Tensor{Name: "blk.%d.attn_q_norm.weight", Shape: []string{"head_k"}}, arch.Tensor{Name: "blk.%d.attn_k_norm.weight", Shape: []string{"head_k"}})
	out["layer norm"] = wired(func(b *arch.Block) { b.Norm = "layer" }, arch.Tensor{Name: "output_norm.bias", Shape: []string{"n_embd"}},
		arch.Tensor{Name: "blk.%d.attn_norm.bias", Shape: []string{"n_embd"}}, arch.Tensor{Name: "blk.%d.ffn_norm.bias", Shape: []string{"n_embd"}})
	ungated := wired(func(b *arch.Block) { b.Gated = false })
	ungated.spec.Tensors = slices.DeleteFunc(ungated.spec.Tensors, func(t arch.Tensor) bool {
		return t.Name == "blk.%d.ffn_gate.weight" || t.Name == "blk.%d.ffn_gate.bias"
	})
	out["not gated"] = ungated
	for _, t := range []gguf.Type{gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K} {
		out[t.String()] = quantTiny(t)
	}
	maps.Copy(out, families())
	return out
}

// Both precisions agree with the definitions computed in float64: exact closely, fast within what 8 bits leave of the activations.
func TestAgainstDefinitions(t *testing.T) {
	for name, m := range variants() {
		t.Run(name, func(t *testing.T) {
			ids := m.ids(70)
			src, meta := m.build(t)
			p, err := arch.ParamsOf(m.spec, meta)
			if err != nil {
				t.Fatal(err)
			}
			p.NVocab = m.vocab
			want := (&reference{m: &m, src: src, p: p}).logits(ids)
			within(t, "exact", all(t, newSession(t, m.load(t, Options{Precision: Exact})), ids, 33), want, 1e-5)
			within(t, "fast", all(t, newSession(t, m.load(t, Options{Precision: Fast})), ids, 33), want, 0.03)
		})
	}
}

// Exact precision gives the same bits for any number of threads and any split of a batch.
func TestExactSplits(t *testing.T) {
	for name, c := range map[string]struct {
		tiny
		tokens int
	}{"llama": {llamaTiny(), 600}, "q4_k": {quantTiny(gguf.Q4_K), 50}} {
		t.Run(name, func(t *testing.T) {
			m, ids := c.tiny, c.ids(c.tokens)
			want := all(t, newSession(t, m.load(t, Options{Precision: Exact, Threads: 1})), ids, len(ids))
			for _, threads := range []int{1, 2, 3} {
				for _, batch := range []int{1, 7, 512} {
					model := m.load(t, Options{Precision: Exact, Threads: threads, Batch: batch})
					sameBits(t, "whole", all(t, newSession(t, model), ids, len(ids)), want)
					sameBits(t, "in pieces", all(t, newSession(t, model), ids, 101), want)
				}
			}
		})
	}
}

// Fast precision gives the same bits for any number of threads, and nearly the same for any split of a batch.
func TestFastSplits(t *testing.T) {
	for _, typ := range []gguf.Type{gguf.Q4_1, gguf.Q4_K, gguf.F16} {
		t.Run(typ.String(), func(t *testing.T) {
			m := quantTiny(typ)
			ids := m.ids(40)
			for _, batch := range []int{1, 7, 512} {
				want := all(t, newSession(t, m.load(t, Options{Threads: 1, Batch: batch})), ids, len(ids))
				for _, threads := range []int{2, 5} {
					sameBits(t, "threads", all(t, newSession(t, m.load(t, Options{Threads: threads, Batch: batch})), ids, len(ids)), want)
				}
				exact := make([][]float64, len(want))
				for i := range want {
					exact[i] = widen(want[i])
				}
				within(t, "batch", all(t, newSession(t, m.load(t, Options{Threads: 1, Batch: 20})), ids, len(ids)), exact, 0.03)
			}
		})
	}
}

// Sequences that share a batch, in any order, do not see each other.
func TestSequencesInOneBatch(t *testing.T) {
	m := llamaTiny()
	model := m.load(t, Options{Precision: Exact, Batch: 16})
	ids := m.ids(120)
	a, b := ids[:75], ids[75:]
	alone := append(all(t, newSession(t, model), a, len(a)), all(t, newSession(t, model), b, len(b))...)

	first, second := newSession(t, model), newSession(t, model)
	var batch []Token
	var order []int // index into alone
	for len(a) > 0 || len(b) > 0 {
		for _, x := range []struct {
			s    *Session
			left *[]int32
			n    int
			row  int
		}{{first, &a, 3, 0}, {second, &b, 2, 75}} {
			done := map[*Session]int{first: 75 - len(a), second: 45 - len(b)}[x.s]
			for i, id := range (*x.left)[:min(x.n, len(*x.left))] {
				batch = append(batch, Token{Seq: x.s.ID(), Pos: [4]int32{int32(done + i)}, ID: id, Logits: true})
				order = append(order, x.row+done+i)
			}
			*x.left = (*x.left)[min(x.n, len(*x.left)):]
		}
	}
	got := make([][]float32, len(alone))
	last := -1
	err := model.Step(batch, func(i int, logits []float32) error {
		if i != last+1 {
			t.Errorf("logits of element %d after those of %d", i, last)
		}
		last = i
		got[order[i]] = slices.Clone(logits)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sameBits(t, "interleaved", got, alone)
}

// An embedding row in place of a token gives what the token gives.
func TestEmbeddingRows(t *testing.T) {
	m := llamaTiny()
	src, _ := m.build(t)
	model := m.load(t, Options{Precision: Exact})
	ids := m.ids(9)
	want := all(t, newSession(t, model), ids, len(ids))
	table := src.values("token_embd.weight")
	s := newSession(t, model)
	batch := s.tokens(ids)
	for i := range batch {
		batch[i].Logits = true
		if i%2 == 0 {
			batch[i].ID, batch[i].Embed = -1, table[int(ids[i])*m.embd:][:m.embd]
		}
	}
	var got [][]float32
	if err := model.Step(batch, func(_ int, l []float32) error { got = append(got, slices.Clone(l)); return nil }); err != nil {
		t.Fatal(err)
	}
	sameBits(t, "rows", got, want)
}

// Yarn blends between the bounds that the paper gives: pairs that turn often keep their frequency, slow ones are divided by the factor,
// and the magnitude is 0.1 ln(factor) + 1.
func TestYarn(t *testing.T) {
	r := arch.Rope{Dim: 64, FreqBase: 10000, Scaling: "yarn", Factor: 16, OrigCtx: 4096, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
	got, err := newRope(rotary{Rope: r, extFactor: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range got.freq {
		plain := math.Pow(10000, -float64(i)/32)
		switch turns := 4096 * plain / (2 * math.Pi); {
		case turns > 40 && f != plain:
			t.Errorf("pair %d turns %.1f times: frequency %g, want %g", i, turns, f, plain)
		case turns < 0.8 && math.Abs(f/plain-1./16) > 1e-12:
			t.Errorf("pair %d turns %.1f times: frequency %g, want %g", i, turns, f, plain/16)
		case f > plain || f < plain/16*(1-1e-12):
			t.Errorf("pair %d: frequency %g outside %g to %g", i, f, plain/16, plain)
		}
	}
	if want := 0.1*math.Log(16) + 1; math.Abs(got.scale-want) > 1e-12 {
		t.Errorf("magnitude %g, want %g", got.scale, want)
	}
}
