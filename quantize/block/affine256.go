package block

import "github.com/ggufkit/ggufkit/internal/half"

// affineFormat is what Q4_K and Q5_K have in common: 256 elements in 8 groups of 32, x = d*scale*q - dmin*min.
type affineFormat struct {
	plain    affineSearch // without importance weights
	weighted affineSearch
	// limitWeighted: with importance weights, a scale that came out negative (by rounding) becomes the largest one;
	// without it, its low 8 bits go where 6 should.
	limitWeighted bool
}

// affineBlock is an encoded super-block before its integers are packed.
type affineBlock struct {
	q       [256]uint8
	d, dmin uint16 // float16
	scales  scales6
}

// header writes d, dmin and the scales, which Q4_K and Q5_K have in their first 16 bytes.
func (b *affineBlock) header(dst *[16]byte) {
	dst[0], dst[1], dst[2], dst[3] = byte(b.d), byte(b.d>>8), byte(b.dmin), byte(b.dmin>>8)
	copy(dst[4:], b.scales[:])
}

// encode quantizes x.
func (f *affineFormat) encode(b *affineBlock, x *[256]float32) {
	var scales, minimums [8]float32
	var group affineGroup
	for g := range 8 {
		y := (*[32]float32)(x[32*g:])
		average := sqrt32(sumSquares(y[:]) / 32)
		for j, v := range y {
			group.w[j] = average + abs32(v)
		}
		scales[g], minimums[g] = f.plain.fit(&group, b.q[32*g:][:32], y[:])
	}
	scale, d := quantize6(&scales)
	minimum, dmin := quantize6(&minimums)
	packScales6(&b.scales, &scale, &minimum)
	f.finish(b, x, d, dmin)
}

// quantize6 turns non-negative scales into multiples of d below 64.
func quantize6(x *[8]float32) (q [8]uint8, d float32) {
	var top float32
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	var inverse float32
	if top > 0 {
		inverse = 63 / top
	}
	for i, v := range x {
		q[i] = min(63, uint8(nearest(inverse*v)))
	}
	return q, top / 63
}

// encodeWeighted quantizes x with importance weights.
func (f *affineFormat) encodeWeighted(b *affineBlock, x *[256]float32, importance []float32) {
	var scales, minimums, sums [8]float32
	var group affineGroup
	meanSquare := float32(2 * sumSquares(x[:]) / 256)
	for g := range 8 {
		y := x[32*g:][:32]
		weighByImportance(group.w[:], importance[32*g:], y, meanSquare)
		sums[g] = sum(group.w[:])
		scales[g], minimums[g] = f.weighted.fit(&group, b.q[32*g:][:32], y)
	}
	var scale, minimum [8]uint8
	d := fitPositive(scale[:], scales[:], sums[:], 63)
	dmin := fitPositive(minimum[:], minimums[:], sums[:], 63)
	if f.limitWeighted {
		for g := range 8 {
			scale[g], minimum[g] = min(63, scale[g]), min(63, minimum[g])
		}
	}
	packScales6(&b.scales, &scale, &minimum)
	f.finish(b, x, d, dmin)
}

// finish rounds d and dmin and then the integers once more, against the scales as they are stored.
// Where a group's scale is zero the integers of the search stay.
func (f *affineFormat) finish(b *affineBlock, x *[256]float32, d, dmin float32) {
	b.d, b.dmin = half.F32ToF16(d), half.F32ToF16(dmin)
	d, dmin = half.F16ToF32(b.d), half.F16ToF32(b.dmin)
	scale, minimum := unpackScales6(&b.scales)
	for g := range 8 {
		ds := d * float32(scale[g])
		if ds == 0 {
			continue
		}
		m := float32(dmin * float32(minimum[g]))
		q, y := b.q[32*g:][:32], x[32*g:][:32]
		for j, v := range y {
			q[j] = uint8(max(0, min(int32(f.plain.levels), nearest((v+m)/ds))))
		}
	}
}
