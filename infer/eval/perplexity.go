// Package eval measures models.
package eval

import (
	"context"
	"math"

	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/internal/kernel"
)

// PerplexityOptions are those of Perplexity.
type PerplexityOptions struct {
	Windows
	Progress func(done, total int, running PerplexityResult) // after each window
}

// PerplexityResult is exp of the mean negative log likelihood over the scored tokens and its standard error.
type PerplexityResult struct {
	Perplexity Number `json:"perplexity"`
	StdErr     Number `json:"stderr"`
	Tokens     int    `json:"tokens"` // scored
	Chunks     int    `json:"chunks"` // windows
	Context    int    `json:"context"`
	Stride     int    `json:"stride"` // 0: llama-perplexity's convention
	BOS        bool   `json:"bos"`    // in place of each window's first token
}

// Perplexity cuts the ids (the whole text, tokenized as the vocabulary says) into windows and scores tokens as o.Windows says.
func Perplexity(ctx context.Context, m *infer.Model, ids []int32, o PerplexityOptions) (PerplexityResult, error) {
	return perplexity(ctx, m, ids, o, func([]float32, int32) error { return nil })
}

// perplexity is Perplexity; also gets every row of logits and the token that follows.
func perplexity(ctx context.Context, m *infer.Model, ids []int32, o PerplexityOptions, also func([]float32, int32) error) (PerplexityResult, error) {
	list, err := o.cut(len(ids), m.Context)
	if err != nil {
		return PerplexityResult{}, err
	}
	var nll likelihoods
	result := func(done int) PerplexityResult {
		p, stderr := nll.perplexity()
		return PerplexityResult{
			Perplexity: Number(p), StdErr: Number(stderr), Tokens: nll.count,
			Chunks: done, Context: o.Context, Stride: o.Stride, BOS: o.Stride == 0 && o.BOS >= 0,
		}
	}
	done := 0
	for r, err := range o.rows(ctx, m, ids, list) {
		if err != nil {
			return result(done), err
		}
		next := ids[r.token]
		x := kernel.LogSumExp(r.logits) - float64(r.logits[next])
		if math.IsNaN(x) {
			return result(done), errNotNumbers(r.token)
		}
		nll.add(x)
		if err := also(r.logits, next); err != nil {
			return result(done), err
		}
		if r.token == list[done].end-1 {
			if done++; o.Progress != nil {
				o.Progress(done, len(list), result(done))
			}
		}
	}
	return result(done), nil
}

// likelihoods sums negative log likelihoods and their squares.
type likelihoods struct {
	count int
	moments
}

func (l *likelihoods) add(nll float64) {
	l.count++
	l.moments.add(nll)
}

// perplexity is exp(mean) and its standard error: that of the mean, carried through the exponential.
func (l *likelihoods) perplexity() (value, stderr float64) {
	if l.count == 0 {
		return 0, 0
	}
	n := float64(l.count)
	mean := l.sum / n
	value = math.Exp(mean)
	if variance := l.squares/n - mean*mean; variance > 0 && l.count > 1 {
		stderr = math.Sqrt(variance/(n-1)) * value
	}
	return value, stderr
}
