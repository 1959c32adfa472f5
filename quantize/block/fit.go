package block

import "math"

// negligible is the magnitude below which a group counts as all zeros.
const negligible = 1e-15

// nearest rounds to the nearest integer, ties to even, for |f| < 2^22. Beyond that, and for infinities and NaN, it is what
// the bits of f + 1.5*2^23 give, on every machine.
func nearest(f float32) int32 {
	return int32(math.Float32bits(f+0x1.8p23)&0x7fffff) - 0x400000
}

// roundAway rounds to the nearest integer, ties away from zero, for |f| < 2^31.
func roundAway(f float32) int32 {
	// In float64 the sum with a half is exact wherever it decides.
	return int32(float64(f) + math.Copysign(0.5, float64(f)))
}

func abs32(f float32) float32 { return math.Float32frombits(math.Float32bits(f) &^ (1 << 31)) }

func sqrt32(f float32) float32 { return float32(math.Sqrt(float64(f))) }

// sumSquares adds the squares of x in order.
func sumSquares(x []float32) float32 {
	var sum float32
	for _, v := range x {
		sum += float32(v * v)
	}
	return sum
}

// peak is the element of largest magnitude, the first of equals, with its magnitude.
func peak(x []float32) (value, magnitude float32) {
	for _, v := range x {
		if a := abs32(v); a > magnitude {
			value, magnitude = v, a
		}
	}
	return value, magnitude
}

