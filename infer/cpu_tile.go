package infer

// A tile is a small block of sums that stay in registers. Each sum runs from the first element to the last and every product is rounded before
// it is added, so that a sum has the same bits in whichever tile it is computed. The shapes are those that Go compiles without spilling.
const (
	tileRows = 4 // of tile4x1; panels and pages hold whole tiles
	tileCols = 3 // of tile2x3
)

// tile2x3 multiplies two rows of w, stride apart, with three vectors: y[c] gets the products of both rows with vector c.
func tile2x3(y *[tileCols][2]float32, w []float32, stride int, x0, x1, x2 []float32) {
	n := len(x0)
	x1, x2 = x1[:n], x2[:n]
	w0, w1 := w[:n], w[stride:][:n]
	var a0, a1, b0, b1, c0, c1 float32
	for i, a := range x0 {
		b, c := x1[i], x2[i]
		w := w0[i]
		a0 += float32(w * a)
		b0 += float32(w * b)
		c0 += float32(w * c)
		w = w1[i]
		a1 += float32(w * a)
		b1 += float32(w * b)
		c1 += float32(w * c)
	}
	*y = [tileCols][2]float32{{a0, a1}, {b0, b1}, {c0, c1}}
}

// tile4x1 adds the products of four rows of w, stride apart, with x.
func tile4x1(sum *[tileRows]float32, w []float32, stride int, x []float32) {
	n := len(x)
	w0, w1, w2, w3 := w[:n], w[stride:][:n], w[2*stride:][:n], w[3*stride:][:n]
	a0, a1, a2, a3 := sum[0], sum[1], sum[2], sum[3]
	for i, x := range x {
		a0 += float32(w0[i] * x)
		a1 += float32(w1[i] * x)
		a2 += float32(w2[i] * x)
		a3 += float32(w3[i] * x)
	}
	*sum = [tileRows]float32{a0, a1, a2, a3}
}

// multiply computes the products of rows rows of w (a multiple of tileRows), each as long as a vector, with the vectors x(0) to x(n-1), and hands them
// out piece by piece: y are those of vector i from row r on.
func (s *scratch) multiply(w []float32, rows, n int, x func(i int) []float32, store func(i, r int, y []float32)) {
	i := 0
	for ; i+tileCols <= n; i += tileCols {
		x0, x1, x2 := x(i), x(i+1), x(i+2)
		for r := 0; r < rows; r += 2 {
			tile2x3(&s.tile, w[r*len(x0):], len(x0), x0, x1, x2)
			for c := range s.tile {
				store(i+c, r, s.tile[c][:])
			}
		}
	}
	for ; i < n; i++ {
		x := x(i)
		for r := 0; r < rows; r += tileRows {
			s.column = [tileRows]float32{}
			tile4x1(&s.column, w[r*len(x):], len(x), x)
			store(i, r, s.column[:])
		}
	}
}
