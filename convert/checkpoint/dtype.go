package checkpoint

import (
	"encoding/binary"
	"math"

	"github.com/ggufkit/ggufkit/internal/half"
)

// DType is a safetensors element type ("F32", "BF16", "F8_E4M3" ...).
type DType string

// The element types that ReadRows widens to float32.
const (
	Bool DType = "BOOL"
	U8   DType = "U8"
	I8   DType = "I8"
	I16  DType = "I16"
	U16  DType = "U16"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I32  DType = "I32"
	U32  DType = "U32"
	F32  DType = "F32"
	F64  DType = "F64"
	I64  DType = "I64"
	U64  DType = "U64"
)

// dtypeInfo is what the package knows of an element type.
type dtypeInfo struct {
	bits    uint64 // of one element
	library bool   // the safetensors module knows the type as well
	// decode widens len(dst) little-endian elements; nil where a number alone means nothing (block-scaled and complex types).
	decode func(dst []float32, src []byte)
}

// dtypes are all types of the safetensors format, version 0.8.
var dtypes = map[DType]dtypeInfo{
	Bool: {8, true, decodeBool},
	U8:   {8, true, decodeU8},
	I8:   {8, true, decodeI8},
	I16:  {16, true, decodeI16},
	U16:  {16, true, decodeU16},
	F16:  {16, true, half.DecodeF16},
	BF16: {16, true, half.DecodeBF16},
	I32:  {32, true, decodeI32},
	U32:  {32, true, decodeU32},
	F32:  {32, true, decodeF32},
	F64:  {64, true, decodeF64},
	I64:  {64, true, decodeI64},
	U64:  {64, true, decodeU64},

	"F4":          {4, false, nil},
	"F6_E2M3":     {6, false, nil},
	"F6_E3M2":     {6, false, nil},
	"F8_E4M3":     {8, false, nil},
	"F8_E5M2":     {8, false, nil},
	"F8_E8M0":     {8, false, nil},
	"F8_E4M3FNUZ": {8, false, nil},
	"F8_E5M2FNUZ": {8, false, nil},
	"C64":         {64, false, nil},
}

// Bits is the size of one element in bits; 0 if the type is unknown.
func (d DType) Bits() uint64 { return dtypes[d].bits }

// Widens reports whether ReadRows can turn elements of the type into float32.
func (d DType) Widens() bool { return dtypes[d].decode != nil }

func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func decodeF64(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:])))
	}
}

func decodeBool(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = 0
		if src[i] != 0 {
			dst[i] = 1
		}
	}
}

func decodeU8(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(src[i])
	}
}

func decodeI8(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(int8(src[i]))
	}
}

func decodeU16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func decodeI16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(int16(binary.LittleEndian.Uint16(src[2*i:])))
	}
}

func decodeU32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func decodeI32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(int32(binary.LittleEndian.Uint32(src[4*i:])))
	}
}

func decodeU64(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(binary.LittleEndian.Uint64(src[8*i:]))
	}
}

func decodeI64(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(int64(binary.LittleEndian.Uint64(src[8*i:])))
	}
}
