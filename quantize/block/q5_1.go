package block

// Q5_1: x = d*q + m with 5-bit q.
//
//	0  d   float16
//	2  m   float16
//	4  qh  uint32: bit j is the fifth bit of element j
//	8  qs  16 bytes: the low four bits, as in Q4_0
const bytesQ5_1 = 24

func decodeQ5_1(dst []float32, src []byte) {
	var q [32]uint8
	for ; len(dst) > 0; dst, src = dst[size32:], src[bytesQ5_1:] {
		b := (*[bytesQ5_1]byte)(src)
		fiveBits(&q, (*[16]byte)(b[8:]), (*[4]byte)(b[4:]))
		affine((*[32]float32)(dst), &q, f16At(b[0:]), f16At(b[2:]))
	}
}

func encodeQ5_1(dst []byte, src []float32) {
	var q [32]uint8
	for ; len(src) > 0; dst, src = dst[bytesQ5_1:], src[size32:] {
		b := (*[bytesQ5_1]byte)(dst)
		d, m := quantizeAffine(&q, (*[32]float32)(src), 31)
		putF16(b[0:], d)
		putF16(b[2:], m)
		packFiveBits((*[16]byte)(b[8:]), (*[4]byte)(b[4:]), &q)
	}
}

func encodeWeightedQ5_1(dst []byte, src, w []float32) {
	var q [32]uint8
	meanSquare := float32(sumSquares(src) / float32(len(src)))
	for ; len(src) > 0; dst, src, w = dst[bytesQ5_1:], src[size32:], w[size32:] {
		b := (*[bytesQ5_1]byte)(dst)
		d, m := quantizeAffineWeighted(&q, (*[32]float32)(src), w, meanSquare, 31)
		putF16(b[0:], d)
		putF16(b[2:], m)
		packFiveBits((*[16]byte)(b[8:]), (*[4]byte)(b[4:]), &q)
	}
}

func dotQ5_1(row []byte, a *Activations) float32 {
	var sum float32
	for g := range a.Scale {
		b, q := (*[bytesQ5_1]byte)(row[bytesQ5_1*g:]), (*[4][2]uint64)(a.lanes[4*g:])
		n := dotFiveBits((*[4]byte)(b[4:]), (*[16]byte)(b[8:]), q)
		sum += float32(float32(f16At(b[0:])*a.Scale[g])*float32(n)) + float32(f16At(b[2:])*a.Sum[g])
	}
	return sum
}
