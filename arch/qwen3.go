package arch

import "github.com/ggufkit/ggufkit/gguf"

// qwen3 is Qwen 3 (dense): qwen2's block without biases, with norms of queries and keys, and heads that need not share the embedding.
var qwen3 = Spec{
	Name:    "qwen3",
	Classes: []string{"Qwen3ForCausalLM", "Qwen3Model"},
	Prefix:  "model.",
	Require: []Require{siluOnly, wholeHeads},
	Keys: []Key{
		blockCount, contextLength, embeddingLength, ffnLength, headCount, headCountKV, ropeScaling, ropeBase, rmsEpsilon,
		{Name: "attention.key_length", Type: gguf.Uint32, Config: []string{"head_dim"}, Default: "128"},
		{Name: "attention.value_length", Type: gguf.Uint32, Config: []string{"head_dim"}, Default: "128"},
		fileType, usedWindow, windowPattern,
	},
	Tensors: []Tensor{
		{Name: "token_embd.weight", HF: []string{"model.embed_tokens.weight"}, Shape: []string{"n_embd", "n_vocab"}},
		ropeTable, ropeTableLong, ropeTableShort,
		{Name: "blk.%d.attn_norm.weight", HF: []string{"model.layers.%d.input_layernorm.weight"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.attn_q.weight", HF: []string{"model.layers.%d.self_attn.q_proj.weight"}, Shape: []string{"n_embd", "n_head*head_k"}},
		{Name: "blk.%d.attn_q_norm.weight", HF: []string{"model.layers.%d.self_attn.q_norm.weight"}, Shape: []string{"head_k"}},
		{Name: "blk.%d.attn_k.weight", HF: []string{"model.layers.%d.self_attn.k_proj.weight"}, Shape: []string{"n_embd", "n_head_kv*head_k"}},
		{Name: "blk.%d.attn_k_norm.weight", HF: []string{"model.layers.%d.self_attn.k_norm.weight"}, Shape: []string{"head_k"}},
		{Name: "blk.%d.attn_v.weight", HF: []string{"model.layers.%d.self_attn.v_proj.weight"}, Shape: []string{"n_embd", "n_head_kv*head_v"}},
		{Name: "blk.%d.attn_output.weight", HF: []string{"model.layers.%d.self_attn.o_proj.weight"}, Shape: []string{"n_head*head_v", "n_embd"}},
		{Name: "blk.%d.attn_q.bias", HF: []string{"model.layers.%d.self_attn.q_proj.bias"}, Shape: []string{"n_head*head_k"}, Optional: true, Flag: "attention_bias"},
		{Name: "blk.%d.attn_k.bias", HF: []string{"model.layers.%d.self_attn.k_proj.bias"}, Shape: []string{"n_head_kv*head_k"}, Optional: true, Flag: "attention_bias"},
		{Name: "blk.%d.attn_v.bias", HF: []string{"model.layers.%d.self_attn.v_proj.bias"}, Shape: []string{"n_head_kv*head_v"}, Optional: true, Flag: "attention_bias"},
		{Name: "blk.%d.attn_output.bias", HF: []string{"model.layers.%d.self_attn.o_proj.bias"}, Shape: []string{"n_embd"}, Optional: true, Flag: "attention_bias"},
		{Name: "blk.%d.ffn_norm.weight", HF: []string{"model.layers.%d.post_attention_layernorm.weight"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.ffn_gate.weight", HF: []string{"model.layers.%d.mlp.gate_proj.weight"}, Shape: []string{"n_embd", "n_ff"}},
		{Name: "blk.%d.ffn_up.weight", HF: []string{"model.layers.%d.mlp.up_proj.weight"}, Shape: []string{"n_embd", "n_ff"}},
		{Name: "blk.%d.ffn_down.weight", HF: []string{"model.layers.%d.mlp.down_proj.weight"}, Shape: []string{"n_ff", "n_embd"}},
		{Name: "output_norm.weight", HF: []string{"model.norm.weight"}, Shape: []string{"n_embd"}},
		{Name: "output.weight", HF: []string{"lm_head.weight"}, Shape: []string{"n_embd", "n_vocab"}, Optional: true, Tied: "token_embd.weight"},
	},
	Drop:  []Drop{ropeFrequencies},
	Block: Block{Norm: "rms", Rope: "neox", Activation: "silu", Gated: true, QKNorm: true},
}
