package arch

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// keysOf is the least that a model of a family says of itself, with 24 blocks of 4 heads.
func keysOf(s *Spec, more map[string]gguf.Value) *gguf.Meta {
	m := gguf.NewMeta()
	for key, v := range map[string]uint32{
		"block_count": 24, "context_length": 4096, "embedding_length": 96, "feed_forward_length": 160, "attention.head_count": 4, "vocab_size": 100,
	} {
		m.Set(s.Name+"."+key, gguf.New(v))
	}
	m.Set(s.Name+".attention.layer_norm_rms_epsilon", gguf.New(float32(1e-5)))
	m.Set(s.Name+".attention.layer_norm_epsilon", gguf.New(float32(1e-5)))
	for key, v := range more {
		m.Set(s.Name+"."+key, v)
	}
	return m
}

// every24 is true for all of 24 blocks but every nth.
func every24(n int) []bool {
	out := make([]bool, 24)
	for il := range out {
		out[il] = il%n != n-1
	}
	return out
}

func TestWindows(t *testing.T) {
	window := func(n uint32) gguf.Value { return gguf.New(n) }
	list := every24(5)
	for _, c := range []struct {
		name     string
		spec     *Spec
		keys     map[string]gguf.Value
		window   int
		windowed []bool
	}{
		{"llama", &llama, nil, 0, make([]bool, 24)},
		{"mistral", &mistral, map[string]gguf.Value{"attention.sliding_window": window(32)}, 32, slices.Repeat([]bool{true}, 24)},
		{"phi 4 has 0 for none", &phi3, map[string]gguf.Value{"attention.sliding_window": window(0)}, 0, make([]bool, 24)},
		{"gemma 2 without a key", &gemma2, nil, 4096, every24(2)},
		{"gemma 2", &gemma2, map[string]gguf.Value{"attention.sliding_window": window(64)}, 64, every24(2)},
		{"gemma 3 without a key", &gemma3, nil, 0, make([]bool, 24)},
		{"gemma 3", &gemma3, map[string]gguf.Value{"attention.sliding_window": window(512)}, 512, every24(6)},
		{"another period", &gemma3, map[string]gguf.Value{"attention.sliding_window": window(512), "attention.sliding_window_pattern": window(4)}, 512, every24(4)},
		{"period 0: all", &gemma3, map[string]gguf.Value{"attention.sliding_window": window(512), "attention.sliding_window_pattern": window(0)}, 512, slices.Repeat([]bool{true}, 24)},
		{"period 1: none", &gemma3, map[string]gguf.Value{"attention.sliding_window": window(512), "attention.sliding_window_pattern": window(1)}, 512, make([]bool, 24)},
		{"a list", &gemma3, map[string]gguf.Value{"attention.sliding_window": window(512), "attention.sliding_window_pattern": gguf.NewArray(list)}, 512, list},
		{"a list without a window", &gemma3, map[string]gguf.Value{"attention.sliding_window_pattern": gguf.NewArray(list)}, 0, make([]bool, 24)},
	} {
		p, err := ParamsOf(c.spec, keysOf(c.spec, c.keys))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if p.Window != c.window || !slices.Equal(p.Windowed, c.windowed) {
			t.Errorf("%s: %d in %v, want %d in %v", c.name, p.Window, p.Windowed, c.window, c.windowed)
		}
	}
}

// The rotation of windowed blocks is the others' or, with a base of its own, plain.
func TestLocalRope(t *testing.T) {
	yarn := map[string]gguf.Value{
		"rope.freq_base": gguf.New(float32(1e6)), "rope.scaling.type": gguf.New("yarn"), "rope.scaling.factor": gguf.New(float32(8)), "rope.dimension_count": gguf.New(uint32(12)),
	}
	p, err := ParamsOf(&mistral, keysOf(&mistral, yarn))
	if err != nil {
		t.Fatal(err)
	}
	if p.LocalRope != p.Rope {
		t.Errorf("without a base: %+v, want %+v", p.LocalRope, p.Rope)
	}
	for base, keys := range map[float64]map[string]gguf.Value{10000: {}, 500: {"rope.freq_base_swa": gguf.New(float32(500))}} {
		meta := keysOf(&gemma3, yarn)
		for key, v := range keys {
			meta.Set("gemma3."+key, v)
		}
		p, err := ParamsOf(&gemma3, meta)
		if err != nil {
			t.Fatal(err)
		}
		if r := p.LocalRope; r.FreqBase != base || r.Scaling != "" || r.Factor != 1 || r.AttnFactor != 1 || r.Dim != 12 || p.Rope.FreqBase != 1e6 || p.Rope.Scaling != "yarn" {
			t.Errorf("%+v and %+v", r, p.Rope)
		}
	}
}

func TestRotates(t *testing.T) {
	list := slices.Repeat([]uint32{1, 0, 7}, 8)
	for _, c := range []struct {
		name string
		spec *Spec
		keys map[string]gguf.Value
		want []bool
	}{
		{"llama", &llama, nil, slices.Repeat([]bool{true}, 24)},
		{"smollm 3", &smollm3, nil, every24(4)},
		{"a list", &smollm3, map[string]gguf.Value{"attention.rope_pattern": gguf.NewArray(list)}, slices.Repeat([]bool{true, false, true}, 8)},
		{"gpt 2", &gpt2, nil, make([]bool, 24)},
	} {
		p, err := ParamsOf(c.spec, keysOf(c.spec, c.keys))
		if err != nil || !slices.Equal(p.Rotates, c.want) {
			t.Errorf("%s: %v (%v), want %v", c.name, p.Rotates, err, c.want)
		}
	}
}

