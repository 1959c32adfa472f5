package block

// Q8_0: x = d*q with signed 8-bit q.
//
//	0  d   float16
//	2  qs  32 int8
const bytesQ8_0 = 34

func decodeQ8_0(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[size32:], src[bytesQ8_0:] {
		b, x := (*[bytesQ8_0]byte)(src), (*[32]float32)(dst)
		d := f16At(b[0:])
		for j := range x {
			x[j] = d * float32(int8(b[2+j]))
		}
	}
}

func encodeQ8_0(dst []byte, src []float32) {
	for ; len(src) > 0; dst, src = dst[bytesQ8_0:], src[size32:] {
		b, x := (*[bytesQ8_0]byte)(dst), (*[32]float32)(src)
		_, top := peak(x[:])
		d := top / 127
		putF16(b[0:], d)
		qs := (*[32]byte)(b[2:])
		inverse, ok := reciprocal(d)
		if !ok {
			clear(qs[:])
			continue
		}
		for j, v := range x {
			qs[j] = uint8(roundAway(v * inverse))
		}
	}
}
