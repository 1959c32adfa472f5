// Package half converts between float32 and the 16-bit floating-point formats.
package half

import (
	"encoding/binary"
	"math"
)

const (
	signF32 = 0x8000_0000
	infF32  = 0x7f80_0000
	// quietF32 is the bit that makes a NaN quiet.
	quietF32 = 0x0040_0000
	// rebias is the difference of the exponent biases of binary32 and binary16, in place.
	rebias = (127 - 15) << 23
	// minNormal is 2^-14, the smallest normal binary16.
	minNormal = (127 - 14) << 23
	// overflow is 65520, the smallest magnitude that rounds to infinity.
	overflow = 0x477f_f000
	// subnormalUnit is 0.5: added to x < 2^-14, it leaves x in units of 2^-24 in the low bits, rounded to even.
	subnormalUnit = (127 - 1) << 23
)

// F16ToF32 widens an IEEE 754 binary16. The result is exact; a signalling NaN becomes quiet.
func F16ToF32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	abs := uint32(h&0x7fff) << 13
	switch {
	case abs < 0x0400<<13: // zero or subnormal: 2^-14 + x, minus 2^-14
		f := math.Float32frombits(minNormal+abs) - math.Float32frombits(minNormal)
		return math.Float32frombits(sign | math.Float32bits(f))
	case abs >= 0x7c00<<13:
		if abs > 0x7c00<<13 {
			abs |= quietF32
		}
		return math.Float32frombits(sign | infF32 | abs)
	}
	return math.Float32frombits(sign | (abs + rebias))
}

// F32ToF16 rounds to nearest, ties to even. Magnitudes from 65520 up become infinity, as the hardware conversion does.
// Every NaN becomes the quiet NaN 0x7e00 with the sign kept.
func F32ToF16(f float32) uint16 {
	u := math.Float32bits(f)
	sign := uint16(u >> 16 & 0x8000)
	u &^= signF32
	switch {
	case u >= overflow:
		if u > infF32 {
			return sign | 0x7e00
		}
		return sign | 0x7c00
	case u < minNormal:
		f = math.Float32frombits(u) + math.Float32frombits(subnormalUnit)
		return sign | uint16(math.Float32bits(f)-subnormalUnit)
	}
	// Just under half a unit, plus the parity of the last kept bit.
	u += 0x0fff + u>>13&1
	return sign | uint16((u-rebias)>>13)
}

// BF16ToF32 widens a bfloat16, which is the upper half of a binary32.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 rounds to nearest, ties to even. A NaN is made quiet and keeps its sign and upper payload.
func F32ToBF16(f float32) uint16 {
	u := math.Float32bits(f)
	if u&^signF32 > infF32 {
		return uint16((u | quietF32) >> 16)
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// DecodeF16 widens little-endian bytes; len(src) is 2*len(dst).
func DecodeF16(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for i := range dst {
		dst[i] = F16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// DecodeBF16 widens little-endian bytes; len(src) is 2*len(dst).
func DecodeBF16(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for i := range dst {
		dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// EncodeF16 rounds into little-endian bytes; len(dst) is 2*len(src).
func EncodeF16(dst []byte, src []float32) {
	dst = dst[:2*len(src)]
	for i, f := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F32ToF16(f))
	}
}

// EncodeBF16 rounds into little-endian bytes; len(dst) is 2*len(src).
func EncodeBF16(dst []byte, src []float32) {
	dst = dst[:2*len(src)]
	for i, f := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F32ToBF16(f))
	}
}
