package block

// affineSearch says which scales fit tries: for each i up to steps, the one that spreads the range of a group over
// levels + start + i*step.
type affineSearch struct {
	levels      float32 // largest integer
	start, step float32
	steps       int
	absolute    bool // measure the error by its magnitude instead of its square
}

// affineGroup is one group of 16 or 32 elements in search of a scale s, a minimum m and integers l with x close to s*l - m.
// Everything is in one place so that the inner loops need a single base register.
type affineGroup struct {
	n      int
	x, w   [32]float32 // elements and their weights, which are not negative
	above  [32]float32 // x - lo
	l      [32]float32 // integers of the current try
	chosen [32]float32 // integers of the best one

	sumW, sumX float32 // of w, w*x
	sumXX      float64 // of w*x*x
}

// affineSums are the sums of w*l, w*l*l and w*l*x.
type affineSums struct{ l, ll, lx float32 }

// fit looks for s, m >= 0 and integers q in [0, levels] that make the weighted error of s*q - m against x small. For each scale tried
// it takes the s and m that are best for its q. g.w is set; q and x have 16 or 32 elements.
func (f *affineSearch) fit(g *affineGroup, q []uint8, x []float32) (scale, minimum float32) {
	g.n = copy(g.x[:], x)
	bottom, top := bounds(x)
	lo := bottom
	if lo > 0 {
		lo = 0
	}
	if top == lo {
		clear(q)
		return 0, -lo
	}
	g.subtract(lo)
	inverse := f.levels / (top - lo)
	scale = 1 / inverse
	g.round(inverse, f.levels)
	g.chosen = g.l
	best := f.loss(g, scale, lo)
	g.sum()
	for i := range f.steps + 1 {
		inverse = (f.start + float32(f.step*float32(i)) + f.levels) / (top - lo)
		var sums affineSums
		// Rounding keeps the order, so that the extremes speak for all. The limit is safe from what roundToFloat cannot do.
		if roundToFloat(inverse*(bottom-lo)) >= 0 && inverse*(top-lo) < 1<<21 {
			sums = g.roundPositive(inverse, f.levels)
		} else {
			sums = g.round(inverse, f.levels)
		}
		s, m, ok := g.best(&sums)
		if !ok || !f.absolute && g.surelyAbove(best, s, m, &sums) {
			continue
		}
		if loss := f.loss(g, s, m); loss < best {
			g.chosen = g.l
			best, scale, lo = loss, s, m
			g.subtract(lo)
		}
	}
	for j := range q {
		q[j] = uint8(g.chosen[j])
	}
	return scale, -lo
}

// subtract sets above to x - lo.
func (g *affineGroup) subtract(lo float32) {
	for j, v := range g.x {
		g.above[j] = v - lo
	}
}

// sum adds up what does not depend on the integers.
func (g *affineGroup) sum() {
	g.sumW, g.sumX, g.sumXX = 0, 0, 0
	for j, v := range g.x[:g.n] {
		w := g.w[j]
		g.sumW += w
		g.sumX += float32(w * v)
		g.sumXX += float64(float64(w) * float64(v) * float64(v))
	}
}

// best gives the scale and the offset (at most 0) that fit the integers best; false if they are all the same.
func (g *affineGroup) best(s *affineSums) (scale, lo float32, ok bool) {
	det := float32(g.sumW*s.ll) - float32(s.l*s.l)
	if !(det > 0) {
		return 0, 0, false
	}
	scale = (float32(g.sumW*s.lx) - float32(g.sumX*s.l)) / det
	lo = (float32(s.ll*g.sumX) - float32(s.l*s.lx)) / det
	if lo > 0 {
		return s.lx / s.ll, 0, true
	}
	return scale, lo, true
}

