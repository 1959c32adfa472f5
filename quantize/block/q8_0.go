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
		d := largestMagnitude(x[:]) / 127
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

func dotQ8_0(row []byte, a *Activations) float32 {
	const signs = 0x8080808080808080 // flipped, they turn a signed byte into an unsigned one that is greater by 128
	var sum float32
	for g := range a.Scale {
		b, q := (*[bytesQ8_0]byte)(row[bytesQ8_0*g:]), (*[4][2]uint64)(a.lanes[4*g:])
		n := dot8(word(b[2:])^signs, &q[0]) + dot8(word(b[10:])^signs, &q[1]) +
			dot8(word(b[18:])^signs, &q[2]) + dot8(word(b[26:])^signs, &q[3]) - 128*a.sum32(g)
		sum += float32(float32(f16At(b[0:])*a.Scale[g]) * float32(n))
	}
	return sum
}
