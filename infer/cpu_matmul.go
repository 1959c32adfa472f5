package infer

import (
	"github.com/ggufkit/ggufkit/internal/par"
	"github.com/ggufkit/ggufkit/quantize/block"
)

const (
	// panelRows is how many weight rows are decoded at once, to be used for all rows of the input; a multiple of the tile's height.
	panelRows = 16
	// panelBatch is the number of input rows from which decoding pays in fast precision. Below, rows are multiplied as they are stored.
	panelBatch = 12
)

// job is rows [lo, hi) of one of several products.
type job struct {
	w      *tensor
	bias   []float32
	dst    *matrix
	lo, hi int
}

func (c *cpu) MatMul(x Buffer, out ...Product) {
	in := mat(x)
	var jobs []job
	quantized := false
	for _, p := range out {
		w, dst := p.Weight.(*tensor), mat(p.Dst)
		dst.reshape(in.rows, w.rows)
		for lo := 0; lo < w.rows; lo += panelRows {
			jobs = append(jobs, job{w: w, bias: vec(p.Bias), dst: dst, lo: lo, hi: min(lo+panelRows, w.rows)})
		}
		quantized = quantized || w.codec.Dot != nil
	}
	rounded := in
	if quantized && !c.exact {
		c.quantize(in)
		rounded = &c.rounded
	}
	par.For(c.threads, len(jobs), func(worker, i int) {
		j := &jobs[i]
		switch {
		case c.exact || j.w.codec.Dot == nil:
			j.panel(&c.workers[worker], in)
		case in.rows < panelBatch:
			j.dots(c.acts[:in.rows])
		default:
			j.panel(&c.workers[worker], rounded)
		}
	})
}

// quantize rounds the rows of a product's input to 8 bits, and widens them again where they will meet decoded weights.
func (c *cpu) quantize(x *matrix) {
	for len(c.acts) < x.rows {
		c.acts = append(c.acts, block.Activations{})
	}
	widen := x.rows >= panelBatch
	if widen {
		c.rounded.reshape(x.rows, x.width)
	}
	par.For(c.threads, x.rows, func(_, i int) {
		a := &c.acts[i]
		a.Quantize(x.row(i))
		if widen {
			row := c.rounded.row(i)
			for k, q := range a.Q[:len(row)] {
				row[k] = float32(q) * a.Scale[k/32]
			}
		}
	})
}

// dots multiplies stored rows with activations in 8 bits.
func (j *job) dots(x []block.Activations) {
	for r := j.lo; r < j.hi; r++ {
		row := j.w.stored(r, r+1)
		for i := range x {
			y := j.w.codec.Dot(row, &x[i])
			if j.bias != nil {
				y += j.bias[r]
			}
			j.dst.row(i)[r] = y
		}
	}
}

// panel decodes the rows and multiplies them with all rows of x.
func (j *job) panel(s *scratch, x *matrix) {
	k := j.w.width
	s.panel = grow(s.panel, panelRows*k)
	j.w.codec.Decode(s.panel[:(j.hi-j.lo)*k], j.w.stored(j.lo, j.hi))
	s.multiply(s.panel, roundUp(j.hi-j.lo, tileRows), x.rows, x.row, j.store)
}

// store writes products of row i of the input, from row r of the panel on, without those beyond the last row.
func (j *job) store(i, r int, y []float32) {
	r += j.lo
	dst := j.dst.row(i)
	for _, v := range y[:min(len(y), max(j.hi-r, 0))] {
		if j.bias != nil {
			v += j.bias[r]
		}
		dst[r] = v
		r++
	}
}
