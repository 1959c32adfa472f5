// Package block holds the block formats: for each its layout, encoder, decoder and a reference dot product.
// It is portable and it is the truth that every faster routine is held against.
package block

import (
	"errors"

	"github.com/ggufkit/ggufkit/gguf"
)

// Codec is one block format. All lengths are whole blocks.
type Codec struct {
	Type gguf.Type
	// Encode quantizes src into dst.
	Encode func(dst []byte, src []float32)
	// EncodeWeighted does so with one importance weight per element of the row (len(w) = len(src)); nil where weights change nothing.
	EncodeWeighted func(dst []byte, src, w []float32)
	// Decode widens src into dst.
	Decode func(dst []float32, src []byte)
	// Dot is the product of a row of this type with activations in 8 bits; nil where there is none yet.
	Dot func(row []byte, x *Activations) float32
}

// Activations is a vector in 8 bits with one scale per 32 elements: x[i] = Scale[i/32] * Q[i].
// Sum[j] is Scale[j] times the sum of the 32 integers of group j (for formats with a minimum).
type Activations struct {
	Q     []int8
	Scale []float32
	Sum   []float32
}

// Quantize fills a from x (len(x) a multiple of 32), reusing its storage.
func (a *Activations) Quantize(x []float32) {}

// ForType finds the codec of a type; the error says which types there are.
func ForType(t gguf.Type) (*Codec, error) { return nil, errors.New("todo") }
