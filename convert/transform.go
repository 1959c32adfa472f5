package convert

import (
	"fmt"

	"github.com/ggufkit/ggufkit/convert/checkpoint"
	"github.com/ggufkit/ggufkit/internal/mmap"
)

// rowReader fills dst with rows [lo, hi) of a tensor of the output. It may be called for several rows at once.
type rowReader func(lo, hi uint64, dst []float32) error

// transforms are the names that tensor rules may use.
const (
	permuteQ  = "permute_q"
	permuteK  = "permute_k"
	ropeFreqs = "rope_freqs"
)

// permutation reorders the rows of each head from halves (Hugging Face: element i turns with i + d/2) to adjacent pairs (GGUF:
// 2i with 2i+1). For a bias, elements are reordered instead. A nil permutation changes nothing.
type permutation struct {
	dim uint64 // rows of a head, even
}

// newPermutation spreads rows over heads.
func newPermutation(rows uint64, heads int) (*permutation, error) {
	if heads < 1 || rows%(2*uint64(heads)) != 0 {
		return nil, fmt.Errorf("%d rows cannot be spread over %d heads of even length", rows, heads)
	}
	return &permutation{dim: rows / uint64(heads)}, nil
}

// source is the row of the checkpoint that becomes row r.
func (p *permutation) source(r uint64) uint64 {
	if p == nil {
		return r
	}
	i := r % p.dim
	return r - i + i%2*(p.dim/2) + i/2
}

// reader reads a tensor of the checkpoint through a permutation.
func (p *permutation) reader(c *checkpoint.Checkpoint, t *checkpoint.Tensor) rowReader {
	if p == nil {
		return func(lo, hi uint64, dst []float32) error {
			defer release(c, t, lo, hi)
			return c.ReadRows(t, lo, hi, dst)
		}
	}
	if len(t.Shape) < 2 {
		return func(_, _ uint64, dst []float32) error {
			src := make([]float32, len(dst))
			if err := c.ReadRows(t, 0, 1, src); err != nil {
				return err
			}
			for i := range dst {
				dst[i] = src[p.source(uint64(i))]
			}
			return nil
		}
	}
	return func(lo, hi uint64, dst []float32) error {
		defer release(c, t, lo, hi) // not exactly the rows that were read, but most of them
		rowLen := uint64(len(dst)) / (hi - lo)
		for r := lo; r < hi; r++ {
			src := p.source(r)
			if err := c.ReadRows(t, src, src+1, dst[(r-lo)*rowLen:(r-lo+1)*rowLen]); err != nil {
				return err
			}
		}
		return nil
	}
}

// release tells the kernel that rows are done with, so that a large checkpoint does not fill the memory. It is advice: failure costs
// nothing.
func release(c *checkpoint.Checkpoint, t *checkpoint.Tensor, lo, hi uint64) {
	_ = c.Advise(t, lo, hi, mmap.DontNeed)
}

// valuesReader hands out a computed tensor of one row.
func valuesReader(values []float32) rowReader {
	return func(_, _ uint64, dst []float32) error {
		if copy(dst, values) != len(values) || len(dst) != len(values) {
			return fmt.Errorf("%d computed values for %d elements", len(values), len(dst))
		}
		return nil
	}
}
