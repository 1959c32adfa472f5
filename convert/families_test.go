package convert

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// Sizes of the checkpoints that asArch makes. Every dimension is another number where the architecture lets it be.
var familySizes = arch.Params{NVocab: 264, NCtxTrain: 512, NEmbd: 32, NLayer: 1, NFF: []int{48}, NHead: []int{4}, NHeadKV: []int{2}, HeadK: 8, HeadV: 8, Rope: arch.Rope{Dim: 8}}

// asArch makes the golden checkpoint one of another architecture: its settings, and a source for each of its rules that is not optional.
// Values are zero.
func asArch(s *arch.Spec) edit {
	return func(c *ckptCopy) {
		sizes := familySizes
		if !slices.ContainsFunc(s.Keys, func(k arch.Key) bool { return k.Name == "attention.head_count_kv" }) {
			sizes.NHeadKV = sizes.NHead
		}
		c.config = map[string]any{
			"architectures": s.Classes[:1], "hidden_size": sizes.NEmbd, "n_embd": sizes.NEmbd, "intermediate_size": sizes.NFF[0], "n_inner": sizes.NFF[0],
			"num_hidden_layers": sizes.NLayer, "n_layer": sizes.NLayer, "num_attention_heads": sizes.NHead[0], "n_head": sizes.NHead[0],
			"num_key_value_heads": sizes.NHeadKV[0], "head_dim": sizes.HeadK, "max_position_embeddings": sizes.NCtxTrain, "n_positions": sizes.NCtxTrain,
			"rms_norm_eps": 1e-6, "norm_epsilon": 1e-5, "layer_norm_epsilon": 1e-5, "rope_theta": 20000, "attn_logit_softcapping": 50, "final_logit_softcapping": 30,
			"query_pre_attn_scalar": sizes.HeadK, "use_bias": false, "vocab_size": sizes.NVocab, "tie_word_embeddings": true,
		}
		for _, r := range s.Require {
			if !strings.Contains(r.Config, ".") {
				c.config[r.Config] = json.RawMessage(r.Values[0])
			}
		}
		c.tensors = map[string]stTensor{}
		for i := range s.Tensors {
			r := &s.Tensors[i]
			if len(r.HF) == 0 || r.Optional {
				continue
			}
			il := -1
			if strings.Contains(r.Name, "%d") {
				il = 0
			}
			shape, err := shapeOf(&sizes, &target{rule: r, block: il})
			if err != nil {
				panic(err) // a declaration that names an unknown size
			}
			if r.Transform != transpose {
				slices.Reverse(shape)
			}
			n := uint64(2)
			for _, d := range shape {
				n *= d
			}
			c.tensors[inBlock(r.HF[0], 0)] = stTensor{"BF16", shape, make([]byte, n)}
		}
	}
}

