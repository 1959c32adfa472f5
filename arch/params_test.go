package arch

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// llamaKeys is the least that a llama says of itself.
func llamaKeys() *gguf.Meta {
	m := gguf.NewMeta()
	for key, v := range map[string]uint32{
		"block_count": 4, "context_length": 2048, "embedding_length": 96, "feed_forward_length": 160, "attention.head_count": 6, "vocab_size": 100,
	} {
		m.Set("llama."+key, gguf.New(v))
	}
	m.Set("llama.attention.layer_norm_rms_epsilon", gguf.New(float32(1e-5)))
	return m
}

func paramsOf(t *testing.T, m *gguf.Meta) *Params {
	t.Helper()
	p, err := ParamsOf(&llama, m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParamsDefaults(t *testing.T) {
	p := paramsOf(t, llamaKeys())
	if p.NVocab != 100 || p.NCtxTrain != 2048 || p.NEmbd != 96 || p.NLayer != 4 || p.HeadK != 16 || p.HeadV != 16 || p.NormEps != 1e-5 {
		t.Errorf("%+v", p)
	}
	if !slices.Equal(p.NHead, []int{6, 6, 6, 6}) || !slices.Equal(p.NHeadKV, p.NHead) || !slices.Equal(p.NFF, []int{160, 160, 160, 160}) {
		t.Errorf("per block: %v %v %v", p.NHead, p.NHeadKV, p.NFF)
	}
	if r := p.Rope; r.Dim != 16 || r.FreqBase != 10000 || r.Scaling != "" || r.Factor != 1 || r.AttnFactor != 1 || r.OrigCtx != 2048 {
		t.Errorf("rope: %+v", r)
	}
}

// A list of tokens goes before vocab_size.
func TestParamsVocab(t *testing.T) {
	m := llamaKeys()
	m.Set("tokenizer.ggml.tokens", gguf.NewArray([]string{"a", "b", "c"}))
	if n := paramsOf(t, m).NVocab; n != 3 {
		t.Errorf("%d tokens, want 3", n)
	}
	m = llamaKeys()
	m.Remove("llama.vocab_size")
	if n := paramsOf(t, m).NVocab; n != 0 {
		t.Errorf("%d tokens, want 0 for unknown", n)
	}
}

// A number for all blocks and an array of the same numbers are the same; other arrays differ by block.
func TestParamsPerBlock(t *testing.T) {
	scalar, array := llamaKeys(), llamaKeys()
	scalar.Set("llama.attention.head_count_kv", gguf.New(uint32(2)))
	array.Set("llama.attention.head_count_kv", gguf.NewArray([]uint32{2, 2, 2, 2}))
	if a, b := paramsOf(t, scalar), paramsOf(t, array); !slices.Equal(a.NHeadKV, b.NHeadKV) {
		t.Errorf("%v and %v", a.NHeadKV, b.NHeadKV)
	}
	mixed := llamaKeys()
	mixed.Set("llama.attention.head_count_kv", gguf.NewArray([]int32{0, 0, 2, 6}))
	mixed.Set("llama.feed_forward_length", gguf.NewArray([]uint64{1, 2, 3, 4}))
	p := paramsOf(t, mixed)
	if !slices.Equal(p.NHeadKV, []int{0, 0, 2, 6}) || !slices.Equal(p.NFF, []int{1, 2, 3, 4}) {
		t.Errorf("%v %v", p.NHeadKV, p.NFF)
	}
}

func TestParamsRopeScaling(t *testing.T) {
	f32 := func(f float32) gguf.Value { return gguf.New(f) }
	for _, c := range []struct {
		name   string
		keys   map[string]gguf.Value
		kind   string
		factor float64
	}{
		{"factor alone", map[string]gguf.Value{"rope.scaling.factor": f32(4)}, "linear", 4},
		{"legacy", map[string]gguf.Value{"rope.scale_linear": f32(2)}, "linear", 2},
		{"new form first", map[string]gguf.Value{"rope.scaling.factor": f32(4), "rope.scale_linear": f32(2)}, "linear", 4},
		{"linear", map[string]gguf.Value{"rope.scaling.type": gguf.New("linear"), "rope.scaling.factor": f32(8)}, "linear", 8},
		{"no effect", map[string]gguf.Value{"rope.scaling.type": gguf.New("linear")}, "", 1},
		{"zero is none", map[string]gguf.Value{"rope.scaling.factor": f32(0)}, "", 1},
		{"none", map[string]gguf.Value{"rope.scaling.type": gguf.New("none"), "rope.scaling.factor": f32(8)}, "", 1},
		{"yarn", map[string]gguf.Value{"rope.scaling.type": gguf.New("yarn"), "rope.scaling.factor": f32(4)}, "yarn", 4},
	} {
		m := llamaKeys()
		for key, v := range c.keys {
			m.Set("llama."+key, v)
		}
		if r := paramsOf(t, m).Rope; r.Scaling != c.kind || r.Factor != c.factor {
			t.Errorf("%s: %q by %g, want %q by %g", c.name, r.Scaling, r.Factor, c.kind, c.factor)
		}
	}
}

// What does not fit together is refused with the key and the numbers.
func TestParamsRefuse(t *testing.T) {
	u32 := func(n uint32) gguf.Value { return gguf.New(n) }
	for _, c := range []struct {
		name, key string
		v         gguf.Value
		want      []string
	}{
		{"rotary width above the head", "rope.dimension_count", u32(40), []string{"rope.dimension_count", "40", "16"}},
		{"odd rotary width", "rope.dimension_count", u32(5), []string{"rope.dimension_count", "5"}},
		{"heads that do not divide", "attention.head_count_kv", u32(4), []string{"head_count 6", "head_count_kv 4"}},
		{"embedding that heads do not divide", "attention.head_count", u32(5), []string{"96", "5", "key_length"}},
		{"array one short", "attention.head_count_kv", gguf.NewArray([]uint32{2, 2, 2}), []string{"head_count_kv", "3", "4"}},
		{"array one long", "feed_forward_length", gguf.NewArray([]uint32{2, 2, 2, 2, 2}), []string{"feed_forward_length", "5", "4"}},
		{"negative in an array", "feed_forward_length", gguf.NewArray([]int32{2, -2, 2, 2}), []string{"feed_forward_length", "-2"}},
		{"no blocks", "block_count", u32(0), []string{"block_count is 0"}},
		{"absurd blocks", "block_count", u32(math.MaxUint32), []string{"block_count is 4294967295"}},
		{"absurd width", "embedding_length", gguf.New(uint64(1) << 60), []string{"embedding_length"}},
		{"absurd heads", "attention.head_count", u32(1 << 31), []string{"head_count"}},
		{"absurd context", "context_length", gguf.New(uint64(math.MaxUint64)), []string{"context_length"}},
		{"text for a number", "block_count", gguf.New("four"), []string{"llama.block_count"}},
		{"float for a number", "attention.head_count", gguf.New(float32(6)), []string{"llama.attention.head_count"}},
		{"number for a float", "rope.freq_base", u32(10000), []string{"llama.rope.freq_base"}},
		{"infinite base", "rope.freq_base", gguf.New(float32(math.Inf(1))), []string{"rope.freq_base"}},
		{"base 0", "rope.freq_base", gguf.New(float32(0)), []string{"rope.freq_base is 0"}},
		{"negative factor", "rope.scaling.factor", gguf.New(float32(-2)), []string{"rope.scaling.factor is -2"}},
		{"epsilon of 2", "attention.layer_norm_rms_epsilon", gguf.New(float32(2)), []string{"layer_norm_rms_epsilon is 2"}},
		{"epsilon not a number", "attention.layer_norm_rms_epsilon", gguf.New(float32(math.NaN())), []string{"layer_norm_rms_epsilon is NaN"}},
	} {
		m := llamaKeys()
		m.Set("llama."+c.key, c.v)
		_, err := ParamsOf(&llama, m)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", c.name, err, w)
			}
		}
	}
	for _, key := range []string{"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count", "attention.layer_norm_rms_epsilon"} {
		m := llamaKeys()
		m.Remove("llama." + key)
		if _, err := ParamsOf(&llama, m); !errors.Is(err, gguf.ErrNoKey) || !strings.Contains(err.Error(), key) {
			t.Errorf("without %s: %v", key, err)
		}
	}
}

