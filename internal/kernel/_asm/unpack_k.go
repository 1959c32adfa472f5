package main

import "fmt"

// Unpackers of the super-blocks of 256 elements with scales of few bits.

// interleaved8x16 transposes bytes: X0 to X7 hold 16 of each of 8 rows; then the low half of X(8+i) has byte 2i of all rows
// and the high half byte 2i+1.
func interleaved8x16(f *file) {
	for i := range 4 {
		f.p("VPUNPCKLBW X%d, X%d, X%d", 2*i+1, 2*i, 8+i)
		f.p("VPUNPCKHBW X%d, X%d, X%d", 2*i+1, 2*i, 12+i)
	}
	for s := range 2 {
		b := 8 + 4*s
		f.p("VPUNPCKLWD X%d, X%d, X%d", b+1, b, 4*s)
		f.p("VPUNPCKHWD X%d, X%d, X%d", b+1, b, 4*s+1)
		f.p("VPUNPCKLWD X%d, X%d, X%d", b+3, b+2, 4*s+2)
		f.p("VPUNPCKHWD X%d, X%d, X%d", b+3, b+2, 4*s+3)
	}
	for s := range 2 {
		for h := range 2 {
			f.p("VPUNPCKLDQ X%d, X%d, X%d", 4*s+2+h, 4*s+h, 8+4*s+2*h)
			f.p("VPUNPCKHDQ X%d, X%d, X%d", 4*s+2+h, 4*s+h, 8+4*s+2*h+1)
		}
	}
}

// eachInterleaved calls use for the 8 bytes of each of the 16 indices that interleaved8x16 left, in the low half of X(register).
func eachInterleaved(f *file, use func(index, register int)) {
	for i := range 16 {
		x := 8 + i/2
		if i%2 == 1 {
			f.p("VPSRLDQ $8, X%d, X%d", x, x)
		}
		use(i, x)
	}
}

// headerScales6 turns the 16 first bytes of a Q4_K or Q5_K block in Xfrom into 8 scales and 8 minimums, one byte each, in Xto. Bytes 4 to 7
// have the first four scales and, in their top bits, the top bits of the last four; 8 to 11 the same of the minimums; 12 to 15 the low
// four bits of the last ones, scales low, minimums high.
func headerScales6(f *file, from, to, temp int) {
	shift := f.constant("scales6Shift", repeat(2, 0, 0x0000000400000000)...)
	low := f.constant("scales6Low", repeat(2, 0x0f0f0f0f3f3f3f3f, 0x0f0f0f0f3f3f3f3f)...)
	high := f.constant("scales6High", repeat(2, 0x3030303000000000, 0x3030303000000000)...)
	f.p("VPSHUFD $0xED, X%d, X%d", from, to)   // dwords 1 3 2 3
	f.p("VPSHUFD $0x84, X%d, X%d", from, temp) // dwords 0 1 0 2
	f.p("VPSRLVD %s, X%d, X%d", shift, to, to)
	f.p("VPSRLD $2, X%d, X%d", temp, temp)
	f.p("VPAND %s, X%d, X%d", low, to, to)
	f.p("VPAND %s, X%d, X%d", high, temp, temp)
	f.p("VPOR X%d, X%d, X%d", temp, to, to)
}

func bodyQ4_K(f *file) {
	for j := range 4 {
		for part := range 2 {
			transposed(f, 16+32*j+16*part)
			splitNibbles(f)
			storeGroups(f, 4, 2*j*640, 4*part)
			storeGroups(f, 0, (2*j+1)*640, 4*part)
		}
	}
	factorsScales6(f)
}

func bodyQ5_K(f *file) {
	sixteens := f.constant("sixteens", repeat(4, 0x1010101010101010)...)
	for part := range 2 {
		transposed(f, 16+16*part) // the fifth bits of all sub-blocks
		for g := range 4 {
			f.p("VMOVDQA Y%d, Y%d", g, 8+g)
		}
		for j := range 4 {
			transposed(f, 48+32*j+16*part)
			splitNibbles(f)
			for g := range 4 {
				for high := range 2 {
					bit, to := 2*j+high, []int{4 + g, g}[high]
					if bit < 4 {
						f.p("VPSLLW $%d, Y%d, Y12", 4-bit, 8+g)
					} else {
						f.p("VPSRLW $%d, Y%d, Y12", bit-4, 8+g)
					}
					f.p("VPAND %s, Y12, Y12", sixteens)
					f.p("VPOR Y12, Y%d, Y%d", to, to)
				}
			}
			storeGroups(f, 4, 2*j*640, 4*part)
			storeGroups(f, 0, (2*j+1)*640, 4*part)
		}
	}
	factorsScales6(f)
}

