package infer

import (
	"fmt"
	"slices"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/kernel"
	"github.com/ggufkit/ggufkit/internal/par"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// cpu is the backend that computes with package kernel. Every element of a result is computed by one thread with its additions in an
// order that depends on nothing but the operation, so threads never change a bit; in exact precision neither does the number of rows.
type cpu struct {
	exact    bool
	cache    gguf.Type // of keys and values
	system   system
	pages    *pageLayout // of the last memory that was made
	pool     *par.Pool
	mul      *kernel.Multiplier
	products []kernel.Product // of the product at hand
	workers  []scratch        // by worker

	// The operation at hand, for the loops that the threads share: these are bound once, as otherwise each operation would allocate.
	rows      rowOperation
	attention attention
	loops     struct {
		norm, rope, activate, add, scale, softcap, put, merge func(worker, lo, hi int)
		embed, attend                                         func(worker, i int)
	}
}

// newCPU makes a backend with the precision, the threads and the type of cache that the options name.
func newCPU(o *Options) *cpu {
	pool := kernel.NewPool(o.Threads)
	exact := o.Precision == Exact
	c := &cpu{
		exact: exact, cache: o.cacheType(), system: o.machine(), pool: pool, mul: kernel.NewMultiplier(pool, exact), workers: make([]scratch, pool.Threads()),
	}
	c.loops.norm, c.loops.rope, c.loops.activate, c.loops.add = c.normRows, c.ropeRows, c.activatePiece, c.addPiece
	c.loops.scale, c.loops.softcap, c.loops.embed = c.scalePiece, c.softcapPiece, c.embedRow
	c.loops.put, c.loops.attend, c.loops.merge = c.put, c.attendJob, c.merge
	return c
}

func (c *cpu) Close() error {
	c.pool.Close()
	return nil
}

// matrix is the Buffer of this backend.
type matrix struct {
	rows, width int
	data        []float32
}

func (m *matrix) Shape() (rows, width int) { return m.rows, m.width }

// row is row i.
func (m *matrix) row(i int) []float32 { return m.data[i*m.width:][:m.width:m.width] }

// reshape gives m a new shape. What it holds is kept only if the shape stays the same.
func (m *matrix) reshape(rows, width int) {
	m.rows, m.width = rows, width
	m.data = grow(m.data, rows*width)
}

// grow returns a slice of n elements, s itself if it has room.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// mat is the matrix behind a buffer of this backend.
func mat(b Buffer) *matrix { return b.(*matrix) }

// tensor is the Weight of this backend.
type tensor struct {
	width, rows int
	matrix      *kernel.Matrix // in the mapping of the file; nil for a vector
	// vector is a tensor of one dimension, widened (norms and biases; some kilobytes).
	vector []float32
}

func (t *tensor) Size() (width, rows int) { return t.width, t.rows }

// vec is the values of a tensor of one dimension, nil for no tensor.
func vec(w Weight) []float32 {
	if w == nil {
		return nil
	}
	return w.(*tensor).vector
}

func (c *cpu) Bind(t *gguf.Tensor, data []byte) (Weight, error) {
	out := &tensor{width: int(t.Shape[0]), rows: int(t.Rows())}
	switch len(t.Shape) {
	case 1:
		codec, err := block.ForType(t.Type)
		if err != nil {
			return nil, err
		}
		out.vector = make([]float32, out.width)
		codec.Decode(out.vector, data)
	case 2:
		var err error
		if out.matrix, err = kernel.New(t.Type, data, out.rows, out.width); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%w: %d dimensions, expected 1 or 2", gguf.ErrShape, len(t.Shape))
	}
	return out, nil
}

func (c *cpu) NewBuffer() Buffer { return &matrix{} }

func (c *cpu) NewState(layers []CacheShape) (State, error) {
	if c.pages == nil || !slices.Equal(c.pages.layers, layers) {
		c.pages = newPageLayout(layers, c.cache, c.system.checkPages)
	}
	return &paged{layout: c.pages}, nil
}

func (c *cpu) Upload(dst Buffer, width int, values []float32) {
	d := mat(dst)
	d.reshape(len(values)/width, width)
	copy(d.data, values)
}

func (c *cpu) SetRow(dst Buffer, row int, values []float32) { copy(mat(dst).row(row), values) }

func (c *cpu) Embed(dst Buffer, table Weight, ids []int32) {
	d, t := mat(dst), table.(*tensor)
	d.reshape(len(ids), t.width)
	c.rows = rowOperation{dst: d, table: t, ids: ids}
	c.pool.For(len(ids), c.loops.embed)
}

func (c *cpu) embedRow(_, i int) { c.rows.table.matrix.Row(c.rows.dst.row(i), int(c.rows.ids[i])) }

func (c *cpu) Gather(dst, x Buffer, rows []int) {
	d, s := mat(dst), mat(x)
	d.reshape(len(rows), s.width)
	for i, r := range rows {
		copy(d.row(i), s.row(r))
	}
}

func (c *cpu) Read(x Buffer) ([]float32, error) { return mat(x).data, nil }

func (c *cpu) For(n int, f func(worker, i int)) { c.pool.For(n, f) }
