package main

// Dot kernels of the formats with blocks of 32 elements. A lane of a vector belongs to one row: rows 0 and 2 are the lanes of Y0, elements 0 to
// 15, and Y1, elements 16 to 31; rows 1 and 3 those of Y2 and Y3. The activations are the same in both lanes. So the products of a row's
// halves are added as they are, and one interleaving brings those of all rows into one vector, each as two dwords: 0 0 1 1 and
// 2 2 3 3. Y12 has the rows' scales in the same order; Y13 has their minimums, or half of the integers' offset, negative, everywhere.

var dotFormats = []dotFormat{
	{"Q4_0", 18, 32, before32, centredBlock(nibblesAt(2), "minus4", 0xc0800000)},
	{"Q4_1", 20, 32, before32, affineBlock(nibblesAt(4))},
	{"Q5_0", 22, 32, before32, centredBlock(fiveBitsAt(2, 6), "minus8", 0xc1000000)},
	{"Q5_1", 24, 32, before32, affineBlock(fiveBitsAt(4, 8))},
	{"Q8_0", 34, 32, before32, signedBlock(bytesAt2)},
	{"IQ4_NL", 18, 32, before32, signedBlock(codebookAt(2))},
	{"Q2_K", 84, 256, superBlockQ2_K.before, superBlockQ2_K.block},
	{"Q3_K", 110, 256, superBlockQ3_K.before, superBlockQ3_K.block},
	{"Q4_K", 144, 256, superBlockQ4_K.before, superBlockQ4_K.block},
	{"Q5_K", 176, 256, superBlockQ5_K.before, superBlockQ5_K.block},
	{"Q6_K", 210, 256, superBlockQ6_K.before, superBlockQ6_K.block},
	{"IQ4_XS", 136, 256, superBlockIQ4_XS.before, superBlockIQ4_XS.block},
}

// before32 loads masks of nibbles and words of 1.
func before32(d *dot) {
	d.p("VMOVDQU %s, Y15", d.nibbles())
	d.p("VMOVDQU %s, Y14", d.ones())
}

// acc is the register of the sums of column c.
func (d *dot) acc(c int) int { return 8 + c }

// weights puts the 32 weights of rows r and r+2 into Yto, the first halves, and the next register; it may use Y4 and Y5.
type weights func(d *dot, r, to int)

// lanes loads 16 bytes of rows r and r+2. Where the block has 32 before or behind, one of the loads takes these: a blend from memory is cheaper than
// VINSERTI128, of which Zen 3 starts one in a cycle.
func (d *dot) lanes(r, offset, to int) {
	switch {
	case offset+32 <= d.bytes:
		d.p("VBROADCASTI128 %s, Y%d", d.w(r+2, offset), to)
		d.p("VPBLENDD $0x0F, %s, Y%d, Y%d", d.w(r, offset), to, to)
	case offset >= 16:
		d.p("VMOVDQU %s, X%d", d.w(r, offset), to)
		d.p("VPBLENDD $0xF0, %s, Y%d, Y%d", d.w(r+2, offset-16), to, to)
	default:
		d.p("VMOVDQU %s, X%d", d.w(r, offset), to)
		d.p("VINSERTI128 $1, %s, Y%d, Y%d", d.w(r+2, offset), to, to)
	}
}

// nibblesAt are the low halves of 16 bytes, then their high halves.
func nibblesAt(offset int) weights {
	return func(d *dot, r, to int) {
		d.lanes(r, offset, to+1)
		d.p("VPAND Y15, Y%d, Y%d", to+1, to)
		d.p("VPSRLW $4, Y%d, Y%d", to+1, to+1)
		d.p("VPAND Y15, Y%d, Y%d", to+1, to+1)
	}
}

// fiveBitsAt are nibbles and a dword with the 32 fifth bits.
func fiveBitsAt(high, low int) weights {
	return func(d *dot, r, to int) {
		bits := d.constant("bitOfByte", repeat(4, 0x8040201008040201)...)
		nibblesAt(low)(d, r, to)
		d.p("VPBROADCASTD %s, Y4", d.w(r, high))
		d.p("VPBROADCASTD %s, Y5", d.w(r+2, high))
		d.p("VPBLENDD $0xF0, Y5, Y4, Y4")
		for half, bytes := range []string{
			d.constant("bytes01", repeat(2, 0, 0x0101010101010101)...), d.constant("bytes23", repeat(2, 0x0202020202020202, 0x0303030303030303)...),
		} {
			d.p("VPSHUFB %s, Y4, Y5", bytes)
			d.p("VPAND %s, Y5, Y5", bits)
			d.p("VPCMPEQB %s, Y5, Y5", bits)
			d.p("VPAND %s, Y5, Y5", d.constant("sixteens", repeat(4, 0x1010101010101010)...))
			d.p("VPOR Y5, Y%d, Y%d", to+half, to+half)
		}
	}
}

func bytesAt2(d *dot, r, to int) {
	d.lanes(r, 2, to)
	d.lanes(r, 18, to+1)
}

// codebookAt are the values of nibbles.
func codebookAt(offset int) weights {
	return func(d *dot, r, to int) {
		nibblesAt(offset)(d, r, to)
		d.p("VMOVDQU %s, Y4", codebook(d.file))
		d.p("VPSHUFB Y%d, Y4, Y%d", to, to)
		d.p("VPSHUFB Y%d, Y4, Y%d", to+1, to+1)
	}
}

