package arch

// qwen2 is Qwen 1.5, 2 and 2.5 (dense): llama's block with biases on q, k and v, and rope over halves, so nothing is permuted.
var qwen2 = Spec{
	Name:    "qwen2",
	Classes: []string{"Qwen2ForCausalLM", "Qwen2Model"},
	Prefix:  "model.",
	Require: []Require{siluOnly, wholeHeads},
	Keys: []Key{
		blockCount, contextLength, embeddingLength, ffnLength, headCount, headCountKV, ropeScaling, ropeBase, rmsEpsilon, keyLength, valueLength,
		fileType, usedWindow, windowPattern,
	},
	Tensors: []Tensor{
		{Name: "token_embd.weight", HF: []string{"model.embed_tokens.weight"}, Shape: []string{"n_embd", "n_vocab"}},
		ropeTable, ropeTableLong, ropeTableShort,
		{Name: "blk.%d.attn_norm.weight", HF: []string{"model.layers.%d.input_layernorm.weight"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.attn_q.weight", HF: []string{"model.layers.%d.self_attn.q_proj.weight"}, Shape: []string{"n_embd", "n_head*head_k"}},
		{Name: "blk.%d.attn_k.weight", HF: []string{"model.layers.%d.self_attn.k_proj.weight"}, Shape: []string{"n_embd", "n_head_kv*head_k"}},
		{Name: "blk.%d.attn_v.weight", HF: []string{"model.layers.%d.self_attn.v_proj.weight"}, Shape: []string{"n_embd", "n_head_kv*head_v"}},
		{Name: "blk.%d.attn_output.weight", HF: []string{"model.layers.%d.self_attn.o_proj.weight"}, Shape: []string{"n_head*head_v", "n_embd"}},
		{Name: "blk.%d.attn_q.bias", HF: []string{"model.layers.%d.self_attn.q_proj.bias"}, Shape: []string{"n_head*head_k"}},
		{Name: "blk.%d.attn_k.bias", HF: []string{"model.layers.%d.self_attn.k_proj.bias"}, Shape: []string{"n_head_kv*head_k"}},
		{Name: "blk.%d.attn_v.bias", HF: []string{"model.layers.%d.self_attn.v_proj.bias"}, Shape: []string{"n_head_kv*head_v"}},
		{Name: "blk.%d.ffn_norm.weight", HF: []string{"model.layers.%d.post_attention_layernorm.weight"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.ffn_gate.weight", HF: []string{"model.layers.%d.mlp.gate_proj.weight"}, Shape: []string{"n_embd", "n_ff"}},
		{Name: "blk.%d.ffn_up.weight", HF: []string{"model.layers.%d.mlp.up_proj.weight"}, Shape: []string{"n_embd", "n_ff"}},
		{Name: "blk.%d.ffn_down.weight", HF: []string{"model.layers.%d.mlp.down_proj.weight"}, Shape: []string{"n_ff", "n_embd"}},
		{Name: "output_norm.weight", HF: []string{"model.norm.weight"}, Shape: []string{"n_embd"}},
		{Name: "output.weight", HF: []string{"lm_head.weight"}, Shape: []string{"n_embd", "n_vocab"}, Optional: true, Tied: "token_embd.weight"},
	},
	Drop:  []Drop{ropeFrequencies},
	Block: Block{Norm: "rms", Rope: "neox", Activation: "silu", Gated: true},
}
