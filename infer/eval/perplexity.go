// Package eval measures models.
package eval

import (
	"context"
	"errors"

	"github.com/ggufkit/ggufkit/infer"
)

// PerplexityOptions as llama-perplexity has them.
type PerplexityOptions struct {
	Context  int   // window length in tokens
	Chunks   int   // most windows; 0: all
	BOS      int32 // replaces each window's first token; -1: none
	Progress func(done, total int, running PerplexityResult)
}

// PerplexityResult is exp of the mean negative log likelihood over the scored tokens and its standard error.
type PerplexityResult struct {
	Perplexity float64 `json:"perplexity"`
	StdErr     float64 `json:"stderr"`
	Tokens     int     `json:"tokens"`
	Chunks     int     `json:"chunks"`
	Context    int     `json:"context"`
}

// Perplexity scores the second half of each window of the text.
func Perplexity(ctx context.Context, m *infer.Model, ids []int32, o PerplexityOptions) (PerplexityResult, error) {
	return PerplexityResult{}, errors.New("todo")
}
