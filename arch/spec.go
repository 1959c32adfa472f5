// Package arch declares model architectures as plain data: which Hugging Face classes they serve, how config.json becomes
// metadata, which tensors there are and how a block is wired. convert, quantize, inspect and infer all read the same declaration.
package arch

import (
	"strconv"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
)

// Spec is one architecture. It holds no functions, so it can be written as JSON.
type Spec struct {
	// Name is general.architecture. Families that differ in their checkpoints alone share one; then their tensors and wiring are the same.
	Name    string
	Classes []string // Hugging Face class names
	// Prefix starts the source names of the whole model ("model."). Checkpoints of the bare base class lack it and some
	// wrappers double it; a source name that fits no rule is tried again with the prefix added, then with it taken away.
	Prefix string
	// Wrappers are prefixes that classes of several modalities put before the names of the text model ("language_model."); they are
	// taken away first.
	Wrappers []string
	// Nested is the object of config.json in which such classes keep the text model's settings ("text_config"). What it holds goes before
	// what stands outside.
	Nested string
	// Tied is what tie_word_embeddings means where config.json does not have it.
	Tied    bool
	Require []Require
	Keys    []Key
	Tensors []Tensor
	Drop    []Drop
	Block   Block
}

// Require is a setting of config.json that the block wiring cannot vary: where it is present, it must be one of Values
// (JSON literals; null is the same as absent). Reason says why others are refused.
type Require struct {
	Config string   // path in config.json: "hidden_act"
	Values []string // `"silu"`, `false`
	Reason string
}

// Key is the rule for one metadata key, in file order. A null in config.json is the same as an absent setting.
type Key struct {
	// Name is without the architecture's prefix ("attention.head_count_kv"), but names under "general." are whole.
	Name string
	Type gguf.ValueType // of the value written
	// Config is a list of paths in config.json, tried in order. Rope settings are read in the layout of transformers 5
	// ("rope_parameters.rope_theta"); package convert brings older layouts into that form first.
	Config []string
	// Default is used when no path is there: "" (none), "=other.key" (that key's value), "=4*other.key" (a multiple of it), "name()" (a
	// computation known to package convert, which may stand for several keys or none) or a literal.
	Default string
	// Implied is the value that readers assume: the key is left out where config.json says the same. "" : the key is always written.
	Implied  string
	Optional bool // leave the key out when there is neither value nor default; else its absence is an error
}

// Tensor is the rule for one tensor, or one per block if the name holds "%d".
type Tensor struct {
	Name string   // GGUF name: "blk.%d.attn_q.weight"
	HF   []string // source names, alternatives in order: "model.layers.%d.self_attn.q_proj.weight"; none for a computed tensor
	// Shape is in GGUF order (row length first). Each dimension is a product of integers and of the names that Params.Dim
	// knows, evaluated left to right: "n_embd", "n_head*head_k", "rope_dim/2".
	Shape []string
	// Optional tensors may be absent (biases, a tied output).
	Optional bool
	// Flag is the boolean setting of config.json that says whether an optional tensor belongs to the model ("attention_bias"): when it is
	// true the tensor must be there.
	Flag string
	// Tied names the tensor that stands in for this one when config.json has tie_word_embeddings; else this one must be there.
	Tied string
	// Transform is "" or one that package convert knows: "permute_q", "permute_k" (rows of a head from halves to adjacent pairs),
	// "add_one", "transpose", or, without a source, "rope_freqs", "rope_factors_long", "rope_factors_short".
	Transform string
	// Cut says that a source with more rows than the shape asks for is cut: the rest is padding (of the vocabulary).
	Cut bool
	// F32 tensors stay F32 whatever the output type (norms, biases and all one-dimensional tensors need no mark).
	F32 bool
}

// Drop is a pattern of source tensors that are left out on purpose (a regular expression over the whole name), and why.
type Drop struct{ Pattern, Reason string }

// Block is the wiring that the decoder follows. x is the residual stream; the zero value of a field is the plain case.
type Block struct {
	// Norm is "rms" or "layer" (mean taken away; a bias where the file has one). Each branch starts from a normed copy of x.
	Norm string
	// PostNorm: what a branch computes is normed too before it is added to x (tensors post_attention_norm and post_ffw_norm).
	PostNorm bool
	// QKNorm: each head's query and key are normed before they are rotated (attn_q_norm, attn_k_norm: one weight per element of a head).
	QKNorm bool
	// FusedQKV: attn_qkv holds the rows of q, then k, then v (and so does its bias).
	FusedQKV bool

	Rope string // "norm" (adjacent pairs), "neox" (halves) or "none"
	// NoRopeEvery: every so manieth block does not rotate: those with (il+1) % NoRopeEvery == 0. 0: all rotate. The metadata key
	// attention.rope_pattern (one number per block, not 0: rotates) goes before it.
	NoRopeEvery int
	// Positions: a row of position_embd is added to each token's embedding. A position beyond its rows is an error.
	Positions bool
	// ScaleEmbed: the token's embedding is multiplied by sqrt(n_embd).
	ScaleEmbed bool

	// WideScale: a model with this many blocks scales scores by 1/sqrt(n_embd/n_head) instead of 1/sqrt(head_k) where the metadata has no
	// attention.scale. 0: none does.
	WideScale int
	// AttnSoftcap and FinalSoftcap stand for attn_logit_softcapping and final_logit_softcapping where the metadata lacks them. Scores (after
	// scaling, before the mask) or logits s become cap*tanh(s/cap); 0: they stay.
	AttnSoftcap, FinalSoftcap float64
	Window                    Window

	Activation string // "silu", "gelu" (exact, by erf) or "gelu_tanh"
	Gated      bool   // FFN is down(act(gate(x)) * up(x)), else down(act(up(x)))
	// FusedGateUp: ffn_up holds the rows of gate, then those of up, 2*n_ff in all; there is no ffn_gate.
	FusedGateUp bool
}

// Window is attention within a sliding window: a windowed block sees the last attention.sliding_window positions, its own included.
// Without that key Default counts. 0 is no window; a family that has Default or GlobalEvery may not set the key so.
type Window struct {
	Default int
	// GlobalEvery: every so manieth block sees all positions: those with (il+1) % GlobalEvery == 0. 0: every block is windowed. The metadata
	// key attention.sliding_window_pattern (a number like this one, or a bool per block, true: windowed) goes before it.
	GlobalEvery int
	// FreqBase: windowed blocks rotate by frequencies of their own: rope.freq_base_swa, or this where the metadata has none, and
	// without rope scaling. 0: all blocks rotate alike.
	FreqBase float64
}

// TensorSource is anything that hands out the tensors of a model: an open GGUF file, or a conversion plan.
type TensorSource interface {
	// Tensor finds a tensor by its GGUF name.
	Tensor(name string) (*gguf.Tensor, bool)
	// Data is its bytes, little-endian, valid as long as the source is open.
	Data(t *gguf.Tensor) ([]byte, error)
	// Names lists all tensors.
	Names() []string
}

// SplitName takes the GGUF name of a tensor apart: "blk.3.attn_q.weight" is attn_q.weight of block 3. Outside of blocks the block is -1.
func SplitName(name string) (block int, part string) {
	rest, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return -1, name
	}
	digits, part, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(digits, 10, 30)
	if err != nil {
		return -1, name
	}
	return int(n), part
}
