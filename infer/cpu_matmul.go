package infer

import "github.com/ggufkit/ggufkit/internal/kernel"

func (c *cpu) MatMul(x Buffer, out ...Product) {
	in := mat(x)
	c.products = c.products[:0]
	for _, p := range out {
		w, dst := p.Weight.(*tensor), mat(p.Dst)
		dst.reshape(in.rows, w.rows)
		c.products = append(c.products, kernel.Product{W: w.matrix, Bias: vec(p.Bias), Y: dst.data})
	}
	c.mul.Mul(in.data, in.rows, c.products...)
}
