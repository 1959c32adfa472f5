package block

// Q5_K: 8 groups of 32 elements, x = d*scale*q - dmin*min with 5-bit q and 6-bit scale and min.
//
//	 0  d       float16
//	 2  dmin    float16
//	 4  scales  12 bytes, see scales6
//	16  qh      32 bytes: bit i of byte j is the fifth bit of element 32*i+j
//	48  qs      the low four bits, as in Q4_K
const bytesQ5_K = 176

func decodeQ5_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[size256:], src[bytesQ5_K:] {
		b, x := (*[bytesQ5_K]byte)(src), (*[size256]float32)(dst)
		d, dmin := f16At(b[0:]), f16At(b[2:])
		scale, minimum := unpackScales6((*scales6)(b[4:]))
		qh := (*[32]byte)(b[16:])
		for i := range 4 {
			qs := (*[32]byte)(b[48+32*i:])
			d0, m0 := d*float32(scale[2*i]), float32(dmin*float32(minimum[2*i]))
			d1, m1 := d*float32(scale[2*i+1]), float32(dmin*float32(minimum[2*i+1]))
			x0, x1 := (*[32]float32)(x[64*i:]), (*[32]float32)(x[64*i+32:])
			for j, q := range qs {
				h := qh[j] >> (2 * i)
				x0[j] = float32(d0*float32(q&15|h&1<<4)) - m0
				x1[j] = float32(d1*float32(q>>4|h&2<<3)) - m1
			}
		}
	}
}

var formatQ5_K = affineFormat{
	plain:         affineSearch{levels: 31, start: -0.5, step: 0.1, steps: 15},
	weighted:      affineSearch{levels: 31, start: -0.9, step: 0.05, steps: 36},
	limitWeighted: true,
}

func encodeQ5_K(dst []byte, src []float32) {
	var a affineBlock
	for ; len(src) > 0; dst, src = dst[bytesQ5_K:], src[size256:] {
		formatQ5_K.encode(&a, (*[256]float32)(src))
		packQ5_K((*[bytesQ5_K]byte)(dst), &a)
	}
}

func encodeWeightedQ5_K(dst []byte, src, w []float32) {
	var a affineBlock
	for ; len(src) > 0; dst, src, w = dst[bytesQ5_K:], src[size256:], w[size256:] {
		formatQ5_K.encodeWeighted(&a, (*[256]float32)(src), w)
		packQ5_K((*[bytesQ5_K]byte)(dst), &a)
	}
}

func packQ5_K(b *[bytesQ5_K]byte, a *affineBlock) {
	a.header((*[16]byte)(b[:]))
	qh := (*[32]byte)(b[16:])
	clear(qh[:])
	for i := range 4 {
		qs, q := (*[32]byte)(b[48+32*i:]), (*[64]uint8)(a.q[64*i:])
		for j := range qs {
			qs[j] = q[j]&15 | q[j+32]<<4
			qh[j] |= (q[j]>>4 | q[j+32]>>4<<1) << (2 * i)
		}
	}
}

func dotQ5_K(row []byte, a *Activations) float32 {
	var sum float32
	for i := 0; 8*i < len(a.Scale); i++ {
		b := (*[bytesQ5_K]byte)(row[bytesQ5_K*i:])
		as, am, lanes := (*[8]float32)(a.Scale[8*i:]), (*[8]float32)(a.Sum[8*i:]), (*[32][2]uint64)(a.lanes[32*i:])
		scale, minimum := unpackScales6((*scales6)(b[4:]))
		qh := (*[32]byte)(b[16:])
		var s, m float32
		for p := range 4 {
			qs, q := (*[32]byte)(b[48+32*p:]), (*[8][2]uint64)(lanes[8*p:])
			var n0, n1 int32
			for r := range 4 {
				w, h := word(qs[8*r:]), word(qh[8*r:])>>(2*p)
				n0 += dot5(w&nibbleBytes|h&0x0101010101010101<<4, &q[r])
				n1 += dot5(w>>4&nibbleBytes|h&0x0202020202020202<<3, &q[r+4])
			}
			s += float32(as[2*p]*float32(n0*int32(scale[2*p]))) + float32(as[2*p+1]*float32(n1*int32(scale[2*p+1])))
			m += float32(am[2*p]*float32(minimum[2*p])) + float32(am[2*p+1]*float32(minimum[2*p+1]))
		}
		sum += float32(f16At(b[0:])*s) - float32(f16At(b[2:])*m)
	}
	return sum
}
