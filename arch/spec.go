// Package arch declares model architectures as plain data: which Hugging Face classes they serve, how config.json becomes
// metadata, which tensors there are and how a block is wired. convert, quantize, inspect and infer all read the same declaration.
package arch

import (
	"github.com/ggufkit/ggufkit/gguf"
)

// Spec is one architecture. It holds no functions, so it can be written as JSON.
type Spec struct {
	Name    string   // general.architecture
	Classes []string // Hugging Face class names
	// Prefix starts the source names of the whole model ("model."). Checkpoints of the bare base class lack it and some
	// wrappers double it; a source name that fits no rule is tried again with the prefix added, then with it taken away.
	Prefix  string
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
	// Default is used when no path is there: "" (none), "=other.key" (that key's value), "name()" (a computation known to package convert,
	// which may stand for several keys or none) or a literal.
	Default  string
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
	Tied      string
	Transform string // "" or a transform known to package convert: "permute_q", "permute_k", "rope_freqs" (computed, no source)
	// F32 tensors stay F32 whatever the output type (norms, biases and all one-dimensional tensors need no mark).
	F32 bool
}

// Drop is a pattern of source tensors that are left out on purpose (a regular expression over the whole name), and why.
type Drop struct{ Pattern, Reason string }

// Block is the wiring that the decoder follows.
type Block struct {
	Norm       string // "rms" or "layer"
	Rope       string // "norm" (adjacent pairs), "neox" (halves) or "none"
	Activation string // "silu", "gelu", "gelu_tanh"
	Gated      bool   // FFN is down(act(gate(x)) * up(x)), else down(act(up(x)))
	QKNorm     bool
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
