package block

// symmetricGroup is one group of 16 or 32 elements in search of a scale s and integers l in [-n, n) with x close to s*l.
type symmetricGroup struct {
	size int
	x, w [32]float32 // elements and their weights
	wx   [32]float32 // w*x
}

// fit looks for s and l that make the sum of w*(x - s*l)^2 small: it tries 19 scales around the one that maps the element of
// largest magnitude to -n, and for each takes the s that is best for its l. It returns s; q[i] is l+n. g.w is set; q and x have 16 or
// 32 elements.
func (g *symmetricGroup) fit(q []uint8, x []float32, n float32) float32 {
	g.size = copy(g.x[:], x)
	top, magnitude := peak(x)
	if magnitude < negligible {
		clear(q)
		return 0
	}
	for j, v := range g.x {
		g.wx[j] = g.w[j] * v
	}
	chosen := -n / top
	lx, ll := g.sums(chosen, n)
	var scale float32
	if ll != 0 {
		scale = lx / ll
	}
	best := scale * lx
	for step := float32(-9); step <= 9; step++ {
		if step == 0 {
			continue
		}
		inverse := -(n + float32(0.1*step)) / top
		lx, ll = g.sums(inverse, n)
		if ll > 0 && float32(lx*lx) > float32(best*ll) {
			scale, chosen = lx/ll, inverse
			best = scale * lx
		}
	}
	roundSymmetric(q, x, chosen, int32(n))
	return scale
}

// sums gives the sums of w*x*l and w*l*l for l = round(inverse*x), limited to [-n, n). No |inverse*x| is above n+1.
func (g *symmetricGroup) sums(inverse, n float32) (lx, ll float32) {
	for j := 0; j < g.size && j <= len(g.x)-4; j += 4 {
		l0, l1 := roundWithin(inverse*g.x[j], n), roundWithin(inverse*g.x[j+1], n)
		l2, l3 := roundWithin(inverse*g.x[j+2], n), roundWithin(inverse*g.x[j+3], n)
		lx = lx + float32(g.wx[j]*l0) + float32(g.wx[j+1]*l1) + float32(g.wx[j+2]*l2) + float32(g.wx[j+3]*l3)
		w0, w1, w2, w3 := g.w[j]*l0, g.w[j+1]*l1, g.w[j+2]*l2, g.w[j+3]*l3
		ll = ll + float32(w0*l0) + float32(w1*l1) + float32(w2*l2) + float32(w3*l3)
	}
	return lx, ll
}

// roundWithin is roundToFloat, limited to [-n, n). Few elements of a group are beyond, so that the branches are cheap.
func roundWithin(f, n float32) float32 {
	f = roundToFloat(f)
	if f > n-1 {
		return n - 1
	}
	if f < -n {
		return -n
	}
	return f
}

// roundSymmetric sets q to round(inverse*x), limited to [-n, n), plus n.
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
