// Package convert turns a Hugging Face checkpoint into a GGUF file.
package convert

import (
	"context"
	"errors"

	"github.com/ggufkit/ggufkit/convert/checkpoint"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/encode"
)

// Options of a conversion.
type Options struct {
	Type     string // "auto", "f32", "f16", "bf16", "q8_0" or any recipe of quantize/mix
	Pre      string // overrides the recognized pre-tokenizer
	Threads  int
	Progress func(name string, done, total uint64) // bytes; may be nil
}

// PlannedTensor is one tensor of the output and where it comes from.
type PlannedTensor struct {
	gguf.Tensor
	Sources   []*checkpoint.Tensor
	Transform string
	Rule      string // why it has its type
}

// Plan is a whole conversion before any weight is read. It is also a tensor source.
type Plan struct {
	Meta    *gguf.Meta
	Tensors []PlannedTensor
	Notes   []string
}

// NewPlan reads config, tokenizer and tensor list of an open checkpoint. It fails, listing all of them, on unmapped, missing or doubled tensors.
func NewPlan(ckpt *checkpoint.Checkpoint, o Options) (*Plan, error) { return nil, errors.New("todo") }

// TensorReport is what happened to one tensor.
type TensorReport struct {
	Name  string
	Type  gguf.Type
	Rule  string
	Stats encode.Stats
}

// Run writes the planned file to path, atomically.
func (p *Plan) Run(ctx context.Context, path string, o Options) ([]TensorReport, error) {
	return nil, errors.New("todo")
}