// bounds are the smallest and the largest element.
func bounds(x []float32) (lo, hi float32) {
	lo, hi = x[0], x[0]
	for _, v := range x[1:] {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	return lo, hi
}

// weighByImportance sets dst to importance * sqrt(meanSquare + x*x), the weights that all formats use when there is an
// importance matrix.
func weighByImportance(dst, importance, x []float32, meanSquare float32) {
	importance, x = importance[:len(dst)], x[:len(dst)]
	for j := range dst {
		dst[j] = importance[j] * sqrt32(meanSquare+float32(x[j]*x[j]))
	}
}

// sum adds x in order.
func sum(x []float32) float32 {
	var s float32
	for _, v := range x {
		s += v
	}
	return s
}

// fitSymmetric looks for the scale s and integers l in [-n, n) that make the sum of w*(x - s*l)^2 small: it tries 19 scales
// around the one that maps the element of largest magnitude to -n, and for each takes the s that is best for its l.
// It returns s; q[i] is l+n.
func fitSymmetric(q []uint8, x, w []float32, n int32) float32 {
	top, magnitude := peak(x)
	if magnitude < negligible {
		clear(q)
		return 0
	}
	inverse := float32(-n) / top
	lx, ll := symmetricSums(x, w, inverse, n)
	var scale float32
	if ll != 0 {
		scale = lx / ll
	}
	best := scale * lx
	chosen := inverse
	for step := int32(-9); step <= 9; step++ {
		if step == 0 {
			continue
		}
		inverse = -(float32(n) + float32(0.1*float32(step))) / top
		lx, ll = symmetricSums(x, w, inverse, n)
		if ll > 0 && float32(lx*lx) > float32(best*ll) {
			scale, chosen = lx/ll, inverse
			best = scale * lx
		}
	}
	roundSymmetric(q, x, chosen, n)
	return scale
}

// symmetricSums gives the sums of w*x*l and w*l*l for l = round(inverse*x), limited to [-n, n).
func symmetricSums(x, w []float32, inverse float32, n int32) (lx, ll float32) {
	w = w[:len(x)]
	for i, v := range x {
		l := float32(max(-n, min(n-1, nearest(inverse*v))))
		lx += float32(float32(w[i]*v) * l)
		ll += float32(float32(w[i]*l) * l)
	}
	return lx, ll
}

func roundSymmetric(q []uint8, x []float32, inverse float32, n int32) {
	x = x[:len(q)]
	for i := range q {
		q[i] = uint8(n + max(-n, min(n-1, nearest(inverse*x[i]))))
	}
}

// fitSymmetricStepwise looks for the scale s and integers l in [-n, n) that make the sum of x^2*(x - s*l)^2 small: from the
// scale that maps the element of largest magnitude to -n, it moves single integers as long as that lowers the error, in at
// most five rounds. It returns s; q[i] is l+n.
func fitSymmetricStepwise(q []uint8, x []float32, n int32) float32 {
	top, magnitude := peak(x)
	if magnitude < negligible {
		clear(q)
		return 0
	}
	inverse := float32(-n) / top
	roundSymmetric(q, x, inverse, n)
	var lx, ll float32
	for i, v := range x {
		w, l := v*v, float32(int32(q[i])-n)
		lx += float32(float32(w*v) * l)
		ll += float32(float32(w*l) * l)
	}
	for range 5 {
		changed := false
		for i, v := range x {
			w, l := v*v, float32(int32(q[i])-n)
			lxRest := lx - float32(float32(w*v)*l)
			if !(lxRest > 0) {
				continue
			}
			llRest := ll - float32(float32(w*l)*l)
			moved := max(-n, min(n-1, nearest(float32(v*llRest)/lxRest)))
			if moved == int32(q[i])-n {
				continue
			}
			l = float32(moved)
			lxRest += float32(float32(w*v) * l)
			llRest += float32(float32(w*l) * l)
			if llRest > 0 && float32(float32(lxRest*lxRest)*ll) > float32(float32(lx*lx)*llRest) {
				q[i], lx, ll = uint8(moved+n), lxRest, llRest
				changed = true
			}
		}
		if !changed {
			break
		}
	}
	if ll > 0 {
		return lx / ll
	}
	return 0
}

// affineSearch says which scales fitAffine tries: for each i up to steps, the one that spreads the range of a group over
// levels + start + i*step.
type affineSearch struct {
	levels      int32 // largest integer
	start, step float32
	steps       int
	absolute    bool // measure the error by its magnitude instead of its square
}

// fitAffine looks for a scale s, a minimum m >= 0 and integers q in [0, levels] that make the weighted error of s*q - m against x small.
// For each scale tried it takes the s and m that are best for its q. A group has at most 32 elements.
func (f *affineSearch) fitAffine(q []uint8, x, w []float32) (scale, minimum float32) {
	var room [32]uint8
	scratch := room[:len(q)]
	lo, hi := bounds(x)
	sumW, sumX := w[0], w[0]*x[0]
	for i := 1; i < len(x); i++ {
		sumW += w[i]
		sumX += float32(w[i] * x[i])
	}
	if lo > 0 {
		lo = 0
	}
	if hi == lo {
		clear(q)
		return 0, -lo
	}
	inverse := float32(f.levels) / (hi - lo)
	scale = 1 / inverse
	f.round(q, x, inverse, lo)
	best := f.loss(q, x, w, scale, lo)
	for i := range f.steps + 1 {
		inverse = (f.start + float32(f.step*float32(i)) + float32(f.levels)) / (hi - lo)
		f.round(scratch, x, inverse, lo)
		var sumL, sumLL, sumXL float32
		for j, l := range scratch {
			wl := w[j] * float32(l)
			sumL += wl
			sumLL += float32(wl * float32(l))
			sumXL += float32(wl * x[j])
		}
		det := float32(sumW*sumLL) - float32(sumL*sumL)
		if !(det > 0) {
			continue
		}
		s := (float32(sumW*sumXL) - float32(sumX*sumL)) / det
		m := (float32(sumLL*sumX) - float32(sumL*sumXL)) / det
		if m > 0 {
			m = 0
			s = sumXL / sumLL
		}
		if loss := f.loss(scratch, x, w, s, m); loss < best {
			copy(q, scratch)
			best, scale, lo = loss, s, m
		}
	}
	return scale, -lo
}

// round sets q to the integers nearest to inverse*(x - lo).
func (f *affineSearch) round(q []uint8, x []float32, inverse, lo float32) {
	x = x[:len(q)]
	for i := range q {
		q[i] = uint8(max(0, min(f.levels, nearest(inverse*(x[i]-lo)))))
	}
}

// loss is the weighted error of scale*q + lo against x.
func (f *affineSearch) loss(q []uint8, x, w []float32, scale, lo float32) float32 {
	x, w = x[:len(q)], w[:len(q)]
	var sum float32
	for i, l := range q {
		diff := float32(scale*float32(l)) + lo - x[i]
		if f.absolute {
			diff = abs32(diff)
		} else {
			diff = diff * diff
		}
		sum += float32(w[i] * diff)
	}
	return sum
}

// fitPositive looks for the scale s and integers q in [0, n] that make the sum of w*(x - s*q)^2 small, for x >= 0:
// the best of 9 scales, then each q moved alone while that helps. It returns s.
func fitPositive(q []uint8, x, w []float32, n int32) float32 {
	x, w = x[:len(q)], w[:len(q)]
	var top float32
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	if top < negligible {
		clear(q)
		return 0
	}
	inverse := float32(n) / top
	var best float32
	scale := 1 / inverse
	for i, v := range x {
		diff := v - float32(scale*float32(uint8(nearest(inverse*v))))
		best += float32(float32(w[i]*diff) * diff)
	}
	for step := int32(-4); step <= 4; step++ {
		if step == 0 {
			continue
		}
		inv := (float32(0.1*float32(step)) + float32(n)) / top
		scale, loss := 1/inv, float32(0)
		for i, v := range x {
			diff := v - float32(scale*float32(min(n, nearest(inv*v))))
			loss += float32(float32(w[i]*diff) * diff)
		}
		if loss < best {
			best, inverse = loss, inv
		}
	}
	var lx, ll float32
	for i, v := range x {
		l := min(n, nearest(inverse*v))
		q[i] = uint8(l)
		lx += float32(float32(w[i]*v) * float32(l))
		ll += float32(float32(w[i]*float32(l)) * float32(l))
	}
	lx, ll = improvePositive(q, x, w, n, lx, ll)
	if ll > 0 {
		return lx / ll
	}
	return 0
}

// improvePositive moves single integers as long as that lowers the error, in at most five rounds. lx and ll are the sums
// of w*x*q and w*q*q.
func improvePositive(q []uint8, x, w []float32, n int32, lx, ll float32) (float32, float32) {
	for range 5 {
		changed := false
		for i, v := range x {
			old := float32(q[i])
			lxRest := lx - float32(float32(w[i]*v)*old)
			llRest := ll - float32(float32(w[i]*old)*old)
			if !(lxRest > 0 && llRest > 0) {
				continue
			}
			l := min(n, nearest(float32(v*llRest)/lxRest))
			if l == int32(q[i]) {
				continue
			}
			lxRest += float32(float32(w[i]*v) * float32(l))
			llRest += float32(float32(w[i]*float32(l)) * float32(l))
			if float32(float32(lxRest*lxRest)*ll) > float32(float32(lx*lx)*llRest) {
				q[i], lx, ll = uint8(l), lxRest, llRest
				changed = true
			}
		}
		if !changed {
			break
		}
	}
	return lx, ll
}
