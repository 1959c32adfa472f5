package checkpoint

import (
	"fmt"
	"math/bits"

	"github.com/ggufkit/ggufkit/internal/mmap"
)

// Rows is the number of rows: the first dimension, but 1 for a tensor of one dimension and for a scalar.
func (t *Tensor) Rows() uint64 {
	if len(t.Shape) < 2 {
		return 1
	}
	return t.Shape[0]
}

// RowLen is the number of elements of a row: the product of all dimensions but the first. A tensor without elements has 0.
func (t *Tensor) RowLen() uint64 {
	// The header scan has checked that the product of all dimensions fits; that of some of them may not where another is 0.
	n, _ := elements(t.Shape)
	if n == 0 {
		return 0
	}
	return n / t.Rows()
}

// ReadRows decodes rows [lo, hi) of a tensor into dst as float32. A row is the product of all dimensions but the first;
// a one-dimensional tensor is one row. len(dst) is (hi-lo) times the row length.
//
// F16, BF16, booleans and integers below 2^24 are exact; F64 and longer integers are rounded to nearest even. Types that mean
// nothing without a scale (F8, F4 ...) give ErrDType.
func (c *Checkpoint) ReadRows(t *Tensor, lo, hi uint64, dst []float32) error {
	decode := dtypes[t.DType].decode
	if decode == nil {
		return fmt.Errorf("%w\nhint: use the BF16 or F16 release of the model, or widen it first", t.errorf(ErrDType, "%s elements cannot be turned into numbers", t.DType))
	}
	raw, err := c.ReadRaw(t, lo, hi)
	if err != nil {
		return err
	}
	if over, n := bits.Mul64(hi-lo, t.RowLen()); over != 0 || n != uint64(len(dst)) {
		return t.errorf(ErrRange, "rows %d to %d do not fill a buffer of %d elements", lo, hi, len(dst))
	}
	decode(dst, raw)
	return nil
}

// ReadRaw is a view of the bytes of rows [lo, hi), little-endian as stored. It must not be written to, and is valid until Close.
func (c *Checkpoint) ReadRaw(t *Tensor, lo, hi uint64) ([]byte, error) {
	if t.file == nil {
		return nil, t.errorf(ErrRange, "the tensor is not part of an open checkpoint")
	}
	if lo > hi || hi > t.Rows() {
		return nil, t.errorf(ErrRange, "rows %d to %d of %d", lo, hi, t.Rows())
	}
	// Fits in 64 bits, since the bits of all rows do.
	rowBits := t.RowLen() * t.DType.Bits()
	if rowBits%8 != 0 {
		return nil, t.errorf(ErrDType, "a row of %d %s elements does not fill whole bytes", t.RowLen(), t.DType)
	}
	row := rowBits / 8
	return t.data[lo*row : hi*row : hi*row], nil
}

// Advise tells the kernel how the bytes of rows [lo, hi) will be read: mmap.WillNeed before, mmap.DontNeed after they are used, to
// keep memory low while a large checkpoint is read once.
func (c *Checkpoint) Advise(t *Tensor, lo, hi uint64, a mmap.Advice) error {
	raw, err := c.ReadRaw(t, lo, hi)
	if err != nil {
		return err
	}
	row := uint64(0)
	if n := t.Rows(); n != 0 {
		row = uint64(len(t.data)) / n
	}
	return t.file.m.Advise(int(t.offset+lo*row), len(raw), a)
}

// errorf wraps a sentinel with the place of the tensor.
func (t *Tensor) errorf(sentinel error, format string, args ...any) error {
	return fmt.Errorf("%s: tensor %q: %w: %s", t.File, t.Name, sentinel, fmt.Sprintf(format, args...))
}
