package encode

import (
	"math"

	"github.com/ggufkit/ggufkit/quantize/block"
)

// Stats sums the errors of one tensor. Sums are float64, added in a fixed order, so that they do not depend on threads.
type Stats struct {
	N        uint64  // elements
	SumSq    float64 // of the source
	SumSqQ   float64 // of what the blocks decode to
	SumDot   float64 // source times decoded
	SumErrSq float64
	MaxError float64 // largest absolute difference
}

// Add accumulates another part's sums.
func (s *Stats) Add(o Stats) {
	s.N += o.N
	s.SumSq += o.SumSq
	s.SumSqQ += o.SumSqQ
	s.SumDot += o.SumDot
	s.SumErrSq += o.SumErrSq
	s.MaxError = max(s.MaxError, o.MaxError)
}

// RMSE is the root of the mean squared difference; 0 without elements.
func (s Stats) RMSE() float64 {
	if s.N == 0 {
		return 0
	}
	return math.Sqrt(s.SumErrSq / float64(s.N))
}

// RelRMSE is the RMSE over the root mean square of the source. It is 0 without any error, so also for zeros that stay zeros,
// and infinite where zeros did not.
func (s Stats) RelRMSE() float64 {
	if s.SumErrSq == 0 {
		return 0
	}
	return math.Sqrt(s.SumErrSq / s.SumSq)
}

// Cosine is that of the angle between source and decoded values, at most 1. Two zero vectors have 1, a zero vector and
// another have 0.
func (s Stats) Cosine() float64 {
	if s.SumSq == 0 && s.SumSqQ == 0 {
		return 1
	}
	if s.SumSq == 0 || s.SumSqQ == 0 {
		return 0
	}
	return max(-1, min(1, s.SumDot/(math.Sqrt(s.SumSq)*math.Sqrt(s.SumSqQ))))
}

// measure adds the errors of what dst decodes to against src.
func (s *Stats) measure(codec *block.Codec, dst []byte, src []float32) {
	part := Stats{N: uint64(len(src))}
	decoded(codec, dst, src, func(_ int, x, y []float32) { part.compare(x, y) })
	s.Add(part)
}

// compare adds the sums of a piece, element by element.
func (s *Stats) compare(x, y []float32) {
	y = y[:len(x)]
	sq, sqQ, dot, errSq, worst := s.SumSq, s.SumSqQ, s.SumDot, s.SumErrSq, s.MaxError
	for i, f := range x {
		a, b := float64(f), float64(y[i])
		diff := a - b
		sq += float64(a * a)
		sqQ += float64(b * b)
		dot += float64(a * b)
		errSq += float64(diff * diff)
		if e := math.Abs(diff); e > worst {
			worst = e
		}
	}
	s.SumSq, s.SumSqQ, s.SumDot, s.SumErrSq, s.MaxError = sq, sqQ, dot, errSq, worst
}
