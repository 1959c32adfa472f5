// Package sample chooses a token from logits.
package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Options of a sampler, in the order in which they act: penalty, top-k, top-p, min-p, temperature, draw.
type Options struct {
	Temperature   float32 // divides the logits; 0: the most likely token, the lowest id on a tie
	TopK          int     // keeps the most likely tokens; 0: off
	TopP          float32 // keeps the fewest most likely tokens that together have this probability, at least one; 1: off
	MinP          float32 // keeps tokens with at least this part of the highest probability; 0: off
	RepeatPenalty float32 // divides positive logits and multiplies negative ones of the tokens in the window; 1: off
	RepeatLastN   int     // window of the penalty over prompt and output; 0: off, -1: all
	Seed          uint64
}

// Sampler draws tokens; the same seed and inputs give the same tokens.
type Sampler struct {
	o       Options
	rng     *rand.Rand
	window  []int32       // the last RepeatLastN tokens, a ring from oldest on
	oldest  int           // of a full ring
	counts  map[int32]int // of the tokens in the window
	logits  []float32     // penalized copy
	kept    candidates    // what the filters leave
	weights []float64     // of the draw
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
	}
	return &Sampler{o: o, rng: rand.New(rand.NewPCG(o.Seed, 0)), counts: map[int32]int{}}, nil
}

// Accept tells the sampler about a token of the prompt or output.
func (s *Sampler) Accept(id int32) {
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

// ErrNoToken is returned when no logit is above minus infinity.
var ErrNoToken = errors.New("no token is possible")

// Next chooses a token and leaves logits as they are. NaN or infinity among them is an error; minus infinity makes a token impossible.
func (s *Sampler) Next(logits []float32) (int32, error) {
	logits = s.penalize(logits)
	best, err := argmax(logits)
	if err != nil || s.o.Temperature == 0 || s.o.TopK == 1 {
		return best, err
	}
	s.filter(logits, logits[best])
	return s.draw(), nil
}

// penalize applies the repeat penalty to a copy, if it has an effect.
func (s *Sampler) penalize(logits []float32) []float32 {
	if s.o.RepeatPenalty == 1 || len(s.counts) == 0 {
		return logits
	}
	s.logits = append(s.logits[:0], logits...)
	for id := range s.counts {
		if id < 0 || int(id) >= len(s.logits) {
			continue
		}
		if l := &s.logits[id]; *l > 0 {
			*l /= s.o.RepeatPenalty
		} else {
			*l *= s.o.RepeatPenalty
		}
	}
	return s.logits
}

// argmax is the lowest id with the highest logit.
func argmax(logits []float32) (int32, error) {
	best, top := -1, float32(math.Inf(-1))
	for id, l := range logits {
		if l > top {
			best, top = id, l
		} else if l != l {
			return 0, fmt.Errorf("the logit of token %d is not a number", id)
		}
	}
	if best < 0 {
		return 0, ErrNoToken
	}
	if math.IsInf(float64(top), 1) {
		return 0, fmt.Errorf("the logit of token %d is infinite", best)
	}
	return int32(best), nil
}

// filter leaves the candidates that top-k, top-p and min-p keep. top is the highest logit.
func (s *Sampler) filter(logits []float32, top float32) {
	k := s.o.TopK
	if k == 0 || k > len(logits) {
		k = len(logits)
	}
	if k < len(logits) {
		s.kept.best(logits, k)
	} else {
		s.kept.all(logits)
	}
	if s.o.TopP < 1 {
		s.kept.nucleus(float64(s.o.TopP), top)
	}
	if s.o.MinP > 0 {
		s.kept.above(top + float32(math.Log(float64(s.o.MinP))))
	}
}

// draw picks one of the candidates by their probabilities at the temperature.
func (s *Sampler) draw() int32 {
	top := float32(math.Inf(-1))
	for _, c := range s.kept {
		top = max(top, c.logit)
	}
	s.weights = s.weights[:0]
	sum := 0.0
	for _, c := range s.kept {
		sum += math.Exp(float64(c.logit-top) / float64(s.o.Temperature))
		s.weights = append(s.weights, sum)
	}
	u := s.rng.Float64() * sum
	for i, w := range s.weights {
		if u < w {
			return s.kept[i].id
		}
	}
	return s.kept[len(s.kept)-1].id
}
