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
	addOne    = "add_one"
	transpose = "transpose"
	ropeFreqs = "rope_freqs"
	ropeLong  = "rope_factors_long"
	ropeShort = "rope_factors_short"
)

// computedFor says for which type of rope scaling a computed tensor is written.
var computedFor = map[string]string{ropeFreqs: "llama3", ropeLong: "longrope", ropeShort: "longrope"}

// source reads the rows of one tensor of the output.
type source struct {
	read rowReader
	// origin is the place in the checkpoint's tensor of an element of the output, by rows and columns.
	origin func(row, col uint64) (uint64, uint64)
}

func sameplace(row, col uint64) (uint64, uint64) { return row, col }

// source prepares the rows of a tensor.
func (p *Plan) source(t *PlannedTensor) (source, error) {
	if values := p.computed(t); values != nil {
		return source{valuesReader(values), sameplace}, nil
	}
	src := t.Sources[0]
	plain := source{plainReader(p.ckpt, src), sameplace}
	switch t.Transform {
	case "":
		return plain, nil
	case permuteQ:
		return permuted(p.ckpt, src, p.params.NHead[t.block])
	case permuteK:
		return permuted(p.ckpt, src, p.params.NHeadKV[t.block])
	case addOne:
		return source{plusOne(plain.read), sameplace}, nil
	case transpose:
		return source{transposeReader(p.ckpt, src), func(row, col uint64) (uint64, uint64) { return col, row }}, nil
	}
	return source{}, fmt.Errorf("unknown transform %s", t.Transform)
}

// computed are the values of a tensor without a source, or nil.
func (p *Plan) computed(t *PlannedTensor) []float32 {
	if t.Transform == ropeFreqs {
		return ropeFactors(p.rope, p.params.Rope.FreqBase, int(t.Shape[0]))
	}
	return p.rope.table(t.Transform)
}

// plainReader reads a tensor of the checkpoint as it stands.
func plainReader(c *checkpoint.Checkpoint, t *checkpoint.Tensor) rowReader {
	return func(lo, hi uint64, dst []float32) error {
		defer release(c, t, lo, hi)
		return c.ReadRows(t, lo, hi, dst)
	}
}

// plusOne adds 1 to every value: norms that multiply by 1+w are stored as w.
func plusOne(read rowReader) rowReader {
	return func(lo, hi uint64, dst []float32) error {
		if err := read(lo, hi, dst); err != nil {
			return err
		}
		for i := range dst {
			dst[i]++
		}
		return nil
	}
}

// transposeReader reads columns of a matrix as rows. Every slab goes through the whole matrix, a few rows at a time; matrices stored
// this way are small.
func transposeReader(c *checkpoint.Checkpoint, t *checkpoint.Tensor) rowReader {
	const elements = 1 << 16 // read at a time
	rows, cols := t.Rows(), t.RowLen()
	return func(lo, hi uint64, dst []float32) error {
		step := max(1, elements/cols)
		buf := make([]float32, min(step, rows)*cols)
		for r := uint64(0); r < rows; r += step {
			n := min(step, rows-r)
			if err := c.ReadRows(t, r, r+n, buf[:n*cols]); err != nil {
				return err
			}
			for i := range n {
				for col := lo; col < hi; col++ {
					dst[(col-lo)*rows+r+i] = buf[i*cols+col]
				}
			}
		}
		return nil
	}
}

// permuted reads a tensor whose rows, or for a bias whose elements, are reordered in each of heads.
func permuted(c *checkpoint.Checkpoint, t *checkpoint.Tensor, heads int) (source, error) {
	rows := t.Shape[0]
	if heads < 1 || rows%(2*uint64(heads)) != 0 {
		return source{}, fmt.Errorf("%d rows cannot be spread over %d heads of even length", rows, heads)
	}
	p := permutation{dim: rows / uint64(heads)}
	if len(t.Shape) < 2 {
		return source{p.elements(c, t), func(row, col uint64) (uint64, uint64) { return row, p.source(col) }}, nil
	}
	return source{p.rows(c, t), func(row, col uint64) (uint64, uint64) { return p.source(row), col }}, nil
}

// permutation reorders the rows of each head from halves (Hugging Face: element i turns with i + d/2) to adjacent pairs (GGUF:
// 2i with 2i+1).
type permutation struct {
	dim uint64 // rows of a head, even
}

// source is the row of the checkpoint that becomes row r.
func (p permutation) source(r uint64) uint64 {
	i := r % p.dim
	return r - i + i%2*(p.dim/2) + i/2
}

// elements reads a bias through the permutation.
func (p permutation) elements(c *checkpoint.Checkpoint, t *checkpoint.Tensor) rowReader {
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

// rows reads a matrix through the permutation.
func (p permutation) rows(c *checkpoint.Checkpoint, t *checkpoint.Tensor) rowReader {
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
