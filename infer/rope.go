package infer

import (
	"fmt"
	"math"
)

// rope holds what the angles of a model's rotary embedding follow from.
type rope struct {
	freq  []float64 // of each pair, in radians per position
	scale float64   // of cosine and sine
	rows  []float32 // table
}

// newRope computes the frequencies of the pairs. factors, if any, divide them (tensors rope_freqs.weight and rope_factors_*.weight).
func newRope(r rotary, factors []float32) (*rope, error) {
	out := &rope{freq: make([]float64, r.Dim/2), scale: r.AttnFactor}
	for i := range out.freq {
		out.freq[i] = math.Pow(r.FreqBase, -2*float64(i)/float64(r.Dim))
		if factors != nil {
			out.freq[i] /= float64(factors[i])
		}
	}
	switch r.Scaling {
	case "", "longrope": // the factors are all there is to it
	case "linear":
		for i := range out.freq {
			out.freq[i] /= r.Factor
		}
	case "yarn":
		out.yarn(r)
	default:
		return nil, fmt.Errorf("rope scaling %q is not supported\nhint: supported are none, linear, yarn, longrope", r.Scaling)
	}
	return out, nil
}

// yarn interpolates slow pairs and leaves fast ones (Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", equations 18 to 22).
// Between the pairs that turn BetaFast and BetaSlow times within the original context the two are blended linearly.
func (o *rope) yarn(r rotary) {
	pairAt := func(turns float64) float64 {
		return float64(r.Dim) * math.Log(float64(r.OrigCtx)/(turns*2*math.Pi)) / (2 * math.Log(r.FreqBase))
	}
	low := max(math.Floor(pairAt(r.BetaFast)), 0)
	high := min(math.Ceil(pairAt(r.BetaSlow)), float64(r.Dim-1))
	for i, f := range o.freq {
		slow := 1 - r.extFactor*(1-min(max((float64(i)-low)/max(high-low, 0.001), 0), 1))
		o.freq[i] = slow*f/r.Factor + (1-slow)*f
	}
	if r.Factor > 1 && r.extFactor > 0 {
		o.scale *= 0.1*math.Log(r.Factor) + 1
	}
}

// table is a row for each position: the cosines of all pairs, then the sines. It is valid until the next one is made.
func (o *rope) table(positions []int32) []float32 {
	pairs := len(o.freq)
	o.rows = grow(o.rows, 2*pairs*len(positions))
	out := o.rows
	for i, pos := range positions {
		cos, sin := out[2*pairs*i:][:pairs], out[2*pairs*i:][pairs:2*pairs]
		for k, f := range o.freq {
			s, c := math.Sincos(float64(pos) * f)
			cos[k], sin[k] = float32(c*o.scale), float32(s*o.scale)
		}
	}
	return out
}
