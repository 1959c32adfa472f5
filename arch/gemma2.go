package arch

import "github.com/ggufkit/ggufkit/gguf"

// gemma2 is Gemma 2: gemma with norms after each branch, capped scores and logits, and a sliding window in every other block.
var gemma2 = Spec{
	Name:    "gemma2",
	Classes: []string{"Gemma2ForCausalLM", "Gemma2Model"},
	Prefix:  "model.",
	Tied:    true,
	Require: []Require{
		{Config: "hidden_act", Values: []string{`"gelu_pytorch_tanh"`}, Reason: "gemma2 uses GELU in its tanh form"},
		tanhGELU, wholeHeads, {Config: "attention_bias", Values: []string{`false`}, Reason: "gemma2 has no biases"},
	},
	Keys: []Key{
		contextLength, embeddingLength, blockCount, ffnLength, headCount, headCountKV, rmsEpsilon, gemmaKeyLength, gemmaValueLength,
		gemmaRopeBase, ropeScaling, fileType,
		{Name: "attn_logit_softcapping", Type: gguf.Float32, Config: []string{"attn_logit_softcapping"}},
		{Name: "final_logit_softcapping", Type: gguf.Float32, Config: []string{"final_logit_softcapping"}},
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
		{Name: "blk.%d.post_attention_norm.weight", HF: []string{"model.layers.%d.post_attention_layernorm.weight"}, Shape: []string{"n_embd"}, Transform: "add_one"},
		{Name: "blk.%d.ffn_norm.weight", HF: []string{"model.layers.%d.pre_feedforward_layernorm.weight"}, Shape: []string{"n_embd"}, Transform: "add_one"},
		{Name: "blk.%d.post_ffw_norm.weight", HF: []string{"model.layers.%d.post_feedforward_layernorm.weight"}, Shape: []string{"n_embd"}, Transform: "add_one"},
		{Name: "blk.%d.ffn_gate.weight", HF: []string{"model.layers.%d.mlp.gate_proj.weight"}, Shape: []string{"n_embd", "n_ff"}},
		{Name: "blk.%d.ffn_up.weight", HF: []string{"model.layers.%d.mlp.up_proj.weight"}, Shape: []string{"n_embd", "n_ff"}},
		{Name: "blk.%d.ffn_down.weight", HF: []string{"model.layers.%d.mlp.down_proj.weight"}, Shape: []string{"n_ff", "n_embd"}},
		{Name: "output_norm.weight", HF: []string{"model.norm.weight"}, Shape: []string{"n_embd"}, Transform: "add_one"},
		{Name: "output.weight", HF: []string{"lm_head.weight"}, Shape: []string{"n_embd", "n_vocab"}, Optional: true, Tied: "token_embd.weight", Cut: true},
	},
	Drop: []Drop{ropeFrequencies},
	Block: Block{
		Norm: "rms", PostNorm: true, Rope: "neox", ScaleEmbed: true, Activation: "gelu_tanh", Gated: true,
		// 46 blocks are the 27B model. Files from before the metadata had caps and window are from the first weeks of the family.
		WideScale: 46, AttnSoftcap: 50, FinalSoftcap: 30, Window: Window{Default: 4096, GlobalEvery: 2},
	},
}