// surelyAbove reports that the loss would not be below limit, without a pass over the integers: the sum of
// w*(scale*l + lo - x)^2 follows from the sums. It allows for all roundings: each sum has at most 32 terms of three roundings, so
// that it is off by at most 34*2^-24 of the sum of their magnitudes; all together these are at most 3*size (by the inequality
// of Cauchy and Schwarz), and the roundings inside of loss weigh less than that and 40*2^-24 of the loss itself. The conditions on
// magnitudes keep what is lost below the smallest float32 out of the picture. After an overflow the first comparison is false, or
// the loss infinite.
func (g *affineGroup) surelyAbove(limit, scale, lo float32, s *affineSums) bool {
	a, b := float64(scale), float64(lo)
	size := g.sumXX + float64(a*a*float64(s.ll)) + float64(b*b*float64(g.sumW))
	loss := size + float64(2*(float64(a*b*float64(s.l))-float64(a*float64(s.lx))-float64(b*float64(g.sumX))))
	return loss-float64(3e-6*(loss+float64(3*size))) >= float64(limit) && g.sumXX > 1e-30 && s.ll > 1e-30 && g.sumW > 1e-30 && g.sumW < 1e8
}

// round sets l to the integers in [0, levels] nearest to inverse*above and returns their sums.
func (g *affineGroup) round(inverse, levels float32) (s affineSums) {
	limit := int32(levels)
	for j := 0; j < g.n && j < len(g.l); j++ {
		l := float32(max(0, min(limit, nearest(inverse*g.above[j]))))
		g.l[j] = l
		w := float32(g.w[j] * l)
		s.l += w
		s.ll += float32(w * l)
		s.lx += float32(w * g.x[j])
	}
	return s
}

// roundPositive is round for when no integer is negative or too large for roundToFloat.
func (g *affineGroup) roundPositive(inverse, levels float32) (s affineSums) {
	for j := 0; j < g.n && j <= len(g.l)-4; j += 4 {
		l0, l1 := roundUpTo(inverse*g.above[j], levels), roundUpTo(inverse*g.above[j+1], levels)
		l2, l3 := roundUpTo(inverse*g.above[j+2], levels), roundUpTo(inverse*g.above[j+3], levels)
		g.l[j], g.l[j+1], g.l[j+2], g.l[j+3] = l0, l1, l2, l3
		w0, w1, w2, w3 := float32(g.w[j]*l0), float32(g.w[j+1]*l1), float32(g.w[j+2]*l2), float32(g.w[j+3]*l3)
		s.l = s.l + w0 + w1 + w2 + w3
		s.ll = s.ll + float32(w0*l0) + float32(w1*l1) + float32(w2*l2) + float32(w3*l3)
		s.lx = s.lx + float32(w0*g.x[j]) + float32(w1*g.x[j+1]) + float32(w2*g.x[j+2]) + float32(w3*g.x[j+3])
	}
	return s
}

// roundUpTo is roundToFloat, at most limit. Few elements of a group are above, so that the branch is cheap.
func roundUpTo(f, limit float32) float32 {
	f = roundToFloat(f)
	if f > limit {
		return limit
	}
	return f
}

// loss is the weighted error of scale*l + lo against x.
func (f *affineSearch) loss(g *affineGroup, scale, lo float32) (sum float32) {
	for j := 0; j < g.n && j <= len(g.l)-4; j += 4 {
		d0, d1 := float32(scale*g.l[j])+lo-g.x[j], float32(scale*g.l[j+1])+lo-g.x[j+1]
		d2, d3 := float32(scale*g.l[j+2])+lo-g.x[j+2], float32(scale*g.l[j+3])+lo-g.x[j+3]
		if f.absolute {
			d0, d1, d2, d3 = abs32(d0), abs32(d1), abs32(d2), abs32(d3)
		} else {
			d0, d1, d2, d3 = d0*d0, d1*d1, d2*d2, d3*d3
		}
		sum = sum + float32(g.w[j]*d0) + float32(g.w[j+1]*d1) + float32(g.w[j+2]*d2) + float32(g.w[j+3]*d3)
	}
	return sum
}
