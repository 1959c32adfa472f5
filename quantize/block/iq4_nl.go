package block

// IQ4_NL: x = d*codebook[q] with 4-bit q.
//
//	0  d   float16
//	2  qs  16 bytes, as in Q4_0
const bytesIQ4_NL = 18

func decodeIQ4_NL(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[size32:], src[bytesIQ4_NL:] {
		b := (*[bytesIQ4_NL]byte)(src)
		codebookValues((*[32]float32)(dst), (*[16]byte)(b[2:]), f16At(b[0:]))
	}
}

func encodeIQ4_NL(dst []byte, src []float32) { encodeWeightedIQ4_NL(dst, src, nil) }

func encodeWeightedIQ4_NL(dst []byte, src, importance []float32) {
	var w [32]float32
	for at := 0; at < len(src); at, dst = at+size32, dst[bytesIQ4_NL:] {
		b, x := (*[bytesIQ4_NL]byte)(dst), (*[32]float32)(src[at:])
		codebookWeights(w[:], x[:], at32(importance, at), float32(2*sumSquares(x[:])/32))
		d := fitCodebook(x[:], w[:])
		putF16(b[0:], d)
		roundToCodebook((*[16]byte)(b[2:]), x, inverseOrZero(d))
	}
}

func dotIQ4_NL(row []byte, a *Activations) float32 {
	var sum float32
	for g, scale := range a.Scale {
		b := (*[bytesIQ4_NL]byte)(row[bytesIQ4_NL*g:])
		n := dotCodebook((*[16]byte)(b[2:]), (*[32]int8)(a.Q[32*g:]))
		sum += float32(float32(f16At(b[0:])*scale) * float32(n))
	}
	return sum
}
