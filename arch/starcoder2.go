package arch

import "github.com/ggufkit/ggufkit/gguf"

// starcoder2 is StarCoder 2: layer norms, biases, rope over halves, and a feed-forward network without a gate.
var starcoder2 = Spec{
	Name:    "starcoder2",
	Classes: []string{"Starcoder2ForCausalLM", "Starcoder2Model"},
	Prefix:  "model.",
	Tied:    true,
	Require: []Require{
		{Config: "hidden_act", Values: []string{`"gelu_pytorch_tanh"`}, Reason: "starcoder2 uses GELU in its tanh form"},
		{Config: "norm_type", Values: []string{`"layer_norm"`}, Reason: "starcoder2 has layer norms"},
		{Config: "mlp_type", Values: []string{`"default"`}, Reason: "the feed-forward network of starcoder2 has no gate"},
		wholeHeads,
	},
	Keys: []Key{
		blockCount, contextLength, embeddingLength, ffnLength, headCount, headCountKV, ropeScaling, ropeBase,
		{Name: "attention.layer_norm_epsilon", Type: gguf.Float32, Config: []string{"norm_epsilon", "layer_norm_epsilon"}},
		keyLength, valueLength, fileType, slidingWindow, windowPattern,
	},
	Tensors: []Tensor{
		{Name: "token_embd.weight", HF: []string{"model.embed_tokens.weight"}, Shape: []string{"n_embd", "n_vocab"}},
		ropeTable, ropeTableLong, ropeTableShort,
		{Name: "blk.%d.attn_norm.weight", HF: []string{"model.layers.%d.input_layernorm.weight"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.attn_norm.bias", HF: []string{"model.layers.%d.input_layernorm.bias"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.attn_q.weight", HF: []string{"model.layers.%d.self_attn.q_proj.weight"}, Shape: []string{"n_embd", "n_head*head_k"}},
		{Name: "blk.%d.attn_q.bias", HF: []string{"model.layers.%d.self_attn.q_proj.bias"}, Shape: []string{"n_head*head_k"}, Optional: true, Flag: "use_bias"},
		{Name: "blk.%d.attn_k.weight", HF: []string{"model.layers.%d.self_attn.k_proj.weight"}, Shape: []string{"n_embd", "n_head_kv*head_k"}},
		{Name: "blk.%d.attn_k.bias", HF: []string{"model.layers.%d.self_attn.k_proj.bias"}, Shape: []string{"n_head_kv*head_k"}, Optional: true, Flag: "use_bias"},
		{Name: "blk.%d.attn_v.weight", HF: []string{"model.layers.%d.self_attn.v_proj.weight"}, Shape: []string{"n_embd", "n_head_kv*head_v"}},
		{Name: "blk.%d.attn_v.bias", HF: []string{"model.layers.%d.self_attn.v_proj.bias"}, Shape: []string{"n_head_kv*head_v"}, Optional: true, Flag: "use_bias"},
		{Name: "blk.%d.attn_output.weight", HF: []string{"model.layers.%d.self_attn.o_proj.weight"}, Shape: []string{"n_head*head_v", "n_embd"}},
		{Name: "blk.%d.attn_output.bias", HF: []string{"model.layers.%d.self_attn.o_proj.bias"}, Shape: []string{"n_embd"}, Optional: true, Flag: "use_bias"},
		{Name: "blk.%d.ffn_norm.weight", HF: []string{"model.layers.%d.post_attention_layernorm.weight"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.ffn_norm.bias", HF: []string{"model.layers.%d.post_attention_layernorm.bias"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.ffn_up.weight", HF: []string{"model.layers.%d.mlp.c_fc.weight"}, Shape: []string{"n_embd", "n_ff"}},
		{Name: "blk.%d.ffn_up.bias", HF: []string{"model.layers.%d.mlp.c_fc.bias"}, Shape: []string{"n_ff"}, Optional: true, Flag: "use_bias"},
		{Name: "blk.%d.ffn_down.weight", HF: []string{"model.layers.%d.mlp.c_proj.weight"}, Shape: []string{"n_ff", "n_embd"}},
		{Name: "blk.%d.ffn_down.bias", HF: []string{"model.layers.%d.mlp.c_proj.bias"}, Shape: []string{"n_embd"}, Optional: true, Flag: "use_bias"},
		{Name: "output_norm.weight", HF: []string{"model.norm.weight"}, Shape: []string{"n_embd"}},
		{Name: "output_norm.bias", HF: []string{"model.norm.bias"}, Shape: []string{"n_embd"}},
		{Name: "output.weight", HF: []string{"lm_head.weight"}, Shape: []string{"n_embd", "n_vocab"}, Optional: true, Tied: "token_embd.weight"},
	},
	Drop:  []Drop{ropeFrequencies},
	Block: Block{Norm: "layer", Rope: "neox", Activation: "gelu_tanh"},
}
