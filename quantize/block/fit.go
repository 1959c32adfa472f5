package block

import "math"

// negligible is the magnitude below which a group counts as all zeros.
const negligible = 1e-15

// magic is 1.5*2^23: for |f| < 2^22, f + magic has the integer nearest to f in its low bits, ties to even.
const magic = 0x1.8p23

// nearest rounds to the nearest integer, ties to even, for |f| < 2^22. Beyond that, and for infinities and NaN, it is what
// the bits of f + magic give, on every machine.
func nearest(f float32) int32 {
	return int32(math.Float32bits(float32(f)+magic)&0x7fffff) - 0x400000
}

// roundAway rounds to the nearest integer, ties away from zero, for |f| < 2^31.
func roundAway(f float32) int32 {
	// In float64 the sum with a half is exact wherever it decides.
	return int32(float64(f) + math.Copysign(0.5, float64(f)))
}

// roundToFloat is nearest as a float32, for |f| < 2^22.
func roundToFloat(f float32) float32 { return float32(f) + magic - magic }

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

// peak is the element of largest magnitude, the first of equals, with its magnitude; 0 if there is none above 0.
func peak(x []float32) (value, magnitude float32) {
	magnitude = largestMagnitude(x)
	if magnitude > 0 {
		for _, v := range x {
			if abs32(v) == magnitude {
				return v, magnitude
			}
		}
	}
	return 0, 0
}

// largestMagnitude is that of x; NaN counts as larger than infinity.
func largestMagnitude(x []float32) float32 {
	var top uint32 // magnitudes order as their bits do
	for _, v := range x {
		top = max(top, math.Float32bits(v)&^(1<<31))
	}
	return math.Float32frombits(top)
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
