package arch

// llama is Llama 1 to 3.x and the many models saved in its form (SmolLM, TinyLlama, Yi, Vicuna ...).
var llama = Spec{
	Name:    "llama",
	Classes: []string{"LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel"},
	Prefix:  "model.",
	Require: []Require{siluOnly, wholeHeads},
	Keys: []Key{
		blockCount, contextLength, embeddingLength, ffnLength, headCount, headCountKV, ropeScaling, ropeBase, rmsEpsilon, keyLength, valueLength,
		fileType, vocabSize, ropeDimension,
	},
	Tensors: llamaTensors,
	Drop:    []Drop{ropeFrequencies},
	// A window is what mistral has; llama itself never sets one.
	Block: Block{Norm: "rms", Rope: "norm", Activation: "silu", Gated: true},
}

var llamaTensors = []Tensor{
	{Name: "token_embd.weight", HF: []string{"model.embed_tokens.weight"}, Shape: []string{"n_embd", "n_vocab"}},
	ropeTable, ropeTableLong, ropeTableShort,
	{Name: "blk.%d.attn_norm.weight", HF: []string{"model.layers.%d.input_layernorm.weight"}, Shape: []string{"n_embd"}},
	{Name: "blk.%d.attn_q.weight", HF: []string{"model.layers.%d.self_attn.q_proj.weight"}, Shape: []string{"n_embd", "n_head*head_k"}, Transform: "permute_q"},
	{Name: "blk.%d.attn_k.weight", HF: []string{"model.layers.%d.self_attn.k_proj.weight"}, Shape: []string{"n_embd", "n_head_kv*head_k"}, Transform: "permute_k"},
	{Name: "blk.%d.attn_v.weight", HF: []string{"model.layers.%d.self_attn.v_proj.weight"}, Shape: []string{"n_embd", "n_head_kv*head_v"}},
	{Name: "blk.%d.attn_output.weight", HF: []string{"model.layers.%d.self_attn.o_proj.weight"}, Shape: []string{"n_head*head_v", "n_embd"}},
	{Name: "blk.%d.attn_q.bias", HF: []string{"model.layers.%d.self_attn.q_proj.bias"}, Shape: []string{"n_head*head_k"}, Optional: true, Flag: "attention_bias", Transform: "permute_q"},
	{Name: "blk.%d.attn_k.bias", HF: []string{"model.layers.%d.self_attn.k_proj.bias"}, Shape: []string{"n_head_kv*head_k"}, Optional: true, Flag: "attention_bias", Transform: "permute_k"},
	{Name: "blk.%d.attn_v.bias", HF: []string{"model.layers.%d.self_attn.v_proj.bias"}, Shape: []string{"n_head_kv*head_v"}, Optional: true, Flag: "attention_bias"},
	{Name: "blk.%d.attn_output.bias", HF: []string{"model.layers.%d.self_attn.o_proj.bias"}, Shape: []string{"n_embd"}, Optional: true, Flag: "attention_bias"},
	{Name: "blk.%d.ffn_norm.weight", HF: []string{"model.layers.%d.post_attention_layernorm.weight"}, Shape: []string{"n_embd"}},
	{Name: "blk.%d.ffn_gate.weight", HF: []string{"model.layers.%d.mlp.gate_proj.weight"}, Shape: []string{"n_embd", "n_ff"}},
	{Name: "blk.%d.ffn_up.weight", HF: []string{"model.layers.%d.mlp.up_proj.weight"}, Shape: []string{"n_embd", "n_ff"}},
	{Name: "blk.%d.ffn_down.weight", HF: []string{"model.layers.%d.mlp.down_proj.weight"}, Shape: []string{"n_ff", "n_embd"}},
	{Name: "blk.%d.ffn_gate.bias", HF: []string{"model.layers.%d.mlp.gate_proj.bias"}, Shape: []string{"n_ff"}, Optional: true, Flag: "mlp_bias"},
	{Name: "blk.%d.ffn_up.bias", HF: []string{"model.layers.%d.mlp.up_proj.bias"}, Shape: []string{"n_ff"}, Optional: true, Flag: "mlp_bias"},
	{Name: "blk.%d.ffn_down.bias", HF: []string{"model.layers.%d.mlp.down_proj.bias"}, Shape: []string{"n_embd"}, Optional: true, Flag: "mlp_bias"},
	{Name: "output_norm.weight", HF: []string{"model.norm.weight"}, Shape: []string{"n_embd"}},
	{Name: "output.weight", HF: []string{"lm_head.weight"}, Shape: []string{"n_embd", "n_vocab"}, Optional: true, Tied: "token_embd.weight"},
}
