// Package block holds the block formats: for each its layout, encoder, decoder and a reference dot product.
// It is portable and it is the truth that every faster routine is held against.
//
// The bytes that the encoders write equal those of ggml's reference quantizers in a build without fused
// multiply-add: all arithmetic is float32, each product is rounded before it is added, sums run from the first
// element to the last.
package block

import (
	"fmt"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/half"
)

// Codec is one block format. All lengths are whole blocks; the functions panic if dst does not fit src.
// They keep no state and may be called from several goroutines at once.
type Codec struct {
	Type gguf.Type
	// Encode quantizes src into dst. The values must be finite.
	Encode func(dst []byte, src []float32)
	// EncodeWeighted quantizes one whole row with one importance weight per element of the row (len(w) = len(src)), finite and not
	// negative; nil where weights change nothing. Some formats weigh by the mean square of the row, so a row must not be
	// handed over in pieces.
	EncodeWeighted func(dst []byte, src, w []float32)
	// Decode widens src into dst. Any bytes decode to something.
	Decode func(dst []float32, src []byte)
	// Dot is the product of a row of this type with activations in 8 bits; nil where there is none.
	Dot func(row []byte, x *Activations) float32
}

// codecs lists every format, by type number.
var codecs = []Codec{
	{Type: gguf.F32, Encode: encodeF32, Decode: decodeF32},
	{Type: gguf.F16, Encode: half.EncodeF16, Decode: half.DecodeF16},
	{Type: gguf.Q4_0, Encode: encodeQ4_0, EncodeWeighted: encodeWeightedQ4_0, Decode: decodeQ4_0, Dot: dotQ4_0},
	{Type: gguf.Q4_1, Encode: encodeQ4_1, EncodeWeighted: encodeWeightedQ4_1, Decode: decodeQ4_1, Dot: dotQ4_1},
	{Type: gguf.Q5_0, Encode: encodeQ5_0, EncodeWeighted: encodeWeightedQ5_0, Decode: decodeQ5_0, Dot: dotQ5_0},
	{Type: gguf.Q5_1, Encode: encodeQ5_1, EncodeWeighted: encodeWeightedQ5_1, Decode: decodeQ5_1, Dot: dotQ5_1},
	{Type: gguf.Q8_0, Encode: encodeQ8_0, Decode: decodeQ8_0, Dot: dotQ8_0},
	{Type: gguf.Q2_K, Encode: encodeQ2_K, EncodeWeighted: encodeWeightedQ2_K, Decode: decodeQ2_K, Dot: dotQ2_K},
	{Type: gguf.Q3_K, Encode: encodeQ3_K, EncodeWeighted: encodeWeightedQ3_K, Decode: decodeQ3_K, Dot: dotQ3_K},
	{Type: gguf.Q4_K, Encode: encodeQ4_K, EncodeWeighted: encodeWeightedQ4_K, Decode: decodeQ4_K, Dot: dotQ4_K},
	{Type: gguf.Q5_K, Encode: encodeQ5_K, EncodeWeighted: encodeWeightedQ5_K, Decode: decodeQ5_K, Dot: dotQ5_K},
	{Type: gguf.Q6_K, Encode: encodeQ6_K, EncodeWeighted: encodeWeightedQ6_K, Decode: decodeQ6_K, Dot: dotQ6_K},
	{Type: gguf.IQ4_NL, Encode: encodeIQ4_NL, EncodeWeighted: encodeWeightedIQ4_NL, Decode: decodeIQ4_NL, Dot: dotIQ4_NL},
	{Type: gguf.IQ4_XS, Encode: encodeIQ4_XS, EncodeWeighted: encodeWeightedIQ4_XS, Decode: decodeIQ4_XS, Dot: dotIQ4_XS},
	{Type: gguf.BF16, Encode: half.EncodeBF16, Decode: half.DecodeBF16},
}

// ForType finds the codec of a type; the error says which types there are.
func ForType(t gguf.Type) (*Codec, error) {
	for i := range codecs {
		if codecs[i].Type == t {
			return &codecs[i], nil
		}
	}
	var names []string
	for _, t := range Types() {
		names = append(names, t.String())
	}
	return nil, fmt.Errorf("no codec for %s; there are %s", t, strings.Join(names, ", "))
}

// Types lists the types that have a codec, by number.
func Types() []gguf.Type {
	types := make([]gguf.Type, len(codecs))
	for i := range codecs {
		types[i] = codecs[i].Type
	}
	return types
}
