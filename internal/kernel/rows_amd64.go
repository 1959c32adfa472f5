//go:build !noasm

package kernel

import "unsafe"

var rowOpsAVX2 = rowOps{
	add:          pairwiseAVX2(addRow, addGeneric),
	mul:          pairwiseAVX2(mulRow, mulGeneric),
	scale:        scaleAVX2,
	normalize:    normalizeAVX2,
	sum:          sumAVX2,
	squares:      squaresAVX2,
	deviation:    deviationAVX2,
	scaleMax:     scaleMaxAVX2,
	expSum:       expSumAVX2,
	silu:         functionAVX2(siluRow),
	gelu:         functionAVX2(geluRow),
	geluTanh:     functionAVX2(geluTanhRow),
	softcap:      softcapAVX2,
	ropeHalves:   ropeHalvesAVX2,
	ropeAdjacent: ropeAdjacentAVX2,
	decodeF16:    decodeAVX2(decodeF16, rowOpsGeneric.decodeF16),
	decodeBF16:   decodeAVX2(decodeBF16, rowOpsGeneric.decodeBF16),
	encodeF16:    encodeAVX2(encodeF16, rowOpsGeneric.encodeF16),
	encodeBF16:   encodeAVX2(encodeBF16, rowOpsGeneric.encodeBF16),
	max:          maxAVX2,
	atLeast:      atLeastAVX2,
}

// callFloats bounds what one call works on, since it cannot be interrupted.
const callFloats = 64 << 10

// eights is how many of the vectors in n elements the next call takes.
func eights(n int) int { return min(n, callFloats) / 8 }

// lastVector is the elements of x after whole vectors, filled up.
func lastVector(x []float32, filler float32) (v [8]float32) {
	for i := copy(v[:], x); i < len(v); i++ {
		v[i] = filler
	}
	return v
}

// pairwiseAVX2 leaves what is not a whole vector to the portable form, whose results are the same bits.
func pairwiseAVX2(f func(dst, x *float32, eights int), rest func(dst, x []float32)) func(dst, x []float32) {
	return func(dst, x []float32) {
		dst = dst[:len(x)]
		whole := len(x) &^ 7
		for at := 0; at < whole; at += callFloats {
			f(&dst[at], &x[at], eights(whole-at))
		}
		if whole < len(x) {
			rest(dst[whole:], x[whole:])
		}
	}
}

func scaleAVX2(dst, x []float32, f float32) {
	dst = dst[:len(x)]
	whole := len(x) &^ 7
	for at := 0; at < whole; at += callFloats {
		scaleRow(&dst[at], &x[at], float64(f), eights(whole-at))
	}
	if whole < len(x) {
		scaleGeneric(dst[whole:], x[whole:], f)
	}
}

func normalizeAVX2(dst, x []float32, mean, f float64) {
	dst = dst[:len(x)]
	whole := len(x) &^ 7
	for at := 0; at < whole; at += callFloats {
		normalizeRow(&dst[at], &x[at], mean, f, eights(whole-at))
	}
	if whole < len(x) {
		normalizeGeneric(dst[whole:], x[whole:], mean, f)
	}
}

// sumOf adds what f gives for the whole vectors to the rest. f returns its sum: a variable that f were to set would be allocated by each call.
func sumOf(x []float32, f func(x *float32, eights int) float64, rest float64) (total float64) {
	whole := len(x) &^ 7
	for at := 0; at < whole; at += callFloats {
		total += f(&x[at], eights(whole-at))
	}
	return total + rest
}

func sumAVX2(x []float32) float64 {
	return sumOf(x, func(x *float32, eights int) (sum float64) {
		sumRow(x, &sum, eights)
		return sum
	}, sumGeneric(x[len(x)&^7:]))
}

func squaresAVX2(x []float32) float64 {
	return sumOf(x, func(x *float32, eights int) (sum float64) {
		sumSquares(x, &sum, eights)
		return sum
	}, squaresGeneric(x[len(x)&^7:]))
}

func deviationAVX2(x []float32, mean float64) float64 {
	return sumOf(x, func(x *float32, eights int) (sum float64) {
		sumDeviations(x, mean, &sum, eights)
		return sum
	}, deviationGeneric(x[len(x)&^7:], mean))
}

func scaleMaxAVX2(x []float32, f float32) float32 {
	top := minusInfinity
	whole := len(x) &^ 7
	for at := 0; at < whole; at += callFloats {
		var piece float32
		scaleMax(&x[at], float64(f), &piece, eights(whole-at))
		top = max(top, piece)
	}
	return max(top, scaleMaxGeneric(x[whole:], f))
}

