package gguf

import (
	"fmt"
	"math/bits"
	"strings"
)

// Type is the element type of a tensor, numbered as ggml_type is.
type Type uint32

// Tensor types that current files may hold.
const (
	F32     Type = 0
	F16     Type = 1
	Q4_0    Type = 2
	Q4_1    Type = 3
	Q5_0    Type = 6
	Q5_1    Type = 7
	Q8_0    Type = 8
	Q8_1    Type = 9
	Q2_K    Type = 10
	Q3_K    Type = 11
	Q4_K    Type = 12
	Q5_K    Type = 13
	Q6_K    Type = 14
	Q8_K    Type = 15
	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ4_NL  Type = 20
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ4_XS  Type = 23
	I8      Type = 24
	I16     Type = 25
	I32     Type = 26
	I64     Type = 27
	F64     Type = 28
	IQ1_M   Type = 29
	BF16    Type = 30
	TQ1_0   Type = 34
	TQ2_0   Type = 35
	MXFP4   Type = 39
	NVFP4   Type = 40
	Q1_0    Type = 41
	Q2_0    Type = 42
)

// TypeInfo is the storage of one tensor type: Block elements take Bytes bytes.
type TypeInfo struct {
	Name  string
	Block uint64
	Bytes uint64
	// Removed is set for ids that once meant something; such files need an older program.
	Removed bool
	// Foreign names the program whose private type this is ("ik_llama.cpp"), else "".
	Foreign string
}

// Quantized reports whether several elements share a block.
func (i TypeInfo) Quantized() bool { return i.Block > 1 }

// BitsPerWeight is the storage per element in bits.
func (i TypeInfo) BitsPerWeight() float64 { return float64(i.Bytes) * 8 / float64(i.Block) }

var types = map[Type]TypeInfo{
	F32: {Name: "F32", Block: 1, Bytes: 4}, F16: {Name: "F16", Block: 1, Bytes: 2}, BF16: {Name: "BF16", Block: 1, Bytes: 2},
	F64: {Name: "F64", Block: 1, Bytes: 8}, I8: {Name: "I8", Block: 1, Bytes: 1}, I16: {Name: "I16", Block: 1, Bytes: 2},
	I32: {Name: "I32", Block: 1, Bytes: 4}, I64: {Name: "I64", Block: 1, Bytes: 8},
	Q4_0: {Name: "Q4_0", Block: 32, Bytes: 18}, Q4_1: {Name: "Q4_1", Block: 32, Bytes: 20},
	Q5_0: {Name: "Q5_0", Block: 32, Bytes: 22}, Q5_1: {Name: "Q5_1", Block: 32, Bytes: 24},
	Q8_0: {Name: "Q8_0", Block: 32, Bytes: 34}, Q8_1: {Name: "Q8_1", Block: 32, Bytes: 36},
	Q2_K: {Name: "Q2_K", Block: 256, Bytes: 84}, Q3_K: {Name: "Q3_K", Block: 256, Bytes: 110},
	Q4_K: {Name: "Q4_K", Block: 256, Bytes: 144}, Q5_K: {Name: "Q5_K", Block: 256, Bytes: 176},
	Q6_K: {Name: "Q6_K", Block: 256, Bytes: 210}, Q8_K: {Name: "Q8_K", Block: 256, Bytes: 292},
	IQ2_XXS: {Name: "IQ2_XXS", Block: 256, Bytes: 66}, IQ2_XS: {Name: "IQ2_XS", Block: 256, Bytes: 74},
	IQ2_S: {Name: "IQ2_S", Block: 256, Bytes: 82}, IQ3_XXS: {Name: "IQ3_XXS", Block: 256, Bytes: 98},
	IQ3_S: {Name: "IQ3_S", Block: 256, Bytes: 110}, IQ1_S: {Name: "IQ1_S", Block: 256, Bytes: 50},
	IQ1_M: {Name: "IQ1_M", Block: 256, Bytes: 56}, IQ4_NL: {Name: "IQ4_NL", Block: 32, Bytes: 18},
	IQ4_XS: {Name: "IQ4_XS", Block: 256, Bytes: 136}, TQ1_0: {Name: "TQ1_0", Block: 256, Bytes: 54},
	TQ2_0: {Name: "TQ2_0", Block: 256, Bytes: 66}, MXFP4: {Name: "MXFP4", Block: 32, Bytes: 17},
	NVFP4: {Name: "NVFP4", Block: 64, Bytes: 36}, Q1_0: {Name: "Q1_0", Block: 128, Bytes: 18},
	Q2_0: {Name: "Q2_0", Block: 64, Bytes: 18},
}

// Info returns the storage of the type; false when this program cannot size it. Then the info holds a name and Removed
// or Foreign where the number is a known one, and nothing where it is not.
func (t Type) Info() (TypeInfo, bool) {
	if i, ok := types[t]; ok {
		return i, true
	}
	if name, ok := removedTypes[t]; ok {
		return TypeInfo{Name: name, Removed: true}, false
	}
	if name, ok := foreignTypes[t]; ok {
		return TypeInfo{Name: name, Foreign: ikLlama}, false
	}
	if t >= firstInterleaved && t <= lastInterleaved {
		return TypeInfo{Name: fmt.Sprintf("interleaved type %d", uint32(t)), Foreign: ikLlama}, false
	}
	return TypeInfo{}, false
}

// String is the type's name, or "type N" for an unknown number.
func (t Type) String() string {
	if i, _ := t.Info(); i.Name != "" {
		return i.Name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// unknown is the error for a type that this program cannot size.
func (t Type) unknown() error {
	switch i, _ := t.Info(); {
	case i.Removed:
		return fmt.Errorf("%w: number %d was %s, which was removed from the format", ErrType, uint32(t), i.Name)
	case i.Foreign != "":
		return fmt.Errorf("%w: number %d is %s, a type of %s alone", ErrType, uint32(t), i.Name, i.Foreign)
	}
	return fmt.Errorf("%w: number %d", ErrType, uint32(t))
}

// hint says what to do about a type that this program cannot size; "" for the others.
func (t Type) hint() string {
	i, ok := t.Info()
	switch {
	case ok:
		return ""
	case t == removedInterleaved:
		return "files of BitNet.cpp use this number for I2_S; else download or make a Q4_0 or IQ4_NL file: programs now rearrange it when they load it"
	case i.Removed && t >= Type(31):
		return "download or make a Q4_0 or IQ4_NL file: programs now rearrange it when they load it"
	case i.Removed:
		return "the file is older than GGUF's present types: convert the original checkpoint again"
	case i.Foreign != "":
		return "use the file with " + i.Foreign + ", or quantize the original checkpoint to a type that all programs know"
	}
	return "a newer ggufkit may know it; else the file is damaged"
}

// ParseType finds a type by its name in any case.
func ParseType(name string) (Type, error) {
	for t, i := range types {
		if strings.EqualFold(i.Name, name) {
			return t, nil
		}
	}
	return 0, fmt.Errorf("%w: %q", ErrType, name)
}

// RowBytes is the storage in bytes of n consecutive elements, which must fill whole blocks.
func (t Type) RowBytes(n uint64) (uint64, error) {
	i, ok := types[t]
	if !ok {
		return 0, t.unknown()
	}
	if n%i.Block != 0 {
		return 0, fmt.Errorf("%w: %d elements do not fill blocks of %d (%s)", ErrShape, n, i.Block, t)
	}
	hi, lo := bits.Mul64(n/i.Block, i.Bytes)
	if hi != 0 {
		return 0, fmt.Errorf("%w: %d elements of %s", ErrOverflow, n, t)
	}
	return lo, nil
}
