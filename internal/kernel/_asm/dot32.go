package main

import (
	"fmt"
	"math"
)

// Dot kernels of the formats with blocks of 32 elements. A lane of a vector belongs to one row: rows 0 and 2 are the lanes of Y0, elements 0 to
// 15, and Y1, elements 16 to 31; rows 1 and 3 those of Y2 and Y3. The activations are the same in both lanes. So the products of a row's
// halves are added as they are, and one interleaving brings those of all rows into one vector, each as two dwords: 0 0 1 1 and
// 2 2 3 3. Y12 has the rows' scales in the same order, Y13 their minimums; for pairs of blocks Y13 and Y14.
//
// With one column two blocks are added together: the sums of both, interleaved first, take these places of two dwords. From their products to the float32
// sums the way is long, so the instructions of its second half stand between those that multiply the next pair.

var dotFormats = []dotFormat{
	block32{load: nibblesAt(2), offset: 8}.format("Q4_0", 18),
	block32{load: nibblesAt(4), minimums: true}.format("Q4_1", 20),
	block32{load: fiveBitsAt(2, 6), offset: 16, five: true}.format("Q5_0", 22),
	block32{load: fiveBitsAt(4, 8), minimums: true, five: true}.format("Q5_1", 24),
	block32{load: bytesAt2, signed: true}.format("Q8_0", 34),
	block32{load: codebookAt(2), signed: true}.format("IQ4_NL", 18),
	superBlockQ2_K.format("Q2_K", 84),
	superBlockQ3_K.format("Q3_K", 110),
	superBlockQ4_K.format("Q4_K", 144),
	superBlockQ5_K.format("Q5_K", 176),
	superBlockQ6_K.format("Q6_K", 210),
	superBlockIQ4_XS.format("IQ4_XS", 136),
}

// block32 describes how blocks of 32 elements are multiplied: a float16 scale at the start of each, and unsigned integers with an offset or a minimum, the
// float16 after the scale, or signed ones.
type block32 struct {
	load     weights
	offset   int
	minimums bool
	signed   bool
	five     bool // integers have 5 bits: 16 products do not fit a word
}

func (b block32) format(name string, bytes int) dotFormat {
	return dotFormat{format: name, bytes: bytes, elements: 32, before: before32, block: b.single, multiplyPair: b.multiplyPair, addPair: b.addPair}
}

// before32 loads the mask of nibbles and, with several columns, words of 1.
func before32(d *dot) {
	d.p("VMOVDQU %s, Y15", d.nibbles())
	if d.cols > 1 {
		d.p("VMOVDQU %s, Y14", d.ones())
	}
}

// acc is the register of the sums of column c.
func (d *dot) acc(c int) int { return 8 + c }

// weights puts the 32 weights of rows r and r+2 into Yto, the first halves, and the next register; it may use Y4 and Y7.
type weights func(d *dot, r, to int)

