package arch

import "github.com/ggufkit/ggufkit/gguf"

// phi3 is Phi 3, 3.5 and 4: llama's block with q, k and v in one matrix, gate and up in another, and rope that stretches each frequency by
// a factor of its own (longrope): rope_factors_long for a context beyond rope.scaling.original_context_length, else rope_factors_short.
// Either way rope.scaling.attn_factor multiplies the rotated queries and keys. rope.scaling.type is "longrope" in our files and absent in those
// of others.
var phi3 = Spec{
	Name:    "phi3",
	Classes: []string{"Phi3ForCausalLM", "Phi3Model"},
	Prefix:  "model.",
	Require: []Require{siluOnly},
	Keys: []Key{
		contextLength,
		{Name: "rope.scaling.original_context_length", Type: gguf.Uint32, Config: []string{"original_max_position_embeddings", "rope_parameters.original_max_position_embeddings"}, Default: "=context_length"},
		embeddingLength, ffnLength, blockCount, headCount, headCountKV, rmsEpsilon,
		{Name: "rope.dimension_count", Type: gguf.Uint32, Default: "rotary_dim()"},
		ropeBase, ropeScaling, fileType,
		{Name: "attention.sliding_window", Type: gguf.Uint32, Config: []string{"sliding_window"}, Default: "0"},
		windowPattern,
	},
	Tensors: []Tensor{
		{Name: "token_embd.weight", HF: []string{"model.embed_tokens.weight"}, Shape: []string{"n_embd", "n_vocab"}},
		ropeTable, ropeTableLong, ropeTableShort,
		{Name: "blk.%d.attn_norm.weight", HF: []string{"model.layers.%d.input_layernorm.weight"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.attn_qkv.weight", HF: []string{"model.layers.%d.self_attn.qkv_proj.weight"}, Shape: []string{"n_embd", "n_qkv"}},
		{Name: "blk.%d.attn_output.weight", HF: []string{"model.layers.%d.self_attn.o_proj.weight"}, Shape: []string{"n_head*head_v", "n_embd"}},
		{Name: "blk.%d.ffn_norm.weight", HF: []string{"model.layers.%d.post_attention_layernorm.weight"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.ffn_up.weight", HF: []string{"model.layers.%d.mlp.gate_up_proj.weight"}, Shape: []string{"n_embd", "2*n_ff"}},
		{Name: "blk.%d.ffn_down.weight", HF: []string{"model.layers.%d.mlp.down_proj.weight"}, Shape: []string{"n_ff", "n_embd"}},
		{Name: "output_norm.weight", HF: []string{"model.norm.weight"}, Shape: []string{"n_embd"}},
		{Name: "output.weight", HF: []string{"lm_head.weight"}, Shape: []string{"n_embd", "n_vocab"}, Optional: true, Tied: "token_embd.weight"},
	},
	Drop:  []Drop{ropeFrequencies},
	Block: Block{Norm: "rms", FusedQKV: true, Rope: "neox", Activation: "silu", Gated: true, FusedGateUp: true},
}
