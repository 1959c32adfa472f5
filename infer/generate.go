package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Sampler chooses tokens; package sample has one.
type Sampler interface {
	// Accept tells it about a token of the prompt or output.
	Accept(id int32)
	// Next chooses a token.
	Next(logits []float32) (int32, error)
}

// GenerateOptions bound a generation.
type GenerateOptions struct {
	MaxTokens int                 // most tokens to generate; negative: no limit but the context
	EOG       func(id int32) bool // reports the tokens that end a generation
}

// StopReason says why a generation ended.
type StopReason string

// Reasons: the model chose a token that ends the text, or a limit was reached.
const (
	StopEnd    StopReason = "stop"
	StopLength StopReason = "length"
)

// Generate runs a prompt after what the session holds and then token after token as the sampler chooses. emit gets each token before the next is
// computed; the token that ends the text is not emitted. The sampler is told about the prompt here, and must have been told before
// about what the session already holds. Generation ends with StopLength when the context is full.
func Generate(ctx context.Context, s *Session, prompt []int32, sampler Sampler, o GenerateOptions, emit func(id int32) error) (StopReason, error) {
	if s.Len()+len(prompt) > s.model.Context {
		return "", fmt.Errorf("%d tokens held and a prompt of %d: %w at %d", s.Len(), len(prompt), ErrContextFull, s.model.Context)
	}
	var logits []float32
	var err error
	for piece := range slices.Chunk(prompt, s.model.batch) { // so that a long prompt can be cancelled
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if logits, err = s.Append(piece); err != nil {
			return "", err
		}
	}
	if logits == nil {
		return "", errors.New("no tokens to run")
	}
	for _, id := range prompt {
		sampler.Accept(id)
	}
	for count := 0; count != o.MaxTokens; count++ {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		id, err := sampler.Next(logits)
		if err != nil {
			return "", err
		}
		if o.EOG(id) {
			return StopEnd, nil
		}
		sampler.Accept(id)
		if err := emit(id); err != nil {
			return "", err
		}
		if s.Len() >= s.model.Context || count+1 == o.MaxTokens {
			break
		}
		if logits, err = s.Append([]int32{id}); err != nil {
			return "", err
		}
	}
	return StopLength, nil
}
