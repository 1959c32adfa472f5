// Package arch declares model architectures as plain data: which Hugging Face classes they serve, how config.json becomes
// metadata, which tensors there are and how a block is wired. convert, quantize, inspect and infer all read the same declaration.
package arch

import (
	"errors"

	"github.com/ggufkit/ggufkit/gguf"
)

// Spec is one architecture. It holds no functions, so it can be written as JSON.
type Spec struct {
	Name    string   // general.architecture
	Classes []string // Hugging Face class names
	Keys    []Key
	Tensors []Tensor
	Drop    []Drop
	Block   Block
}

// Key is the rule for one metadata key, in file order.
type Key struct {
	Name   string         // without the architecture's prefix: "attention.head_count_kv"
	Type   gguf.ValueType // of the value written
	Config []string       // paths in config.json, tried in order: "rope_parameters.rope_theta", "rope_theta"
	// Default is used when no path is there: "" (none), "=other.key" (that key's value), "name()" (a computation known to package convert)
	// or a literal.
	Default  string
	Optional bool // leave the key out when there is neither value nor default; else its absence is an error
}

// Tensor is the rule for one tensor, or one per block if the name holds "%d".
type Tensor struct {
	Name  string   // GGUF name: "blk.%d.attn_q.weight"
	HF    []string // source names, alternatives in order: "model.layers.%d.self_attn.q_proj.weight"
	Shape []string // GGUF order; each a product of the names that Params.Dim knows: "n_embd", "n_head*head_k"
	// Optional tensors may be absent (biases, a tied output).
	Optional  bool
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

// ForHF finds the architecture of a Hugging Face class; the error names the nearest known ones.
func ForHF(class string) (*Spec, error) { return nil, errors.New("todo") }

// ForGGUF finds the architecture of a file by its general.architecture.
func ForGGUF(name string) (*Spec, error) { return nil, errors.New("todo") }

// TensorSource is anything that hands out the tensors of a model: an open GGUF file, or a conversion plan.
type TensorSource interface {
	// Tensor finds a tensor by its GGUF name.
	Tensor(name string) (*gguf.Tensor, bool)
	// Data is its bytes, little-endian, valid as long as the source is open.
	Data(t *gguf.Tensor) ([]byte, error)
	// Names lists all tensors.
	Names() []string
}
