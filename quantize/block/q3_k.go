package block

// Q3_K: 16 groups of 16 elements, x = d*(scale-32)*(q-4) with 3-bit q and 6-bit scale.
//
//	  0  hmask   32 bytes: bit i of byte j is the third bit of element 32*i+j
//	 32  qs      64 bytes: the low two bits, as in Q2_K
//	 96  scales  12 bytes: the low 4 bits of scale g are in byte g%8, low for g < 8, high for others; its top two are bits
//	             2*(g/4), 2*(g/4)+1 of byte 8+g%4
//	108  d       float16
const bytesQ3_K = 110

// scalesQ3_K gives the scales with their offset taken off.
func scalesQ3_K(b *[12]byte) (scale [16]int32) {
	for g := range scale {
		scale[g] = int32(b[g%8]>>(g/8*4)&15|b[8+g%4]>>(g/4*2)&3<<4) - 32
	}
	return scale
}

func decodeQ3_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[size256:], src[bytesQ3_K:] {
		b, x := (*[bytesQ3_K]byte)(src), (*[size256]float32)(dst)
		d := f16At(b[108:])
		for g, s := range scalesQ3_K((*[12]byte)(b[96:])) {
			scale := d * float32(s)
			hmask, high := (*[16]byte)(b[g%2*16:]), g/2
			qs, shift := (*[16]byte)(b[32+32*(g/8)+16*(g%2):]), g/2%4*2
			for j, y := range qs {
				x[16*g+j] = scale * float32(int32(y>>shift&3|hmask[j]>>high&1<<2)-4)
			}
		}
	}
}

func encodeQ3_K(dst []byte, src []float32) {
	var q [256]uint8
	var scales [16]float32
	for ; len(src) > 0; dst, src = dst[bytesQ3_K:], src[size256:] {
		b, x := (*[bytesQ3_K]byte)(dst), (*[size256]float32)(src)
		for g := range 16 {
			scales[g] = fitSymmetricStepwise(q[16*g:][:16], x[16*g:][:16], 4)
		}
		var scale [16]uint8
		var d float32
		if top, _ := peak(scales[:]); top != 0 {
			inverse := -32 / top
			for g, s := range scales {
				scale[g] = uint8(32 + max(-32, min(31, nearest(inverse*s))))
			}
			d = 1 / inverse
		}
		finishQ3_K(b, &q, x, &scale, d)
	}
}

func encodeWeightedQ3_K(dst []byte, src, importance []float32) {
	var q [256]uint8
	var group, scaleGroup symmetricGroup
	var scales [16]float32
	for ; len(src) > 0; dst, src, importance = dst[bytesQ3_K:], src[size256:], importance[size256:] {
		b, x := (*[bytesQ3_K]byte)(dst), (*[size256]float32)(src)
		meanSquare := float32(2 * sumSquares(x[:]) / 256)
		for g := range 16 {
			y := x[16*g:][:16]
			weighByImportance(group.w[:16], importance[16*g:], y, meanSquare)
			scaleGroup.w[g] = sum(group.w[:16])
			scales[g] = group.fit(q[16*g:][:16], y, 4)
		}
		var scale [16]uint8
		d := scaleGroup.fit(scale[:], scales[:], 32)
		finishQ3_K(b, &q, x, &scale, d)
	}
}

// finishQ3_K rounds d, then the integers once more against the scales as they are stored, and packs them. Where a group's scale
// is zero the integers of the search stay.
func finishQ3_K(b *[bytesQ3_K]byte, q *[256]uint8, x *[256]float32, scale *[16]uint8, d float32) {
	putF16(b[108:], d)
	d = f16At(b[108:])
	clear(b[96:108])
	for g, s := range scale {
		b[96+g%8] |= s & 15 << (g / 8 * 4)
		b[104+g%4] |= s >> 4 << (g / 4 * 2)
		ds := d * float32(int32(s)-32)
		if ds == 0 {
			continue
		}
		for j, v := range x[16*g:][:16] {
			q[16*g+j] = uint8(4 + max(-4, min(3, nearest(v/ds))))
		}
	}
	hmask := (*[32]byte)(b[0:])
	clear(hmask[:])
	for i, v := range q {
		hmask[i%32] |= v >> 2 << (i / 32)
		q[i] = v & 3
	}
	packPairs((*[64]byte)(b[32:]), q)
}

func dotQ3_K(row []byte, a *Activations) float32 {
	var sum float32
	for i := 0; 8*i < len(a.Scale); i++ {
		b := (*[bytesQ3_K]byte)(row[bytesQ3_K*i:])
		as, a16, lanes := (*[8]float32)(a.Scale[8*i:]), (*[16]int32)(a.Sum16[16*i:]), (*[32][2]uint64)(a.lanes[32*i:])
		hmask, scales := (*[32]byte)(b[0:]), scalesQ3_K((*[12]byte)(b[96:]))
		var s float32
		for g, scale := range as {
			qs, q, shift := (*[32]byte)(b[32+32*(g/4):]), (*[4][2]uint64)(lanes[4*g:]), g%4*2
			var n [4]int32
			for r := range n {
				w := word(qs[8*r:])>>shift&0x0303030303030303 | word(hmask[8*r:])>>g&0x0101010101010101<<2
				n[r] = dot5(w, &q[r])
			}
			k0 := n[0] + n[1] - 4*a16[2*g]
			k1 := n[2] + n[3] - 4*a16[2*g+1]
			s += float32(scale * float32(k0*scales[2*g]+k1*scales[2*g+1]))
		}
		sum += float32(f16At(b[108:]) * s)
	}
	return sum
}
