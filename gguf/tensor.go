package gguf

import (
	"fmt"
	"math/bits"
)

// Tensor describes one tensor of a file.
type Tensor struct {
	Name string
	Type Type
	// Shape is in GGUF order: Shape[0] is the row length. A scalar has shape [1].
	Shape []uint64
	// Offset of the data, from the start of the file's tensor data.
	Offset uint64
}

// Elements is the number of elements; it fails when the product exceeds MaxElements.
func (t *Tensor) Elements() (uint64, error) {
	n := uint64(1)
	for _, d := range t.Shape {
		hi, lo := bits.Mul64(n, d)
		if hi != 0 || lo > MaxElements {
			return 0, t.fault(fmt.Errorf("%w: shape %d", ErrOverflow, t.Shape))
		}
		n = lo
	}
	return n, nil
}

// Bytes is the storage size of the tensor.
func (t *Tensor) Bytes() (uint64, error) {
	if len(t.Shape) == 0 {
		return 0, t.fault(fmt.Errorf("%w: no dimensions", ErrShape))
	}
	row, err := t.Type.RowBytes(t.Shape[0])
	if err != nil {
		return 0, t.fault(err)
	}
	if _, err := t.Elements(); err != nil {
		return 0, err
	}
	hi, lo := bits.Mul64(row, t.Rows())
	if hi != 0 || lo > MaxElements {
		return 0, t.fault(fmt.Errorf("%w: shape %d of %s", ErrOverflow, t.Shape, t.Type))
	}
	return lo, nil
}

// Rows is the number of rows of length Shape[0]. The tensor must be a valid one: of a file that Open accepted, or one
// whose Elements succeeded.
func (t *Tensor) Rows() uint64 {
	n := uint64(1)
	for _, d := range t.Shape[min(1, len(t.Shape)):] {
		n *= d
	}
	return n
}

// fault is the error for the tensor.
func (t *Tensor) fault(err error) error {
	return &Error{Where: tensorPlace(t.Name), Offset: noOffset, Err: err}
}

// check tells whether the description is one that may be read and written: name, dimensions, type, size.
func (t *Tensor) check() error {
	if len(t.Name) > MaxTensorName {
		return fmt.Errorf("%w: the name has %d bytes, at most %d", ErrLimit, len(t.Name), MaxTensorName)
	}
	if len(t.Shape) < 1 || len(t.Shape) > MaxDims {
		return fmt.Errorf("%w: %d dimensions, must be 1 to %d", ErrShape, len(t.Shape), MaxDims)
	}
	for _, d := range t.Shape {
		if d == 0 {
			return fmt.Errorf("%w: %d has an empty dimension", ErrShape, t.Shape)
		}
	}
	_, err := t.Bytes()
	return bare(err)
}

// bare takes off the place that an *Error adds.
func bare(err error) error {
	if e, ok := err.(*Error); ok {
		return e.Err
	}
	return err
}
