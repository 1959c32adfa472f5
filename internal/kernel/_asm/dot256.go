package main

// Dot kernels of the super-blocks of 256 elements. Rows come one after the other: Y0 to Y7 are the weights of the row's 8 groups of 32, Y13 and
// Y14 its scales. The vectors that are interleaved and added are those of the groups. With a scale for every 16 elements the halves of a
// group are the lanes; then there are two vectors, of 4 groups each, and their scales have the order 0 2 4 6 1 3 5 7, as have the
// activations' sums of 16.

// addColumn adds something to the sums of row r and column c: add takes the register that holds them.
func (d *dot) addColumn(r, c int, add func(sum int)) {
	d.p("VMOVAPS %s, Y12", d.sums(r, c))
	add(12)
	d.p("VMOVAPS Y12, %s", d.sums(r, c))
}

// headersScales6 decodes the headers of Q4_K or Q5_K blocks of all rows into the scratch: 8 scales and 8 minimums, bytes, for each; then d and
// dmin of rows 0, 2, 1, 3.
func (d *dot) headersScales6() {
	for i := range 2 { // rows 2i and 2i+1 in the lanes of Yi
		d.p("VMOVDQU %s, X%d", d.w(2*i, 0), i)
		d.p("VINSERTI128 $1, %s, Y%d, Y%d", d.w(2*i+1, 0), i, i)
	}
	d.p("VPUNPCKLDQ Y1, Y0, Y2")
	d.p("VEXTRACTI128 $1, Y2, X3")
	d.p("VPUNPCKLQDQ X3, X2, X2")
	d.p("VCVTPH2PS X2, Y2")
	d.p("VMOVAPS Y2, %d(BX)", d.atBlock()+64)
	for i := range 2 {
		headerScales6(d.file, "Y", i, 3, 4)
		d.p("VMOVDQA Y3, %d(BX)", d.atBlock()+32*i)
	}
}

// scales6 puts d*scale of row r into Y13 and dmin*min into Y14.
func (d *dot) scales6(r int) {
	for i := range 2 {
		d.p("VPMOVZXBD %d(BX), Y%d", d.atBlock()+16*r+8*i, 13+i)
		d.p("VCVTDQ2PS Y%d, Y%d", 13+i, 13+i)
		d.p("VBROADCASTSS %d(BX), Y8", d.atBlock()+64+[]int{0, 16, 8, 24}[r]+4*i)
		d.p("VMULPS Y8, Y%d, Y%d", 13+i, 13+i)
	}
}

// scaleGroups adds the sums of 8 groups in Y8, dwords, times their scales in Y13.
func (d *dot) scaleGroups(r, c int, more func(sum int)) {
	d.p("VCVTDQ2PS Y8, Y8")
	d.p("VMULPS %s, Y13, Y9", d.sc(c, 0))
	d.addColumn(r, c, func(sum int) {
		d.p("VFMADD231PS Y9, Y8, Y%d", sum)
		if more != nil {
			more(sum)
		}
	})
}

// fourGroups interleaves and adds the products of groups first to first+3 with column c into Yto, words, using the three registers after it.
func (d *dot) fourGroups(c, first, to int) {
	d.multiply(first, d.q(c, 32*first), to)
	d.multiply(first+1, d.q(c, 32*first+32), to+1)
	d.interleave("DQ", "VPADDW", to, to+1, to+2)
	d.multiply(first+2, d.q(c, 32*first+64), to+1)
	d.multiply(first+3, d.q(c, 32*first+96), to+2)
	d.interleave("DQ", "VPADDW", to+1, to+2, to+3)
	d.interleave("QDQ", "VPADDW", to, to+1, to+2)
}

