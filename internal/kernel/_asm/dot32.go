package main

// Dot kernels of the formats with blocks of 32 elements. Y0 to Y3 are the weights of the four rows, Y12 their scales in dwords 0 to 3 of both
// lanes, Y13 what is added for each unit of the activations' sum, in the low lane. The vectors that are interleaved and added are those of
// the rows; so there is one sum for all of them, with the rows in dwords 0 to 3 of both lanes.

var dotFormats = []dotFormat{
	{"Q4_0", 18, 32, unsignedBlock(nibblesAt(2), centredScales("minus8", 0xc1000000))},
	{"Q4_1", 20, 32, unsignedBlock(nibblesAt(4), affineScales)},
	{"Q5_0", 22, 32, unsignedBlock(fiveBitsAt(2, 6), centredScales("minus16", 0xc1800000))},
	{"Q5_1", 24, 32, unsignedBlock(fiveBitsAt(4, 8), affineScales)},
	{"Q8_0", 34, 32, signedBlock(bytesAt2)},
	{"IQ4_NL", 18, 32, signedBlock(codebookAt(2))},
	{"Q2_K", 84, 256, blockQ2_K},
	{"Q3_K", 110, 256, blockQ3_K},
	{"Q4_K", 144, 256, blockQ4_K},
	{"Q5_K", 176, 256, blockQ5_K},
	{"Q6_K", 210, 256, blockQ6_K},
	{"IQ4_XS", 136, 256, blockIQ4_XS},
}

// acc is the register of the sums of column c.
func (d *dot) acc(c int) int { return 8 + c }

// weights puts the 32 weights of row r's block into Yto; it may use Y4.
type weights func(d *dot, r, to int)

// nibblesAt are the low halves of 16 bytes, then their high halves.
func nibblesAt(offset int) weights {
	return func(d *dot, r, to int) { d.nibblesOf(r, offset, to) }
}

func (d *dot) nibblesOf(r, offset, to int) {
	d.p("VBROADCASTI128 %s, Y%d", d.w(r, offset), to)
	d.p("VPSRLVD %s, Y%d, Y%d", d.constant("highLaneBy4", 0, 0, 0x0000000400000004, 0x0000000400000004), to, to)
	d.p("VPAND Y15, Y%d, Y%d", to, to)
}

// fiveBitsAt are nibbles and a word with the 32 fifth bits.
func fiveBitsAt(high, low int) weights {
	return func(d *dot, r, to int) {
		bits := d.constant("bitOfByte", repeat(4, 0x8040201008040201)...)
		d.p("VPBROADCASTD %s, Y4", d.w(r, high))
		d.p("VPSHUFB %s, Y4, Y4", d.constant("byteOf8", bytesOf(func(i int) int { return i / 8 })...))
		d.p("VPAND %s, Y4, Y4", bits)
		d.p("VPCMPEQB %s, Y4, Y4", bits)
		d.p("VPAND %s, Y4, Y4", d.constant("sixteens", repeat(4, 0x1010101010101010)...))
		d.nibblesOf(r, low, to)
		d.p("VPOR Y4, Y%d, Y%d", to, to)
	}
}

func bytesAt2(d *dot, r, to int) { d.p("VMOVDQU %s, Y%d", d.w(r, 2), to) }

// codebookAt are the values of nibbles.
func codebookAt(offset int) weights {
	return func(d *dot, r, to int) {
		d.nibblesOf(r, offset, to)
		d.p("VMOVDQU %s, Y4", codebook(d.file))
		d.p("VPSHUFB Y%d, Y4, Y%d", to, to)
	}
}

// rowScales widens the float16 at the start of the rows' blocks into both lanes of Y12.
func (d *dot) rowScales() {
	d.p("VPXOR X4, X4, X4")
	for r := range 4 {
		d.p("VPINSRW $%d, %s, X4, X4", r, d.w(r, 0))
	}
	d.p("VPUNPCKLQDQ X4, X4, X4")
	d.p("VCVTPH2PS X4, Y12")
}

// centredScales: integers are stored with an offset.
func centredScales(name string, minusOffset uint32) func(d *dot) {
	return func(d *dot) {
		d.rowScales()
		d.p("VMULPS %s, X12, X13", d.constant(name, dwordsOf(func(int) uint32 { return minusOffset })...))
	}
}

// affineScales: a scale and a minimum at the start of each block.
func affineScales(d *dot) {
	d.p("VMOVD %s, X4", d.w(0, 0))
	for r := 1; r < 4; r++ {
		d.p("VPINSRD $%d, %s, X4, X4", r, d.w(r, 0))
	}
	d.p("VPSHUFB %s, X4, X4", d.constant("wordsApart", repeat(2, 0x0d0c090805040100, 0x0f0e0b0a07060302)...))
	d.p("VCVTPH2PS X4, Y13")
	d.p("VPERM2F128 $0x00, Y13, Y13, Y12")
	d.p("VEXTRACTF128 $1, Y13, X13")
}

// addRows scales the sums of the rows in Y4, dwords, and adds them to those of column c.
func (d *dot) addRows(c int) {
	d.p("VCVTDQ2PS Y4, Y4")
	d.p("VBROADCASTSS %s, Y5", d.sc(c, 0))
	d.p("VMULPS Y12, Y5, Y5")
	d.p("VFMADD231PS Y5, Y4, Y%d", d.acc(c))
}

func unsignedBlock(load weights, scales func(d *dot)) func(d *dot) {
	return func(d *dot) {
		for r := range 4 {
			load(d, r, r)
		}
		scales(d)
		for c := range d.cols {
			d.p("VMOVDQU %s, Y7", d.q(c, 0))
			d.multiply(0, "Y7", 4)
			d.multiply(1, "Y7", 5)
			d.interleave("DQ", "VPADDW", 4, 5, 6)
			d.multiply(2, "Y7", 5)
			d.multiply(3, "Y7", 6)
			d.interleave("DQ", "VPADDW", 5, 6, 7)
			d.interleave("QDQ", "VPADDW", 4, 5, 6)
			d.p("VPMADDWD Y14, Y4, Y4")
			d.p("VBROADCASTSS %s, Y5", d.s(c, 0))
			d.p("VFMADD231PS Y5, Y13, Y%d", d.acc(c))
			d.addRows(c)
		}
	}
}

func signedBlock(load weights) func(d *dot) {
	return func(d *dot) {
		for r := range 4 {
			load(d, r, r)
		}
		d.rowScales()
		for c := range d.cols {
			d.multiplySigned(0, d.q(c, 0), 4, 7)
			d.multiplySigned(1, d.q(c, 0), 5, 7)
			d.interleave("DQ", "VPADDD", 4, 5, 6)
			d.multiplySigned(2, d.q(c, 0), 5, 7)
			d.multiplySigned(3, d.q(c, 0), 6, 7)
			d.interleave("DQ", "VPADDD", 5, 6, 7)
			d.interleave("QDQ", "VPADDD", 4, 5, 6)
			d.addRows(c)
		}
	}
}
