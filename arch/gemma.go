package arch

import "github.com/ggufkit/ggufkit/gguf"

// gemma is Gemma 1: llama's block with GELU and rotation over halves, wide heads, and norms whose stored weights are one too low.
var gemma = Spec{
	Name:    "gemma",
	Classes: []string{"GemmaForCausalLM", "GemmaModel"},
	Prefix:  "model.",
	Tied:    true,
	Require: []Require{
		// The first checkpoints say "gelu" and mean the tanh form, with which the model was trained.
		{Config: "hidden_act", Values: []string{`"gelu_pytorch_tanh"`, `"gelu"`}, Reason: "gemma uses GELU in its tanh form"},
		tanhGELU, wholeHeads, {Config: "attention_bias", Values: []string{`false`}, Reason: "gemma has no biases"},
	},
	Keys: []Key{
		contextLength, embeddingLength, blockCount, ffnLength, headCount, headCountKV, rmsEpsilon, gemmaKeyLength, gemmaValueLength,
		gemmaRopeBase, ropeScaling, fileType,
	},
	Tensors: []Tensor{
		{Name: "token_embd.weight", HF: []string{"model.embed_tokens.weight"}, Shape: []string{"n_embd", "n_vocab"}, Cut: true},
		ropeTable, ropeTableLong, ropeTableShort,
		{Name: "blk.%d.attn_norm.weight", HF: []string{"model.layers.%d.input_layernorm.weight"}, Shape: []string{"n_embd"}, Transform: "add_one"},
		{Name: "blk.%d.attn_q.weight", HF: []string{"model.layers.%d.self_attn.q_proj.weight"}, Shape: []string{"n_embd", "n_head*head_k"}},
		{Name: "blk.%d.attn_k.weight", HF: []string{"model.layers.%d.self_attn.k_proj.weight"}, Shape: []string{"n_embd", "n_head_kv*head_k"}},
		{Name: "blk.%d.attn_v.weight", HF: []string{"model.layers.%d.self_attn.v_proj.weight"}, Shape: []string{"n_embd", "n_head_kv*head_v"}},
		{Name: "blk.%d.attn_output.weight", HF: []string{"model.layers.%d.self_attn.o_proj.weight"}, Shape: []string{"n_head*head_v", "n_embd"}},
		{Name: "blk.%d.ffn_norm.weight", HF: []string{"model.layers.%d.post_attention_layernorm.weight"}, Shape: []string{"n_embd"}, Transform: "add_one"},
		{Name: "blk.%d.ffn_gate.weight", HF: []string{"model.layers.%d.mlp.gate_proj.weight"}, Shape: []string{"n_embd", "n_ff"}},
		{Name: "blk.%d.ffn_up.weight", HF: []string{"model.layers.%d.mlp.up_proj.weight"}, Shape: []string{"n_embd", "n_ff"}},
		{Name: "blk.%d.ffn_down.weight", HF: []string{"model.layers.%d.mlp.down_proj.weight"}, Shape: []string{"n_ff", "n_embd"}},
		{Name: "output_norm.weight", HF: []string{"model.norm.weight"}, Shape: []string{"n_embd"}, Transform: "add_one"},
		{Name: "output.weight", HF: []string{"lm_head.weight"}, Shape: []string{"n_embd", "n_vocab"}, Optional: true, Tied: "token_embd.weight", Cut: true},
	},
	Drop:  []Drop{ropeFrequencies},
	Block: Block{Norm: "rms", Rope: "neox", ScaleEmbed: true, Activation: "gelu_tanh", Gated: true},
}

// Rules that the first two generations share. They have no key for a rope base of 10000, which is what readers assume.
var (
	gemmaKeyLength   = Key{Name: "attention.key_length", Type: gguf.Uint32, Config: []string{"head_dim"}, Default: "256"}
	gemmaValueLength = Key{Name: "attention.value_length", Type: gguf.Uint32, Config: []string{"head_dim"}, Default: "256"}
	gemmaRopeBase    = Key{Name: "rope.freq_base", Type: gguf.Float32, Config: []string{"rope_parameters.rope_theta"}, Implied: "10000", Optional: true}
	// gemmaScale is left out where scores are scaled by 1/sqrt(head_k), as readers assume.
	gemmaScale = Key{Name: "attention.scale", Type: gguf.Float32, Default: "attention_scale()"}
)
