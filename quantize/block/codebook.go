package block

// codebook is the values of the 4-bit integers of IQ4_NL and IQ4_XS, which lie closer together around zero.
var codebook = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// codebookFloat is codebook in float32.
var codebookFloat = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// codebookIndex has the index of the value nearest to x at floor(2*x) + 512. Halfway between two values, which is a multiple of
// a half, the upper one is taken.
var codebookIndex = func() (index [1024]uint8) {
	at := 0
	for k := range index {
		if x := float32(float32(2*k-1023) / 4); at < 15 && x-float32(codebook[at]) > float32(codebook[at+1])-x {
			at++
		}
		index[k] = uint8(at)
	}
	return index
}()

// nearestInCodebook finds the index of the value nearest to x, for |x| < 256.
func nearestInCodebook(x float32) uint8 {
	// In float64 the sum is exact wherever it decides.
	return codebookIndex[int(float64(2*float64(x))+512)&1023]
}

// codebookTries is how many scales to each side of the first fitCodebook tries.
const codebookTries = 7

// fitCodebook looks for the scale s that makes the weighted squared error of s*value against x small, where each x takes the
// value nearest to x/s: it tries scales around the one that maps the element of largest magnitude to the first value.
func fitCodebook(x, w []float32) float32 {
	top, magnitude := peak(x)
	if magnitude < negligible {
		return 0
	}
	first := float32(codebook[0])
	scale := -top / first
	qx, qq := codebookSums(x, w, 1/scale)
	scale = 0
	if qq > 0 {
		scale = qx / qq
	}
	best := scale * qx
	for try := float32(-codebookTries); try <= codebookTries; try++ {
		qx, qq = codebookSums(x, w, (try+first)/top)
		if qq > 0 && float32(qx*qx) > float32(best*qq) {
			scale = qx / qq
			best = scale * qx
		}
	}
	return scale
}

// codebookSums gives the sums of w*v*x and w*v*v for the values v nearest to inverse*x. No |inverse*x| is above 135.
func codebookSums(x, w []float32, inverse float32) (qx, qq float32) {
	w = w[:len(x)]
	for j, v := range x {
		value := codebookFloat[nearestInCodebook(inverse*v)&15]
		wv := w[j] * value
		qx += float32(wv * v)
		qq += float32(wv * value)
	}
	return qx, qq
}

// codebookWeights sets w for a group x: its squares, or, with importance weights, those and the mean square of the block.
func codebookWeights(w, x, importance []float32, meanSquare float32) {
	if importance != nil {
		weighByImportance(w, importance, x, meanSquare)
		return
	}
	for j, v := range x {
		w[j] = v * v
	}
}

// roundToCodebook packs the indices nearest to inverse*x, as Q4_0 packs its integers.
func roundToCodebook(qs *[16]byte, x *[32]float32, inverse float32) {
	var q [32]uint8
	for j, v := range x {
		switch v *= inverse; {
		case v <= -127:
			q[j] = 0
		case v < 113:
			q[j] = nearestInCodebook(v)
		default: // also for NaN, zero times an infinite inverse
			q[j] = 15
		}
	}
	packNibbles(qs, &q)
}

// codebookValues writes d times the values of 16 packed bytes.
func codebookValues(dst *[32]float32, qs *[16]byte, d float32) {
	for j, q := range qs {
		dst[j] = d * codebookFloat[q&15]
		dst[j+16] = d * codebookFloat[q>>4]
	}
}

// dotCodebook adds up the products of the values of 16 packed bytes with 32 activations.
func dotCodebook(qs *[16]byte, a *[32]int8) (sum int32) {
	for j, q := range qs {
		sum += int32(codebook[q&15])*int32(a[j]) + int32(codebook[q>>4])*int32(a[j+16])
	}
	return sum
}

// at32 is the 32 importance weights from element at on, nil if there are none.
func at32(importance []float32, at int) []float32 {
	if importance == nil {
		return nil
	}
	return importance[at:][:32]
}

// inverseOrZero is 1/d, or 0 for d = 0.
func inverseOrZero(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}
