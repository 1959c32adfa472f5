package main

// Dot kernels of the formats with blocks of 32 elements. The scales of four rows are widened together, multiplied with those of the
// columns and put into the scratch, one vector per column.

var dotFormats = []dotFormat{
	{format: "Q4_0", bytes: 18, elements: 32, block: centredBlock(nibblesAt(2)), mins: true, finish: finishCentred("minus8", 0xc1000000)},
	{format: "Q4_1", bytes: 20, elements: 32, block: affineBlock(nibblesAt(4)), mins: true, finish: finishAffine},
	{format: "Q5_0", bytes: 22, elements: 32, block: centredBlock(fiveBitsAt(2, 6)), mins: true, finish: finishCentred("minus16", 0xc1800000)},
	{format: "Q5_1", bytes: 24, elements: 32, block: affineBlock(fiveBitsAt(4, 8)), mins: true, finish: finishAffine},
	{format: "Q8_0", bytes: 34, elements: 32, block: blockQ8_0},
	{format: "IQ4_NL", bytes: 18, elements: 32, block: blockIQ4_NL},
	{format: "Q2_K", bytes: 84, elements: 256, header: headerQ2_K, buffer: 256, block: blockQ2_K},
	{format: "Q3_K", bytes: 110, elements: 256, header: headerQ3_K, buffer: 256, block: blockQ3_K},
	{format: "Q4_K", bytes: 144, elements: 256, header: headerScales6Of(144), buffer: 128, block: blockQ4_K},
	{format: "Q5_K", bytes: 176, elements: 256, header: headerScales6Of(176), buffer: 128, block: blockQ5_K},
	{format: "Q6_K", bytes: 210, elements: 256, header: headerQ6_K, buffer: 256, block: blockQ6_K},
	{format: "IQ4_XS", bytes: 136, elements: 256, header: headerIQ4_XS, buffer: 128, block: blockIQ4_XS},
}

// weights puts the 32 unsigned weights of row r's block into Yto; it may use Y3 to Y5.
type weights func(d *dot, r, to int)

// nibblesAt are the low halves of 16 bytes, then their high halves.
func nibblesAt(offset int) weights {
	return func(d *dot, r, to int) {
		d.p("VBROADCASTI128 %s, Y%d", d.w(r, offset), to)
		d.p("VPSRLVD %s, Y%d, Y%d", d.constant("highLaneBy4", 0, 0, 0x0000000400000004, 0x0000000400000004), to, to)
		d.p("VPAND %s, Y%d, Y%d", d.nibbles(), to, to)
	}
}

// fiveBitsAt are nibbles and a word with the 32 fifth bits.
func fiveBitsAt(high, low int) weights {
	return func(d *dot, r, to int) {
		bits := d.constant("bitOfByte", repeat(4, 0x8040201008040201)...)
		d.p("VPBROADCASTD %s, Y3", d.w(r, high))
		d.p("VPSHUFB %s, Y3, Y3", d.constant("byteOf8", bytesOf(func(i int) int { return i / 8 })...))
		d.p("VPAND %s, Y3, Y3", bits)
		d.p("VPCMPEQB %s, Y3, Y3", bits)
		d.p("VPAND %s, Y3, Y3", d.constant("sixteens", repeat(4, 0x1010101010101010)...))
		nibblesAt(low)(d, r, to)
		d.p("VPOR Y3, Y%d, Y%d", to, to)
	}
}

// loadActivations puts 32 integers of each column, from element on, into Y0 and Y1.
func (d *dot) loadActivations(element int) {
	for c := range d.cols {
		d.p("VMOVDQU %s, Y%d", d.q(c, element), c)
	}
}

// scales puts the float16 at the start of the four rows' blocks into X2, widened, and their products with the columns' scales into
// the scratch.
func (d *dot) scales() {
	d.p("VPXOR X2, X2, X2")
	for r := range 4 {
		d.p("VPINSRW $%d, %s, X2, X2", r, d.w(r, 0))
	}
	d.p("VCVTPH2PS X2, X2")
	for c := range d.cols {
		d.p("VBROADCASTSS %s, X3", d.sc(c, 0))
		d.p("VMULPS X3, X2, X3")
		d.p("VMOVAPS X3, %d(BX)", atBuffers+64*c)
	}
}