// lanes loads 16 bytes of rows r and r+2. Where the block has 32 before or behind, one of the loads takes these: a blend from memory is cheaper than
// VINSERTI128, of which Zen 3 starts one in a cycle.
func (d *dot) lanes(r, offset, to int) {
	switch at := d.nth*d.bytes + offset; {
	case at+32 <= d.blocks*d.bytes:
		d.p("VBROADCASTI128 %s, Y%d", d.w(r+2, offset), to)
		d.p("VPBLENDD $0x0F, %s, Y%d, Y%d", d.w(r, offset), to, to)
	case at >= 16:
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
		d.p("VPBROADCASTD %s, Y7", d.w(r+2, high))
		d.p("VPBLENDD $0xF0, Y7, Y4, Y4")
		for half, bytes := range []string{
			d.constant("bytes01", repeat(2, 0, 0x0101010101010101)...), d.constant("bytes23", repeat(2, 0x0202020202020202, 0x0303030303030303)...),
		} {
			d.p("VPSHUFB %s, Y4, Y7", bytes)
			d.p("VPAND %s, Y7, Y7", bits)
			d.p("VPCMPEQB %s, Y7, Y7", bits)
			d.p("VPAND %s, Y7, Y7", d.constant("sixteens", repeat(4, 0x1010101010101010)...))
			d.p("VPOR Y7, Y%d, Y%d", to+half, to+half)
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

// add is the instruction that adds products as they are.
func (b block32) add() string {
	if b.signed {
		return "VPADDD"
	}
	return "VPADDW"
}

// multiply multiplies the loaded weights with column c. The sums of rows 0 and 2 come to Yto, words or dwords, those of rows 1 and 3 to the next register.
func (b block32) multiply(d *dot, c, to int) {
	for half := range 2 {
		d.p("VBROADCASTI128 %s, Y4", d.q(c, 16*half))
		for i := range 2 {
			w, p := half+2*i, to+i
			if half == 1 {
				p = 7
			}
			if b.signed {
				d.multiplySigned(w, 4, p, 13)
			} else {
				d.p("VPMADDUBSW Y4, Y%d, Y%d", w, p)
			}
			if half == 1 {
				d.p("%s Y7, Y%d, Y%d", b.add(), to+i, to+i)
			}
		}
	}
}

// finish adds sums in Yv, float32, to those of column c; broadcast loads the activations' scales. The rows' scales are in Yscale, their minimums in Yminimum;
// minusOffset is what each dword has of the integers' offset. It uses temp, and minimum if there are none.
func (b block32) finish(d *dot, c int, broadcast string, minusOffset float32, v, scale, minimum, temp int) {
	if b.offset > 0 { // (sum * scale - sum of activations * offset) * scale
		product, scaleOfColumn := temp, minimum
		d.p("%s %s, Y%d", broadcast, d.s(c, 0), product)
		d.p("%s %s, Y%d", broadcast, d.sc(c, 0), scaleOfColumn)
		d.p("VMULPS %s, Y%d, Y%d", d.dwords(fmt.Sprintf("minus%g", -minusOffset), math.Float32bits(minusOffset)), product, product)
		d.p("VFMADD231PS Y%d, Y%d, Y%d", scaleOfColumn, v, product)
		d.p("VFMADD231PS Y%d, Y%d, Y%d", scale, product, d.acc(c))
		return
	}
	if b.minimums {
		d.p("%s %s, Y%d", broadcast, d.s(c, 0), temp)
		d.p("VFMADD231PS Y%d, Y%d, Y%d", temp, minimum, d.acc(c))
	}
	d.p("%s %s, Y%d", broadcast, d.sc(c, 0), temp)
	d.p("VMULPS Y%d, Y%d, Y%d", scale, temp, temp)
	d.p("VFMADD231PS Y%d, Y%d, Y%d", temp, v, d.acc(c))
}

// single adds one block.
func (b block32) single(d *dot) {
	b.load(d, 0, 0)
	b.load(d, 1, 2)
	if b.minimums {
		affineScales(d)
	} else {
		d.rowScales()
	}
	for c := range d.cols {
		b.multiply(d, c, 5)
		d.interleave("QDQ", b.add(), 5, 6, 7, 5)
		ones := d.ones()
		if d.cols > 1 {
			ones = "Y14"
		}
		if !b.signed {
			d.p("VPMADDWD %s, Y5, Y5", ones) // 8 * 31*127 in a word
		}
		d.p("VCVTDQ2PS Y5, Y5")
		b.finish(d, c, "VBROADCASTSS", -float32(b.offset)/2, 5, 12, 13, 4)
	}
}

// multiplyPair puts the sums of two blocks' products with the one column into Y11. It leaves Y6 and Y12 to Y14 alone.
func (b block32) multiplyPair(d *dot) {
	add := b.add()
	for d.nth = range 2 {
		for half := range 2 {
			d.p("VBROADCASTI128 %s, Y%d", d.q(0, 16*half), 2+half)
		}
		for i := range 2 { // rows i and i+2
			to := []int{9 + i, 5}[d.nth]
			b.load(d, i, 0)
			for half, p := range []int{to, 1} {
				if b.signed {
					d.multiplySigned(half, 2+half, p, 7)
				} else {
					d.p("VPMADDUBSW Y%d, Y%d, Y%d", 2+half, half, p)
				}
			}
			d.p("%s Y1, Y%d, Y%d", add, to, to)
			if d.nth == 1 { // blocks 0 1 0 1 of rows 0 and 2, then of 1 and 3
				d.interleave("DQ", add, 9+i, 5, 0, 9+i)
			}
		}
	}
	d.nth = 0
	if b.five {
		add = "VPADDD"
		for i := range 2 {
			d.p("VPMADDWD %s, Y%d, Y%d", d.ones(), 9+i, 9+i)
		}
	}
	d.interleave("QDQ", add, 9, 10, 0, 11)
}

// addPair adds the pair before this one. It uses Y6 and Y12 to Y14.
func (b block32) addPair(d *dot) {
	from := 11
	if !b.signed && !b.five {
		d.p("VPMADDWD %s, Y11, Y12", d.ones()) // 16 * 15*127 in a word
		from = 12
	}
	d.p("VCVTDQ2PS Y%d, Y12", from)
	d.nth = -2
	b.pairScales(d)
	d.nth = 0
	b.finish(d, 0, "VBROADCASTSD", -float32(b.offset), 12, 13, 14, 6)
}

// pairScales widens the scales of two blocks of all rows into Y13, and their minimums into Y14.
func (b block32) pairScales(d *dot) {
	if !b.minimums {
		for i, two := range []string{"DX", "R8"} { // two rows each, in units that have nothing else to do
			for r, row := range []string{two, "R15"} {
				d.p("MOVL %s, %s", d.w(2*i+r, d.bytes-2), row)
				d.p("MOVW %s, %s", d.w(2*i+r, 0), row)
			}
			d.p("SHLQ $32, R15")
			d.p("ORQ R15, %s", two)
		}
		d.p("VMOVQ DX, X13")
		d.p("VMOVQ R8, X6")
		d.p("VPUNPCKLQDQ X6, X13, X13")
		d.p("VCVTPH2PS X13, Y13")
		return
	}
	apart := d.constant("scalesMinimums", repeat(2, 0x0d0c090805040100, 0x0f0e0b0a07060302)...)
	for i, to := range []int{13, 14} { // two rows each
		for r, row := range []int{to, 6} {
			d.p("VMOVD %s, X%d", d.w(2*i+r, 0), row)
			d.p("VPUNPCKLDQ %s, X%d, X%d", d.w(2*i+r, d.bytes), row, row)
		}
		d.p("VPUNPCKLQDQ X6, X%d, X%d", to, to)
		d.p("VPSHUFB %s, X%d, X%d", apart, to, to)
	}
	d.p("VPUNPCKLQDQ X14, X13, X6")
	d.p("VPUNPCKHQDQ X14, X13, X14")
	d.p("VCVTPH2PS X6, Y13")
	d.p("VCVTPH2PS X14, Y14")
}