func TestScaleAndCaps(t *testing.T) {
	f32 := func(f float32) gguf.Value { return gguf.New(f) }
	for _, c := range []struct {
		name                string
		spec                *Spec
		keys                map[string]gguf.Value
		scale, attn, logits float64
	}{
		{"by the head", &llama, map[string]gguf.Value{"attention.key_length": gguf.New(uint32(64))}, 0.125, 0, 0},
		{"given", &gemma3, map[string]gguf.Value{"attention.scale": f32(0.5), "final_logit_softcapping": f32(7)}, 0.5, 0, 7},
		{"0 is not given", &gemma3, map[string]gguf.Value{"attention.scale": f32(0), "attention.key_length": gguf.New(uint32(64))}, 0.125, 0, 0},
		{"old gemma 2", &gemma2, map[string]gguf.Value{"attention.key_length": gguf.New(uint32(16))}, 0.25, 50, 30},
		{"caps taken off", &gemma2, map[string]gguf.Value{"attn_logit_softcapping": f32(0), "final_logit_softcapping": f32(0), "attention.key_length": gguf.New(uint32(16))}, 0.25, 0, 0},
		{"gemma 2 27b", &gemma2, map[string]gguf.Value{"block_count": gguf.New(uint32(46)), "attention.head_count": gguf.New(uint32(6)), "attention.key_length": gguf.New(uint32(64))}, 0.25, 50, 30},
		{"gemma 3 27b", &gemma3, map[string]gguf.Value{"block_count": gguf.New(uint32(62)), "attention.head_count": gguf.New(uint32(6)), "attention.key_length": gguf.New(uint32(64))}, 0.25, 0, 0},
	} {
		p, err := ParamsOf(c.spec, keysOf(c.spec, c.keys))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if math.Abs(p.Scale-c.scale) > 1e-12 || p.AttnSoftcap != c.attn || p.FinalSoftcap != c.logits {
			t.Errorf("%s: scale %g, caps %g and %g; want %g, %g and %g", c.name, p.Scale, p.AttnSoftcap, p.FinalSoftcap, c.scale, c.attn, c.logits)
		}
	}
}

// Settings of attention that mean nothing are refused with the key and the numbers.
func TestAttentionRefuses(t *testing.T) {
	f32 := func(f float64) gguf.Value { return gguf.New(float32(f)) }
	for _, c := range []struct {
		name string
		spec *Spec
		key  string
		v    gguf.Value
		want []string
	}{
		{"window of 0", &gemma3, "attention.sliding_window", gguf.New(uint32(0)), []string{"gemma3.attention.sliding_window is 0", "1 to"}},
		{"window of 0 with a default", &gemma2, "attention.sliding_window", gguf.New(uint32(0)), []string{"gemma2.attention.sliding_window is 0", "1 to"}},
		{"negative window", &mistral, "attention.sliding_window", gguf.New(int32(-4)), []string{"llama.attention.sliding_window", "-4"}},
		{"absurd window", &mistral, "attention.sliding_window", gguf.New(uint64(1) << 40), []string{"llama.attention.sliding_window is 1099511627776"}},
		{"window in text", &mistral, "attention.sliding_window", gguf.New("32"), []string{"llama.attention.sliding_window"}},
		{"list one short", &gemma3, "attention.sliding_window_pattern", gguf.NewArray(make([]bool, 23)), []string{"sliding_window_pattern", "23", "24"}},
		{"list one long", &gemma3, "attention.sliding_window_pattern", gguf.NewArray(make([]bool, 25)), []string{"sliding_window_pattern", "25", "24"}},
		{"list of numbers", &gemma3, "attention.sliding_window_pattern", gguf.NewArray(make([]uint32, 24)), []string{"sliding_window_pattern"}},
		{"negative period", &gemma3, "attention.sliding_window_pattern", gguf.New(int32(-6)), []string{"sliding_window_pattern", "-6"}},
		{"rope list one short", &smollm3, "attention.rope_pattern", gguf.NewArray(make([]uint32, 23)), []string{"rope_pattern", "23", "24"}},
		{"rope list without a list", &smollm3, "attention.rope_pattern", gguf.New(uint32(4)), []string{"rope_pattern", "one value", "24"}},
		{"negative scale", &llama, "attention.scale", f32(-1), []string{"llama.attention.scale is -1"}},
		{"scale not a number", &llama, "attention.scale", f32(math.NaN()), []string{"llama.attention.scale is NaN"}},
		{"negative cap", &gemma2, "attn_logit_softcapping", f32(-50), []string{"gemma2.attn_logit_softcapping is -50"}},
		{"infinite cap", &gemma2, "final_logit_softcapping", f32(math.Inf(1)), []string{"gemma2.final_logit_softcapping is +Inf"}},
		{"local base of 0", &gemma3, "rope.freq_base_swa", f32(0), []string{"gemma3.rope.freq_base_swa is 0"}},
		{"magnitude of 0", &phi3, "rope.scaling.attn_factor", f32(0), []string{"phi3.rope.scaling.attn_factor is 0"}},
		{"yarn's beta", &qwen2, "rope.scaling.yarn_beta_fast", f32(-32), []string{"qwen2.rope.scaling.yarn_beta_fast is -32"}},
	} {
		_, err := ParamsOf(c.spec, keysOf(c.spec, map[string]gguf.Value{c.key: c.v}))
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
}
