package main

import "fmt"

// Dot kernels of the super-blocks of 256 elements. The header leaves the products of the rows' scales with the columns' in the
// buffer: row r from 32*r on if each has 8, from 64*r on if each has 16. What minimums and offsets give, which needs the sums of
// the activations alone, it adds to the rows' sums at once.

// headerScales6Of is the header of Q4_K and Q5_K.
func headerScales6Of(blockBytes int) func(d *dot, offset int) {
	return func(d *dot, offset int) {
		for i := range 2 { // rows 2i and 2i+1 in the lanes of Yi
			d.p("VMOVDQU %s, X%d", d.w(2*i, blockBytes*offset), i)
			d.p("VINSERTI128 $1, %s, Y%d, Y%d", d.w(2*i+1, blockBytes*offset), i, i)
		}
		d.p("VPUNPCKLDQ Y1, Y0, Y2")
		d.p("VEXTRACTI128 $1, Y2, X3")
		d.p("VPUNPCKLQDQ X3, X2, X2")
		d.p("VCVTPH2PS X2, Y2") // d and dmin of rows 0, 2, 1, 3
		d.p("VMOVAPS Y2, %d(BX)", atHeader+64)
		for i := range 2 {
			headerScales6(d.file, "Y", i, 3, 4)
			d.p("VMOVDQA Y3, %d(BX)", atHeader+32*i)
		}
		d.p("VXORPS Y5, Y5, Y5")
		for r := range 4 {
			factors := atHeader + 64 + []int{0, 16, 8, 24}[r]
			d.p("VPMOVZXBD %d(BX), Y0", atHeader+16*r)
			d.p("VPMOVZXBD %d(BX), Y1", atHeader+16*r+8)
			d.p("VCVTDQ2PS Y0, Y0")
			d.p("VCVTDQ2PS Y1, Y1")
			d.p("VBROADCASTSS %d(BX), Y2", factors)
			d.p("VBROADCASTSS %d(BX), Y3", factors+4)
			d.p("VMULPS Y2, Y0, Y0")
			d.p("VMULPS Y3, Y1, Y1")
			for c := range d.cols {
				d.p("VMULPS %s, Y0, Y2", d.sc(c, 32*offset))
				d.p("VMOVAPS Y2, %s", d.inBuffer(c, 32*r))
				d.p("VFNMADD231PS %s, Y1, Y%d", d.s(c, 32*offset), d.acc(r, c))
			}
		}
	}
}

func blockQ4_K(d *dot) { nibblePairs(d, 16, nil) }

func blockQ5_K(d *dot) {
	sixteens := d.constant("sixteens", repeat(4, 0x1010101010101010)...)
	d.keep(13, sixteens)
	if r, ok := d.reg[sixteens]; ok {
		sixteens = r
	}
	nibblePairs(d, 48, func(r, j int) {
		d.p("VMOVDQU %s, Y6", d.w(r, 16))
		for bit, to := range []int{4, 5} {
			if bit += 2 * j; bit < 4 {
				d.p("VPSLLW $%d, Y6, Y7", 4-bit)
			} else {
				d.p("VPSRLW $%d, Y6, Y7", bit-4)
			}
			d.p("VPAND %s, Y7, Y7", sixteens)
			d.p("VPOR Y7, Y%d, Y%d", to, to)
		}
	})
}

// nibblePairs multiplies four runs of 32 bytes, each with 32 elements low and 32 high. complete may add bits to the weights Y4
// and Y5 of row r and run j, with Y6 and Y7.
func nibblePairs(d *dot, offset int, complete func(r, j int)) {
	for j := range 4 {
		for c := range d.cols {
			d.p("VMOVDQU %s, Y%d", d.q(c, 64*j), 2*c)
			d.p("VMOVDQU %s, Y%d", d.q(c, 64*j+32), 2*c+1)
		}
		for r := range 4 {
			d.p("VMOVDQU %s, Y5", d.w(r, offset+32*j))
			d.p("VPAND %s, Y5, Y4", d.nibbles())
			d.p("VPSRLW $4, Y5, Y5")
			d.p("VPAND %s, Y5, Y5", d.nibbles())
			if complete != nil {
				complete(r, j)
			}
			for c := range d.cols {
				for high := range 2 {
					x := fmt.Sprintf("Y%d", 2*c+high)
					d.multiply(4+high, x, r, c, d.broadcast(d.inBuffer(c, 32*r+4*(2*j+high))))
				}
			}
		}
	}
}

