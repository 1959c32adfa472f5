package infer

import "github.com/ggufkit/ggufkit/internal/kernel"

// rowGrain is how many rows a thread takes at a time in operations that work row by row.
const rowGrain = 8

func (c *cpu) Norm(dst, x Buffer, n *Norm) {
	d, s := mat(dst), mat(x)
	if d != s {
		d.reshape(s.rows, s.width)
	}
	weight, bias := vec(n.Weight), vec(n.Bias)
	c.pool.Ranges(s.rows, rowGrain, func(_, lo, hi int) {
		for i := lo * s.width; i < hi*s.width; i += len(weight) {
			y, x := d.data[i:][:len(weight)], s.data[i:][:len(weight)]
			if n.Layer {
				kernel.LayerNorm(y, x, weight, bias, n.Eps)
				continue
			}
			kernel.RMSNorm(y, x, weight, n.Eps)
			if bias != nil {
				kernel.Add(y, bias)
			}
		}
	})
}

func (c *cpu) Rope(x, angles Buffer, headDim int, pairs Pairing) {
	m, a := mat(x), mat(angles)
	half := a.width / 2
	turn := kernel.RopeAdjacent
	if pairs == Halves {
		turn = kernel.RopeHalves
	}
	c.pool.Ranges(m.rows, rowGrain, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			row, cos, sin := m.row(i), a.row(i)[:half], a.row(i)[half:]
			for ; len(row) > 0; row = row[headDim:] {
				turn(row, cos, sin)
			}
		}
	})
}

func (c *cpu) Activate(x, up Buffer, f Activation) {
	apply := kernel.SiLU
	switch f {
	case GELU:
		apply = kernel.GELU
	case GELUTanh:
		apply = kernel.GELUTanh
	}
	c.each(x, func(v []float32, at int) {
		apply(v, v)
		if up != nil {
			kernel.Mul(v, mat(up).data[at:][:len(v)])
		}
	})
}

func (c *cpu) Add(dst, x Buffer) {
	c.each(dst, func(v []float32, at int) { kernel.Add(v, mat(x).data[at:][:len(v)]) })
}

func (c *cpu) Scale(x Buffer, factor float32) {
	c.each(x, func(v []float32, _ int) {
		for i := range v {
			v[i] *= factor
		}
	})
}

func (c *cpu) Softcap(x Buffer, limit float32) {
	c.each(x, func(v []float32, _ int) { kernel.Softcap(v, v, limit) })
}

// elementGrain is how many elements a thread takes at a time in operations on single elements.
const elementGrain = 1 << 12

// each calls f for pieces of x; at is where a piece starts.
func (c *cpu) each(x Buffer, f func(v []float32, at int)) {
	data := mat(x).data
	c.pool.Ranges(len(data), elementGrain, func(_, lo, hi int) { f(data[lo:hi], lo) })
}
