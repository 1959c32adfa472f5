// Package half converts between float32 and the 16-bit floating-point formats.
package half

import (
	"encoding/binary"
	"math"
)

const (
	signF32 = 0x8000_0000
	infF32  = 0x7f80_0000
	infF16  = 0x7c00
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
	if isSpecial(h) {
		return widenSpecial(h)
	}
	return widenNormal(h)
}

// isSpecial: the exponent is 0 or 31.
func isSpecial(h uint16) bool { return (h+0x0400)&0x7800 == 0 }

func widenNormal(h uint16) float32 {
	return math.Float32frombits(uint32(h&0x8000)<<16 | (uint32(h&0x7fff)<<13 + rebias))
}

// widenSpecial widens zeros, subnormals, infinities and NaN.
func widenSpecial(h uint16) float32 {
	sign, abs := uint32(h&0x8000)<<16, uint32(h&0x7fff)<<13
	switch {
	case abs < infF16<<13: // 2^-14 + x, minus 2^-14
		f := math.Float32frombits(minNormal+abs) - math.Float32frombits(minNormal)
		return math.Float32frombits(sign | math.Float32bits(f))
	case abs > infF16<<13:
		abs |= quietF32
	}
	return math.Float32frombits(sign | infF32 | abs)
}

// F32ToF16 rounds to nearest, ties to even. Magnitudes from 65520 up become infinity, as the hardware conversion does.
// Every NaN becomes the quiet NaN 0x7e00 with the sign kept.
func F32ToF16(f float32) uint16 {
	if u := math.Float32bits(f); becomesNormal(u) {
		return narrowNormal(u)
	}
	return narrowSpecial(f)
}

// becomesNormal: the magnitude is from 2^-14 to below 65520.
func becomesNormal(u uint32) bool { return u&^signF32-minNormal < overflow-minNormal }

func narrowNormal(u uint32) uint16 {
	// Just under half a unit, plus the parity of the last kept bit.
	return uint16(u>>16&0x8000 | (u&^signF32-rebias+0x0fff+u>>13&1)>>13)
}

// narrowSpecial rounds magnitudes below 2^-14 and from 65520 on, infinities and NaN.
func narrowSpecial(f float32) uint16 {
	u := math.Float32bits(f)
	sign := uint16(u >> 16 & 0x8000)
	switch u &^= signF32; {
	case u > infF32:
		return sign | 0x7e00
	case u >= overflow:
		return sign | infF16
	}
	f = math.Float32frombits(u) + math.Float32frombits(subnormalUnit)
	return sign | uint16(math.Float32bits(f)-subnormalUnit)
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

// The loops go in steps of known size, which spares the checks of bounds inside, and call a function for rare values only.

// DecodeF16 widens little-endian bytes; len(src) is 2*len(dst).
func DecodeF16(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for ; len(dst) >= 8; dst, src = dst[8:], src[16:] {
		d, s := (*[8]float32)(dst), (*[16]byte)(src)
		for i := range d {
			if h := binary.LittleEndian.Uint16(s[2*i:]); isSpecial(h) {
				d[i] = widenSpecial(h)
			} else {
				d[i] = widenNormal(h)
			}
		}
	}
	for i := range dst {
		dst[i] = F16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// DecodeBF16 widens little-endian bytes; len(src) is 2*len(dst).
func DecodeBF16(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for ; len(dst) >= 8; dst, src = dst[8:], src[16:] {
		d, s := (*[8]float32)(dst), (*[16]byte)(src)
		for i := range d {
			d[i] = BF16ToF32(binary.LittleEndian.Uint16(s[2*i:]))
		}
	}
	for i := range dst {
		dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// EncodeF16 rounds into little-endian bytes; len(dst) is 2*len(src).
func EncodeF16(dst []byte, src []float32) {
	dst = dst[:2*len(src)]
	for ; len(src) >= 8; dst, src = dst[16:], src[8:] {
		d, s := (*[16]byte)(dst), (*[8]float32)(src)
		for i, f := range s {
			u := math.Float32bits(f)
			h := narrowNormal(u)
			if !becomesNormal(u) {
				h = narrowSpecial(f)
			}
			binary.LittleEndian.PutUint16(d[2*i:], h)
		}
	}
	for i, f := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F32ToF16(f))
	}
}

// EncodeBF16 rounds into little-endian bytes; len(dst) is 2*len(src).
func EncodeBF16(dst []byte, src []float32) {
	dst = dst[:2*len(src)]
	for ; len(src) >= 8; dst, src = dst[16:], src[8:] {
		d, s := (*[16]byte)(dst), (*[8]float32)(src)
		for i, f := range s {
			binary.LittleEndian.PutUint16(d[2*i:], F32ToBF16(f))
		}
	}
	for i, f := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F32ToBF16(f))
	}
}
