package convert

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// ropeKeys lists the settings that a rope section may hold, by type. Others would change the model in a way that nobody wrote
// into the file, so they stop the run.
var ropeKeys = map[string][]string{
	"default": {},
	"linear":  {"factor"},
	"dynamic": {"factor", "original_max_position_embeddings"},
	"yarn": {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
		"truncate"},
	"llama3":   {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"},
	"longrope": {"factor", "original_max_position_embeddings", "attention_factor", "short_factor", "long_factor"},
}

// rope is the rope section of config.json, read and checked.
type rope struct {
	kind    string // a key of ropeKeys
	factor  float64
	origCtx uint64 // 0: not given
	// attn is what yarn multiplies queries and keys by, over what follows from factor alone; 1 if that is all. For longrope it is the whole
	// of it, 0 if it follows from the lengths of the contexts.
	attn               float64
	betaFast, betaSlow float64   // 0: not given
	lowFreq, highFreq  float64   // llama3
	long, short        []float32 // longrope: divisors of the frequencies
}

// ropeReader reads settings of one rope section; the first fault stays.
type ropeReader struct {
	*config
	kind string
	err  error
}

const ropeSection = "rope_parameters"

// number reads a positive number that this type may have; 0 if it is absent.
func (r *ropeReader) number(key string) float64 {
	if r.err != nil || !slices.Contains(ropeKeys[r.kind], key) {
		return 0
	}
	v, ok, err := r.float(ropeSection + "." + key)
	if err == nil && ok && !(v > 0) {
		err = fmt.Errorf("%s: %s.%s is %g, expected more than 0", r.file, ropeSection, key, v)
	}
	r.err = err
	return v
}

// needed is number for a setting without which the type means nothing.
func (r *ropeReader) needed(key string) float64 {
	v := r.number(key)
	if v == 0 && r.err == nil && slices.Contains(ropeKeys[r.kind], key) {
		r.err = fmt.Errorf("%s: the rope section of type %q lacks %s", r.file, r.kind, key)
	}
	return v
}

// rope reads the rope section.
func (c *config) rope() (rope, error) {
	kind, ok, err := c.text(ropeSection + ".rope_type")
	if err != nil {
		return rope{}, err
	}
	switch {
	case !ok:
		kind = "default"
	case kind == "su": // the older name
		kind = "longrope"
	}
	allowed, ok := ropeKeys[kind]
	if !ok {
		return rope{}, fmt.Errorf("%s: rope scaling type %q is not supported\nhint: supported types are %s", c.file, kind,
			strings.Join(slices.Sorted(maps.Keys(ropeKeys)), ", "))
	}
	params, err := c.object(ropeSection)
	if err != nil {
		return rope{}, err
	}
	for _, key := range sortedKeys(params) {
		if key != "rope_theta" && key != "rope_type" && key != "partial_rotary_factor" && !slices.Contains(allowed, key) {
			return rope{}, fmt.Errorf("%s: the rope section holds %q, which is unknown for type %q", c.file, key, kind)
		}
	}
	in := ropeReader{config: c, kind: kind}
	r := rope{kind: kind, attn: 1, factor: in.factor(), betaFast: in.number("beta_fast"), betaSlow: in.number("beta_slow"),
		lowFreq: in.needed("low_freq_factor"), highFreq: in.needed("high_freq_factor")}
	if in.err != nil {
		return r, in.err
	}
	if r.origCtx, err = c.originalContext(); err != nil {
		return r, err
	}
	switch kind {
	case "longrope":
		r.attn = in.number("attention_factor")
		r.long, r.short, err = in.factors("long_factor"), in.factors("short_factor"), in.err
	case "llama3":
		return r, c.checkLlama3(r)
	case "yarn":
		r.attn, err = in.yarnAttention(r.factor)
	}
	return r, err
}

// originalContext is the length of the contexts that the model first learned from, 0 if it is not given. Phi 3 has it at the top.
func (c *config) originalContext() (uint64, error) {
	const name = "original_max_position_embeddings"
	n, ok, err := c.uint(name, 32)
	if ok || err != nil {
		return n, err
	}
	n, _, err = c.uint(ropeSection+"."+name, 32)
	return n, err
}

// factor reads the factor of the scaling, which longrope needs only where no original context is given.
func (r *ropeReader) factor() float64 {
	if r.kind == "longrope" {
		return r.number("factor")
	}
	return r.needed("factor")
}

// factors reads a list of positive numbers; the first fault stays.
func (r *ropeReader) factors(key string) []float32 {
	if r.err != nil {
		return nil
	}
	path := ropeSection + "." + key
	v, ok, err := r.lookup(path)
	if err == nil && !ok {
		err = fmt.Errorf("%s: the rope section of type %q lacks %s", r.file, r.kind, key)
	}
	var list []float32
	if err == nil && (json.Unmarshal(v, &list) != nil || len(list) == 0 || slices.ContainsFunc(list, func(f float32) bool { return !(f > 0) })) {
		err = r.mismatch(path, v, "a list of numbers above 0")
	}
	r.err = err
	return list
}

// checkRope refuses scaling that the architecture has no place for.
func (p *planner) checkRope() error {
	kind := p.rope.kind
	if kind == "default" {
		return nil
	}
	carried := slices.ContainsFunc(p.spec.Keys, func(k arch.Key) bool { return k.Default == "rope_scaling()" })
	for transform, needs := range computedFor {
		carried = carried && (needs != kind || slices.ContainsFunc(p.spec.Tensors, func(t arch.Tensor) bool { return t.Transform == transform }))
	}
	if !carried {
		return fmt.Errorf("%s: rope scaling type %q is not supported for architecture %s", p.cfg.file, kind, p.spec.Name)
	}
	return nil
}

func (c *config) checkLlama3(r rope) error {
	if r.origCtx == 0 {
		return fmt.Errorf("%s: the rope section of type llama3 lacks original_max_position_embeddings", c.file)
	}
	if r.lowFreq >= r.highFreq {
		return fmt.Errorf("%s: low_freq_factor %g is not below high_freq_factor %g", c.file, r.lowFreq, r.highFreq)
	}
	return nil
}

// yarnAttention is the given attention factor over the one that follows from factor alone, which readers of GGUF apply by themselves.
func (r *ropeReader) yarnAttention(factor float64) (float64, error) {
	truncate, ok, err := r.bool(ropeSection + ".truncate")
	if err != nil {
		return 0, err
	}
	if ok && !truncate {
		return 0, fmt.Errorf("%s: yarn with truncate false is not supported for this architecture", r.file)
	}
	attention, mscale, mscaleAll := r.number("attention_factor"), r.number("mscale"), r.number("mscale_all_dim")
	if attention == 0 && mscale > 0 && mscaleAll > 0 {
		attention = yarnScale(factor, mscale) / yarnScale(factor, mscaleAll)
	}
	if attention == 0 {
		return 1, r.err
	}
	return attention / yarnScale(factor, 1), r.err
}

// yarnScale is the growth of attention scores that YaRN makes up for (Peng et al. 2023, section 3.4), as transformers computes it.
func yarnScale(factor, mscale float64) float64 {
	if factor <= 1 {
		return 1
	}
	return 0.1*mscale*math.Log(factor) + 1
}

// writeRope appends the keys of the scaling and returns what the user should know.
func writeRope(m *gguf.Meta, prefix string, r rope, contextLength uint64) (notes []string) {
	key := func(name string) string { return prefix + "rope.scaling." + name }
	switch r.kind {
	case "linear":
		m.Set(key("type"), gguf.New("linear"))
		m.Set(key("factor"), gguf.New(float32(r.factor)))
	case "yarn":
		orig := r.origCtx
		if orig == 0 {
			orig = contextLength
		}
		if extended := float64(contextLength) / float64(orig); r.origCtx != 0 && extended != r.factor {
			notes = append(notes, fmt.Sprintf("yarn: max_position_embeddings is %g times the original context and factor is %g; the factor is written", extended, r.factor))
		}
		m.Set(key("type"), gguf.New("yarn"))
		m.Set(key("factor"), gguf.New(float32(r.factor)))
		m.Set(key("original_context_length"), gguf.New(uint32(orig)))
		if r.attn != 1 {
			m.Set(key("attn_factor"), gguf.New(float32(r.attn)))
		}
		if r.betaFast > 0 {
			m.Set(key("yarn_beta_fast"), gguf.New(float32(r.betaFast)))
		}
		if r.betaSlow > 0 {
			m.Set(key("yarn_beta_slow"), gguf.New(float32(r.betaSlow)))
		}
	case "longrope":
		orig, factor := r.origCtx, float64(contextLength)/float64(max(r.origCtx, 1))
		if orig == 0 {
			orig, factor = contextLength, r.factor
		}
		m.Set(key("type"), gguf.New("longrope"))
		m.Set(key("original_context_length"), gguf.New(uint32(orig)))
		m.Set(key("attn_factor"), gguf.New(float32(longropeAttention(r.attn, factor, orig))))
	case "dynamic":
		notes = append(notes, "rope scaling type dynamic is not written, since GGUF has no key for it: up to the trained context nothing changes, beyond it results differ")
	}
	return notes
}

// table is the list of factors that stands in the rope section for a transform, or nil.
func (r rope) table(transform string) []float32 {
	switch transform {
	case ropeLong:
		return r.long
	case ropeShort:
		return r.short
	}
	return nil
}

// longropeAttention is what longrope multiplies queries and keys by: as given, else as transformers derives it from the growth of the context.
func longropeAttention(given, factor float64, orig uint64) float64 {
	switch {
	case given > 0:
		return given
	case factor <= 1 || orig < 2:
		return 1
	}
	return math.Sqrt(1 + math.Log(factor)/math.Log(float64(orig)))
}

// ropeFactors computes llama3's divisor for each of n pairs of rotated elements: pairs that turn fast within the original context keep their
// frequency (1), those that turn slowly are slowed by factor, and those between are blended. Every step is rounded to float32,
// as in the model's own code.
func ropeFactors(r rope, base float64, n int) []float32 {
	low, factor, orig := float32(r.lowFreq), float32(r.factor), float32(r.origCtx)
	factors := make([]float32, n)
	for i := range factors {
		exponent := float32(2*i) / float32(2*n)
		frequency := 1 / float32(math.Pow(float64(float32(base)), float64(exponent)))
		wavelength := float32(2*math.Pi) / frequency
		switch {
		case float64(wavelength) < float64(r.origCtx)/r.highFreq:
			factors[i] = 1
		case float64(wavelength) > float64(r.origCtx)/r.lowFreq:
			factors[i] = factor
		default:
			smooth := (orig/wavelength - low) / float32(r.highFreq-r.lowFreq)
			factors[i] = 1 / (float32((1-smooth)/factor) + smooth)
		}
	}
	return factors
}