// factorsScales6 stores d*scale and -dmin*min of the 8 sub-blocks of Q4_K or Q5_K.
func factorsScales6(f *file) {
	for r := range 8 {
		f.p("VMOVDQU %s, X8", row(r, 0))
		headerScales6(f, 8, r, 9)
	}
	interleaved8x16(f)
	halfPairs(f, 0, 0)
	negate(f, 1, 2)
	eachInterleaved(f, func(i, x int) {
		f.p("VPMOVZXBD X%d, Y3", x)
		f.p("VCVTDQ2PS Y3, Y3")
		f.p("VMULPS Y%d, Y3, Y3", i/8)
		f.p("VMOVAPS Y3, %d(DX)", i%8*640+atScale+64*(i/8))
	})
	loadNibbleMask(f)
}

// negate subtracts Yr from zero.
func negate(f *file, r, temp int) {
	f.p("VXORPS Y%d, Y%d, Y%d", temp, temp, temp)
	f.p("VSUBPS Y%d, Y%d, Y%d", r, temp, r)
}

// halfScales stores the scales of the 16 groups of 16 elements, signed bytes as interleaved8x16 left them, and the factor in Y0 for
// every sub-block. Where minusOffset names a constant, the weights are stored with an offset, and the minimums are
// factor * minusOffset * scale.
func halfScales(f *file, minusOffset string) {
	if minusOffset != "" {
		f.p("VMULPS %s, Y0, Y1", minusOffset)
	}
	eachInterleaved(f, func(i, x int) {
		block := i / 2 * 832
		f.p("VPMOVSXBD X%d, Y3", x)
		f.p("VPSLLD $16, Y3, Y4")
		f.p("VPBLENDW $0xAA, Y4, Y3, Y4")
		f.p("VMOVDQA Y4, %d(DX)", block+atHalfScales+64*(i%2))
		if minusOffset != "" {
			f.p("VCVTDQ2PS Y3, Y3")
			f.p("VMULPS Y1, Y3, Y3")
			f.p("VMOVAPS Y3, %d(DX)", block+atHalfMins+64*(i%2))
		}
		if i%2 == 0 {
			f.p("VMOVAPS Y0, %d(DX)", block+atHalfFactor)
		}
	})
}

func bodyQ6_K(f *file) {
	pairs := f.constant("topPairs", repeat(4, 0x3030303030303030)...)
	for half := range 2 {
		for part := range 2 {
			transposed(f, 128+32*half+16*part) // two top bits of elements j, j+32, j+64, j+96
			for g := range 4 {
				f.p("VMOVDQA Y%d, Y%d", g, 8+g)
			}
			for second := range 2 { // low four bits of j and j+64, then of j+32 and j+96
				transposed(f, 64*half+32*second+16*part)
				splitNibbles(f)
				for g := range 4 {
					for high := range 2 {
						shift, to := 2*(second+2*high), []int{4 + g, g}[high]
						if shift < 4 {
							f.p("VPSLLW $%d, Y%d, Y12", 4-shift, 8+g)
						} else {
							f.p("VPSRLW $%d, Y%d, Y12", shift-4, 8+g)
						}
						f.p("VPAND %s, Y12, Y12", pairs)
						f.p("VPOR Y12, Y%d, Y%d", to, to)
					}
				}
				storeGroups(f, 4, (4*half+second)*832, 4*part)
				storeGroups(f, 0, (4*half+second+2)*832, 4*part)
			}
		}
	}
	for r := range 8 {
		f.p("VMOVDQU %s, X%d", row(r, 192), r)
	}
	interleaved8x16(f)
	words(f, 0, 208)
	f.p("VCVTPH2PS X0, Y0")
	halfScales(f, f.constant("minus32", dwordsOf(func(int) uint32 { return 0xc2000000 })...))
	loadNibbleMask(f)
}

// pairsOfBits stores the 2-bit integers of Q2_K and Q3_K, which start at offset; add completes the four vectors Y4 to Y7 of sub-block s.
func pairsOfBits(f *file, offset int, before func(part int), add func(s int)) {
	for part := range 2 {
		before(part)
		for run := range 2 {
			transposed(f, offset+32*run+16*part)
			f.p("VMOVDQU %s, Y13", f.constant("lowPairs", repeat(4, 0x0303030303030303)...))
			for j := range 4 {
				for g := range 4 {
					if j == 0 {
						f.p("VPAND Y13, Y%d, Y%d", g, 4+g)
					} else {
						f.p("VPSRLW $%d, Y%d, Y%d", 2*j, g, 4+g)
						f.p("VPAND Y13, Y%d, Y%d", 4+g, 4+g)
					}
				}
				add(4*run + j)
				storeGroups(f, 4, (4*run+j)*832, 4*part)
			}
		}
	}
}

