// Package half converts between float32 and the 16-bit floating-point formats.
package half

// F16ToF32 widens an IEEE 754 binary16.
func F16ToF32(h uint16) float32 { panic("todo") }

// F32ToF16 rounds to nearest even; overflow gives infinity, NaN stays NaN, as the hardware conversion does.
func F32ToF16(f float32) uint16 { panic("todo") }

// BF16ToF32 widens a bfloat16.
func BF16ToF32(h uint16) float32 { panic("todo") }

// F32ToBF16 rounds to nearest even; a NaN is made quiet and stays NaN.
func F32ToBF16(f float32) uint16 { panic("todo") }

// DecodeF16, DecodeBF16 widen little-endian bytes; len(src) is 2*len(dst).
func DecodeF16(dst []float32, src []byte)  { panic("todo") }
func DecodeBF16(dst []float32, src []byte) { panic("todo") }

// EncodeF16, EncodeBF16 round into little-endian bytes; len(dst) is 2*len(src).
func EncodeF16(dst []byte, src []float32)  { panic("todo") }
func EncodeBF16(dst []byte, src []float32) { panic("todo") }
