package arch

import "github.com/ggufkit/ggufkit/gguf"

// gemma3 is the text model of Gemma 3: gemma2 with norms of queries and keys instead of caps, five windowed blocks to each global
// one, and a rope base for either kind. Checkpoints that see images leave most settings to the defaults of their class.
var gemma3 = Spec{
	Name:     "gemma3",
	Classes:  []string{"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
	Prefix:   "model.",
	Wrappers: []string{"language_model.", "model.language_model."},
	Nested:   "text_config",
	Tied:     true,
	Require: []Require{
		tanhGELU, wholeHeads, {Config: "attention_bias", Values: []string{`false`}, Reason: "gemma3 has no biases"},
		{Config: "use_bidirectional_attention", Values: []string{`false`}, Reason: "gemma3 generates text, and so looks back only"},
	},
	Keys: []Key{
		{Name: "block_count", Type: gguf.Uint32, Config: []string{"num_hidden_layers"}},
		{Name: "context_length", Type: gguf.Uint32, Config: []string{"max_position_embeddings"}, Default: "131072"},
		embeddingLength, ffnLength,
		{Name: "attention.head_count", Type: gguf.Uint32, Config: []string{"num_attention_heads"}, Default: "8"},
		{Name: "attention.head_count_kv", Type: gguf.Uint32, Config: []string{"num_key_value_heads"}, Default: "4"},
		ropeScaling,
		{Name: "rope.freq_base", Type: gguf.Float32, Config: []string{"rope_parameters.rope_theta"}, Default: "1000000"},
		{Name: "rope.freq_base_swa", Type: gguf.Float32, Config: []string{"rope_local_base_freq"}, Default: "10000"},
		{Name: "attention.layer_norm_rms_epsilon", Type: gguf.Float32, Config: []string{"rms_norm_eps"}, Default: "1e-6"},
		gemmaKeyLength, gemmaValueLength, fileType,
		{Name: "attn_logit_softcapping", Type: gguf.Float32, Config: []string{"attn_logit_softcapping"}, Optional: true},
		{Name: "final_logit_softcapping", Type: gguf.Float32, Config: []string{"final_logit_softcapping"}, Optional: true},
		{Name: "attention.sliding_window", Type: gguf.Uint32, Config: []string{"sliding_window"}, Default: "4096"},
		windowPattern, gemmaScale,
	},
	Tensors: []Tensor{
		{Name: "token_embd.weight", HF: []string{"model.embed_tokens.weight"}, Shape: []string{"n_embd", "n_vocab"}, Cut: true},
		ropeTable, ropeTableLong, ropeTableShort,
		{Name: "blk.%d.attn_norm.weight", HF: []string{"model.layers.%d.input_layernorm.weight"}, Shape: []string{"n_embd"}, Transform: "add_one"},
		{Name: "blk.%d.attn_q.weight", HF: []string{"model.layers.%d.self_attn.q_proj.weight"}, Shape: []string{"n_embd", "n_head*head_k"}},
		{Name: "blk.%d.attn_k.weight", HF: []string{"model.layers.%d.self_attn.k_proj.weight"}, Shape: []string{"n_embd", "n_head_kv*head_k"}},
		{Name: "blk.%d.attn_v.weight", HF: []string{"model.layers.%d.self_attn.v_proj.weight"}, Shape: []string{"n_embd", "n_head_kv*head_v"}},
		{Name: "blk.%d.attn_output.weight", HF: []string{"model.layers.%d.self_attn.o_proj.weight"}, Shape: []string{"n_head*head_v", "n_embd"}},
		{Name: "blk.%d.attn_q_norm.weight", HF: []string{"model.layers.%d.self_attn.q_norm.weight"}, Shape: []string{"head_k"}, Transform: "add_one"},
		{Name: "blk.%d.attn_k_norm.weight", HF: []string{"model.layers.%d.self_attn.k_norm.weight"}, Shape: []string{"head_k"}, Transform: "add_one"},
		{Name: "blk.%d.post_attention_norm.weight", HF: []string{"model.layers.%d.post_attention_layernorm.weight"}, Shape: []string{"n_embd"}, Transform: "add_one"},
		{Name: "blk.%d.ffn_norm.weight", HF: []string{"model.layers.%d.pre_feedforward_layernorm.weight"}, Shape: []string{"n_embd"}, Transform: "add_one"},
		{Name: "blk.%d.post_ffw_norm.weight", HF: []string{"model.layers.%d.post_feedforward_layernorm.weight"}, Shape: []string{"n_embd"}, Transform: "add_one"},
		{Name: "blk.%d.ffn_gate.weight", HF: []string{"model.layers.%d.mlp.gate_proj.weight"}, Shape: []string{"n_embd", "n_ff"}},
		{Name: "blk.%d.ffn_up.weight", HF: []string{"model.layers.%d.mlp.up_proj.weight"}, Shape: []string{"n_embd", "n_ff"}},
		{Name: "blk.%d.ffn_down.weight", HF: []string{"model.layers.%d.mlp.down_proj.weight"}, Shape: []string{"n_ff", "n_embd"}},
		{Name: "output_norm.weight", HF: []string{"model.norm.weight"}, Shape: []string{"n_embd"}, Transform: "add_one"},
		{Name: "output.weight", HF: []string{"lm_head.weight"}, Shape: []string{"n_embd", "n_vocab"}, Optional: true, Tied: "token_embd.weight", Cut: true},
	},
	Drop: []Drop{
		ropeFrequencies,
		{Pattern: `(model\.)?(vision_tower|multi_modal_projector)\..*`, Reason: "they belong to the image encoder, and this file holds the text model"},
	},
	Block: Block{
		Norm: "rms", PostNorm: true, QKNorm: true, Rope: "neox", ScaleEmbed: true, Activation: "gelu_tanh", Gated: true,
		WideScale: 62, // the 27B model
		Window:    Window{GlobalEvery: 6, FreqBase: 10000},
	},
}