func bodyQ2_K(f *file) {
	pairsOfBits(f, 16, func(int) {}, func(int) {})
	nibbles := f.constant("nibbles", repeat(4, 0x0f0f0f0f0f0f0f0f)...)
	for r := range 8 { // scales: the low halves of the first bytes
		f.p("VMOVDQU %s, X%d", row(r, 0), r)
		f.p("VPAND %s, X%d, X%d", nibbles, r, r)
	}
	interleaved8x16(f)
	words(f, 0, 80)
	f.p("VCVTPH2PS X0, Y0")
	halfScales(f, "")
	for r := range 8 { // minimums: the high halves
		f.p("VMOVDQU %s, X%d", row(r, 0), r)
		f.p("VPSRLW $4, X%d, X%d", r, r)
		f.p("VPAND %s, X%d, X%d", nibbles, r, r)
	}
	interleaved8x16(f)
	words(f, 1, 82)
	f.p("VCVTPH2PS X1, Y1")
	negate(f, 1, 2)
	eachInterleaved(f, func(i, x int) {
		f.p("VPMOVZXBD X%d, Y3", x)
		f.p("VCVTDQ2PS Y3, Y3")
		f.p("VMULPS Y1, Y3, Y3")
		f.p("VMOVAPS Y3, %d(DX)", i/2*832+atHalfMins+64*(i%2))
	})
}

func bodyQ3_K(f *file) {
	fours := f.constant("fours", repeat(4, 0x0404040404040404)...)
	pairsOfBits(f, 32, func(part int) {
		transposed(f, 16*part) // the third bits of all sub-blocks
		for g := range 4 {
			f.p("VMOVDQA Y%d, Y%d", g, 8+g)
		}
	}, func(s int) {
		for g := range 4 {
			if s < 2 {
				f.p("VPSLLW $%d, Y%d, Y12", 2-s, 8+g)
			} else {
				f.p("VPSRLW $%d, Y%d, Y12", s-2, 8+g)
			}
			f.p("VPAND %s, Y12, Y12", fours)
			f.p("VPOR Y12, Y%d, Y%d", 4+g, 4+g)
		}
	})
	for r := range 8 {
		f.p("VMOVDQU %s, X8", row(r, 94)) // the 12 bytes of scales are the last but two of these
		scalesQ3_K(f, 8, r, 9, 10)
	}
	interleaved8x16(f)
	words(f, 0, 108)
	f.p("VCVTPH2PS X0, Y0")
	halfScales(f, f.constant("minus4", dwordsOf(func(int) uint32 { return 0xc0800000 })...))
}

// scalesQ3_K turns the 12 bytes at 2 in Xfrom into 16 signed scales in Xto. The low four bits of scales 0 to 7 are the low halves of
// bytes 0 to 7, those of 8 to 15 the high halves; the top two bits of scale i are bits 2*(i/4) and 2*(i/4)+1 of byte 8+i%4.
func scalesQ3_K(f *file, from, to, low, high int) {
	x := func(i int) string { return fmt.Sprintf("X%d", i) }
	lowBytes := f.constant("q3LowBytes", repeat(2, 0x0908070605040302, 0x0908070605040302)...)
	topBytes := f.constant("q3TopBytes", repeat(2, 0x0d0c0b0a0d0c0b0a, 0x0d0c0b0a0d0c0b0a)...)
	nibbleShift := f.constant("q3NibbleShift", 0, 4, 0, 4)
	topShift := f.constant("q3TopShift", repeat(2, 0x0000000200000000, 0x0000000600000004)...)
	nibbles := f.constant("nibbles", repeat(4, 0x0f0f0f0f0f0f0f0f)...)
	pairs := f.constant("lowPairs", repeat(4, 0x0303030303030303)...)
	offset := f.constant("bytes32", repeat(4, 0x2020202020202020)...)
	f.p("VPSHUFB %s, %s, %s", lowBytes, x(from), x(low))
	f.p("VPSRLVQ %s, %s, %s", nibbleShift, x(low), x(low))
	f.p("VPAND %s, %s, %s", nibbles, x(low), x(low))
	f.p("VPSHUFB %s, %s, %s", topBytes, x(from), x(high))
	f.p("VPSRLVD %s, %s, %s", topShift, x(high), x(high))
	f.p("VPAND %s, %s, %s", pairs, x(high), x(high))
	f.p("VPSLLW $4, %s, %s", x(high), x(high))
	f.p("VPOR %s, %s, %s", x(high), x(low), x(low))
	f.p("VPSUBB %s, %s, %s", offset, x(low), x(to))
}
