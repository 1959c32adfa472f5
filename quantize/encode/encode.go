// Package encode turns rows of float32 into blocks of any type and measures what was lost.
package encode

import (
	"fmt"
	"math"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// NonFiniteError reports a NaN or infinity in the source.
type NonFiniteError struct {
	Index uint64 // element within the given rows
	Value float32
}

func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("element %d is %v: the weights are damaged\nhint: get a sound copy of the source", e.Index, e.Value)
}

// RangeError reports finite values that the type cannot hold: they, or the scale of their block, would become infinite.
type RangeError struct {
	Type      gguf.Type
	Index     uint64 // the largest such element within the given rows
	Value     float32
	Overflow  uint64 // elements that would not be finite, or not survive at all for their size
	Underflow uint64 // elements that are not zero and would be, counted for F16 and BF16
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("element %d is %v, beyond the range of %s (%d overflow, %d underflow)\nhint: choose a type of wider range, such as BF16 or F32",
		e.Index, e.Value, e.Type, e.Overflow, e.Underflow)
}

// Rows encodes whole rows of rowLen elements into dst, which has exactly their size. weights is nil or one importance weight
// per element of a row, the same for every row; types that have no use for them ignore them. stats may be nil; if not, the rows
// are decoded again and the errors added.
//
// It returns a *NonFiniteError for the first NaN or infinity in src, and a *RangeError if finite values would not stay finite;
// dst is then not to be used and stats is unchanged.
func Rows(t gguf.Type, dst []byte, src []float32, rowLen int, weights []float32, stats *Stats) error {
	codec, err := block.ForType(t)
	if err != nil {
		return err
	}
	if err := checkSizes(t, dst, src, rowLen, weights); err != nil {
		return err
	}
	largest, err := checkFinite(src)
	if err != nil {
		return err
	}
	if weights == nil || codec.EncodeWeighted == nil {
		codec.Encode(dst, src)
	} else {
		rows := len(src) / rowLen
		size := len(dst) / max(1, rows)
		for r := range rows {
			codec.EncodeWeighted(dst[r*size:][:size], src[r*rowLen:][:rowLen], weights)
		}
	}
	if largest >= safe {
		if err := checkRange(codec, dst, src); err != nil {
			return err
		}
	}
	if stats != nil {
		stats.measure(codec, dst, src)
	}
	return nil
}

// Decode widens blocks of any type that has a codec; dst has exactly the elements of src.
func Decode(t gguf.Type, dst []float32, src []byte) error {
	codec, err := block.ForType(t)
	if err != nil {
		return err
	}
	size, err := t.RowBytes(uint64(len(dst)))
	if err != nil {
		return err
	}
	if uint64(len(src)) != size {
		return fmt.Errorf("%d elements of %s take %d bytes, not %d", len(dst), t, size, len(src))
	}
	codec.Decode(dst, src)
	return nil
}

func checkSizes(t gguf.Type, dst []byte, src []float32, rowLen int, weights []float32) error {
	if rowLen <= 0 || len(src)%rowLen != 0 {
		return fmt.Errorf("%d elements are not whole rows of %d", len(src), rowLen)
	}
	rowBytes, err := t.RowBytes(uint64(rowLen))
	if err != nil {
		return err
	}
	if want := uint64(len(src)/rowLen) * rowBytes; uint64(len(dst)) != want {
		return fmt.Errorf("%d elements of %s take %d bytes, not %d", len(src), t, want, len(dst))
	}
	if weights == nil {
		return nil
	}
	if len(weights) != rowLen {
		return fmt.Errorf("%d importance weights for rows of %d elements", len(weights), rowLen)
	}
	for i, w := range weights {
		if !(w >= 0 && w <= math.MaxFloat32) {
			return fmt.Errorf("importance weight %d is %v\nhint: weights are finite and not negative: make the importance matrix again", i, w)
		}
	}
	return nil
}

// safe is a magnitude below which no type overflows: every format's scales and minimums stay within float16.
const safe = 1 << 15

// checkFinite returns the largest magnitude in src.
func checkFinite(src []float32) (float32, error) {
	const sign, inf = 1 << 31, 0x7f800000
	var largest uint32 // magnitudes order as their bits do, NaN above infinity
	for _, f := range src {
		largest = max(largest, math.Float32bits(f)&^sign)
	}
	if largest < inf {
		return math.Float32frombits(largest), nil
	}
	for i, f := range src {
		if math.Float32bits(f)&^sign >= inf {
			return 0, &NonFiniteError{Index: uint64(i), Value: f}
		}
	}
	panic("unreachable: one of the elements is not finite")
}

// checkRange looks for elements that did not stay finite, and for large ones that became zero: where the squares of a block
// overflow, the search for a scale ends in zeros.
func checkRange(codec *block.Codec, dst []byte, src []float32) error {
	e := &RangeError{Type: codec.Type}
	info, _ := codec.Type.Info()
	decoded(codec, dst, src, func(at int, x, y []float32) {
		var largest float64
		for _, f := range x {
			largest = max(largest, math.Abs(float64(f)))
		}
		for i, q := range y {
			switch a := math.Abs(float64(q)); {
			case !(a <= math.MaxFloat32), a == 0 && largest >= safe && math.Abs(float64(x[i])) == largest:
				// A block overflows for its largest element.
				if e.Overflow == 0 || math.Abs(float64(x[i])) > math.Abs(float64(e.Value)) {
					e.Index, e.Value = uint64(at+i), x[i]
				}
				e.Overflow++
			case q == 0 && x[i] != 0 && !info.Quantized():
				e.Underflow++
			}
		}
	})
	if e.Overflow > 0 {
		return e
	}
	return nil
}

// piece is how many elements are decoded at a time: whole blocks of every type, small enough for the first cache.
const piece = 1024

// decoded calls visit with pieces of src and what the same piece of dst decodes to; at is the index of the first element.
func decoded(codec *block.Codec, dst []byte, src []float32, visit func(at int, x, y []float32)) {
	if len(src) == 0 {
		return
	}
	buf := make([]float32, min(piece, len(src)))
	for at := 0; at < len(src); at += piece {
		n := min(piece, len(src)-at)
		from, to := at*len(dst)/len(src), (at+n)*len(dst)/len(src)
		codec.Decode(buf[:n], dst[from:to])
		visit(at, src[at:at+n], buf[:n])
	}
}
