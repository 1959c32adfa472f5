package block

// Q2_K: 16 groups of 16 elements, x = d*scale*q - dmin*min with 2-bit q and 4-bit scale and min.
//
//	 0  scales  16 bytes: the scale of a group low, its min high
//	16  qs      2 runs of 32 bytes: bits 2*j, 2*j+1 of byte l of run i are element 128*i+32*j+l
//	80  d       float16
//	82  dmin    float16
const bytesQ2_K = 84

func decodeQ2_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[size256:], src[bytesQ2_K:] {
		b, x := (*[bytesQ2_K]byte)(src), (*[size256]float32)(dst)
		d, dmin := f16At(b[80:]), f16At(b[82:])
		for g := range 16 {
			scale, minimum := d*float32(b[g]&15), float32(dmin*float32(b[g]>>4))
			qs, shift := (*[16]byte)(b[16+32*(g/8)+16*(g%2):]), g/2%4*2
			for j, y := range qs {
				x[16*g+j] = float32(scale*float32(y>>shift&3)) - minimum
			}
		}
	}
}

var (
	searchQ2_K         = affineSearch{levels: 3, start: -0.5, step: 0.1, steps: 15, absolute: true}
	searchWeightedQ2_K = affineSearch{levels: 3, start: -0.9, step: 0.05, steps: 36}
)

func encodeQ2_K(dst []byte, src []float32) {
	var q [256]uint8
	var group affineGroup
	var scales, minimums [16]float32
	for ; len(src) > 0; dst, src = dst[bytesQ2_K:], src[size256:] {
		b, x := (*[bytesQ2_K]byte)(dst), (*[size256]float32)(src)
		for g := range 16 {
			y := x[16*g:][:16]
			for j, v := range y {
				group.w[j] = abs32(v)
			}
			scales[g], minimums[g] = searchQ2_K.fit(&group, q[16*g:][:16], y)
		}
		scale, d := quantize4(&scales)
		minimum, dmin := quantize4(&minimums)
		finishQ2_K(b, &q, x, &scale, &minimum, d, dmin)
	}
}

// quantize4 turns non-negative scales into multiples of d below 16.
func quantize4(x *[16]float32) (q [16]uint8, d float32) {
	var top float32
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	if top <= 0 {
		return q, 0
	}
	inverse := 15 / top
	for g, v := range x {
		q[g] = uint8(nearest(inverse * v))
	}
	return q, top / 15
}

func encodeWeightedQ2_K(dst []byte, src, importance []float32) {
	var q [256]uint8
	var group affineGroup
	var sums, scales, minimums [16]float32
	for ; len(src) > 0; dst, src, importance = dst[bytesQ2_K:], src[size256:], importance[size256:] {
		b, x := (*[bytesQ2_K]byte)(dst), (*[size256]float32)(src)
		meanSquare := float32(sumSquares(x[:]) / 256)
		for g := range 16 {
			y := x[16*g:][:16]
			weighByImportance(group.w[:16], importance[16*g:], y, meanSquare)
			sums[g] = sum(group.w[:16])
			scales[g], minimums[g] = searchWeightedQ2_K.fit(&group, q[16*g:][:16], y)
		}
		var scale, minimum [16]uint8
		d := fitPositive(scale[:], scales[:], sums[:], 15)
		dmin := fitPositive(minimum[:], minimums[:], sums[:], 15)
		finishQ2_K(b, &q, x, &scale, &minimum, d, dmin)
	}
}

// finishQ2_K rounds d and dmin, then the integers once more against the scales as they are stored, and packs them. Where a
// group's scale is zero the integers of the search stay.
func finishQ2_K(b *[bytesQ2_K]byte, q *[256]uint8, x *[256]float32, scale, minimum *[16]uint8, d, dmin float32) {
	putF16(b[80:], d)
	putF16(b[82:], dmin)
	d, dmin = f16At(b[80:]), f16At(b[82:])
	for g := range 16 {
		b[g] = scale[g] | minimum[g]<<4
		s := d * float32(b[g]&15)
		if s == 0 {
			continue
		}
		m := float32(dmin * float32(b[g]>>4))
		for j, v := range x[16*g:][:16] {
			q[16*g+j] = uint8(max(0, min(3, nearest((v+m)/s))))
		}
	}
	packPairs((*[64]byte)(b[16:]), q)
}

// packPairs packs 256 values below 4 as Q2_K and Q3_K have them.
func packPairs(qs *[64]byte, q *[256]uint8) {
	for i := range 2 {
		to, from := (*[32]byte)(qs[32*i:]), (*[128]uint8)(q[128*i:])
		for l := range to {
			to[l] = from[l] | from[l+32]<<2 | from[l+64]<<4 | from[l+96]<<6
		}
	}
}

func dotQ2_K(row []byte, a *Activations) float32 {
	var sum float32
	for i := 0; 8*i < len(a.Scale); i++ {
		b := (*[bytesQ2_K]byte)(row[bytesQ2_K*i:])
		as, a16, lanes := (*[8]float32)(a.Scale[8*i:]), (*[16]int32)(a.Sum16[16*i:]), (*[32][2]uint64)(a.lanes[32*i:])
		var s, m float32
		for g, scale := range as {
			qs, q, shift := (*[32]byte)(b[16+32*(g/4):]), (*[4][2]uint64)(lanes[4*g:]), g%4*2
			n0 := dotPairs(word(qs[0:])>>shift, word(qs[8:])>>shift, &q[0], &q[1])
			n1 := dotPairs(word(qs[16:])>>shift, word(qs[24:])>>shift, &q[2], &q[3])
			s0, s1 := b[2*g], b[2*g+1]
			s += float32(scale * float32(n0*int32(s0&15)+n1*int32(s1&15)))
			m += float32(scale * float32(a16[2*g]*int32(s0>>4)+a16[2*g+1]*int32(s1>>4)))
		}
		sum += float32(f16At(b[80:])*s) - float32(f16At(b[82:])*m)
	}
	return sum
}

// dotPairs adds up the products of 16 weights below 4, the low two bits of each byte of w0 and w1, with 16 activations.
func dotPairs(w0, w1 uint64, q0, q1 *[2]uint64) int32 {
	const pairs = 0x0003000300030003
	return digit((w0&pairs)*q0[0] + (w0>>8&pairs)*q0[1] + (w1&pairs)*q1[0] + (w1>>8&pairs)*q1[1])
}