func headerIQ4_XS(d *dot, offset int) {
	at := 136 * offset
	topShift := d.constant("scaleTops", 0x0000001200000010, 0x0000001600000014, 0x0000001a00000018, 0x0000001e0000001c)
	lowShift := d.constant("scaleNibbles", 0x0000000400000000, 0x0000000c00000008, 0x0000001400000010, 0x0000001c00000018)
	same := func(name string, v uint32) string {
		return d.constant(name, dwordsOf(func(int) uint32 { return v })...)
	}
	for r := range 4 {
		d.p("VPBROADCASTD %s, Y0", d.w(r, at)) // d, top bits
		d.p("VPBROADCASTD %s, Y1", d.w(r, at+4))
		d.p("VPBROADCASTW %s, X2", d.w(r, at))
		d.p("VCVTPH2PS X2, Y2")
		d.p("VPSRLVD %s, Y0, Y0", topShift)
		d.p("VPSRLVD %s, Y1, Y1", lowShift)
		d.p("VPAND %s, Y0, Y0", same("three", 3))
		d.p("VPAND %s, Y1, Y1", same("fifteen", 15))
		d.p("VPSLLD $4, Y0, Y0")
		d.p("VPOR Y1, Y0, Y0")
		d.p("VPSUBD %s, Y0, Y0", same("thirtyTwo", 32))
		d.p("VCVTDQ2PS Y0, Y0")
		d.p("VMULPS Y2, Y0, Y0")
		for c := range d.cols {
			d.p("VMULPS %s, Y0, Y1", d.sc(c, 32*offset))
			d.p("VMOVAPS Y1, %s", d.inBuffer(c, 32*r))
		}
	}
}

func blockIQ4_XS(d *dot) {
	for g := range 8 {
		d.loadActivations(32 * g)
		for r := range 4 {
			codebookAt(d, r, 8+16*g)
			for c := range d.cols {
				d.multiplySigned(2, 3, c, r, c, d.broadcast(d.inBuffer(c, 32*r+4*g)))
			}
		}
	}
}

// columnScales16 puts the scales of a block's columns, each twice, into the scratch: those of the first 8 groups of 16, then the others.
func (d *dot) columnScales16(offset int) {
	for c := range d.cols {
		d.p("VMOVUPS %s, Y0", d.sc(c, 32*offset))
		for half := range 2 {
			twice := d.constant([]string{"lowTwice", "highTwice"}[half], dwordsOf(func(i int) uint32 { return uint32(4*half + i/2) })...)
			d.p("VMOVUPS %s, Y1", twice)
			d.p("VPERMPS Y0, Y1, Y1")
			d.p("VMOVAPS Y1, %d(BX)", atMins+64*c+32*half)
		}
	}
}

// storeScales16 takes the 16 scales of row r, times their factor, in Y2 and Y3.
func (d *dot) storeScales16(r int) {
	for c := range d.cols {
		for half := range 2 {
			d.p("VMULPS %d(BX), Y%d, Y4", atMins+64*c+32*half, 2+half)
			d.p("VMOVAPS Y4, %s", d.inBuffer(c, 64*r+32*half))
		}
	}
}

// headerSigned is the header of the formats with 16 signed scales and integers that are stored with an offset. load puts the scales
// of row r, 16 bytes, into X2.
func headerSigned(d *dot, offset, atFactor int, name string, minusOffset uint32, load func(r int)) {
	d.columnScales16(offset)
	minus := d.constant(name, dwordsOf(func(int) uint32 { return minusOffset })...)
	for r := range 4 {
		load(r)
		d.p("VPSRLDQ $8, X2, X3")
		d.p("VPMOVSXBD X2, Y2")
		d.p("VPMOVSXBD X3, Y3")
		d.p("VPBROADCASTW %s, X4", d.w(r, atFactor))
		d.p("VCVTPH2PS X4, Y4")
		d.p("VMULPS %s, Y4, Y5", minus)
		for half := range 2 {
			d.p("VCVTDQ2PS Y%d, Y%d", 2+half, 2+half)
			d.p("VMULPS Y5, Y%d, Y6", 2+half)
			d.p("VMULPS Y4, Y%d, Y%d", 2+half, 2+half)
			for c := range d.cols {
				d.p("VFMADD231PS %s, Y6, Y%d", d.h(c, 64*offset+32*half), d.acc(r, c))
			}
		}
		d.storeScales16(r)
	}
}

func headerQ6_K(d *dot, offset int) {
	at := 210 * offset
	headerSigned(d, offset, at+208, "minus32", 0xc2000000, func(r int) { d.p("VMOVDQU %s, X2", d.w(r, at+192)) })
}

func headerQ3_K(d *dot, offset int) {
	at := 110 * offset
	headerSigned(d, offset, at+108, "minus4", 0xc0800000, func(r int) {
		d.p("VMOVDQU %s, X3", d.w(r, at+94))
		scalesQ3_K(d.file, 3, 2, 4, 5)
	})
}

