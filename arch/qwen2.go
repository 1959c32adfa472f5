package arch

import "github.com/ggufkit/ggufkit/gguf"

// qwen2 is Qwen 1.5, 2 and 2.5 (dense): llama's block with biases on q, k and v, and rope over halves, so nothing is permuted.
var qwen2 = Spec{
	Name:    "qwen2",
	Classes: []string{"Qwen2ForCausalLM", "Qwen2Model"},
	Prefix:  "model.",
	Require: []Require{
		{Config: "hidden_act", Values: []string{`"silu"`, `"swish"`}, Reason: "the feed-forward network of a qwen2 block uses SiLU"},
		{Config: "use_sliding_window", Values: []string{`false`}, Reason: "qwen2 has no metadata key for a sliding window"},
		{Config: "rope_parameters.partial_rotary_factor", Values: []string{`1`}, Reason: "qwen2 rotates whole heads"},
	},
	Keys: []Key{
		{Name: "block_count", Type: gguf.Uint32, Config: []string{"num_hidden_layers"}},
		{Name: "context_length", Type: gguf.Uint32, Config: []string{"max_position_embeddings"}},
		{Name: "embedding_length", Type: gguf.Uint32, Config: []string{"hidden_size"}},
		{Name: "feed_forward_length", Type: gguf.Uint32, Config: []string{"intermediate_size"}},
		{Name: "attention.head_count", Type: gguf.Uint32, Config: []string{"num_attention_heads"}},
		{Name: "attention.head_count_kv", Type: gguf.Uint32, Config: []string{"num_key_value_heads"}, Default: "=attention.head_count"},
		{Name: "rope.scaling", Default: "rope_scaling()"},
		{Name: "rope.freq_base", Type: gguf.Float32, Config: []string{"rope_parameters.rope_theta"}, Default: "10000"},
		{Name: "attention.layer_norm_rms_epsilon", Type: gguf.Float32, Config: []string{"rms_norm_eps"}},
		{Name: "attention.key_length", Type: gguf.Uint32, Config: []string{"head_dim"}, Optional: true},
		{Name: "attention.value_length", Type: gguf.Uint32, Config: []string{"head_dim"}, Optional: true},
		{Name: "general.file_type", Type: gguf.Uint32, Default: "file_type()"},
	},
	Tensors: []Tensor{
		{Name: "token_embd.weight", HF: []string{"model.embed_tokens.weight"}, Shape: []string{"n_embd", "n_vocab"}},
		{Name: "rope_freqs.weight", Shape: []string{"rope_dim/2"}, Optional: true, Transform: "rope_freqs", F32: true},
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
	Drop: []Drop{
		{Pattern: `(.*\.)?rotary_emb\.inv_freq`, Reason: "rope frequencies follow from rope.freq_base"},
	},
	Block: Block{Norm: "rms", Rope: "neox", Activation: "silu", Gated: true},
}
