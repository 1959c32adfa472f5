package arch

import "github.com/ggufkit/ggufkit/gguf"

// gpt2 is GPT-2: learned positions, layer norms, q, k and v in one matrix. Its matrices are stored with a row for each input (Conv1D).
var gpt2 = Spec{
	Name:    "gpt2",
	Classes: []string{"GPT2LMHeadModel", "GPT2Model"},
	Prefix:  "transformer.",
	Tied:    true,
	Require: []Require{
		{Config: "activation_function", Values: []string{`"gelu_new"`, `"gelu_pytorch_tanh"`, `"gelu_fast"`}, Reason: "gpt2 uses GELU in its tanh form"},
		{Config: "scale_attn_weights", Values: []string{`true`}, Reason: "gpt2 scales attention scores by 1/sqrt(head length)"},
		{Config: "scale_attn_by_inverse_layer_idx", Values: []string{`false`}, Reason: "the scale of attention scores is the same in every block"},
		{Config: "add_cross_attention", Values: []string{`false`}, Reason: "gpt2 has no second input"},
	},
	Keys: []Key{
		{Name: "block_count", Type: gguf.Uint32, Config: []string{"n_layer", "num_hidden_layers"}},
		{Name: "context_length", Type: gguf.Uint32, Config: []string{"n_positions", "max_position_embeddings"}},
		{Name: "embedding_length", Type: gguf.Uint32, Config: []string{"n_embd", "hidden_size"}},
		{Name: "feed_forward_length", Type: gguf.Uint32, Config: []string{"n_inner"}, Default: "=4*embedding_length"},
		{Name: "attention.head_count", Type: gguf.Uint32, Config: []string{"n_head", "num_attention_heads"}},
		{Name: "attention.layer_norm_epsilon", Type: gguf.Float32, Config: []string{"layer_norm_epsilon"}, Default: "1e-5"},
		fileType,
	},
	Tensors: []Tensor{
		{Name: "token_embd.weight", HF: []string{"transformer.wte.weight"}, Shape: []string{"n_embd", "n_vocab"}},
		{Name: "position_embd.weight", HF: []string{"transformer.wpe.weight"}, Shape: []string{"n_embd", "n_ctx"}, F32: true},
		{Name: "blk.%d.attn_norm.weight", HF: []string{"transformer.h.%d.ln_1.weight"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.attn_norm.bias", HF: []string{"transformer.h.%d.ln_1.bias"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.attn_qkv.weight", HF: []string{"transformer.h.%d.attn.c_attn.weight"}, Shape: []string{"n_embd", "n_qkv"}, Transform: "transpose"},
		{Name: "blk.%d.attn_qkv.bias", HF: []string{"transformer.h.%d.attn.c_attn.bias"}, Shape: []string{"n_qkv"}},
		{Name: "blk.%d.attn_output.weight", HF: []string{"transformer.h.%d.attn.c_proj.weight"}, Shape: []string{"n_head*head_v", "n_embd"}, Transform: "transpose"},
		{Name: "blk.%d.attn_output.bias", HF: []string{"transformer.h.%d.attn.c_proj.bias"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.ffn_norm.weight", HF: []string{"transformer.h.%d.ln_2.weight"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.ffn_norm.bias", HF: []string{"transformer.h.%d.ln_2.bias"}, Shape: []string{"n_embd"}},
		{Name: "blk.%d.ffn_up.weight", HF: []string{"transformer.h.%d.mlp.c_fc.weight"}, Shape: []string{"n_embd", "n_ff"}, Transform: "transpose"},
		{Name: "blk.%d.ffn_up.bias", HF: []string{"transformer.h.%d.mlp.c_fc.bias"}, Shape: []string{"n_ff"}},
		{Name: "blk.%d.ffn_down.weight", HF: []string{"transformer.h.%d.mlp.c_proj.weight"}, Shape: []string{"n_ff", "n_embd"}, Transform: "transpose"},
		{Name: "blk.%d.ffn_down.bias", HF: []string{"transformer.h.%d.mlp.c_proj.bias"}, Shape: []string{"n_embd"}},
		{Name: "output_norm.weight", HF: []string{"transformer.ln_f.weight"}, Shape: []string{"n_embd"}},
		{Name: "output_norm.bias", HF: []string{"transformer.ln_f.bias"}, Shape: []string{"n_embd"}},
		{Name: "output.weight", HF: []string{"lm_head.weight"}, Shape: []string{"n_embd", "n_vocab"}, Optional: true, Tied: "token_embd.weight"},
	},
	Drop: []Drop{
		{Pattern: `(transformer\.)?h\.\d+\.attn\.(masked_)?bias`, Reason: "causal masks are not weights"},
	},
	Block: Block{Norm: "layer", FusedQKV: true, Rope: "none", Positions: true, Activation: "gelu_tanh"},
}
