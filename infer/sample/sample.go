// Package sample chooses a token from logits.
package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ggufkit/ggufkit/internal/kernel"
)

// Options of a sampler, in the order in which they act: forbidden tokens, penalties, top-k, top-p, min-p, temperature, draw.
type Options struct {
	Temperature   float32 // divides the logits; 0: the most likely token, the lowest id on a tie
	TopK          int     // keeps the most likely tokens; 0: off
	TopP          float32 // keeps the fewest most likely tokens that together have this probability, at least one; 1: off
	MinP          float32 // keeps tokens with at least this part of the highest probability; 0: off
	RepeatPenalty float32 // divides positive logits and multiplies negative ones of the tokens in the window; 1: off
	RepeatLastN   int     // window of the repeat penalty over prompt and output; 0: off, -1: all
	// Penalties of all tokens of the output, whatever the window; the prompt does not count. Negative ones favour what came already.
	FrequencyPenalty float32 // taken off the logit as often as the token came; 0: off
	PresencePenalty  float32 // taken off once if it came; 0: off
	Forbidden        []int32 // never drawn
	Seed             uint64
}

// Sampler draws tokens; the same seed and inputs give the same tokens.
type Sampler struct {
	o       Options
	rng     *rand.Rand
	window  []int32       // the last RepeatLastN tokens, a ring from oldest on
	oldest  int           // of a full ring
	counts  map[int32]int // of the tokens in the window
	output  map[int32]int // how often each token came in the output
	logits  []float32     // penalized copy
	kept    candidates    // what the filters leave
	edge    candidates    // see nucleus
	order   []int32       // of the most likely tokens
	weights []float32     // of the draw
}

// New makes a sampler; options out of range are an error.
func New(o Options) (*Sampler, error) {
	// Written so that NaN fails too.
	switch {
	case !(o.Temperature >= 0) || math.IsInf(float64(o.Temperature), 0):
		return nil, fmt.Errorf("temperature is %g, expected 0 or more", o.Temperature)
	case o.TopK < 0:
		return nil, fmt.Errorf("top-k is %d, expected 0 or more", o.TopK)
	case !(o.TopP >= 0 && o.TopP <= 1):
		return nil, fmt.Errorf("top-p is %g, expected 0 to 1", o.TopP)
	case !(o.MinP >= 0 && o.MinP <= 1):
		return nil, fmt.Errorf("min-p is %g, expected 0 to 1", o.MinP)
	case !(o.RepeatPenalty > 0) || math.IsInf(float64(o.RepeatPenalty), 0):
		return nil, fmt.Errorf("repeat penalty is %g, expected more than 0", o.RepeatPenalty)
	case o.RepeatLastN < -1:
		return nil, fmt.Errorf("repeat window is %d, expected -1 (all), 0 (off) or more", o.RepeatLastN)
	case !(math.Abs(float64(o.FrequencyPenalty)) <= maxPenalty):
		return nil, fmt.Errorf("frequency penalty is %g, expected -%d to %d", o.FrequencyPenalty, maxPenalty, maxPenalty)
	case !(math.Abs(float64(o.PresencePenalty)) <= maxPenalty):
		return nil, fmt.Errorf("presence penalty is %g, expected -%d to %d", o.PresencePenalty, maxPenalty, maxPenalty)
	}
	return &Sampler{o: o, rng: rand.New(rand.NewPCG(o.Seed, 0)), counts: map[int32]int{}, output: map[int32]int{}}, nil
}

// maxPenalty bounds what is taken off a logit, so that it stays finite.
const maxPenalty = 1000

// AcceptPrompt tells the sampler about the tokens that stand before the output: only the repeat penalty looks at them.
func (s *Sampler) AcceptPrompt(ids []int32) {
	for _, id := range ids {
		s.remember(id)
	}
}

// Accept tells the sampler about a token of the output.
func (s *Sampler) Accept(id int32) {
	s.output[id]++
	s.remember(id)
}

// remember puts a token into the window.
func (s *Sampler) remember(id int32) {
	n := s.o.RepeatLastN
	if n == 0 {
		return
	}
	s.counts[id]++
	if n < 0 {
		return
	}
	if len(s.window) < n {
		s.window = append(s.window, id)
		return
	}
	old := s.window[s.oldest]
	if s.counts[old]--; s.counts[old] == 0 {
		delete(s.counts, old)
	}
	s.window[s.oldest] = id
	s.oldest = (s.oldest + 1) % n
}

