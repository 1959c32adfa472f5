package gguf

import "errors"

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

// Scalar lists the Go types that map one to one to scalar value types.
type Scalar interface {
	~uint8 | ~int8 | ~uint16 | ~int16 | ~uint32 | ~int32 | ~uint64 | ~int64 | ~float32 | ~float64 | ~bool | ~string
}

var errTODO = errors.New("not implemented")

// Value is one typed metadata value. The zero Value is invalid.
type Value struct {
	typ ValueType
}

// New makes a scalar value; its value type follows from the Go type.
func New[T Scalar](v T) Value { return Value{} }

// NewArray makes an array of scalars.
func NewArray[T Scalar](v []T) Value { return Value{} }

// NewNested makes an array of arrays (or of any values of one type).
func NewNested(v []Value) (Value, error) { return Value{}, errTODO }

// ParseValue reads the text form that the command line takes ("10000", "true", "[1,2]") as a value of type t
// (elem is the element type when t is ArrayType).
func ParseValue(t, elem ValueType, text string) (Value, error) { return Value{}, errTODO }

// Type is the value's type.
func (v Value) Type() ValueType { return v.typ }

// Uint is the value of any integer type, if not negative.
func (v Value) Uint() (uint64, error) { return 0, errTODO }

// Int is the value of any integer type, if it fits.
func (v Value) Int() (int64, error) { return 0, errTODO }

// Float is the value of a Float32 or Float64.
func (v Value) Float() (float64, error) { return 0, errTODO }

// Bool is the value of a Bool.
func (v Value) Bool() (bool, error) { return false, errTODO }

// Str is the value of a String, as stored (it may hold any bytes).
func (v Value) Str() (string, error) { return "", errTODO }

// Array is the value of an ArrayType.
func (v Value) Array() (Array, error) { return Array{}, errTODO }

// Any is the value as a plain Go value (uint8 ... float64, bool, string, []any), for JSON and printing.
func (v Value) Any() any { return nil }

// Array is a view of an array value. Arrays read from a file are decoded on demand.
type Array struct{}

// Len is the number of elements.
func (a Array) Len() int { return 0 }

// Elem is the type of the elements.
func (a Array) Elem() ValueType { return 0 }

// At is element i.
func (a Array) At(i int) (Value, error) { return Value{}, errTODO }

// Strings decodes an array of strings.
func (a Array) Strings() ([]string, error) { return nil, errTODO }

// Ints decodes an array of any integer type.
func (a Array) Ints() ([]int64, error) { return nil, errTODO }

// Floats decodes an array of Float32 or Float64.
func (a Array) Floats() ([]float64, error) { return nil, errTODO }

// Bools decodes an array of Bool.
func (a Array) Bools() ([]bool, error) { return nil, errTODO }