func blockQ4_K(d *dot) {
	if d.cols == 1 {
		pairsQ4_K(d)
		return
	}
	d.headersScales6()
	for r := range 4 {
		d.nibblePairs(r, 16)
		d.scales6(r)
		for c := range d.cols {
			d.fourGroups(c, 0, 8)
			d.fourGroups(c, 4, 9)
			d.interleaveLanes("VPADDW", 8, 9, 10) // 8 * 2*15*127 in a word
			d.p("VPMADDWD %s, Y8, Y8", d.ones())
			d.scaleGroups(r, c, func(sum int) { d.p("VFNMADD231PS %s, Y14, Y%d", d.s(c, 0), sum) })
		}
	}
}

func blockQ5_K(d *dot) {
	sixteens := d.constant("sixteens", repeat(4, 0x1010101010101010)...)
	d.headersScales6()
	for r := range 4 {
		d.nibblePairs(r, 48)
		d.p("VMOVDQU %s, Y8", d.w(r, 16))
		for g := range 8 {
			if g < 4 {
				d.p("VPSLLW $%d, Y8, Y9", 4-g)
			} else {
				d.p("VPSRLW $%d, Y8, Y9", g-4)
			}
			d.p("VPAND %s, Y9, Y9", sixteens)
			d.p("VPOR Y9, Y%d, Y%d", g, g)
		}
		d.scales6(r)
		for c := range d.cols {
			d.fourGroups(c, 0, 8)
			d.fourGroups(c, 4, 9) // 4 * 2*31*127 in a word
			d.p("VPMADDWD %s, Y8, Y8", d.ones())
			d.p("VPMADDWD %s, Y9, Y9", d.ones())
			d.interleaveLanes("VPADDD", 8, 9, 10)
			d.scaleGroups(r, c, func(sum int) { d.p("VFNMADD231PS %s, Y14, Y%d", d.s(c, 0), sum) })
		}
	}
}

// nibblePairs loads the weights of row r: four runs of 32 bytes, each with 32 elements low and 32 high.
func (d *dot) nibblePairs(r, offset int) {
	for j := range 4 {
		d.p("VMOVDQU %s, Y%d", d.w(r, offset+32*j), 2*j+1)
		d.p("VPAND Y15, Y%d, Y%d", 2*j+1, 2*j)
		d.p("VPSRLW $4, Y%d, Y%d", 2*j+1, 2*j+1)
		d.p("VPAND Y15, Y%d, Y%d", 2*j+1, 2*j+1)
	}
}

func blockIQ4_XS(d *dot) {
	topShift := d.constant("scaleTops", 0x0000001200000010, 0x0000001600000014, 0x0000001a00000018, 0x0000001e0000001c)
	lowShift := d.constant("scaleNibbles", 0x0000000400000000, 0x0000000c00000008, 0x0000001400000010, 0x0000001c00000018)
	same := func(name string, v uint32) string {
		return d.constant(name, dwordsOf(func(int) uint32 { return v })...)
	}
	for r := range 4 {
		d.p("VMOVDQU %s, Y9", codebook(d.file))
		for g := range 8 {
			d.nibblesOf(r, 8+16*g, g)
			d.p("VPSHUFB Y%d, Y9, Y%d", g, g)
		}
		d.p("VPBROADCASTD %s, Y13", d.w(r, 0)) // d, top bits of the scales
		d.p("VPBROADCASTD %s, Y9", d.w(r, 4))  // their low four bits
		d.p("VCVTPH2PS X13, X8")
		d.p("VBROADCASTSS X8, Y8")
		d.p("VPSRLVD %s, Y13, Y13", topShift)
		d.p("VPSRLVD %s, Y9, Y9", lowShift)
		d.p("VPAND %s, Y13, Y13", same("three", 3))
		d.p("VPAND %s, Y9, Y9", same("fifteen", 15))
		d.p("VPSLLD $4, Y13, Y13")
		d.p("VPOR Y9, Y13, Y13")
		d.p("VPSUBD %s, Y13, Y13", same("thirtyTwo", 32))
		d.p("VCVTDQ2PS Y13, Y13")
		d.p("VMULPS Y8, Y13, Y13")
		for c := range d.cols {
			for half := range 2 {
				to := 8 + half
				for pair := range 2 {
					g := 4*half + 2*pair
					d.multiplySigned(g, d.q(c, 32*g), to+pair, 14)
					d.multiplySigned(g+1, d.q(c, 32*g+32), to+pair+1, 14)
					d.interleave("DQ", "VPADDD", to+pair, to+pair+1, 14)
				}
				d.interleave("QDQ", "VPADDD", to, to+1, 14)
			}
			d.interleaveLanes("VPADDD", 8, 9, 10)
			d.scaleGroups(r, c, nil)
		}
	}
}

