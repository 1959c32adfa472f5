package infer

// tileRows is the number of rows of a tile. As many sums as a tile has fit the registers of every target.
const tileRows = 4

// tile4x2 adds the products of four rows of w, stride apart, with x0 (elements 0-3 of acc) and x1 (elements 4-7). Each sum runs from
// the first element to the last and every product is rounded before it is added, so the sums are those of tile4x1 bit for bit.
func tile4x2(acc *[2 * tileRows]float32, w []float32, stride int, x0, x1 []float32) {
	n := len(x0)
	x1 = x1[:n]
	w0, w1, w2, w3 := w[:n], w[stride:][:n], w[2*stride:][:n], w[3*stride:][:n]
	a0, a1, a2, a3 := acc[0], acc[1], acc[2], acc[3]
	b0, b1, b2, b3 := acc[4], acc[5], acc[6], acc[7]
	for i, x := range x0 {
		y := x1[i]
		w := w0[i]
		a0 += float32(w * x)
		b0 += float32(w * y)
		w = w1[i]
		a1 += float32(w * x)
		b1 += float32(w * y)
		w = w2[i]
		a2 += float32(w * x)
		b2 += float32(w * y)
		w = w3[i]
		a3 += float32(w * x)
		b3 += float32(w * y)
	}
	*acc = [2 * tileRows]float32{a0, a1, a2, a3, b0, b1, b2, b3}
}

// tile4x1 is tile4x2 for one x.
func tile4x1(acc *[tileRows]float32, w []float32, stride int, x []float32) {
	n := len(x)
	w0, w1, w2, w3 := w[:n], w[stride:][:n], w[2*stride:][:n], w[3*stride:][:n]
	a0, a1, a2, a3 := acc[0], acc[1], acc[2], acc[3]
	for i, x := range x {
		a0 += float32(w0[i] * x)
		a1 += float32(w1[i] * x)
		a2 += float32(w2[i] * x)
		a3 += float32(w3[i] * x)
	}
	*acc = [tileRows]float32{a0, a1, a2, a3}
}
