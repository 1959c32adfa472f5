package infer

import (
	"github.com/ggufkit/ggufkit/internal/par"
	"github.com/ggufkit/ggufkit/quantize/block"
)

const (
	// panelRows is how many weight rows are decoded at once, to be used for all rows of the input; a multiple of the tile's height.
	panelRows = 16
	// panelBatch is the number of input rows from which decoding pays in fast precision. Below, rows are multiplied as they are stored.
	panelBatch = 4
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

// panel decodes the rows and multiplies them with all rows of x, tile by tile.
func (j *job) panel(s *scratch, x *matrix) {
	k := j.w.width
	s.panel = grow(s.panel, panelRows*k)
	j.w.codec.Decode(s.panel[:(j.hi-j.lo)*k], j.w.stored(j.lo, j.hi))
	var tile [2 * tileRows]float32
	for i := 0; i < x.rows; i += 2 {
		for r := j.lo; r < j.hi; r += tileRows {
			w := s.panel[(r-j.lo)*k:]
			tile = [2 * tileRows]float32{}
			if i+1 < x.rows {
				tile4x2(&tile, w, k, x.row(i), x.row(i+1))
				j.store(tile[tileRows:], i+1, r)
			} else {
				tile4x1((*[tileRows]float32)(tile[:]), w, k, x.row(i))
			}
			j.store(tile[:tileRows], i, r)
		}
	}
}

// store writes a tile's column into row i of the result, from element r on.
func (j *job) store(y []float32, i, r int) {
	dst := j.dst.row(i)[r:min(r+tileRows, j.hi)]
	for n := range dst {
		v := y[n]
		if j.bias != nil {
			v += j.bias[r+n]
		}
		dst[n] = v
	}
}
