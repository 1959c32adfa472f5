package convert

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// sameOutput fails unless both plans would write the same header, tensors from the same sources and the same bytes.
func sameOutput(t *testing.T, got, want *Plan) {
	t.Helper()
	for key, v := range want.Meta.All() {
		if g, ok := got.Meta.Get(key); !ok || !slices.Equal(mustJSON(t, g.Any()), mustJSON(t, v.Any())) || g.Type() != v.Type() {
			t.Errorf("%s is %.100v, want %.100v", key, g.Any(), v.Any())
		}
	}
	if got.Meta.Len() != want.Meta.Len() || !slices.Equal(got.Names(), want.Names()) {
		t.Errorf("%d keys and tensors %v, want %d and %v", got.Meta.Len(), got.Names(), want.Meta.Len(), want.Names())
	}
	for i := range want.Tensors {
		g, _ := got.Data(&got.Tensors[i].Tensor)
		w, _ := want.Data(&want.Tensors[i].Tensor)
		if !bytes.Equal(g, w) {
			t.Errorf("the bytes of %s differ", want.Tensors[i].Name)
		}
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// edit changes one thing about the golden checkpoint.
type edit = func(c *ckptCopy)

func set(key string, value any) edit { return func(c *ckptCopy) { c.config[key] = value } }
func unset(key string) edit          { return func(c *ckptCopy) { delete(c.config, key) } }

// rename gives all tensors other names.
func rename(f func(string) string) edit {
	return func(c *ckptCopy) {
		out := map[string]stTensor{}
		for name, x := range c.tensors {
			out[f(name)] = x
		}
		c.tensors = out
	}
}

func edited(t *testing.T, edits ...edit) string {
	t.Helper()
	c := loadGolden(t)
	for _, e := range edits {
		e(c)
	}
	return c.write(t)
}

// Different spellings of one checkpoint give one output.
func TestSpellings(t *testing.T) {
	want := planOf(t, golden, Options{})
	scaling := map[string]any{"rope_theta": 500000.0, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
		"original_max_position_embeddings": 256}
	copyOf := func(from, to string) edit {
		return func(c *ckptCopy) { c.tensors[to] = c.tensors[from] }
	}
	for name, edits := range map[string][]edit{
		"transformers 5":      {unset("rope_theta"), unset("rope_scaling"), unset("torch_dtype"), set("dtype", "bfloat16"), set("rope_parameters", scaling)},
		"rope per layer type": {unset("rope_theta"), unset("rope_scaling"), set("rope_parameters", map[string]any{"full_attention": scaling})},
		"bare class":          {set("architectures", []string{"LlamaModel"}), rename(func(n string) string { return strings.TrimPrefix(n, "model.") })},
		"old class":           {set("architectures", []string{"LLaMAForCausalLM"})},
		"doubled prefix":      {rename(func(n string) string { return "model." + n })},
		"no vocab_size":       {unset("vocab_size")},
		"null settings":       {set("mlp_bias", nil), set("quantization_config", nil), set("text_config", nil)},
		"equal output matrix": {copyOf("model.embed_tokens.weight", "lm_head.weight")},
		"no inv_freq":         {func(c *ckptCopy) { delete(c.tensors, "model.layers.0.self_attn.rotary_emb.inv_freq") }},
		"undeclared biases":   {unset("attention_bias")},
		"whole rotation":      {set("partial_rotary_factor", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			sameOutput(t, planOf(t, edited(t, edits...), Options{}), want)
		})
	}
}

func TestNotes(t *testing.T) {
	for want, e := range map[string]edit{
		"vocab_size 99, but the embeddings have 264 rows": set("vocab_size", 99),
		"tied to token_embd.weight and not written":       func(*ckptCopy) {},
		"1 tensors of the checkpoint are left out: rope":  func(*ckptCopy) {},
		"lm_head.weight equals model.embed_tokens.weight": func(c *ckptCopy) { c.tensors["lm_head.weight"] = c.tensors["model.embed_tokens.weight"] },
		"4 tensors that attention_bias declares":          unset("attention_bias"),
		"type dynamic is not written":                     set("rope_scaling", map[string]any{"type": "dynamic", "factor": 2.0}),
	} {
		p := planOf(t, edited(t, e), Options{})
		if told := slices.Concat(p.Notes, p.Details); !slices.ContainsFunc(told, func(n string) bool { return strings.Contains(n, want) }) {
			t.Errorf("no note with %q in %q", want, told)
		}
	}
}

// What cannot be converted is refused with a message that names the cause.
func TestRefusals(t *testing.T) {
	const layer = "model.layers.0."
	drop := func(name string) edit { return func(c *ckptCopy) { delete(c.tensors, name) } }
	add := func(name string, x stTensor) edit { return func(c *ckptCopy) { c.tensors[name] = x } }
	for name, c := range map[string]struct {
		want  []string
		edits []edit
		opts  Options
	}{
		"class": {[]string{`"FooForCausalLM" is not supported`, "LlamaForCausalLM", "hint:"}, []edit{set("architectures", []string{"FooForCausalLM"})}, Options{}},
		"type":  {[]string{"--type", "Q4_K_M"}, nil, Options{Type: "q9"}},
		// The wrong head_dim contradicts the rows of q_proj: 6 heads of 4 are 24, not 48.
		"head_dim": {[]string{"q_proj.weight is [48 32]", "asks for [24 32]", "n_head*head_k is 6*4"}, []edit{set("head_dim", 4)}, Options{}},
		// Without head_dim it follows from the width, which is no multiple of the heads.
		"no head_dim": {[]string{"hidden_size 32 is not a multiple of 6 heads"}, []edit{unset("head_dim")}, Options{}},
		"heads":       {[]string{"k_proj.weight is [16 32]", "asks for [24 32]"}, []edit{set("num_key_value_heads", 3)}, Options{}},
		"all faults at once": {
			[]string{"missing: " + layer + "mlp.up_proj.weight for blk.0.ffn_up.weight, expected with shape [64 32]", "not used: extra.weight, F32 [2]",
				"shape: model.norm.weight is [3] in model.safetensors", "not used: model.layers.1.input_layernorm.weight"},
			[]edit{drop(layer + "mlp.up_proj.weight"), add("extra.weight", f32s([]uint64{2}, 1, 2)), add("model.norm.weight", f32s([]uint64{3}, 1, 2, 3)),
				add("model.layers.1.input_layernorm.weight", f32s([]uint64{1}, 1))}, Options{},
		},
		"doubled":         {[]string{"used twice: layers.0.input_layernorm.weight and " + layer + "input_layernorm.weight"}, []edit{add("layers.0.input_layernorm.weight", f32s([]uint64{1}, 1))}, Options{}},
		"no embeddings":   {[]string{"missing: model.embed_tokens.weight"}, []edit{drop("model.embed_tokens.weight")}, Options{}},
		"embedding shape": {[]string{"model.embed_tokens.weight is F32 [2]", "expected a matrix"}, []edit{add("model.embed_tokens.weight", f32s([]uint64{2}, 1, 2))}, Options{}},
		"no bias":         {[]string{"missing: " + layer + "self_attn.q_proj.bias"}, []edit{drop(layer + "self_attn.q_proj.bias")}, Options{}},
		"denied bias":     {[]string{"attention_bias is false, but the checkpoint holds " + layer + "self_attn.q_proj.bias"}, []edit{set("attention_bias", false)}, Options{}},
		"not tied":        {[]string{"missing: lm_head.weight for output.weight"}, []edit{set("tie_word_embeddings", false)}, Options{}},
		"unequal output": {[]string{"tie_word_embeddings is true", "lm_head.weight", "differs from model.embed_tokens.weight"},
			[]edit{add("lm_head.weight", f32s([]uint64{2}, 1, 2))}, Options{}},
		"element type":      {[]string{"element type: model.norm.weight is I32"}, []edit{add("model.norm.weight", stTensor{"I32", []uint64{32}, make([]byte, 128)})}, Options{}},
		"text for number":   {[]string{"config.json", `num_hidden_layers is "1"`}, []edit{set("num_hidden_layers", "1")}, Options{}},
		"no blocks":         {[]string{"0 blocks"}, []edit{set("num_hidden_layers", 0)}, Options{}},
		"many blocks":       {[]string{"4000000000 blocks"}, []edit{set("num_hidden_layers", 4000000000)}, Options{}},
		"no heads":          {[]string{"asks for [0 32] (n_head*head_k is 0*8)"}, []edit{set("num_attention_heads", 0)}, Options{}},
		"odd head":          {[]string{"dimension_count is 7, expected an even number"}, []edit{set("head_dim", 7)}, Options{}},
		"no eps":            {[]string{"no rms_norm_eps, which llama.attention.layer_norm_rms_epsilon needs"}, []edit{unset("rms_norm_eps")}, Options{}},
		"eps":               {[]string{"rms_norm_eps is 1e+300, which does not fit"}, []edit{set("rms_norm_eps", 1e300)}, Options{}},
		"activation":        {[]string{`hidden_act is "gelu"`}, []edit{set("hidden_act", "gelu")}, Options{}},
		"already quantized": {[]string{`method "gptq"`}, []edit{set("quantization_config", map[string]any{"quant_method": "gptq"})}, Options{}},
		"sampling":          {[]string{"generation_config.json", `top_k is "many"`}, []edit{func(c *ckptCopy) { c.files["generation_config.json"] = `{"top_k": "many"}` }}, Options{}},
		"pre-tokenizer":     {[]string{"no-such-pre"}, nil, Options{Pre: "no-such-pre"}},
		"ids beyond the rows": {[]string{"embedding matrix, which has 260", "263"}, []edit{func(c *ckptCopy) {
			x := c.tensors["model.embed_tokens.weight"]
			c.tensors["model.embed_tokens.weight"] = stTensor{x.dtype, []uint64{260, 32}, x.data[:260*64]}
		}}, Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			p, err := NewPlan(open(t, edited(t, c.edits...)), c.opts)
			if p != nil {
				t.Error("a plan was made")
			}
			wantError(t, err, c.want...)
			if d := time.Since(start); d > time.Second {
				t.Errorf("the refusal took %s", d)
			}
		})
	}
}

// Every architecture that rotates carries every kind of rope scaling that config.json may have; one that does not refuses them (field report R032).
func TestRopeMatrix(t *testing.T) {
	yarn := map[string]any{"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256, "beta_fast": 16, "beta_slow": 2, "attention_factor": 2.2772588722239782}
	longrope := map[string]any{"type": "su", "long_factor": []float64{1, 2, 3, 4}, "short_factor": []float64{1, 1, 1.5, 2}, "original_max_position_embeddings": 256}
	for _, s := range arch.All {
		for name, c := range map[string]struct {
			scaling any
			want    map[string]any // key -> value; nil: absent
			tables  string
		}{
			"none":    {nil, map[string]any{"type": nil, "factor": nil}, ""},
			"linear":  {map[string]any{"type": "linear", "factor": 4}, map[string]any{"type": "linear", "factor": 4}, ""},
			"dynamic": {map[string]any{"type": "dynamic", "factor": 4}, map[string]any{"type": nil, "factor": nil}, ""},
			"llama3": {map[string]any{"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 256},
				map[string]any{"type": nil}, "rope_freqs.weight"},
			"yarn": {yarn, map[string]any{"type": "yarn", "factor": 4, "original_context_length": 256, "attn_factor": 2, "yarn_beta_fast": 16, "yarn_beta_slow": 2}, ""},
			// The square root of 1 + ln(512/256)/ln(256).
			"longrope": {longrope, map[string]any{"type": "longrope", "original_context_length": 256, "attn_factor": float32(1.0606601717798212)},
				"rope_factors_long.weight rope_factors_short.weight"},
		} {
			dir := edited(t, asArch(s), set("rope_scaling", c.scaling))
			if s.Block.Rope == "none" {
				if _, err := NewPlan(open(t, dir), Options{}); name != "none" {
					wantError(t, err, "rope scaling type", "is not supported for architecture "+s.Name)
				}
				continue
			}
			p := planOf(t, dir, Options{Type: "f32"})
			want := map[string]any{}
			for key, v := range c.want {
				want[s.Name+".rope.scaling."+key] = v
			}
			checkMeta(t, p.Meta, want)
			var tables []string
			for _, n := range p.Names() {
				if strings.HasPrefix(n, "rope_") {
					tables = append(tables, n)
				}
			}
			if strings.Join(tables, " ") != c.tables {
				t.Errorf("%s, %s: tables %v, want %s", s.Name, name, tables, c.tables)
			}
			if name == "longrope" && !slices.Equal(f32sOf(t, p, "rope_factors_short.weight"), []float32{1, 1, 1.5, 2}) {
				t.Errorf("%s: short factors are not those of the checkpoint", s.Name)
			}
		}
	}
}

// A part of each head rotates where the family allows it, with tables of half that length; elsewhere it is refused (field report R036).
func TestPartialRotation(t *testing.T) {
	for _, s := range arch.All {
		dir := edited(t, asArch(s), set("partial_rotary_factor", 0.75))
		switch {
		case s.Block.Rope == "none":
		case s.Name == "phi3":
			checkMeta(t, planOf(t, dir, Options{}).Meta, map[string]any{"phi3.rope.dimension_count": 6})
		default:
			_, err := NewPlan(open(t, dir), Options{})
			wantError(t, err, "partial_rotary_factor is 0.75", "rotates whole heads")
		}
	}
	phi3 := specOf(t, "Phi3ForCausalLM")
	for want, edits := range map[string][]edit{
		"4 factors for 3 pairs":    {set("partial_rotary_factor", 0.75), set("rope_scaling", map[string]any{"type": "longrope", "long_factor": []float64{1, 2, 3, 4}, "short_factor": []float64{1, 2, 3, 4}})},
		"makes 3 rotated ones":     {set("partial_rotary_factor", 0.4)},
		"makes 10 rotated ones":    {set("partial_rotary_factor", 1.3)},
		"lacks short_factor":       {set("rope_scaling", map[string]any{"type": "longrope", "long_factor": []float64{1, 2, 3, 4}})},
		"a list of numbers above":  {set("rope_scaling", map[string]any{"type": "longrope", "long_factor": []float64{1, 2, 3, 0}})},
		`"short_mscale", which is`: {set("rope_scaling", map[string]any{"type": "longrope", "short_mscale": 1.2})},
	} {
		_, err := NewPlan(open(t, edited(t, append([]edit{asArch(phi3)}, edits...)...)), Options{})
		wantError(t, err, want)
	}
}

// Every architecture leaves a tied output matrix out, and asks for it where it is not tied. Where config.json does not say, its class does (field report R012).
func TestTied(t *testing.T) {
	own := func(c *ckptCopy) {
		c.tensors["lm_head.weight"] = stTensor{"BF16", []uint64{264, 32}, make([]byte, 264*32*2)}
	}
	for _, s := range arch.All {
		if p := planOf(t, edited(t, asArch(s)), Options{}); slices.Contains(p.Names(), "output.weight") {
			t.Errorf("%s: the output matrix is written though it is tied", s.Name)
		}
		if p := planOf(t, edited(t, asArch(s), set("tie_word_embeddings", false), own), Options{}); !slices.Contains(p.Names(), "output.weight") {
			t.Errorf("%s: the output matrix is lost", s.Name)
		}
		_, err := NewPlan(open(t, edited(t, asArch(s), set("tie_word_embeddings", false))), Options{})
		wantError(t, err, "missing: lm_head.weight for output.weight")
		_, err = NewPlan(open(t, edited(t, asArch(s), unset("tie_word_embeddings"))), Options{})
		if tied := err == nil; tied != s.Tied {
			t.Errorf("%s without tie_word_embeddings: %v, want tied %v", s.Classes[0], err, s.Tied)
		}
	}
}

// Settings that old files leave out have the values that the classes give them.
func TestDefaults(t *testing.T) {
	p := planOf(t, edited(t, unset("rope_theta"), unset("rope_scaling"), unset("hidden_act"), unset("torch_dtype")), Options{})
	if base, err := p.Meta.Float("llama.rope.freq_base"); err != nil || base != 10000 {
		t.Errorf("rope.freq_base %g %v", base, err)
	}
	c := loadGolden(t)
	for _, kv := range []string{"q", "k", "v"} { // as many key heads as heads, of a head_dim that follows from the width
		for _, kind := range []string{"weight", "bias"} {
			delete(c.tensors, "model.layers.0.self_attn."+kv+"_proj."+kind)
		}
		c.tensors["model.layers.0.self_attn."+kv+"_proj.weight"] = stTensor{"BF16", []uint64{32, 32}, make([]byte, 2048)}
	}
	delete(c.tensors, "model.layers.0.self_attn.o_proj.bias")
	c.tensors["model.layers.0.self_attn.o_proj.weight"] = stTensor{"BF16", []uint64{32, 32}, make([]byte, 2048)}
	for _, key := range []string{"head_dim", "num_key_value_heads", "attention_bias"} {
		delete(c.config, key)
	}
	c.config["num_attention_heads"] = 4
	p = planOf(t, c.write(t), Options{})
	for key, want := range map[string]uint64{"attention.head_count_kv": 4, "rope.dimension_count": 8} {
		if n, err := p.Meta.Uint("llama." + key); err != nil || n != want {
			t.Errorf("%s is %d %v, want %d", key, n, err, want)
		}
	}
	if _, ok := p.Meta.Get("llama.attention.key_length"); ok {
		t.Error("attention.key_length is written though config.json has no head_dim")
	}
}

// The rows of q and k are reordered head by head, with their own numbers of heads, and the biases as well: row r of the source
// holds r everywhere, so the output shows where each row came from (field report R019).
func TestPermutation(t *testing.T) {
	numbered := func(rows, cols int) stTensor {
		var values []float32
		for r := range rows {
			for range cols {
				values = append(values, float32(r))
			}
		}
		shape := []uint64{uint64(rows), uint64(cols)}
		if cols == 1 {
			shape = shape[:1]
		}
		return f32s(shape, values...)
	}
	const attn = "model.layers.0.self_attn."
	f := convertTo(t, edited(t, func(c *ckptCopy) {
		c.tensors[attn+"q_proj.weight"], c.tensors[attn+"q_proj.bias"] = numbered(48, 32), numbered(48, 1)
		c.tensors[attn+"k_proj.weight"], c.tensors[attn+"k_proj.bias"] = numbered(16, 32), numbered(16, 1)
	}), Options{Type: "f32"})
	head := []float32{0, 4, 1, 5, 2, 6, 3, 7} // halves of 8 to adjacent pairs
	for name, rowLen := range map[string]int{"attn_q.weight": 32, "attn_q.bias": 1, "attn_k.weight": 32, "attn_k.bias": 1} {
		x, _ := f.Tensor("blk.0." + name)
		b, err := f.Data(x)
		if err != nil {
			t.Fatal(err)
		}
		for r := range len(b) / 4 / rowLen {
			got := math.Float32frombits(binary.LittleEndian.Uint32(b[4*r*rowLen:]))
			if want := float32(r/8*8) + head[r%8]; got != want {
				t.Errorf("%s: row %d comes from %g, want %g", name, r, got, want)
			}
		}
	}
}

func TestVocabOnly(t *testing.T) {
	p := planOf(t, golden, Options{VocabOnly: true})
	if len(p.Tensors) != 0 {
		t.Errorf("%d tensors", len(p.Tensors))
	}
	f := convertTo(t, golden, Options{VocabOnly: true})
	if tokens, err := f.Meta.Strings("tokenizer.ggml.tokens"); err != nil || len(tokens) != 264 {
		t.Errorf("%d tokens, %v", len(tokens), err)
	}
}

// auto keeps the element type of each matrix; general.file_type goes by the first.
func TestAutoType(t *testing.T) {
	dir := edited(t, func(c *ckptCopy) {
		x := c.tensors["model.embed_tokens.weight"]
		wide := make([]float32, len(x.data)/2)
		for i := range wide {
			wide[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(x.data[2*i:])) << 16)
		}
		c.tensors["model.embed_tokens.weight"] = f32s(x.shape, wide...)
	})
	p := planOf(t, dir, Options{Type: "Auto"})
	if ft, err := p.Meta.Uint("general.file_type"); err != nil || ft != 0 {
		t.Errorf("file type %d, %v; the first matrix is F32", ft, err)
	}
	for name, want := range map[string]gguf.Type{"token_embd.weight": gguf.F32, "blk.0.attn_v.weight": gguf.F16, "blk.0.attn_q.weight": gguf.BF16, "blk.0.attn_v.bias": gguf.F32} {
		if x, ok := p.Tensor(name); !ok || x.Type != want {
			t.Errorf("%s is %v, want %s", name, x, want)
		}
	}
}