// halves16 orders 16 bytes as the halves of groups of 32 come in two vectors.
func (d *dot) halves16() string {
	return d.constant("halves16", repeat(2, 0x0705030106040200, 0x0f0d0b090e0c0a08)...)
}

// scales16 widens the 16 signed scales in X13, ordered as above, into Y13 and Y14, times the float16 at factor of row r. For integers with an offset
// it adds minusOffset times the scales times the activations' sums.
func (d *dot) scales16(r, factor int, minusOffset string) {
	d.p("VPSRLDQ $8, X13, X14")
	d.p("VPBROADCASTW %s, X8", d.w(r, factor))
	d.p("VCVTPH2PS X8, Y8")
	for half := range 2 {
		d.p("VPMOVSXBD X%d, Y%d", 13+half, 13+half)
		d.p("VCVTDQ2PS Y%d, Y%d", 13+half, 13+half)
		d.p("VMULPS Y8, Y%d, Y%d", 13+half, 13+half)
	}
	if minusOffset != "" {
		for half := range 2 {
			d.p("VMULPS %s, Y%d, Y%d", minusOffset, 13+half, 8+half)
		}
		d.addSums16(r, "VFMADD231PS")
	}
}

// addSums16 adds, or subtracts, the activations' sums of 16 times Y8 and Y9.
func (d *dot) addSums16(r int, instruction string) {
	for c := range d.cols {
		d.addColumn(r, c, func(sum int) {
			for half := range 2 {
				d.p("%s %s, Y%d, Y%d", instruction, d.h(c, 32*half), 8+half, sum)
			}
		})
	}
}

// scaleHalves adds the sums of the halves of four groups in Y8, dwords, times their scales: those of the first or the last four groups.
func (d *dot) scaleHalves(r, c, last int) {
	d.p("VCVTDQ2PS Y8, Y8")
	d.p("VBROADCASTF128 %s, Y9", d.sc(c, 16*last))
	d.p("VMULPS Y%d, Y9, Y9", 13+last)
	d.addColumn(r, c, func(sum int) { d.p("VFMADD231PS Y9, Y8, Y%d", sum) })
}

func blockQ6_K(d *dot) {
	pairs := d.constant("topPairs", repeat(4, 0x3030303030303030)...)
	for r := range 4 {
		for half := range 2 {
			d.p("VMOVDQU %s, Y8", d.w(r, 64*half))
			d.p("VMOVDQU %s, Y9", d.w(r, 64*half+32))
			d.p("VMOVDQU %s, Y10", d.w(r, 128+32*half))
			for g := range 4 { // low halves of Y8, of Y9, high halves of Y8, of Y9; two more bits in Y10
				to, low := 4*half+g, 8+g%2
				if g >= 2 {
					d.p("VPSRLW $4, Y%d, Y%d", low, low)
				}
				d.p("VPAND Y15, Y%d, Y%d", low, to)
				top := 10
				if g != 2 {
					top = 11
					d.p("%s, Y10, Y11", []string{"VPSLLW $4", "VPSLLW $2", "", "VPSRLW $2"}[g])
				}
				d.p("VPAND %s, Y%d, Y11", pairs, top)
				d.p("VPOR Y11, Y%d, Y%d", to, to)
			}
		}
		d.p("VMOVDQU %s, X13", d.w(r, 192))
		d.p("VPSHUFB %s, X13, X13", d.halves16())
		d.scales16(r, 208, d.constant("minus32", dwordsOf(func(int) uint32 { return 0xc2000000 })...))
		for c := range d.cols {
			for last := range 2 {
				for pair := range 2 {
					g := 4*last + 2*pair
					d.multiply(g, d.q(c, 32*g), 8+pair)
					d.multiply(g+1, d.q(c, 32*g+32), 9+pair)
					d.interleave("DQ", "VPADDW", 8+pair, 9+pair, 10+pair) // 2 * 2*63*127 in a word
					d.p("VPMADDWD %s, Y%d, Y%d", d.ones(), 8+pair, 8+pair)
				}
				d.interleave("QDQ", "VPADDD", 8, 9, 10)
				d.scaleHalves(r, c, last)
			}
		}
	}
}

