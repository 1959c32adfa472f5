// Package sample chooses a token from logits.
package sample

import "errors"

// Options of a sampler, in the order in which they act: penalty, top-k, top-p, min-p, temperature, draw.
type Options struct {
	Temperature   float32 // 0: the most likely token, the lowest id on a tie
	TopK          int     // 0: off
	TopP          float32 // 1: off
	MinP          float32 // 0: off
	RepeatPenalty float32 // 1: off
	RepeatLastN   int     // window of the penalty over prompt and output; 0: off, -1: all
	Seed          uint64
}

// Sampler draws tokens; the same seed and inputs give the same tokens.
type Sampler struct{}

// New makes a sampler; options out of range are an error.
func New(o Options) (*Sampler, error) { return &Sampler{}, nil }

// Accept tells the sampler about a token of the prompt or output.
func (s *Sampler) Accept(id int32) {}

// Next chooses a token and leaves logits as they are. NaN among them is an error.
func (s *Sampler) Next(logits []float32) (int32, error) { return 0, errors.New("todo") }
