package gguf

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
)

// ValueType is the type of a metadata value, numbered as in the file.
type ValueType uint32

// The 13 value types.
const (
	Uint8 ValueType = iota
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Float32
	Bool
	String
	ArrayType
	Uint64
	Int64
	Float64
)

// valueTypes holds name and storage size in bytes; size 0 means that it varies.
var valueTypes = [...]struct {
	name, long string
	size       int
}{
	Uint8: {"u8", "uint8", 1}, Int8: {"i8", "int8", 1}, Uint16: {"u16", "uint16", 2}, Int16: {"i16", "int16", 2},
	Uint32: {"u32", "uint32", 4}, Int32: {"i32", "int32", 4}, Float32: {"f32", "float32", 4}, Bool: {"bool", "boolean", 1},
	String: {"str", "string", 0}, ArrayType: {"arr", "array", 0}, Uint64: {"u64", "uint64", 8}, Int64: {"i64", "int64", 8},
	Float64: {"f64", "float64", 8},
}

func (t ValueType) valid() bool { return int(t) < len(valueTypes) }

// size is the storage of one value in bytes, 0 if it varies.
func (t ValueType) size() int { return valueTypes[t].size }

// String is the short name of the type (u8 ... f64, bool, str, arr), or "value type N" for a number that means nothing.
func (t ValueType) String() string {
	if !t.valid() {
		return fmt.Sprintf("value type %d", uint32(t))
	}
	return valueTypes[t].name
}

func (t ValueType) unsigned() bool {
	return t == Uint8 || t == Uint16 || t == Uint32 || t == Uint64
}

func (t ValueType) signed() bool { return t == Int8 || t == Int16 || t == Int32 || t == Int64 }

// Scalar lists the Go types that map one to one to scalar value types.
type Scalar interface {
	~uint8 | ~int8 | ~uint16 | ~int16 | ~uint32 | ~int32 | ~uint64 | ~int64 | ~float32 | ~float64 | ~bool | ~string
}

// Value is one typed metadata value. The zero Value is invalid and cannot be written. Values do not change.
type Value struct {
	typ ValueType
	set bool   // false for the zero Value
	num uint64 // scalars: the stored bits, zero-extended
	str string
	arr *array
}

var kindTypes = map[reflect.Kind]ValueType{
	reflect.Uint8: Uint8, reflect.Int8: Int8, reflect.Uint16: Uint16, reflect.Int16: Int16, reflect.Uint32: Uint32,
	reflect.Int32: Int32, reflect.Uint64: Uint64, reflect.Int64: Int64, reflect.Float32: Float32,
	reflect.Float64: Float64, reflect.Bool: Bool, reflect.String: String,
}

// New makes a scalar value; its value type follows from the Go type.
func New[T Scalar](v T) Value {
	return scalarOf(kindTypes[reflect.TypeFor[T]().Kind()], reflect.ValueOf(v))
}

// scalarOf makes a value of type t from a Go value of the matching kind.
func scalarOf(t ValueType, v reflect.Value) Value {
	if t == String {
		return Value{typ: t, set: true, str: v.String()}
	}
	return Value{typ: t, set: true, num: bitsOf(t, v)}
}

// bitsOf is the stored form of a number or bool.
func bitsOf(t ValueType, v reflect.Value) uint64 {
	switch {
	case t.unsigned():
		return v.Uint()
	case t.signed():
		return uint64(v.Int()) & (math.MaxUint64 >> (64 - 8*t.size()))
	case t == Float32:
		return uint64(math.Float32bits(float32(v.Float())))
	case t == Float64:
		return math.Float64bits(v.Float())
	case v.Bool():
		return 1
	}
	return 0
}

// Type is the value's type.
func (v Value) Type() ValueType { return v.typ }

// TypeName names the type in full: "u32", "str", for arrays "[]str", "[][]i32". An empty nested array is "[][]".
// It is what ParseValueType reads, nested arrays apart.
func (v Value) TypeName() string {
	if v.typ != ArrayType || v.arr == nil {
		return v.typ.String()
	}
	return "[]" + v.arr.elemName()
}