// scaleOf loads what scales left for row r and column c.
func (d *dot) scaleOf(r, c, size int) func(to int) {
	return func(to int) { d.p("VBROADCASTSS %d(BX), Y%d", atBuffers+64*c+size*r, to) }
}

// centredBlock: integers stored with an offset, which finishCentred takes off. Until then the rows' scales times the scaled sums of
// the activations are added up.
func centredBlock(load weights) func(d *dot) {
	return func(d *dot) {
		d.scales()
		for c := range d.cols {
			d.p("VBROADCASTSS %s, X3", d.s(c, 0))
			d.withMin(c, func(sum int) { d.p("VFMADD231PS X3, X2, X%d", sum) })
		}
		d.loadActivations(0)
		for r := range 4 {
			load(d, r, 2)
			for c := range d.cols {
				d.multiply(2, []string{"Y0", "Y1"}[c], r, c, d.scaleOf(r, c, 4))
			}
		}
	}
}

func finishCentred(name string, minusOffset uint32) func(d *dot, c int) {
	return func(d *dot, c int) {
		d.withMin(c, func(sum int) {
			d.p("VMULPS %s, X%d, X1", d.constant(name, dwordsOf(func(int) uint32 { return minusOffset })...), sum)
		})
		d.p("VADDPS X1, X0, X0")
	}
}

// affineBlock: a scale and a minimum for each row.
func affineBlock(load weights) func(d *dot) {
	return func(d *dot) {
		d.p("VMOVD %s, X2", d.w(0, 0))
		for r := 1; r < 4; r++ {
			d.p("VPINSRD $%d, %s, X2, X2", r, d.w(r, 0))
		}
		d.p("VCVTPH2PS X2, Y2") // scales in even lanes, minimums in odd ones
		for c := range d.cols {
			d.p("VBROADCASTSS %s, Y3", d.sc(c, 0))
			d.p("VBROADCASTSS %s, Y4", d.s(c, 0))
			d.p("VBLENDPS $0xAA, Y4, Y3, Y3")
			d.p("VMULPS Y3, Y2, Y3")
			d.p("VMOVAPS Y3, %d(BX)", atBuffers+64*c)
			d.withMin(c, func(sum int) { d.p("VADDPS Y3, Y%d, Y%d", sum, sum) })
		}
		d.loadActivations(0)
		for r := range 4 {
			load(d, r, 2)
			for c := range d.cols {
				d.multiply(2, []string{"Y0", "Y1"}[c], r, c, d.scaleOf(r, c, 8))
			}
		}
	}
}

// finishAffine adds the odd lanes of what affineBlock added up.
func finishAffine(d *dot, c int) {
	d.withMin(c, func(sum int) {
		d.p("VEXTRACTF128 $1, Y%d, X1", sum)
		d.p("VSHUFPS $0xDD, X1, X%d, X1", sum)
	})
	d.p("VADDPS X1, X0, X0")
}

func blockQ8_0(d *dot) {
	d.scales()
	d.loadActivations(0)
	for r := range 4 {
		d.p("VMOVDQU %s, Y2", d.w(r, 2))
		d.p("VPABSB Y2, Y3")
		for c := range d.cols {
			d.multiplySigned(2, 3, c, r, c, d.scaleOf(r, c, 4))
		}
	}
}

// codebookAt puts the values of nibbles into Y2 and their magnitudes into Y3.
func codebookAt(d *dot, r, offset int) {
	nibblesAt(offset)(d, r, 2)
	d.p("VMOVDQU %s, Y3", codebook(d.file))
	d.p("VPSHUFB Y2, Y3, Y2")
	d.p("VPABSB Y2, Y3")
}

func blockIQ4_NL(d *dot) {
	d.scales()
	d.loadActivations(0)
	for r := range 4 {
		codebookAt(d, r, 2)
		for c := range d.cols {
			d.multiplySigned(2, 3, c, r, c, d.scaleOf(r, c, 4))
		}
	}
}