func specOf(t *testing.T, class string) *arch.Spec {
	t.Helper()
	s, err := arch.ForHF(class)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// f32sOf reads a tensor of a plan made with type f32.
func f32sOf(t *testing.T, p *Plan, name string) []float32 {
	t.Helper()
	x, ok := p.Tensor(name)
	if !ok {
		t.Fatalf("the plan has no %s", name)
	}
	b, err := p.Data(x)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, len(b)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return values
}

// checkMeta compares some keys; nil stands for an absent one.
func checkMeta(t *testing.T, m *gguf.Meta, want map[string]any) {
	t.Helper()
	for key, w := range want {
		v, ok := m.Get(key)
		if ok != (w != nil) || ok && !slices.Equal(mustJSON(t, v.Any()), mustJSON(t, w)) {
			t.Errorf("%s is %v, want %v", key, v.Any(), w)
		}
	}
}

// Checkpoints of the bare base class, of every alias, and with a doubled prefix give one output (field report R018).
func TestFamilyAliases(t *testing.T) {
	for _, s := range arch.All {
		want := planOf(t, edited(t, asArch(s)), Options{})
		strip := rename(func(n string) string { return strings.TrimPrefix(n, s.Prefix) })
		for _, class := range s.Classes {
			sameOutput(t, planOf(t, edited(t, asArch(s), strip, set("architectures", []string{class})), Options{}), want)
		}
		sameOutput(t, planOf(t, edited(t, asArch(s), rename(func(n string) string { return s.Prefix + n })), Options{}), want)
	}
}

// Norms that are stored one too low are written whole: weights of 0 become 1 (field report R024).
func TestNormsPlusOne(t *testing.T) {
	for _, class := range []string{"GemmaForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM"} {
		p := planOf(t, edited(t, asArch(specOf(t, class))), Options{Type: "f32"})
		norms := 0
		for _, name := range p.Names() {
			if !strings.HasSuffix(name, "_norm.weight") {
				continue
			}
			norms++
			for i, v := range f32sOf(t, p, name) {
				if v != 1 {
					t.Errorf("%s: element %d of %s is %g, want 1", class, i, name, v)
				}
			}
		}
		if norms < 3 {
			t.Errorf("%s: %d norms", class, norms)
		}
	}
}

// GPT-2 stores a matrix with a row for each input. Element (in, out) of the source is 100*in + out here.
func TestTransposed(t *testing.T) {
	s := specOf(t, "GPT2LMHeadModel")
	numbered := func(c *ckptCopy) {
		for name, x := range c.tensors {
			if strings.HasSuffix(name, "c_fc.weight") {
				values := make([]float32, x.shape[0]*x.shape[1])
				for i := range values {
					values[i] = float32(uint64(i)/x.shape[1]*100 + uint64(i)%x.shape[1])
				}
				c.tensors[name] = f32s(x.shape, values...)
			}
		}
	}
	p := planOf(t, edited(t, asArch(s), numbered), Options{Type: "f32"})
	got := f32sOf(t, p, "blk.0.ffn_up.weight")
	for i, v := range got {
		if in, out := i%32, i/32; v != float32(100*in+out) {
			t.Fatalf("output %d, input %d is %g, want %d", out, in, v, 100*in+out)
		}
	}
	if len(got) != 32*48 {
		t.Errorf("%d values", len(got))
	}
	nan := func(c *ckptCopy) {
		numbered(c)
		x := c.tensors["transformer.h.0.mlp.c_fc.weight"]
		binary.LittleEndian.PutUint32(x.data[4*(5*48+7):], math.Float32bits(float32(math.NaN())))
	}
	p = planOf(t, edited(t, asArch(s), nan), Options{Type: "q8_0"})
	_, err := p.Run(t.Context(), t.TempDir()+"/x.gguf", Options{})
	wantError(t, err, "blk.0.ffn_up.weight", "row 5, column 7 of the source is NaN")
}

// A feed-forward network of its own size is what config.json says, and four times the embedding otherwise.
func TestGPT2FeedForward(t *testing.T) {
	s := specOf(t, "GPT2LMHeadModel")
	checkMeta(t, planOf(t, edited(t, asArch(s)), Options{}).Meta, map[string]any{"gpt2.feed_forward_length": 48})
	_, err := NewPlan(open(t, edited(t, asArch(s), set("n_inner", nil))), Options{})
	wantError(t, err, "c_fc.weight is [32 48]", "asks for [32 128]")
}

// Windows are written where a block would notice them, with the blocks that have one where the family does not settle it.
func TestWindows(t *testing.T) {
	for name, c := range map[string]struct {
		class string
		edits []edit
		want  map[string]any
	}{
		"mistral":               {"MistralForCausalLM", []edit{set("sliding_window", 16)}, map[string]any{"llama.attention.sliding_window": 16, "llama.attention.sliding_window_pattern": nil}},
		"mistral, none":         {"MistralForCausalLM", []edit{set("sliding_window", nil)}, map[string]any{"llama.attention.sliding_window": nil}},
		"mistral, wide":         {"MistralForCausalLM", []edit{set("sliding_window", 512)}, map[string]any{"llama.attention.sliding_window": nil}},
		"llama ignores it":      {"LlamaForCausalLM", []edit{set("sliding_window", 16)}, map[string]any{"llama.attention.sliding_window": nil}},
		"qwen2, not turned on":  {"Qwen2ForCausalLM", []edit{set("sliding_window", 16)}, map[string]any{"qwen2.attention.sliding_window": nil}},
		"mistral has no switch": {"MistralForCausalLM", []edit{set("sliding_window", 16), set("use_sliding_window", false)}, map[string]any{"llama.attention.sliding_window": 16}},
		"qwen2, not used":       {"Qwen2ForCausalLM", []edit{set("sliding_window", 16), set("use_sliding_window", false)}, map[string]any{"qwen2.attention.sliding_window": nil}},
		"qwen3, upper blocks":   {"Qwen3ForCausalLM", []edit{set("sliding_window", 16), set("use_sliding_window", true), set("max_window_layers", 0)}, map[string]any{"qwen3.attention.sliding_window": 16}},
		"qwen3, above all":      {"Qwen3ForCausalLM", []edit{set("sliding_window", 16), set("use_sliding_window", true), set("max_window_layers", 28)}, map[string]any{"qwen3.attention.sliding_window": nil}},
		"starcoder2":            {"Starcoder2ForCausalLM", []edit{set("sliding_window", 16)}, map[string]any{"starcoder2.attention.sliding_window": 16}},
		"phi3":                  {"Phi3ForCausalLM", []edit{set("sliding_window", 2047)}, map[string]any{"phi3.attention.sliding_window": 2047}},
		"phi3, none":            {"Phi3ForCausalLM", []edit{set("sliding_window", nil)}, map[string]any{"phi3.attention.sliding_window": 0}},
		"gemma2":                {"Gemma2ForCausalLM", []edit{set("sliding_window", 16)}, map[string]any{"gemma2.attention.sliding_window": 16, "gemma2.attention.sliding_window_pattern": nil}},
		"gemma2, layer types":   {"Gemma2ForCausalLM", []edit{set("sliding_window", 16), set("layer_types", []string{"sliding_attention"})}, map[string]any{"gemma2.attention.sliding_window_pattern": nil}},
		"gemma2, other blocks":  {"Gemma2ForCausalLM", []edit{set("layer_types", []string{"full_attention"})}, map[string]any{"gemma2.attention.sliding_window": 4096, "gemma2.attention.sliding_window_pattern": []bool{false}}},
		"gemma3, other blocks":  {"Gemma3ForCausalLM", []edit{set("sliding_window", 16), set("sliding_window_pattern", 1)}, map[string]any{"gemma3.attention.sliding_window_pattern": []bool{false}}},
		"smollm3":               {"SmolLM3ForCausalLM", []edit{set("no_rope_layers", []int{1})}, map[string]any{"smollm3.attention.rope_pattern": nil}},
		"smollm3, other":        {"SmolLM3ForCausalLM", []edit{set("no_rope_layers", []int{0})}, map[string]any{"smollm3.attention.rope_pattern": []uint32{0}}},
		"smollm3, interval":     {"SmolLM3ForCausalLM", []edit{set("no_rope_layer_interval", 1)}, map[string]any{"smollm3.attention.rope_pattern": []uint32{0}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := planOf(t, edited(t, append([]edit{asArch(specOf(t, c.class))}, c.edits...)...), Options{})
			checkMeta(t, p.Meta, c.want)
		})
	}
	for want, edits := range map[string][]edit{
		"layer_types has 2 entries for 1 blocks":  {set("layer_types", []string{"full_attention", "full_attention"})},
		`"chunked_attention" is unknown`:          {set("layer_types", []string{"chunked_attention"})},
		"layer_types is 3, expected a list":       {set("layer_types", 3)},
		"says that there are windows, but not in": {set("use_sliding_window", true)},
	} {
		edits = append([]edit{asArch(specOf(t, "Qwen2ForCausalLM")), set("sliding_window", 16), set("use_sliding_window", true)}, edits...)
		_, err := NewPlan(open(t, edited(t, edits...)), Options{})
		wantError(t, err, want)
	}
}

// Scores are scaled by query_pre_attn_scalar; the key is left out where that is the head's length. The rope base of the first generations is left out where
// it is what readers assume.
func TestGemmaKeys(t *testing.T) {
	for name, c := range map[string]struct {
		class string
		edits []edit
		want  map[string]any
	}{
		"usual scale":  {"Gemma2ForCausalLM", nil, map[string]any{"gemma2.attention.scale": nil, "gemma2.attn_logit_softcapping": 50, "gemma2.final_logit_softcapping": 30}},
		"other scale":  {"Gemma2ForCausalLM", []edit{set("query_pre_attn_scalar", 144)}, map[string]any{"gemma2.attention.scale": float32(1. / 12)}},
		"of its class": {"Gemma3ForCausalLM", []edit{unset("query_pre_attn_scalar")}, map[string]any{"gemma3.attention.scale": float32(1. / 16)}},
		"no caps":      {"Gemma3ForCausalLM", []edit{set("final_logit_softcapping", nil), set("attn_logit_softcapping", nil)}, map[string]any{"gemma3.final_logit_softcapping": nil, "gemma3.attn_logit_softcapping": nil}},
		"usual base":   {"GemmaForCausalLM", []edit{set("rope_theta", 10000.0)}, map[string]any{"gemma.rope.freq_base": nil}},
		"other base":   {"GemmaForCausalLM", nil, map[string]any{"gemma.rope.freq_base": 20000}},
		"no base":      {"GemmaForCausalLM", []edit{unset("rope_theta")}, map[string]any{"gemma.rope.freq_base": nil}},
		"two bases":    {"Gemma3ForCausalLM", []edit{set("rope_local_base_freq", 5000)}, map[string]any{"gemma3.rope.freq_base": 20000, "gemma3.rope.freq_base_swa": 5000}},
		"transformers 5": {"Gemma3ForCausalLM", []edit{unset("rope_theta"), set("rope_parameters", map[string]any{
			"full_attention": map[string]any{"rope_type": "linear", "factor": 8, "rope_theta": 1e6}, "sliding_attention": map[string]any{"rope_type": "default", "rope_theta": 5000}})},
			map[string]any{"gemma3.rope.freq_base": 1000000, "gemma3.rope.freq_base_swa": 5000, "gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8}},
	} {
		t.Run(name, func(t *testing.T) {
			p := planOf(t, edited(t, append([]edit{asArch(specOf(t, c.class))}, c.edits...)...), Options{})
			checkMeta(t, p.Meta, c.want)
		})
	}
	local := func(section map[string]any) edit {
		return set("rope_parameters", map[string]any{"full_attention": map[string]any{"rope_theta": 20000}, "sliding_attention": section})
	}
	for want, e := range map[string]edit{
		"has no attn_logit_softcapping, which gemma2": set("attn_logit_softcapping", nil),
		"query_pre_attn_scalar is 0, expected more":   set("query_pre_attn_scalar", 0),
		"only global blocks are scaled":               local(map[string]any{"rope_type": "linear", "factor": 8, "rope_theta": 10000}),
	} {
		class := "Gemma2ForCausalLM"
		if strings.HasPrefix(want, "only") {
			class = "Gemma3ForCausalLM"
		}
		_, err := NewPlan(open(t, edited(t, asArch(specOf(t, class)), e)), Options{})
		wantError(t, err, want)
	}
}

// A checkpoint that sees images too gives the file of its text model: settings nested or left to the class, names with what the wrapper puts
// before them in either of its layouts, the image encoder left out with a reason, and no rows for padding of the vocabulary.
func TestImagesAreLeftOut(t *testing.T) {
	s := specOf(t, "Gemma3ForCausalLM")
	// Values that the class gives where the nested settings say nothing.
	classDefaults := []edit{asArch(s), set("num_attention_heads", 8), set("num_key_value_heads", 4), set("head_dim", 256), set("query_pre_attn_scalar", 256),
		set("max_position_embeddings", 131072), set("rope_theta", 1e6), set("rope_local_base_freq", 1e4), unset("attn_logit_softcapping"), unset("final_logit_softcapping"),
		func(c *ckptCopy) {
			const attn = "model.layers.0.self_attn."
			for name, shape := range map[string][]uint64{"q_proj": {2048, 32}, "k_proj": {1024, 32}, "v_proj": {1024, 32}, "o_proj": {32, 2048}, "q_norm": {256}, "k_norm": {256}} {
				n := uint64(2)
				for _, d := range shape {
					n *= d
				}
				c.tensors[attn+name+".weight"] = stTensor{"BF16", shape, make([]byte, n)}
			}
		}}
	want := planOf(t, edited(t, classDefaults...), Options{})
	for _, layout := range []struct{ text, image string }{{"language_model.model.", ""}, {"model.language_model.", "model."}} {
		wrapped := append(slices.Clone(classDefaults), func(c *ckptCopy) {
			text := map[string]any{"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 48, "sliding_window": 4096, "architectures": []string{"Gemma3ForCausalLM"}}
			c.config = map[string]any{"architectures": []string{"Gemma3ForConditionalGeneration"}, "text_config": text, "hidden_size": 7, "vision_config": map[string]any{"hidden_size": 1152}}
			padded := c.tensors["model.embed_tokens.weight"]
			c.tensors["model.embed_tokens.weight"] = stTensor{padded.dtype, []uint64{272, 32}, append(slices.Clone(padded.data), make([]byte, 8*64)...)}
		}, rename(func(n string) string { return strings.Replace(n, "model.", layout.text, 1) }), func(c *ckptCopy) {
			c.tensors[layout.image+"vision_tower.vision_model.embeddings.patch_embedding.bias"] = f32s([]uint64{2}, 1, 2)
			c.tensors[layout.image+"multi_modal_projector.mm_soft_emb_norm.weight"] = f32s([]uint64{2}, 1, 2)
		})
		got := planOf(t, edited(t, wrapped...), Options{})
		sameOutput(t, got, want)
		for _, note := range []string{"2 tensors of the checkpoint are left out: they belong to the image encoder", "8 rows of the embeddings beyond the 264 tokens are left out"} {
			if !slices.ContainsFunc(got.Notes, func(n string) bool { return strings.Contains(n, note) }) {
				t.Errorf("no note with %q in %q", note, got.Notes)
			}
		}
	}
}
