package block

// Q5_0: x = d*(q-16) with 5-bit q.
//
//	0  d   float16
//	2  qh  uint32: bit j is the fifth bit of element j
//	6  qs  16 bytes: the low four bits, as in Q4_0
const bytesQ5_0 = 22

func decodeQ5_0(dst []float32, src []byte) {
	var q [32]uint8
	for ; len(dst) > 0; dst, src = dst[size32:], src[bytesQ5_0:] {
		b := (*[bytesQ5_0]byte)(src)
		fiveBits(&q, (*[16]byte)(b[6:]), (*[4]byte)(b[2:]))
		centred((*[32]float32)(dst), &q, 16, f16At(b[0:]))
	}
}

func encodeQ5_0(dst []byte, src []float32) {
	var q [32]uint8
	for ; len(src) > 0; dst, src = dst[bytesQ5_0:], src[size32:] {
		b := (*[bytesQ5_0]byte)(dst)
		putF16(b[0:], quantizeCentred(&q, (*[32]float32)(src), 16))
		packFiveBits((*[16]byte)(b[6:]), (*[4]byte)(b[2:]), &q)
	}
}

func encodeWeightedQ5_0(dst []byte, src, w []float32) {
	var q [32]uint8
	meanSquare := float32(sumSquares(src) / float32(len(src)))
	for ; len(src) > 0; dst, src, w = dst[bytesQ5_0:], src[size32:], w[size32:] {
		b := (*[bytesQ5_0]byte)(dst)
		putF16(b[0:], quantizeCentredWeighted(&q, (*[32]float32)(src), w, meanSquare, 16))
		packFiveBits((*[16]byte)(b[6:]), (*[4]byte)(b[2:]), &q)
	}
}

func dotQ5_0(row []byte, a *Activations) float32 {
	var sum float32
	for g := range a.Scale {
		b, q := (*[bytesQ5_0]byte)(row[bytesQ5_0*g:]), (*[4][2]uint64)(a.lanes[4*g:])
		n := dotFiveBits((*[4]byte)(b[2:]), (*[16]byte)(b[6:]), q) - 16*a.sum32(g)
		sum += float32(float32(f16At(b[0:])*a.Scale[g]) * float32(n))
	}
	return sum
}

// dotFiveBits adds up the products of the 32 unsigned integers of a block of Q5_0 or Q5_1 with a group of activations.
func dotFiveBits(qh *[4]byte, qs *[16]byte, q *[4][2]uint64) int32 {
	w0, w1 := word(qs[0:]), word(qs[8:])
	return dot5(w0&nibbleBytes|spreadBits(qh[0]), &q[0]) + dot5(w1&nibbleBytes|spreadBits(qh[1]), &q[1]) +
		dot5(w0>>4&nibbleBytes|spreadBits(qh[2]), &q[2]) + dot5(w1>>4&nibbleBytes|spreadBits(qh[3]), &q[3])
}
