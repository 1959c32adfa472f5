// Package encode turns rows of float32 into blocks of any type and measures what was lost.
package encode

import (
	"errors"

	"github.com/ggufkit/ggufkit/gguf"
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
func (s *Stats) Add(o Stats) {}

// RMSE, RelRMSE (rmse over the rms of the source) and Cosine follow from the sums.
func (s Stats) RMSE() float64    { return 0 }
func (s Stats) RelRMSE() float64 { return 0 }
func (s Stats) Cosine() float64  { return 0 }

// NonFiniteError reports a NaN or infinity in the source.
type NonFiniteError struct {
	Index uint64 // element within the given rows
	Value float32
}

func (e *NonFiniteError) Error() string { return "" }

// Rows encodes whole rows of rowLen elements into dst. weights is nil or one weight per element of a row. stats may be nil;
// if not, the rows are decoded again and the errors added.
func Rows(t gguf.Type, dst []byte, src []float32, rowLen int, weights []float32, stats *Stats) error {
	return errors.New("todo")
}

// Decode widens blocks of any type that has a codec.
func Decode(t gguf.Type, dst []float32, src []byte) error { return errors.New("todo") }
