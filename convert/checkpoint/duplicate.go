package checkpoint

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/ggufkit/ggufkit/internal/half"
)

// add takes a tensor into the checkpoint. Of one that is there already the copy that the index points to is kept, if both agree.
func (c *Checkpoint) add(t Tensor, index map[string]string) error {
	i, twice := c.byName[t.Name]
	if !twice {
		c.byName[t.Name] = len(c.Tensors)
		c.Tensors = append(c.Tensors, t)
		return nil
	}
	old := c.Tensors[i]
	if !sameValues(&old, &t) {
		return fmt.Errorf("%w: tensor %q: %s %v in %s, %s %v in %s\nhint: remove one of the files, or name the right one in the index",
			ErrConflict, t.Name, old.DType, old.Shape, old.File, t.DType, t.Shape, t.File)
	}
	kept, dropped := old, t
	if index[t.Name] == t.File {
		kept, dropped = t, old
		// The order is that of files, so the kept copy goes to the end.
		c.Tensors = append(slices.Delete(c.Tensors, i, i+1), t)
		for j := i; j < len(c.Tensors); j++ {
			c.byName[c.Tensors[j].Name] = j
		}
	}
	c.Notes = append(c.Notes, fmt.Sprintf("tensor %q is there twice with equal values: %s of %s is used, %s of %s is not",
		t.Name, kept.DType, kept.File, dropped.DType, dropped.File))
	return nil
}

// compareChunk is how many elements are compared at a time.
const compareChunk = 1 << 14

// sameValues reports whether two tensors have one shape and the same elements, bit for bit or after rounding the one of the wider
// type to the narrower.
func sameValues(a, b *Tensor) bool {
	if !slices.Equal(a.Shape, b.Shape) {
		return false
	}
	if a.DType == b.DType {
		return bytes.Equal(a.data, b.data)
	}
	if !a.DType.Widens() || !b.DType.Widens() {
		return false
	}
	n, _ := elements(a.Shape)
	round := rounding(a.DType, b.DType)
	x, y := make([]float32, min(n, compareChunk)), make([]float32, min(n, compareChunk))
	for lo := uint64(0); lo < n; lo += compareChunk {
		hi := min(lo+compareChunk, n)
		x, y = x[:hi-lo], y[:hi-lo]
		decodeRange(a, lo, hi, x)
		decodeRange(b, lo, hi, y)
		for i := range x {
			if math.Float32bits(round(x[i])) != math.Float32bits(round(y[i])) {
				return false
			}
		}
	}
	return true
}

// decodeRange decodes elements [lo, hi) whatever the rows.
func decodeRange(t *Tensor, lo, hi uint64, dst []float32) {
	info := dtypes[t.DType]
	size := info.bits / 8
	info.decode(dst, t.data[lo*size:hi*size])
}

// rounding is the rounding to the narrower of two element types; to float32 where neither is a 16-bit float.
func rounding(a, b DType) func(float32) float32 {
	wide := func(d DType) bool { return d == F32 || d == F64 }
	switch {
	case a == BF16 && wide(b), b == BF16 && wide(a):
		return func(f float32) float32 { return half.BF16ToF32(half.F32ToBF16(f)) }
	case a == F16 && wide(b), b == F16 && wide(a):
		return func(f float32) float32 { return half.F16ToF32(half.F32ToF16(f)) }
	}
	return func(f float32) float32 { return f }
}
