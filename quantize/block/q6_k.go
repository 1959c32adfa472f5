package block

// Q6_K: 16 groups of 16 elements, x = d*scale*(q-32) with 6-bit q and signed 8-bit scale.
//
// Each half of 128 elements has 64 bytes of ql and 32 of qh. For j < 32 its elements j, j+32, j+64, j+96 have
// their low four bits in ql[j] low, ql[j+32] low, ql[j] high, ql[j+32] high, and their top two in qh[j], from the lowest pair up.
//
//	  0  ql      128 bytes
//	128  qh      64 bytes
//	192  scales  16 int8
//	208  d       float16
const bytesQ6_K = 210

func decodeQ6_K(dst []float32, src []byte) {
	for ; len(dst) > 0; dst, src = dst[size256:], src[bytesQ6_K:] {
		b, x := (*[bytesQ6_K]byte)(src), (*[size256]float32)(dst)
		d := f16At(b[208:])
		for half := range 2 {
			ql, qh := (*[64]byte)(b[64*half:]), (*[32]byte)(b[128+32*half:])
			scales, y := (*[8]byte)(b[192+8*half:]), (*[128]float32)(x[128*half:])
			var ds [8]float32
			for j, s := range scales {
				ds[j] = d * float32(int8(s))
			}
			for j, h := range qh {
				lo, hi, g := ql[j], ql[j+32], j/16
				y[j] = ds[g] * float32(int32(lo&15|h&3<<4)-32)
				y[j+32] = ds[g+2] * float32(int32(hi&15|h>>2&3<<4)-32)
				y[j+64] = ds[g+4] * float32(int32(lo>>4|h>>4&3<<4)-32)
				y[j+96] = ds[g+6] * float32(int32(hi>>4|h>>6<<4)-32)
			}
		}
	}
}

func encodeQ6_K(dst []byte, src []float32) { encodeWeightedQ6_K(dst, src, nil) }

// encodeWeightedQ6_K takes the importance weights as they are, and the squares of the elements where there are none.
func encodeWeightedQ6_K(dst []byte, src, importance []float32) {
	var q [256]uint8
	var scales [16]float32
	var group symmetricGroup
	for at := 0; at < len(src); at, dst = at+size256, dst[bytesQ6_K:] {
		b, x := (*[bytesQ6_K]byte)(dst), (*[size256]float32)(src[at:])
		for g := range scales {
			y := x[16*g:][:16]
			if importance != nil {
				copy(group.w[:], importance[at+16*g:][:16])
			} else {
				for j, v := range y {
					group.w[j] = v * v
				}
			}
			scales[g] = group.fit(q[16*g:][:16], y, 32)
		}
		top, magnitude := peak(scales[:])
		if magnitude < negligible {
			clear(b[:])
			continue
		}
		finishQ6_K(b, &q, x, &scales, -128/top)
	}
}

// finishQ6_K rounds d and the scales, which are inverse times those found, then the integers once more against them, and
// packs all. Where a group's scale is zero the integers of the search stay.
func finishQ6_K(b *[bytesQ6_K]byte, q *[256]uint8, x *[256]float32, scales *[16]float32, inverse float32) {
	putF16(b[208:], 1/inverse)
	d := f16At(b[208:])
	for g, s := range scales {
		scale := int8(min(127, nearest(inverse*s)))
		b[192+g] = byte(scale)
		ds := d * float32(scale)
		if ds == 0 {
			continue
		}
		for j, v := range x[16*g:][:16] {
			q[16*g+j] = uint8(32 + max(-32, min(31, nearest(v/ds))))
		}
	}
	packQ6_K(b, q)
}

func packQ6_K(b *[bytesQ6_K]byte, q *[256]uint8) {
	for half := range 2 {
		ql, qh, h := (*[64]byte)(b[64*half:]), (*[32]byte)(b[128+32*half:]), (*[128]uint8)(q[128*half:])
		for j := range qh {
			a, b, c, d := h[j], h[j+32], h[j+64], h[j+96]
			ql[j] = a&15 | c<<4
			ql[j+32] = b&15 | d<<4
			qh[j] = a>>4 | b>>4<<2 | c>>4<<4 | d>>4<<6
		}
	}
}

func dotQ6_K(row []byte, a *Activations) float32 {
	var sum float32
	for i := 0; 8*i < len(a.Scale); i++ {
		b := (*[bytesQ6_K]byte)(row[bytesQ6_K*i:])
		as, a16, lanes := (*[8]float32)(a.Scale[8*i:]), (*[16]int32)(a.Sum16[16*i:]), (*[32][2]uint64)(a.lanes[32*i:])
		var n [16]int32 // sums of the unsigned integers times the activations, by group
		for half := range 2 {
			ql, qh, q := (*[64]byte)(b[64*half:]), (*[32]byte)(b[128+32*half:]), (*[16][2]uint64)(lanes[16*half:])
			m := (*[8]int32)(n[8*half:])
			for r := range 4 {
				const pairs = 0x0303030303030303
				lo, hi, h := word(ql[8*r:]), word(ql[8*r+32:]), word(qh[8*r:])
				m[r/2] += dot6(lo&nibbleBytes|h&pairs<<4, &q[r])
				m[r/2+2] += dot6(hi&nibbleBytes|h>>2&pairs<<4, &q[r+4])
				m[r/2+4] += dot6(lo>>4&nibbleBytes|h>>4&pairs<<4, &q[r+8])
				m[r/2+6] += dot6(hi>>4&nibbleBytes|h>>6&pairs<<4, &q[r+12])
			}
		}
		var s float32
		for g, scale := range as {
			k0, k1 := int32(int8(b[192+2*g])), int32(int8(b[193+2*g]))
			s += float32(scale * float32(k0*(n[2*g]-32*a16[2*g])+k1*(n[2*g+1]-32*a16[2*g+1])))
		}
		sum += float32(f16At(b[208:]) * s)
	}
	return sum
}
