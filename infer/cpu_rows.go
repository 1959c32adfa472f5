package infer

import "math"

// rowGrain is how many rows a thread takes at a time in operations that work row by row.
const rowGrain = 8

// elementGrain is how many elements a thread takes at a time in operations on single elements.
const elementGrain = 1 << 14

func (c *cpu) Norm(dst, x Buffer, n *Norm) {
	d, s := mat(dst), mat(x)
	if d != s {
		d.reshape(s.rows, s.width)
	}
	weight, bias := vec(n.Weight), vec(n.Bias)
	normalize := rmsNorm
	if n.Layer {
		normalize = layerNorm
	}
	c.pool.Ranges(s.rows, rowGrain, func(_, lo, hi int) {
		for i := lo * s.width; i < hi*s.width; i += len(weight) {
			y := d.data[i:][:len(weight)]
			normalize(y, s.data[i:][:len(weight)], float64(n.Eps))
			for k, w := range weight {
				y[k] *= w
			}
			for k, b := range bias {
				y[k] += b
			}
		}
	})
}

// rmsNorm is x / sqrt(mean(x^2) + eps).
func rmsNorm(y, x []float32, eps float64) {
	var sum float64
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	scale := float32(1 / math.Sqrt(sum/float64(len(x))+eps))
	for k, v := range x {
		y[k] = v * scale
	}
}

// layerNorm is (x - mean) / sqrt(variance + eps).
func layerNorm(y, x []float32, eps float64) {
	var sum, squares float64
	for _, v := range x {
		sum += float64(v)
	}
	mean := sum / float64(len(x))
	for _, v := range x {
		d := float64(v) - mean
		squares += float64(d * d)
	}
	scale := 1 / math.Sqrt(squares/float64(len(x))+eps)
	for k, v := range x {
		y[k] = float32((float64(v) - mean) * scale)
	}
}

func (c *cpu) Rope(x, angles Buffer, headDim int, pairs Pairing) {
	m, a := mat(x), mat(angles)
	half := a.width / 2
	// Elements of a pair are apart by gap, and the first ones by step.
	step, gap := 2, 1
	if pairs == Halves {
		step, gap = 1, half
	}
	c.pool.Ranges(m.rows, rowGrain, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			row, cos, sin := m.row(i), a.row(i)[:half], a.row(i)[half:]
			for ; len(row) > 0; row = row[headDim:] {
				for p, c := range cos {
					u, v := row[p*step], row[p*step+gap]
					row[p*step] = float32(u*c) - float32(v*sin[p])
					row[p*step+gap] = float32(u*sin[p]) + float32(v*c)
				}
			}
		}
	})
}

func (c *cpu) Activate(dst, gate, up Buffer, f Activation) {
	d, u := mat(dst), mat(up)
	g := u
	if gate != nil {
		g = mat(gate)
	}
	if d != u {
		d.reshape(u.rows, u.width)
	}
	apply := silu
	switch f {
	case GELU:
		apply = gelu
	case GELUTanh:
		apply = geluTanh
	}
	c.pool.Ranges(u.rows, rowGrain, func(_, lo, hi int) {
		lo, hi = lo*u.width, hi*u.width
		in, up, out := g.data[lo:hi], u.data[lo:hi], d.data[lo:hi]
		for i, x := range in {
			y := apply(x)
			if gate != nil {
				y *= up[i]
			}
			out[i] = y
		}
	})
}

func (c *cpu) Add(dst, x Buffer) {
	d, s := mat(dst), mat(x)
	c.pool.Ranges(s.rows, rowGrain, func(_, lo, hi int) {
		out := d.data[lo*s.width : hi*s.width]
		for i, v := range s.data[lo*s.width : hi*s.width] {
			out[i] += v
		}
	})
}

func (c *cpu) Scale(x Buffer, factor float32) {
	c.each(mat(x), func(v float32) float32 { return v * factor })
}

func (c *cpu) Softcap(x Buffer, limit float32) {
	c.each(mat(x), func(v float32) float32 { return softcap(v, limit) })
}

// each replaces every element of x by f of it.
func (c *cpu) each(x *matrix, f func(float32) float32) {
	c.pool.Ranges(len(x.data), elementGrain, func(_, lo, hi int) {
		for i, v := range x.data[lo:hi] {
			x.data[lo+i] = f(v)
		}
	})
}

func softcap(x, limit float32) float32 {
	return float32(float64(limit) * math.Tanh(float64(x/limit)))
}

func silu(x float32) float32 { return x / (1 + exp32(-x)) }

func gelu(x float32) float32 {
	return float32(0.5 * float64(x) * (1 + math.Erf(float64(x)/math.Sqrt2)))
}

func geluTanh(x float32) float32 {
	v := float64(x)
	return float32(0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))))
}

// exp32 is e^x with a relative error below 2e-7; results under 2^-126 are 0. x = n ln 2 + r with |r| <= ln 2 / 2, and e^r is a Taylor polynomial.
func exp32(x float32) float32 {
	const (
		ln2High = 0x1.62ep-1 // few bits, so that n*ln2High is exact
		ln2Low  = math.Ln2 - ln2High
		toInt   = 3 << 22 // adding it rounds to an integer
	)
	switch {
	case x != x:
		return x
	case x > 88.72:
		return float32(math.Inf(1))
	case x < -87.33:
		return 0
	}
	n := float32(x*math.Log2E) + toInt - toInt
	r := x - float32(n*ln2High) - float32(n*ln2Low)
	p := float32(1. / 5040)
	for _, c := range [...]float32{1. / 720, 1. / 120, 1. / 24, 1. / 6, 0.5, 1, 1} {
		p = float32(p*r) + c
	}
	// The exponent is added in place; n is 128 at most, in which case p is below 1.
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}