func headerQ2_K(d *dot, offset int) {
	at := 84 * offset
	d.columnScales16(offset)
	for r := range 4 {
		d.p("VMOVDQU %s, X2", d.w(r, at))
		d.p("VPSRLW $4, X2, X5")
		d.p("VPAND %s, X2, X2", d.constant("nibbles", repeat(4, 0x0f0f0f0f0f0f0f0f)...))
		d.p("VPAND %s, X5, X5", d.constant("nibbles", repeat(4, 0x0f0f0f0f0f0f0f0f)...))
		d.p("VPBROADCASTW %s, X7", d.w(r, at+82))
		d.p("VCVTPH2PS X7, Y7")
		for half := range 2 { // minimums
			if half == 1 {
				d.p("VPSRLDQ $8, X5, X5")
			}
			d.p("VPMOVZXBD X5, Y6")
			d.p("VCVTDQ2PS Y6, Y6")
			d.p("VMULPS Y7, Y6, Y6")
			for c := range d.cols {
				d.p("VFNMADD231PS %s, Y6, Y%d", d.h(c, 64*offset+32*half), d.acc(r, c))
			}
		}
		d.p("VPBROADCASTW %s, X7", d.w(r, at+80))
		d.p("VCVTPH2PS X7, Y7")
		d.p("VPSRLDQ $8, X2, X3")
		for half := range 2 {
			d.p("VPMOVZXBD X%d, Y%d", 2+half, 2+half)
			d.p("VCVTDQ2PS Y%d, Y%d", 2+half, 2+half)
			d.p("VMULPS Y7, Y%d, Y%d", 2+half, 2+half)
		}
		d.storeScales16(r)
	}
}

// multiply16 multiplies group g of 32 weights in Yw, whose halves have scales of their own.
func (d *dot) multiply16(w, r, g int) {
	spread := d.constant("firstLowSecondHigh", 0, 0, 0x0000000100000001, 0x0000000100000001)
	for c := range d.cols {
		d.multiply(w, d.q(c, 32*g), r, c, func(to int) {
			d.p("VBROADCASTSD %s, Y%d", d.inBuffer(c, 64*r+8*g), to)
			d.p("VPERMILPS %s, Y%d, Y%d", spread, to, to)
		})
	}
}

func blockQ6_K(d *dot) {
	pairs := d.constant("topPairs", repeat(4, 0x3030303030303030)...)
	for half := range 2 {
		for r := range 4 {
			d.p("VMOVDQU %s, Y0", d.w(r, 64*half))
			d.p("VMOVDQU %s, Y1", d.w(r, 64*half+32))
			d.p("VMOVDQU %s, Y2", d.w(r, 128+32*half))
			for g := range 4 { // low halves of Y0, of Y1, high halves of Y0, of Y1; two more bits in Y2
				low := g % 2
				if g >= 2 {
					d.p("VPSRLW $4, Y%d, Y%d", low, low)
				}
				d.p("VPAND %s, Y%d, Y3", d.nibbles(), low)
				switch {
				case g < 2:
					d.p("VPSLLW $%d, Y2, Y4", 4-2*g)
					d.p("VPAND %s, Y4, Y4", pairs)
				case g == 2:
					d.p("VPAND %s, Y2, Y4", pairs)
				default:
					d.p("VPSRLW $2, Y2, Y4")
					d.p("VPAND %s, Y4, Y4", pairs)
				}
				d.p("VPOR Y4, Y3, Y3")
				d.multiply16(3, r, 4*half+g)
			}
		}
	}
}

// bitPairs puts integers of two bits, number j of run, of row r into Y3; the run's bytes are in Y0.
func bitPairs(d *dot, j int) {
	pairs := d.constant("lowPairs", repeat(4, 0x0303030303030303)...)
	if j == 0 {
		d.p("VPAND %s, Y0, Y3", pairs)
		return
	}
	d.p("VPSRLW $%d, Y0, Y3", 2*j)
	d.p("VPAND %s, Y3, Y3", pairs)
}

func blockQ2_K(d *dot) {
	for run := range 2 {
		for r := range 4 {
			d.p("VMOVDQU %s, Y0", d.w(r, 16+32*run))
			for j := range 4 {
				bitPairs(d, j)
				d.multiply16(3, r, 4*run+j)
			}
		}
	}
}

func blockQ3_K(d *dot) {
	fours := d.constant("fours", repeat(4, 0x0404040404040404)...)
	for run := range 2 {
		for r := range 4 {
			d.p("VMOVDQU %s, Y0", d.w(r, 32+32*run))
			d.p("VMOVDQU %s, Y1", d.w(r, 0)) // third bits
			for j := range 4 {
				bitPairs(d, j)
				if g := 4*run + j; g < 2 {
					d.p("VPSLLW $%d, Y1, Y4", 2-g)
				} else {
					d.p("VPSRLW $%d, Y1, Y4", g-2)
				}
				d.p("VPAND %s, Y4, Y4", fours)
				d.p("VPOR Y4, Y3, Y3")
				d.multiply16(3, r, 4*run+j)
			}
		}
	}
}
