package block

// Q4_1: x = d*q + m with 4-bit q.
//
//	0  d   float16
//	2  m   float16
//	4  qs  16 bytes, as in Q4_0
const bytesQ4_1 = 20

func decodeQ4_1(dst []float32, src []byte) {
	var q [32]uint8
	for ; len(dst) > 0; dst, src = dst[size32:], src[bytesQ4_1:] {
		b := (*[bytesQ4_1]byte)(src)
		nibbles(&q, (*[16]byte)(b[4:]))
		affine((*[32]float32)(dst), &q, f16At(b[0:]), f16At(b[2:]))
	}
}

func encodeQ4_1(dst []byte, src []float32) {
	var q [32]uint8
	for ; len(src) > 0; dst, src = dst[bytesQ4_1:], src[size32:] {
		b := (*[bytesQ4_1]byte)(dst)
		d, m := quantizeAffine(&q, (*[32]float32)(src), 15)
		putF16(b[0:], d)
		putF16(b[2:], m)
		packNibbles((*[16]byte)(b[4:]), &q)
	}
}

func encodeWeightedQ4_1(dst []byte, src, w []float32) {
	var q [32]uint8
	meanSquare := float32(sumSquares(src) / float32(len(src)))
	for ; len(src) > 0; dst, src, w = dst[bytesQ4_1:], src[size32:], w[size32:] {
		b := (*[bytesQ4_1]byte)(dst)
		d, m := quantizeAffineWeighted(&q, (*[32]float32)(src), w, meanSquare, 15)
		putF16(b[0:], d)
		putF16(b[2:], m)
		packNibbles((*[16]byte)(b[4:]), &q)
	}
}

func dotQ4_1(row []byte, a *Activations) float32 {
	var sum float32
	for g := range a.Scale {
		b, q := (*[bytesQ4_1]byte)(row[bytesQ4_1*g:]), (*[4][2]uint64)(a.lanes[4*g:])
		n := dotNibbles(word(b[4:]), &q[0], &q[2]) + dotNibbles(word(b[12:]), &q[1], &q[3])
		sum += float32(float32(f16At(b[0:])*a.Scale[g])*float32(n)) + float32(f16At(b[2:])*a.Sum[g])
	}
	return sum
}