// starts interleaves what the rows' blocks start with, words (WD) or dwords (DQ), into X4. The blocks have at least 16 bytes.
func (d *dot) starts(unit, pair string) {
	for i := range 2 {
		d.p("VMOVD %s, X%d", d.w(2*i, 0), 4+i)
		d.p("VPUNPCKL%s %s, X%d, X%d", unit, d.w(2*i+1, 0), 4+i, 4+i)
	}
	d.p("VPUNPCKL%s X5, X4, X4", pair)
}

// rowScales widens the float16 at the start of the rows' blocks into Y12.
func (d *dot) rowScales() {
	d.starts("WD", "DQ")
	d.p("VPUNPCKLWD X4, X4, X4")
	d.p("VCVTPH2PS X4, Y12")
}

// affineScales: a scale and a minimum at the start of each block. The minimum goes to a row's first dword.
func affineScales(d *dot) {
	d.starts("DQ", "QDQ")
	d.p("VPSHUFB %s, X4, X5", d.constant("minimumWords", repeat(2, 0x8080070680800302, 0x80800f0e80800b0a)...))
	d.p("VPSHUFB %s, X4, X4", d.constant("scaleWordsTwice", repeat(2, 0x0504050401000100, 0x0d0c0d0c09080908)...))
	d.p("VCVTPH2PS X5, Y13")
	d.p("VCVTPH2PS X4, Y12")
}

// joinRows interleaves the sums of rows 0 and 2 in Y5 and of rows 1 and 3 in Y6, words or dwords (add tells), and makes float32 of them.
func (d *dot) joinRows(add string) {
	d.interleave("QDQ", add, 5, 6, 7, 5)
	if add == "VPADDW" {
		d.p("VPMADDWD Y14, Y5, Y5") // 8 * 31*127 in a word
	}
	d.p("VCVTDQ2PS Y5, Y5")
}

// multiplyUnsigned multiplies the rows with column c into Y5.
func (d *dot) multiplyUnsigned(c int) {
	d.p("VBROADCASTI128 %s, Y4", d.q(c, 0))
	d.p("VPMADDUBSW Y4, Y0, Y5")
	d.p("VPMADDUBSW Y4, Y2, Y6")
	d.p("VBROADCASTI128 %s, Y4", d.q(c, 16))
	d.p("VPMADDUBSW Y4, Y1, Y7")
	d.p("VPMADDUBSW Y4, Y3, Y4")
	d.p("VPADDW Y7, Y5, Y5")
	d.p("VPADDW Y4, Y6, Y6")
	d.joinRows("VPADDW")
}

// centredBlock: integers are stored with an offset; half of it, negative, goes to each dword of a row.
func centredBlock(load weights, name string, minusHalfOffset uint32) func(d *dot) {
	return func(d *dot) {
		load(d, 0, 0)
		load(d, 1, 2)
		d.rowScales()
		d.p("VMOVAPS %s, Y13", d.constant(name, dwordsOf(func(int) uint32 { return minusHalfOffset })...))
		for c := range d.cols {
			d.multiplyUnsigned(c)
			d.p("VBROADCASTSS %s, Y4", d.s(c, 0))
			d.p("VBROADCASTSS %s, Y6", d.sc(c, 0))
			d.p("VMULPS Y13, Y4, Y4")
			d.p("VFMADD231PS Y6, Y5, Y4")
			d.p("VFMADD231PS Y12, Y4, Y%d", d.acc(c))
		}
	}
}

// scaleRows adds the sums in Y5, times their scales, to those of column c.
func (d *dot) scaleRows(c int) {
	d.p("VBROADCASTSS %s, Y6", d.sc(c, 0))
	d.p("VMULPS Y12, Y6, Y6")
	d.p("VFMADD231PS Y6, Y5, Y%d", d.acc(c))
}

// affineBlock: blocks have a scale and a minimum.
func affineBlock(load weights) func(d *dot) {
	return func(d *dot) {
		load(d, 0, 0)
		load(d, 1, 2)
		affineScales(d)
		for c := range d.cols {
			d.multiplyUnsigned(c)
			d.p("VBROADCASTSS %s, Y4", d.s(c, 0))
			d.p("VFMADD231PS Y4, Y13, Y%d", d.acc(c))
			d.scaleRows(c)
		}
	}
}

func signedBlock(load weights) func(d *dot) {
	return func(d *dot) {
		load(d, 0, 0)
		load(d, 1, 2)
		d.rowScales()
		for c := range d.cols {
			d.p("VBROADCASTI128 %s, Y4", d.q(c, 0))
			d.multiplySigned(0, 4, 5, 13)
			d.multiplySigned(2, 4, 6, 13)
			d.p("VBROADCASTI128 %s, Y4", d.q(c, 16))
			for i := range 2 {
				d.multiplySigned(1+2*i, 4, 7, 13)
				d.p("VPADDD Y7, Y%d, Y%d", 5+i, 5+i)
			}
			d.joinRows("VPADDD")
			d.scaleRows(c)
		}
	}
}
