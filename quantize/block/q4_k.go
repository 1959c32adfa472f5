package block

// Q4_K: 8 groups of 32 elements, x = d*scale*q - dmin*min with 4-bit q and 6-bit scale and min.
//
//	 0  d       float16
//	 2  dmin    float16
//	 4  scales  12 bytes, see scales6
//	16  qs      4 runs of 32 bytes: byte j of run i holds element 64*i+j low, element 64*i+32+j high
const bytesQ4_K = 144

func decodeQ4_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[size256:], src[bytesQ4_K:] {
		b, x := (*[bytesQ4_K]byte)(src), (*[size256]float32)(dst)
		d, dmin := f16At(b[0:]), f16At(b[2:])
		scale, minimum := unpackScales6((*scales6)(b[4:]))
		for i := range 4 {
			qs := (*[32]byte)(b[16+32*i:])
			d0, m0 := d*float32(scale[2*i]), float32(dmin*float32(minimum[2*i]))
			d1, m1 := d*float32(scale[2*i+1]), float32(dmin*float32(minimum[2*i+1]))
			x0, x1 := (*[32]float32)(x[64*i:]), (*[32]float32)(x[64*i+32:])
			for j, q := range qs {
				x0[j] = float32(d0*float32(q&15)) - m0
				x1[j] = float32(d1*float32(q>>4)) - m1
			}
		}
	}
}

var formatQ4_K = affineFormat{
	plain:    affineSearch{levels: 15, start: -1, step: 0.1, steps: 20},
	weighted: affineSearch{levels: 15, start: -0.9, step: 0.05, steps: 36},
}

func encodeQ4_K(dst []byte, src []float32) {
	var a affineBlock
	for ; len(src) > 0; dst, src = dst[bytesQ4_K:], src[size256:] {
		formatQ4_K.encode(&a, (*[256]float32)(src))
		packQ4_K((*[bytesQ4_K]byte)(dst), &a)
	}
}

func encodeWeightedQ4_K(dst []byte, src, w []float32) {
	var a affineBlock
	for ; len(src) > 0; dst, src, w = dst[bytesQ4_K:], src[size256:], w[size256:] {
		formatQ4_K.encodeWeighted(&a, (*[256]float32)(src), w)
		packQ4_K((*[bytesQ4_K]byte)(dst), &a)
	}
}

func packQ4_K(b *[bytesQ4_K]byte, a *affineBlock) {
	a.header((*[16]byte)(b[:]))
	for i := range 4 {
		qs, q := (*[32]byte)(b[16+32*i:]), (*[64]uint8)(a.q[64*i:])
		for j := range qs {
			qs[j] = q[j] | q[j+32]<<4
		}
	}
}

func dotQ4_K(row []byte, a *Activations) float32 {
	var sum float32
	for i := 0; 8*i < len(a.Scale); i++ {
		b := (*[bytesQ4_K]byte)(row[bytesQ4_K*i:])
		as, am, lanes := (*[8]float32)(a.Scale[8*i:]), (*[8]float32)(a.Sum[8*i:]), (*[32][2]uint64)(a.lanes[32*i:])
		scale, minimum := unpackScales6((*scales6)(b[4:]))
		var s, m float32
		for p := range 4 {
			qs, q := (*[32]byte)(b[16+32*p:]), (*[8][2]uint64)(lanes[8*p:])
			n0, n1 := dotNibblePairs(qs, q)
			s += float32(as[2*p]*float32(n0*int32(scale[2*p]))) + float32(as[2*p+1]*float32(n1*int32(scale[2*p+1])))
			m += float32(am[2*p]*float32(minimum[2*p])) + float32(am[2*p+1]*float32(minimum[2*p+1]))
		}
		sum += float32(f16At(b[0:])*s) - float32(f16At(b[2:])*m)
	}
	return sum
}

// dotNibblePairs multiplies the low halves of 32 bytes with the first 32 activations and the high halves with the others.
func dotNibblePairs(qs *[32]byte, q *[8][2]uint64) (low, high int32) {
	for r := range 4 {
		w, l, h := word(qs[8*r:]), &q[r], &q[r+4]
		low += digit((w&nibbleLanes)*l[0] + (w>>8&nibbleLanes)*l[1])
		high += digit((w>>4&nibbleLanes)*h[0] + (w>>12&nibbleLanes)*h[1])
	}
	return low, high
}
