package block

import (
	"encoding/binary"
	"math"

	"github.com/ggufkit/ggufkit/internal/half"
)

// Every format has either 32 elements in a block or 256 in a super-block.
const (
	size32  = 32
	size256 = 256
)

// f16At reads the binary16 at the start of b.
func f16At(b []byte) float32 { return half.F16ToF32(binary.LittleEndian.Uint16(b)) }

// putF16 rounds f to binary16 at the start of b.
func putF16(b []byte, f float32) { binary.LittleEndian.PutUint16(b, half.F32ToF16(f)) }

// nibbles splits 16 bytes into 32 values: the low halves are the first 16, the high halves the last 16.
func nibbles(q *[32]uint8, b *[16]byte) {
	w0, w1 := word(b[0:]), word(b[8:])
	putWord(q[0:], w0&nibbleBytes)
	putWord(q[8:], w1&nibbleBytes)
	putWord(q[16:], w0>>4&nibbleBytes)
	putWord(q[24:], w1>>4&nibbleBytes)
}

// packNibbles is the inverse of nibbles; of each value it takes the low four bits.
func packNibbles(b *[16]byte, q *[32]uint8) {
	putWord(b[0:], word(q[0:])&nibbleBytes|word(q[16:])&nibbleBytes<<4)
	putWord(b[8:], word(q[8:])&nibbleBytes|word(q[24:])&nibbleBytes<<4)
}

// fiveBits splits 32 values of 5 bits: low holds four of each, as nibbles has them, bit j of high the fifth of q[j].
func fiveBits(q *[32]uint8, low *[16]byte, high *[4]byte) {
	nibbles(q, low)
	for r, h := range high {
		putWord(q[8*r:], word(q[8*r:])|spreadBits(h))
	}
}

// packFiveBits is the inverse of fiveBits for values below 32.
func packFiveBits(low *[16]byte, high *[4]byte, q *[32]uint8) {
	packNibbles(low, q)
	for r := range high {
		high[r] = gatherBits(word(q[8*r:]))
	}
}

// affine writes d*q + m for each q.
func affine(dst *[32]float32, q *[32]uint8, d, m float32) {
	for j, v := range q {
		dst[j] = float32(d*float32(v)) + m
	}
}

// centred writes d*(q-zero) for each q.
func centred(dst *[32]float32, q *[32]uint8, zero int32, d float32) {
	for j, v := range q {
		dst[j] = d * float32(int32(v)-zero)
	}
}

// reciprocal is 1/d for use as a factor, 0 for d = 0. ok is false when it is beyond the range of float32; the reference
// then stores zeros for the integers, since what a conversion from infinity gives on x86 ends in them.
func reciprocal(d float32) (inverse float32, ok bool) {
	if d == 0 {
		return 0, true
	}
	inverse = 1 / d
	return inverse, abs32(inverse) <= math.MaxFloat32
}

// roundPlus sets q to x*inverse + offset without its fraction, at most limit. The sum is known to be positive.
func roundPlus(q *[32]uint8, x *[32]float32, inverse, offset float32, limit int32) {
	for j, v := range x {
		q[j] = uint8(min(limit, int32(float32(v*inverse)+offset)))
	}
}

// quantizeCentred is the unweighted encoder of Q4_0 and Q5_0: the element of largest magnitude becomes -zero.
func quantizeCentred(q *[32]uint8, x *[32]float32, zero float32) (d float32) {
	top, _ := peak(x[:])
	d = top / -zero
	if inverse, ok := reciprocal(d); ok {
		roundPlus(q, x, inverse, zero+0.5, int32(2*zero-1))
	} else {
		clear(q[:])
	}
	return d
}

// quantizeAffine is the unweighted encoder of Q4_1 and Q5_1: the range from m, the smallest element, to the largest is cut into levels.
func quantizeAffine(q *[32]uint8, x *[32]float32, levels float32) (d, m float32) {
	lo, hi := bounds(x[:])
	d = (hi - lo) / levels
	inverse, ok := reciprocal(d)
	if !ok {
		clear(q[:])
		return d, lo
	}
	var above [32]float32
	for j, v := range x {
		above[j] = v - lo
	}
	roundPlus(q, &above, inverse, 0.5, int32(levels))
	return d, lo
}

// quantizeCentredWeighted is the encoder of Q4_0 and Q5_0 with importance weights.
func quantizeCentredWeighted(q *[32]uint8, x *[32]float32, importance []float32, meanSquare, zero float32) (d float32) {
	var group symmetricGroup
	weighByImportance(group.w[:], importance, x[:], meanSquare)
	return group.fit(q[:], x[:], zero)
}

// quantizeAffineWeighted is the encoder of Q4_1 and Q5_1 with importance weights.
func quantizeAffineWeighted(q *[32]uint8, x *[32]float32, importance []float32, meanSquare, levels float32) (d, m float32) {
	var group affineGroup
	weighByImportance(group.w[:], importance, x[:], meanSquare)
	search := affineSearch{levels: levels, start: -0.9, step: 0.05, steps: 36}
	d, m = search.fit(&group, q[:], x[:])
	return d, -m
}
