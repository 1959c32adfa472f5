package infer

import "github.com/ggufkit/ggufkit/internal/kernel"

const (
	// rowGrain is how many rows a thread takes at a time in operations that work row by row.
	rowGrain = 8
	// elementGrain is how many elements a thread takes at a time in operations on single elements.
	elementGrain = 1 << 12
)

// rowOperation is the operands of an operation on rows or elements.
type rowOperation struct {
	dst, src     *matrix
	table        *tensor
	ids          []int32
	norm         *Norm
	weight, bias []float32
	headDim      int
	turn         func(x, cos, sin []float32)
	apply        func(dst, src []float32)
	factor       float32
}

func (c *cpu) Norm(dst, x Buffer, n *Norm) {
	d, s := mat(dst), mat(x)
	if d != s {
		d.reshape(s.rows, s.width)
	}
	c.rows = rowOperation{dst: d, src: s, norm: n, weight: vec(n.Weight), bias: vec(n.Bias)}
	c.pool.Ranges(s.rows, rowGrain, c.loops.norm)
}

func (c *cpu) normRows(_, lo, hi int) {
	o := &c.rows
	width := len(o.weight)
	for i := lo * o.src.width; i < hi*o.src.width; i += width {
		y, x := o.dst.data[i:][:width], o.src.data[i:][:width]
		if o.norm.Layer {
			kernel.LayerNorm(y, x, o.weight, o.bias, o.norm.Eps)
			continue
		}
		kernel.RMSNorm(y, x, o.weight, o.norm.Eps)
		if o.bias != nil {
			kernel.Add(y, o.bias)
		}
	}
}

func (c *cpu) Rope(x, angles Buffer, headDim int, pairs Pairing) {
	c.rows = rowOperation{dst: mat(x), src: mat(angles), headDim: headDim, turn: kernel.RopeAdjacent}
	if pairs == Halves {
		c.rows.turn = kernel.RopeHalves
	}
	c.pool.Ranges(c.rows.dst.rows, rowGrain, c.loops.rope)
}

func (c *cpu) ropeRows(_, lo, hi int) {
	o := &c.rows
	half := o.src.width / 2
	for i := lo; i < hi; i++ {
		row, angles := o.dst.row(i), o.src.row(i)
		for ; len(row) > 0; row = row[o.headDim:] {
			o.turn(row, angles[:half], angles[half:])
		}
	}
}

func (c *cpu) Activate(x, up Buffer, f Activation) {
	o := rowOperation{apply: kernel.SiLU}
	switch f {
	case GELU:
		o.apply = kernel.GELU
	case GELUTanh:
		o.apply = kernel.GELUTanh
	}
	if up != nil {
		o.src = mat(up)
	}
	c.each(x, o, c.loops.activate)
}

func (c *cpu) activatePiece(_, lo, hi int) {
	v := c.rows.dst.data[lo:hi]
	c.rows.apply(v, v)
	if c.rows.src != nil {
		kernel.Mul(v, c.rows.src.data[lo:hi])
	}
}

func (c *cpu) Add(dst, x Buffer) { c.each(dst, rowOperation{src: mat(x)}, c.loops.add) }

func (c *cpu) addPiece(_, lo, hi int) { kernel.Add(c.rows.dst.data[lo:hi], c.rows.src.data[lo:hi]) }

func (c *cpu) Scale(x Buffer, factor float32) {
	c.each(x, rowOperation{factor: factor}, c.loops.scale)
}

func (c *cpu) scalePiece(_, lo, hi int) {
	v := c.rows.dst.data[lo:hi]
	for i := range v {
		v[i] *= c.rows.factor
	}
}

func (c *cpu) Softcap(x Buffer, limit float32) {
	c.each(x, rowOperation{factor: limit}, c.loops.softcap)
}

func (c *cpu) softcapPiece(_, lo, hi int) {
	v := c.rows.dst.data[lo:hi]
	kernel.Softcap(v, v, c.rows.factor)
}

// each runs a loop over the elements of x, with the other operands in o.
func (c *cpu) each(x Buffer, o rowOperation, loop func(worker, lo, hi int)) {
	o.dst = mat(x)
	c.rows = o
	c.pool.Ranges(len(o.dst.data), elementGrain, loop)
}
