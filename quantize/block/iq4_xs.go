package block

import "encoding/binary"

// IQ4_XS: 8 groups of 32 elements, x = d*(scale-32)*codebook[q] with 4-bit q and 6-bit scale.
//
//	0  d         float16
//	2  scales_h  uint16: bits 2*g, 2*g+1 are the top two bits of scale g
//	4  scales_l  4 bytes: the low four bits of scale g in byte g/2, low for even g
//	8  qs        8 runs of 16 bytes, each as in Q4_0
const bytesIQ4_XS = 136

// scaleIQ4_XS is the scale of group g with its offset taken off.
func scaleIQ4_XS(b *[bytesIQ4_XS]byte, g int) int32 {
	low, high := b[4+g/2]>>(g%2*4)&15, binary.LittleEndian.Uint16(b[2:])>>(2*g)&3
	return int32(low|uint8(high)<<4) - 32
}

func decodeIQ4_XS(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[size256:], src[bytesIQ4_XS:] {
		b, x := (*[bytesIQ4_XS]byte)(src), (*[size256]float32)(dst)
		d := f16At(b[0:])
		for g := range 8 {
			codebookValues((*[32]float32)(x[32*g:]), (*[16]byte)(b[8+16*g:]), d*float32(scaleIQ4_XS(b, g)))
		}
	}
}

func encodeIQ4_XS(dst []byte, src []float32) { encodeWeightedIQ4_XS(dst, src, nil) }

func encodeWeightedIQ4_XS(dst []byte, src, importance []float32) {
	var w [32]float32
	var scales [8]float32
	for at := 0; at < len(src); at, dst = at+size256, dst[bytesIQ4_XS:] {
		b, x := (*[bytesIQ4_XS]byte)(dst), (*[size256]float32)(src[at:])
		meanSquare := float32(2 * sumSquares(x[:]) / 256)
		for g := range scales {
			y := x[32*g:][:32]
			codebookWeights(w[:], y, at32(importance, at+32*g), meanSquare)
			scales[g] = fitCodebook(y, w[:])
		}
		top, _ := peak(scales[:])
		d := -top / 32
		putF16(b[0:], d)
		clear(b[2:8])
		inverse := inverseOrZero(d)
		var high uint16
		for g, s := range scales {
			l := max(-32, min(31, nearest(inverse*s)))
			b[4+g/2] |= uint8(l+32) & 15 << (g % 2 * 4)
			high |= uint16(l+32) >> 4 << (2 * g)
			// The group's scale before d is rounded to float16.
			roundToCodebook((*[16]byte)(b[8+16*g:]), (*[32]float32)(x[32*g:]), inverseOrZero(d*float32(l)))
		}
		binary.LittleEndian.PutUint16(b[2:], high)
	}
}

func dotIQ4_XS(row []byte, a *Activations) float32 {
	var sum float32
	for i := 0; 8*i < len(a.Scale); i++ {
		b := (*[bytesIQ4_XS]byte)(row[bytesIQ4_XS*i:])
		as, q := (*[8]float32)(a.Scale[8*i:]), (*[256]int8)(a.Q[256*i:])
		var s float32
		for g, scale := range as {
			n := dotCodebook((*[16]byte)(b[8+16*g:]), (*[32]int8)(q[32*g:]))
			s += float32(scale * float32(n*scaleIQ4_XS(b, g)))
		}
		sum += float32(f16At(b[0:]) * s)
	}
	return sum
}
