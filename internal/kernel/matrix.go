package kernel

import (
	"fmt"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// Matrix is a weight matrix in the bytes of its tensor, row after row. Nothing is converted or copied.
type Matrix struct {
	typ     gguf.Type
	info    gguf.TypeInfo
	rows, k int
	data    []byte
	stride  int // bytes of a row
	blocks  int // in a row
	codec   *block.Codec
}

// New wraps rows*k elements of type t. data must stay valid, and unchanged, as long as the matrix is used.
func New(t gguf.Type, data []byte, rows, k int) (*Matrix, error) {
	codec, err := block.ForType(t)
	if err != nil {
		return nil, err
	}
	if rows < 1 || k < 1 {
		return nil, fmt.Errorf("%w: %d rows of %d elements", gguf.ErrShape, rows, k)
	}
	stride, err := t.RowBytes(uint64(k))
	if err != nil {
		return nil, err
	}
	if uint64(len(data))/uint64(rows) < stride {
		return nil, fmt.Errorf("%w: %d bytes for %d rows of %d %s elements", gguf.ErrShape, len(data), rows, k, t)
	}
	info, _ := t.Info()
	return &Matrix{
		typ: t, info: info, rows: rows, k: k, codec: codec,
		data: data[:rows*int(stride)], stride: int(stride), blocks: k / int(info.Block),
	}, nil
}

// Size is the length of a row and the number of rows.
func (m *Matrix) Size() (k, rows int) { return m.k, m.rows }

// Row widens row i into dst, k values.
func (m *Matrix) Row(dst []float32, i int) { m.codec.Decode(dst[:m.k], m.stored(i, 1)) }

// stored is the bytes of n rows from row i on.
func (m *Matrix) stored(i, n int) []byte { return m.data[i*m.stride:][:n*m.stride] }

// floats reports whether the elements are floating-point numbers of their own.
func (m *Matrix) floats() bool {
	_, ok := floatCodecs[m.typ]
	return ok
}