// expSumFloats is how many results are added as float32, in 8 parts, before they are added as float64.
const expSumFloats = 256

func expSumAVX2(x []float32, top float32) (total float64) {
	var sum float64
	for ; len(x) >= 8; x = x[min(expSumFloats, len(x)&^7):] {
		expSum(&x[0], float64(top), &sum, min(expSumFloats/8, len(x)/8))
		total += sum
	}
	if len(x) > 0 {
		v := lastVector(x, minusInfinity)
		expSum(&v[0], float64(top), &sum, 1)
		copy(x, v[:])
		total += sum
	}
	return total
}

// functionAVX2 computes every element in a vector, so that its bits do not depend on its place.
func functionAVX2(f func(dst, x *float32, eights int)) func(dst, x []float32) {
	return func(dst, x []float32) {
		dst = dst[:len(x)]
		whole := len(x) &^ 7
		for at := 0; at < whole; at += callFloats {
			f(&dst[at], &x[at], eights(whole-at))
		}
		if whole < len(x) {
			v := lastVector(x[whole:], 0)
			f(&v[0], &v[0], 1)
			copy(dst[whole:], v[:])
		}
	}
}

func softcapAVX2(dst, x []float32, limit float32) {
	functionAVX2(func(dst, x *float32, eights int) { softcapRow(dst, x, float64(limit), 1/float64(limit), eights) })(dst, x)
}

func ropeHalvesAVX2(x, cos, sin []float32) {
	p := len(cos)
	_, _ = x[:2*p], sin[:p]
	whole := p &^ 7
	if whole > 0 {
		ropeHalves(&x[0], 4*p, &cos[0], &sin[0], whole/8)
	}
	for i := whole; i < p; i++ {
		u, v := x[i], x[i+p]
		x[i] = float32(u*cos[i]) - float32(v*sin[i])
		x[i+p] = float32(u*sin[i]) + float32(v*cos[i])
	}
}

func ropeAdjacentAVX2(x, cos, sin []float32) {
	_, _ = x[:2*len(cos)], sin[:len(cos)]
	whole := len(cos) &^ 3
	if whole > 0 {
		ropeAdjacent(&x[0], &cos[0], &sin[0], whole/4)
	}
	ropeAdjacentGeneric(x[2*whole:], cos[whole:], sin[whole:])
}

func decodeAVX2(f func(dst *float32, src *byte, eights int), rest func(dst []float32, src []byte)) func(dst []float32, src []byte) {
	return func(dst []float32, src []byte) {
		src = src[:2*len(dst)]
		whole := len(dst) &^ 7
		for at := 0; at < whole; at += callFloats {
			f(&dst[at], &src[2*at], eights(whole-at))
		}
		if whole < len(dst) {
			rest(dst[whole:], src[2*whole:])
		}
	}
}

func encodeAVX2(f func(dst *byte, x *float32, eights int), rest func(dst []byte, src []float32)) func(dst []byte, src []float32) {
	return func(dst []byte, src []float32) {
		dst = dst[:2*len(src)]
		whole := len(src) &^ 7
		for at := 0; at < whole; at += callFloats {
			f(&dst[2*at], &src[at], eights(whole-at))
		}
		if whole < len(src) {
			rest(dst[2*whole:], src[whole:])
		}
	}
}

func quantizeAVX2(a activations, x []float32) {
	groups := a.k / blockK
	if groups == 0 {
		return
	}
	_, _, _, _, _ = x[:a.k], a.q[:a.k], a.d[:groups], a.s[:groups], a.h[:halfSums(a.k)]
	if blocks := a.k / superBlock; len(a.unit) > 0 {
		_, _ = a.unit[:blocks*unitFloats], a.ints[:blocks*unitInts]
		quantizeUnits(&x[0], (*byte)(unsafe.Pointer(&a.q[0])), &a.d[0], &a.s[0], &a.h[0], &a.unit[0], &a.ints[0], blocks)
		return
	}
	quantizeRow(&x[0], (*byte)(unsafe.Pointer(&a.q[0])), &a.d[0], &a.s[0], &a.h[0], groups)
}

func maxAVX2(x []float32) float32 {
	top := minusInfinity
	whole := len(x) &^ 7
	for at := 0; at < whole; at += callFloats {
		var piece float32
		maxRow(&x[at], &piece, eights(whole-at))
		top = max(top, piece)
	}
	return max(top, maxGeneric(x[whole:]))
}

func atLeastAVX2(mask []byte, x []float32, limit float32) {
	_ = mask[:len(x)/8]
	whole := len(x) &^ 7
	for at := 0; at < whole; at += callFloats {
		atLeastRow(&x[at], float64(limit), &mask[at/8], eights(whole-at))
	}
}
