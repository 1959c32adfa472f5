// Package eval measures models.
package eval

import (
	"context"
	"errors"
	"fmt"
	"math"

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
	Tokens     int     `json:"tokens"` // scored
	Chunks     int     `json:"chunks"` // windows
	Context    int     `json:"context"`
	BOS        bool    `json:"bos"` // in place of each window's first token
}

// ErrTooShort is returned for a text that does not fill one window.
var ErrTooShort = errors.New("the text is too short")

// Perplexity cuts the ids (the whole text, tokenized as the vocabulary says) into windows of o.Context tokens, of which a last part that fills none is left out,
// and scores the tokens after the first half of each window, given all before them in the window.
func Perplexity(ctx context.Context, m *infer.Model, ids []int32, o PerplexityOptions) (PerplexityResult, error) {
	switch {
	case o.Context < 3:
		return PerplexityResult{}, fmt.Errorf("a window of %d tokens has none to score, expected 3 or more", o.Context)
	case o.Context > m.Context:
		return PerplexityResult{}, fmt.Errorf("a window of %d tokens: %w at %d", o.Context, infer.ErrContextFull, m.Context)
	case len(ids) < o.Context:
		return PerplexityResult{}, fmt.Errorf("%w: %d tokens, a window needs at least %d tokens\nhint: give more text or a smaller context", ErrTooShort, len(ids), o.Context)
	}
	chunks := len(ids) / o.Context
	if o.Chunks > 0 {
		chunks = min(chunks, o.Chunks)
	}
	var nll likelihoods
	result := func(done int) PerplexityResult {
		p, stderr := nll.perplexity()
		return PerplexityResult{Perplexity: p, StdErr: stderr, Tokens: nll.count, Chunks: done, Context: o.Context, BOS: o.BOS >= 0}
	}
	// Short windows are run side by side.
	together := max(infer.DefaultBatch/o.Context, 1)
	for done := 0; done < chunks; {
		if err := ctx.Err(); err != nil {
			return result(done), err
		}
		n := min(together, chunks-done)
		if err := score(m, &nll, ids[done*o.Context:][:n*o.Context], o); err != nil {
			return result(done), err
		}
		done += n
		if o.Progress != nil {
			o.Progress(done, chunks, result(done))
		}
	}
	return result(chunks), nil
}

// score runs whole windows as sequences of their own and adds the likelihoods of their scored tokens.
func score(m *infer.Model, nll *likelihoods, ids []int32, o PerplexityOptions) error {
	batch := make([]infer.Token, len(ids))
	for lo := 0; lo < len(ids); lo += o.Context {
		s, err := m.NewSession()
		if err != nil {
			return err
		}
		defer s.Close()
		for i := range o.Context {
			// The last token's logits would predict the next window's first.
			batch[lo+i] = infer.Token{Seq: s.ID(), Pos: [4]int32{int32(i)}, ID: ids[lo+i], Logits: i >= o.Context/2 && i < o.Context-1}
		}
		if o.BOS >= 0 {
			batch[lo].ID = o.BOS
		}
	}
	return m.Step(batch, func(i int, logits []float32) error {
		next := ids[i+1]
		if next < 0 || int(next) >= len(logits) {
			return fmt.Errorf("token %d, the vocabulary has 0 to %d", next, len(logits)-1)
		}
		p := logProb(logits, next)
		if math.IsNaN(p) {
			return fmt.Errorf("the logits of window token %d are not numbers\nhint: 'ggufkit inspect FILE --check' finds weights that are no numbers; with sound ones, try --precision exact", i%o.Context)
		}
		nll.add(-p)
		return nil
	})
}

// logProb is the logarithm of a token's probability.
func logProb(logits []float32, id int32) float64 {
	top := logits[0]
	for _, l := range logits {
		top = max(top, l)
	}
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l - top))
	}
	return float64(logits[id]-top) - math.Log(sum)
}

// likelihoods sums negative log likelihoods and their squares.
type likelihoods struct {
	count        int
	sum, squares float64
}

func (l *likelihoods) add(nll float64) {
	l.count++
	l.sum += nll
	l.squares += nll * nll
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
