package gguf

import (
	"fmt"
	"iter"
	"reflect"
)

// array holds the elements as they are encoded: for an array that was read, a view of the file.
type array struct {
	elem ValueType
	n    int
	data []byte
	enc  encoding
	// marks[i] is the offset in data of element i*markStride, for elements whose size varies.
	marks []int
}

// markStride is how many elements of varying size are passed over, at most, to reach one of them.
const markStride = 32

// NewArray makes an array of scalars. The elements are copied.
func NewArray[T Scalar](v []T) Value {
	t := kindTypes[reflect.TypeFor[T]().Kind()]
	a := &array{elem: t, n: len(v), enc: current}
	rv := reflect.ValueOf(v)
	for i := range v {
		a.mark(i)
		e := rv.Index(i)
		if t == String {
			a.data = current.appendString(a.data, e.String())
		} else {
			a.data = current.appendBits(a.data, t, bitsOf(t, e))
		}
	}
	return Value{typ: ArrayType, set: true, arr: a}
}

// NewNested makes an array of arrays (or of any values of one type). An empty list has no element type and is refused:
// NewArray makes empty arrays.
func NewNested(v []Value) (Value, error) {
	if len(v) == 0 {
		return Value{}, fmt.Errorf("%w: an empty list has no element type", ErrValueType)
	}
	a := &array{elem: v[0].typ, n: len(v), enc: current}
	for i, e := range v {
		if !e.set || e.typ != a.elem {
			return Value{}, fmt.Errorf("%w: element %d is %s, element 0 is %s", ErrValueType, i, e.TypeName(), v[0].TypeName())
		}
		a.mark(i)
		a.data = current.appendValue(a.data, e)
	}
	out := Value{typ: ArrayType, set: true, arr: a}
	if d := out.depth(); d > MaxDepth {
		return Value{}, fmt.Errorf("%w: arrays nested %d deep, at most %d", ErrLimit, d, MaxDepth)
	}
	return out, nil
}

// depth is how deep arrays are nested in v: 0 for a scalar.
func (v Value) depth() int {
	if v.typ != ArrayType {
		return 0
	}
	d := 0
	if v.arr.elem == ArrayType {
		for _, e := range (Array{v.arr}).All() {
			d = max(d, e.depth())
		}
	}
	return d + 1
}

// listed is the number of elements in v, those of arrays in arrays and the inner arrays themselves included.
func (v Value) listed() int {
	if v.typ != ArrayType {
		return 0
	}
	n := v.arr.n
	if v.arr.elem == ArrayType {
		for _, e := range (Array{v.arr}).All() {
			n += e.listed()
		}
	}
	return n
}

// mark notes where element i begins, which is the end of data now.
func (a *array) mark(i int) {
	if a.elem.size() == 0 && i%markStride == 0 {
		a.marks = append(a.marks, len(a.data))
	}
}

// elemName names the type of the elements.
func (a *array) elemName() string {
	if a.elem != ArrayType {
		return a.elem.String()
	}
	if a.n == 0 {
		return "[]"
	}
	first, err := Array{a}.At(0)
	if err != nil {
		return "[]"
	}
	return first.TypeName()
}

// at gives a decoder that stands before element i, which must exist.
func (a *array) at(i int) (*decoder, error) {
	d := &decoder{buf: a.data, size: uint64(len(a.data)), enc: a.enc}
	if s := a.elem.size(); s > 0 {
		d.pos = i * s
		return d, nil
	}
	d.pos = a.marks[i/markStride]
	for range i % markStride {
		if err := d.skip(a.elem, 1); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// encode appends the elements in another encoding.
func (a *array) encode(dst []byte, to encoding) []byte {
	if a.enc == to {
		return append(dst, a.data...)
	}
	for _, e := range (Array{a}).All() {
		dst = to.appendValue(dst, e)
	}
	return dst
}

// Array is a view of an array value. Arrays read from a file are decoded on demand, from the file's mapping: they must
// not be used after the file is closed. The zero Array is empty.
type Array struct{ a *array }

// Len is the number of elements.
func (a Array) Len() int {
	if a.a == nil {
		return 0
	}
	return a.a.n
}

// Elem is the type of the elements.
func (a Array) Elem() ValueType {
	if a.a == nil {
		return 0
	}
	return a.a.elem
}

// At is element i. For many elements in order, All is faster.
func (a Array) At(i int) (Value, error) {
	if i < 0 || i >= a.Len() {
		return Value{}, fmt.Errorf("%w: element %d of an array of %d", ErrLimit, i, a.Len())
	}
	d, err := a.a.at(i)
	if err != nil {
		return Value{}, err
	}
	return d.value(a.a.elem, 1)
}

// All yields index and value of each element.
func (a Array) All() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if a.Len() == 0 {
			return
		}
		d, err := a.a.at(0)
		for i := 0; i < a.a.n && err == nil; i++ {
			var v Value
			if v, err = d.value(a.a.elem, 1); err != nil || !yield(i, v) {
				return
			}
		}
	}
}

// wrong is the error of a getter that met other elements.
func (a Array) wrong(want string) error {
	return fmt.Errorf("%w: it is %s, wanted %s", ErrValueType, Value{typ: ArrayType, set: true, arr: a.a}.TypeName(), want)
}

// Strings decodes an array of strings.
func (a Array) Strings() ([]string, error) {
	if a.a == nil || a.a.elem != String {
		return nil, a.wrong("[]str")
	}
	// One copy of all bytes; the strings are parts of it.
	text := string(a.a.data)
	out := make([]string, a.a.n)
	d := &decoder{buf: a.a.data, size: uint64(len(a.a.data)), enc: a.a.enc}
	for i := range out {
		first, last, err := d.text()
		if err != nil {
			return nil, err
		}
		out[i] = text[first:last]
	}
	return out, nil
}

// Ints decodes an array of any integer type; a number over 63 bits is ErrValue.
func (a Array) Ints() ([]int64, error) {
	if a.a == nil || !a.a.elem.signed() && !a.a.elem.unsigned() {
		return nil, a.wrong("integers")
	}
	return collect(a, Value.Int)
}

// Floats decodes an array of Float32 or Float64.
func (a Array) Floats() ([]float64, error) {
	if a.a == nil || a.a.elem != Float32 && a.a.elem != Float64 {
		return nil, a.wrong("[]f32 or []f64")
	}
	return collect(a, Value.Float)
}

// Bools decodes an array of Bool.
func (a Array) Bools() ([]bool, error) {
	if a.a == nil || a.a.elem != Bool {
		return nil, a.wrong("[]bool")
	}
	return collect(a, Value.Bool)
}

// collect decodes every element with get.
func collect[T any](a Array, get func(Value) (T, error)) ([]T, error) {
	out := make([]T, 0, a.Len())
	for i, v := range a.All() {
		x, err := get(v)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		out = append(out, x)
	}
	return out, nil
}