// wrong is the error of a getter that met another type.
func (v Value) wrong(want string) error {
	if !v.set {
		return fmt.Errorf("%w: there is no value, wanted %s", ErrValueType, want)
	}
	return fmt.Errorf("%w: it is %s, wanted %s", ErrValueType, v.TypeName(), want)
}

// signedBits extends the sign of the stored bits.
func (v Value) signedBits() int64 {
	shift := 64 - 8*v.typ.size()
	return int64(v.num<<shift) >> shift
}

// Uint is the value of any integer type, if not negative.
func (v Value) Uint() (uint64, error) {
	switch {
	case v.set && v.typ.unsigned():
		return v.num, nil
	case v.set && v.typ.signed():
		if n := v.signedBits(); n >= 0 {
			return uint64(n), nil
		}
		return 0, fmt.Errorf("%w: %d is negative", ErrValue, v.signedBits())
	}
	return 0, v.wrong("an integer")
}

// Int is the value of any integer type, if it fits.
func (v Value) Int() (int64, error) {
	switch {
	case v.set && v.typ.signed():
		return v.signedBits(), nil
	case v.set && v.typ.unsigned():
		if v.num <= math.MaxInt64 {
			return int64(v.num), nil
		}
		return 0, fmt.Errorf("%w: %d does not fit into 63 bits", ErrValue, v.num)
	}
	return 0, v.wrong("an integer")
}

// Float is the value of a Float32 or Float64.
func (v Value) Float() (float64, error) {
	switch {
	case v.set && v.typ == Float32:
		return float64(math.Float32frombits(uint32(v.num))), nil
	case v.set && v.typ == Float64:
		return math.Float64frombits(v.num), nil
	}
	return 0, v.wrong("f32 or f64")
}

// Bool is the value of a Bool. Any stored byte but 0 is true.
func (v Value) Bool() (bool, error) {
	if v.set && v.typ == Bool {
		return v.num != 0, nil
	}
	return false, v.wrong("bool")
}

// Str is the value of a String, as stored (it may hold any bytes).
func (v Value) Str() (string, error) {
	if v.set && v.typ == String {
		return v.str, nil
	}
	return "", v.wrong("str")
}

// Array is the value of an ArrayType.
func (v Value) Array() (Array, error) {
	if v.set && v.typ == ArrayType {
		return Array{v.arr}, nil
	}
	return Array{}, v.wrong("an array")
}

// Any is the value as a plain Go value (uint8 ... float64, bool, string, []any), for JSON and printing; nil for the zero Value.
// Floats may be infinite or not a number, and strings may hold any bytes: what JSON cannot hold is the caller's to replace.
func (v Value) Any() any {
	if !v.set {
		return nil
	}
	switch v.typ {
	case Uint8:
		return uint8(v.num)
	case Int8:
		return int8(v.num)
	case Uint16:
		return uint16(v.num)
	case Int16:
		return int16(v.num)
	case Uint32:
		return uint32(v.num)
	case Int32:
		return int32(v.num)
	case Uint64:
		return v.num
	case Int64:
		return int64(v.num)
	case Float32:
		return math.Float32frombits(uint32(v.num))
	case Float64:
		return math.Float64frombits(v.num)
	case Bool:
		return v.num != 0
	case String:
		return v.str
	}
	out := make([]any, 0, v.arr.n)
	for _, e := range (Array{v.arr}).All() {
		out = append(out, e.Any())
	}
	return out
}

// Equal reports whether two values have the same type and the same stored contents, whatever the byte order they were
// read in. Floats are compared by their bits, so NaN equals itself and 0 does not equal -0.
func (v Value) Equal(o Value) bool {
	if v.set != o.set || v.typ != o.typ || v.num != o.num || v.str != o.str {
		return false
	}
	if v.arr == nil || o.arr == nil {
		return v.arr == o.arr
	}
	if v.arr.elem != o.arr.elem || v.arr.n != o.arr.n {
		return false
	}
	return bytes.Equal(v.arr.encode(nil, current), o.arr.encode(nil, current))
}