// A partial rotary width is taken as it is.
func TestParamsPartialRotary(t *testing.T) {
	m := llamaKeys()
	m.Set("llama.rope.dimension_count", gguf.New(uint32(4)))
	if p := paramsOf(t, m); p.Rope.Dim != 4 {
		t.Errorf("%d rotated elements, want 4", p.Rope.Dim)
	}
}

func TestDim(t *testing.T) {
	m := llamaKeys()
	m.Set("llama.attention.head_count_kv", gguf.NewArray([]uint32{1, 2, 3, 6}))
	m.Set("llama.attention.value_length", gguf.New(uint32(8)))
	p := paramsOf(t, m)
	for _, c := range []struct {
		expr string
		il   int
		want uint64
	}{
		{"n_embd", -1, 96}, {"n_vocab", -1, 100}, {"rope_dim/2", -1, 8}, {"n_head*head_k", 0, 96}, {"n_head_kv*head_k", 2, 48},
		{"n_head_kv*head_v", 3, 48}, {"2*n_ff", 1, 320}, {"3", -1, 3}, {"n_head*head_k/4*2", 0, 48},
	} {
		if got, err := p.Dim(c.expr, c.il); err != nil || got != c.want {
			t.Errorf("%s in block %d: %d (%v), want %d", c.expr, c.il, got, err, c.want)
		}
	}
	for _, expr := range []string{"", "n_emb", "n_embd*", "n_embd/7", "n_embd/0", "-1", "99999999999999999999", "4000000000*4000000000*4000000000"} {
		if got, err := p.Dim(expr, 0); err == nil {
			t.Errorf("%q: %d", expr, got)
		}
	}
	if got, err := p.Dim("n_ff", -1); err == nil {
		t.Errorf("n_ff outside blocks: %d", got)
	}
	p.NVocab = 0
	if got, err := p.Dim("n_vocab", -1); err == nil {
		t.Errorf("unknown vocabulary: %d", got)
	}
}