// bitPairs loads the weights of row r, two bits each, from two runs of 32 bytes at offset.
func (d *dot) bitPairs(r, offset int) {
	pairs := d.constant("lowPairs", repeat(4, 0x0303030303030303)...)
	for run := range 2 {
		d.p("VMOVDQU %s, Y8", d.w(r, offset+32*run))
		for j := range 4 {
			to, from := 4*run+j, 8
			if j > 0 {
				d.p("VPSRLW $%d, Y8, Y%d", 2*j, to)
				from = to
			}
			d.p("VPAND %s, Y%d, Y%d", pairs, from, to)
		}
	}
}

// smallGroups16 multiplies weights below 8, whose sums of four groups fit a word, with all columns.
func (d *dot) smallGroups16(r int) {
	for c := range d.cols {
		for last := range 2 {
			d.fourGroups(c, 4*last, 8)
			d.p("VPMADDWD %s, Y8, Y8", d.ones())
			d.scaleHalves(r, c, last)
		}
	}
}

func blockQ2_K(d *dot) {
	for r := range 4 {
		d.bitPairs(r, 16)
		d.p("VMOVDQU %s, X13", d.w(r, 0)) // scales low, minimums high
		d.p("VPSHUFB %s, X13, X13", d.halves16())
		d.p("VPSRLW $4, X13, X8")
		d.p("VPAND X15, X8, X8")
		d.p("VPAND X15, X13, X13")
		d.p("VPSRLDQ $8, X8, X9")
		d.p("VPBROADCASTW %s, X10", d.w(r, 82))
		d.p("VCVTPH2PS X10, Y10")
		for half := range 2 {
			d.p("VPMOVZXBD X%d, Y%d", 8+half, 8+half)
			d.p("VCVTDQ2PS Y%d, Y%d", 8+half, 8+half)
			d.p("VMULPS Y10, Y%d, Y%d", 8+half, 8+half)
		}
		d.addSums16(r, "VFNMADD231PS")
		d.scales16(r, 80, "")
		d.smallGroups16(r)
	}
}

func blockQ3_K(d *dot) {
	fours := d.constant("fours", repeat(4, 0x0404040404040404)...)
	for r := range 4 {
		d.bitPairs(r, 32)
		d.p("VMOVDQU %s, Y8", d.w(r, 0)) // third bits
		for g := range 8 {
			if g < 2 {
				d.p("VPSLLW $%d, Y8, Y9", 2-g)
			} else {
				d.p("VPSRLW $%d, Y8, Y9", g-2)
			}
			d.p("VPAND %s, Y9, Y9", fours)
			d.p("VPOR Y9, Y%d, Y%d", g, g)
		}
		d.p("VMOVDQU %s, X8", d.w(r, 94))
		scalesQ3_K(d.file, 8, 13, 9, 10)
		d.p("VPSHUFB %s, X13, X13", d.halves16())
		d.scales16(r, 108, d.constant("minus4", dwordsOf(func(int) uint32 { return 0xc0800000 })...))
		d.smallGroups16(r)
	}
}
