package block

// Q4_0: x = d*(q-8) with 4-bit q.
//
//	0  d   float16
//	2  qs  16 bytes: element j in the low half of byte j, element j+16 in the high half
const bytesQ4_0 = 18

func decodeQ4_0(dst []float32, src []byte) {
	var q [32]uint8
	for ; len(dst) > 0; dst, src = dst[size32:], src[bytesQ4_0:] {
		b := (*[bytesQ4_0]byte)(src)
		nibbles(&q, (*[16]byte)(b[2:]))
		centred((*[32]float32)(dst), &q, 8, f16At(b[0:]))
	}
}

func encodeQ4_0(dst []byte, src []float32) {
	var q [32]uint8
	for ; len(src) > 0; dst, src = dst[bytesQ4_0:], src[size32:] {
		b := (*[bytesQ4_0]byte)(dst)
		putF16(b[0:], quantizeCentred(&q, (*[32]float32)(src), 8))
		packNibbles((*[16]byte)(b[2:]), &q)
	}
}

func encodeWeightedQ4_0(dst []byte, src, w []float32) {
	var q [32]uint8
	meanSquare := float32(sumSquares(src) / float32(len(src)))
	for ; len(src) > 0; dst, src, w = dst[bytesQ4_0:], src[size32:], w[size32:] {
		b := (*[bytesQ4_0]byte)(dst)
		putF16(b[0:], quantizeCentredWeighted(&q, (*[32]float32)(src), w, meanSquare, 8))
		packNibbles((*[16]byte)(b[2:]), &q)
	}
}

func dotQ4_0(row []byte, a *Activations) float32 {
	var sum float32
	for g := range a.Scale {
		b, q := (*[bytesQ4_0]byte)(row[bytesQ4_0*g:]), (*[4][2]uint64)(a.lanes[4*g:])
		n := dotNibbles(word(b[2:]), &q[0], &q[2]) + dotNibbles(word(b[10:]), &q[1], &q[3]) - 8*a.sum32(g)
		sum += float32(float32(f16At(b[0:])*a.Scale[g]) * float32(n))
	}
	return sum
}