// ErrNotNumber is returned for logits that are NaN or infinite.
var ErrNotNumber = errors.New("not a number")

// ErrNoToken is returned when no logit is above minus infinity.
var ErrNoToken = errors.New("no token is possible")

// Next chooses a token and leaves logits as they are. NaN or infinity among them is ErrNotNumber; minus infinity makes a token impossible.
func (s *Sampler) Next(logits []float32) (int32, error) {
	logits = s.penalize(logits)
	best, err := argmax(logits)
	if err != nil || s.o.Temperature == 0 || s.o.TopK == 1 {
		return best, err
	}
	s.filter(logits, logits[best])
	return s.draw(logits[best]), nil
}

// penalize applies the penalties to a copy and takes the forbidden tokens out of it, if any of that has an effect.
func (s *Sampler) penalize(logits []float32) []float32 {
	repeat := s.o.RepeatPenalty != 1 && len(s.counts) > 0
	output := (s.o.FrequencyPenalty != 0 || s.o.PresencePenalty != 0) && len(s.output) > 0
	if !repeat && !output && len(s.o.Forbidden) == 0 {
		return logits
	}
	s.logits = append(s.logits[:0], logits...)
	change := func(id int32, f func(l float32) float32) {
		if id >= 0 && int(id) < len(s.logits) {
			s.logits[id] = f(s.logits[id])
		}
	}
	if repeat {
		for id := range s.counts {
			change(id, func(l float32) float32 {
				if l > 0 {
					return l / s.o.RepeatPenalty
				}
				return l * s.o.RepeatPenalty
			})
		}
	}
	if output {
		for id, n := range s.output {
			change(id, func(l float32) float32 { return l - float32(float32(n)*s.o.FrequencyPenalty) - s.o.PresencePenalty })
		}
	}
	for _, id := range s.o.Forbidden {
		change(id, func(float32) float32 { return float32(math.Inf(-1)) })
	}
	return s.logits
}

// argmax is the lowest id with the highest logit.
func argmax(logits []float32) (int32, error) {
	best := kernel.ArgMax(logits)
	if best < 0 {
		if id := slices.IndexFunc(logits, func(l float32) bool { return l != l }); id >= 0 {
			return 0, fmt.Errorf("the logit of token %d is %w", id, ErrNotNumber)
		}
		return 0, ErrNoToken
	}
	if math.IsInf(float64(logits[best]), 1) {
		return 0, fmt.Errorf("the logit of token %d is %w: it is infinite", best, ErrNotNumber)
	}
	return int32(best), nil
}

// filter leaves the candidates that top-k, top-p and min-p keep. top is the highest logit.
func (s *Sampler) filter(logits []float32, top float32) {
	if s.o.TopK > 0 && s.o.TopK < len(logits) {
		s.best(logits, s.o.TopK)
	} else {
		s.kept.all(logits)
	}
	if s.o.TopP < 1 {
		s.kept, s.edge = nucleus(s.kept, s.edge[:0], s.probabilities(top, 1), top, s.o.TopP)
	}
	if s.o.MinP > 0 {
		s.kept.above(top + float32(math.Log(float64(s.o.MinP))))
	}
}

// best takes the n most likely tokens, in order.
func (s *Sampler) best(logits []float32, n int) {
	s.order = kernel.TopK(s.order[:0], logits, n)
	s.kept = s.kept[:0]
	for _, id := range s.order {
		s.kept = append(s.kept, candidate{id, logits[id]})
	}
}

// probabilities are those of the candidates at a temperature. top is the highest logit.
func (s *Sampler) probabilities(top, temperature float32) []float32 {
	s.weights = s.weights[:0]
	for _, c := range s.kept {
		s.weights = append(s.weights, c.logit-top)
	}
	kernel.Softmax(s.weights, min(1/temperature, math.MaxFloat32))
	return s.weights
}

// draw picks one of the candidates by their probabilities at the temperature. top is the highest logit.
func (s *Sampler) draw(top float32) int32 {
	weights := s.probabilities(top, s.o.Temperature)
	total := 0.0
	for _, w := range weights {
		total += float64(w)
	}
	u, sum := s.rng.Float64()*total, 0.0
	for i, w := range weights {
		if sum += float64(w); u < sum {
			return s.kept[i].id
		}
	}
	return s.kept[len(s.kept)-1].id
}
