package main

import "fmt"

// Dot products of stored rows with activations in 8 bits, for few columns. Four rows are multiplied together which lie far apart, at
// row i, i+rows, i+2*rows and i+3*rows of a piece of the matrix, so that memory is read as four long sequential streams.
//
// VPMADDUBSW leaves the products of 32 elements in 16 words, and every 32 elements (or 16) have scales of their own. Converting each of these
// vectors to float32 by itself would keep the two multiplying ports busy. Blocks of 32 are first interleaved and added, see dot32.go; super-blocks stay
// integers up to their end, see dot256.go.
//
// Registers: DI the block of row 0, R9 the distance of the streams, R10 three times that, CX blocks left. The activations (see there): SI integers; for
// blocks of 32 R11 scales, R12 scales times sums of 32; for super-blocks R11 units, R13 units and sums as integers. Column c lies c*AX bytes further on in
// the first (R8 = 3*AX), c*AX/8 in the next two (R15 = AX/8, DX = 3*R15), twice that in the last. With one column R8, R15, AX and DX have other uses.
// BX is scratch on the stack, 64-byte aligned; with pairs of blocks of 32 it is the number of blocks.

const (
	dotParams   = "w *byte, hop, stride int, q *byte, d, s *float32, k, blocks int, y *float32, ldy, yhop, ystep, rows int, ahead, later *byte, lines int"
	superParams = "w *byte, hop, stride int, q *byte, unit *float32, ints *int16, k, blocks int, y *float32, ldy, yhop, ystep, rows int, ahead, later *byte, lines int"
)

// How many columns a dot kernel takes at most: activations in 8 bits, and float32.
const (
	maxDotColumns     = 4
	maxWideDotColumns = 3
)

// dotFormat describes the dot kernel of a block format.
type dotFormat struct {
	format   string
	bytes    int  // of a block
	elements int  // of a block: 32 or 256
	minimums bool // minimumSums are in use
	sum      int  // see superBlock
	// before loads what stays in registers; block adds one block of all rows. Blocks of 32 have their sums in registers, see acc; those of 256 in the
	// scratch, see rowSums, or in sum.
	before, block func(d *dot)
	// multiplyPair multiplies two blocks of all rows with one column, addPair adds the two before these; or they are nil.
	multiplyPair, addPair func(d *dot)
}

// dot is a dot kernel being written.
type dot struct {
	*file
	dotFormat
	cols   int
	blocks int // at a time
	nth    int // of these, the one that is loaded
}

// w is the operand for the byte at offset of row r's block.
func (d *dot) w(r, offset int) string {
	return fmt.Sprintf("%d(DI)%s", d.nth*d.bytes+offset, []string{"", "(R9*1)", "(R9*2)", "(R10*1)"}[r])
}

// Operands of column c's activations, offsets in bytes.
func (d *dot) q(c, offset int) string {
	return fmt.Sprintf("%d(SI)%s", d.nth*d.elements+offset, []string{"", "(AX*1)", "(AX*2)", "(R8*1)"}[c])
}
func (d *dot) sc(c, offset int) string {
	return fmt.Sprintf("%d(R11)%s", offset, []string{"", "(R15*1)", "(R15*2)", "(DX*1)"}[c])
}
func (d *dot) s(c, offset int) string {
	return fmt.Sprintf("%d(R12)%s", offset, []string{"", "(R15*1)", "(R15*2)", "(DX*1)"}[c])
}
func (d *dot) ints(c, offset int) string {
	return fmt.Sprintf("%d(R13)%s", offset, []string{"", "(R15*2)", "(R15*4)", "(DX*2)"}[c])
}

func (f *file) ones() string    { return f.constant("ones16", repeat(4, 0x0001000100010001)...) }
func (f *file) nibbles() string { return f.constant("nibbles", repeat(4, 0x0f0f0f0f0f0f0f0f)...) }

func dots(f *file) {
	for cols := 1; cols <= maxDotColumns; cols++ {
		for _, format := range dotFormats {
			(&dot{file: f, dotFormat: format, cols: cols, blocks: 1}).write()
		}
	}
	for cols := 1; cols <= maxWideDotColumns; cols++ {
		for _, t := range floatTypes {
			dotFloat(f, t, cols)
		}
	}
}

func (d *dot) write() {
	name := fmt.Sprintf("dot%sx%d", d.format, d.cols)
	frame, params := 0, dotParams
	if d.elements == 256 {
		frame, params = d.scratch()+64, superParams
	}
	d.begin(name, params, frame, fmt.Sprintf("%s multiplies rows of %s blocks with %d columns of k activations in 8 bits. Row r of stream "+
		"i\nstarts at w + i*hop + r*stride; its product with column c goes to y + c*ldy + r*ystep + i*yhop. All strides count bytes.\n"+
		"Each row asks for so many lines at ahead and later.", name, d.format, d.cols))
	d.arg("hop", "R9")
	d.p("LEAQ (R9)(R9*2), R10")
	d.arg("k", "AX")
	d.p("LEAQ (AX)(AX*2), R8")
	d.p("MOVQ AX, R15")
	d.p("SHRQ $3, R15")
	d.p("LEAQ (R15)(R15*2), DX")
	if d.elements == 256 {
		d.p("LEAQ 63(SP), BX")
		d.p("ANDQ $-64, BX")
	}
	d.before(d)
	d.label("row")
	d.ask()
	d.clear()
	d.arg("w", "DI")
	d.arg("q", "SI")
	if d.elements == 256 {
		d.arg("unit", "R11")
		d.arg("ints", "R13")
		d.nextRow()
	} else {
		d.arg("d", "R11")
		d.arg("s", "R12")
	}
	d.arg("blocks", "CX")
	if d.multiplyPair == nil || d.cols > 1 {
		d.loop("block", d.block)
	} else {
		d.pairs()
	}
	d.store()
	d.arg("stride", "CX")
	d.p("ADDQ CX, %s", d.param("w"))
	d.p("DECQ %s", d.param("rows"))
	d.p("JNZ row")
	d.end()
}

// loop runs over CX blocks.
func (d *dot) loop(name string, body func(d *dot)) {
	d.p("PCALIGN $32")
	d.label(name)
	if d.elements == 32 {
		d.prefetchRows()
	}
	body(d)
	d.toNextBlocks()
	d.toNextScales()
	d.p("DECQ CX")
	d.p("JNZ %s", name)
}

// pairs runs over CX blocks, two at a time.
func (d *dot) pairs() {
	d.p("MOVQ CX, BX")
	d.p("SHRQ $1, CX")
	d.p("JZ odd")
	d.blocks = 2
	d.multiplyPair(d)
	d.toNextBlocks()
	d.p("JMP next")
	d.p("PCALIGN $32")
	d.label("pair")
	between(d, func() { d.multiplyPair(d) }, func() { d.addPair(d) }, d.prefetchRows)
	d.toNextBlocks()
	d.toNextScales()
	d.label("next")
	d.p("DECQ CX")
	d.p("JNZ pair")
	d.addPair(d)
	d.toNextScales()
	d.blocks = 1
	d.label("odd")
	d.p("TESTQ $1, BX")
	d.p("JZ done")
	d.block(d)
	d.label("done")
}

// toNextBlocks and toNextScales move the pointers on: to the blocks and their activations as integers, and to the scales of these.
func (d *dot) toNextBlocks() {
	d.p("ADDQ $%d, DI", d.blocks*d.bytes)
	d.p("ADDQ $%d, SI", d.blocks*d.elements)
}

func (d *dot) toNextScales() {
	d.p("ADDQ $%d, R11", d.blocks*d.elements/8)
	if d.elements == 32 {
		d.p("ADDQ $%d, R12", d.blocks*d.elements/8)
	} else {
		d.p("ADDQ $%d, R13", d.blocks*d.elements/4)
	}
}

// store brings the sums of four rows together and stores them, here rather than from a copy: until the lines that they go to come, the next rows are read.
func (d *dot) store() {
	d.beginStore()
	for c := range d.cols {
		switch {
		case d.elements == 32:
			d.p("VHADDPS Y%d, Y%d, Y0", d.acc(c), d.acc(c))
			d.p("VEXTRACTF128 $1, Y0, X1")
			d.p("VMOVLHPS X1, X0, X0")
		case d.cols == 1:
			d.p("VMOVAPS %s, Y0", d.fourSums())
			d.addLanes(0)
		default:
			for r := range 4 {
				d.p("VMOVAPS %s, Y%d", d.rowSums(r, c), r)
			}
			d.fourRows("VADDPS", 0, 1, 2, 3, spare)
			d.addLanes(0)
		}
		if d.minimums {
			d.p("VMOVAPS %s, Y1", d.minimumSums(c))
			d.p("VHADDPS Y1, Y1, Y1")
			d.p("VEXTRACTF128 $1, Y1, X2")
			d.p("VMOVLHPS X2, X1, X1")
			d.p("VADDPS X1, X0, X0")
		}
		d.storeRows(c)
	}
	d.endStore()
}

// beginStore, storeRows and endStore store X0, the products of four rows with a column, from the first column to the last. They use CX, DI and SI.
func (d *dot) beginStore() {
	d.arg("y", "CX")
	d.arg("yhop", "DI")
	d.p("LEAQ (DI)(DI*2), SI")
}

func (d *dot) storeRows(c int) {
	if c > 0 {
		d.p("ADDQ %s, CX", d.param("ldy"))
	}
	d.p("CMPQ DI, $4")
	d.p("JNE apart%d", c)
	d.p("VMOVUPS X0, (CX)")
	d.p("JMP stored%d", c)
	d.label(fmt.Sprintf("apart%d", c))
	d.p("VMOVSS X0, (CX)")
	for i, at := range []string{"(CX)(DI*1)", "(CX)(DI*2)", "(CX)(SI*1)"} {
		d.p("VEXTRACTPS $%d, X0, %s", i+1, at)
	}
	d.label(fmt.Sprintf("stored%d", c))
}

func (d *dot) endStore() {
	d.arg("ystep", "CX")
	d.p("ADDQ CX, %s", d.param("y"))
}

// clear makes all sums zero.
func (d *dot) clear() {
	if d.elements == 32 {
		for c := range d.cols {
			d.p("VXORPS Y%d, Y%d, Y%d", d.acc(c), d.acc(c), d.acc(c))
		}
		return
	}
	d.p("VXORPS Y0, Y0, Y0")
	sums := 4
	if d.cols == 1 {
		sums = 1
		if d.sum > 0 {
			sums = 0
			d.p("VXORPS Y%d, Y%d, Y%d", d.sum, d.sum, d.sum)
		}
	}
	for c := range d.cols {
		for r := range sums {
			d.p("VMOVAPS Y0, %s", d.rowSums(r, c))
		}
		if d.minimums {
			d.p("VMOVAPS Y0, %s", d.minimumSums(c))
		}
	}
}

// prefetchAhead is how far ahead of their use stored rows are asked for: the processor's own prefetching ends at borders of pages, and farther ahead it does
// not recognize the streams.
const prefetchAhead = 512

func (d *dot) prefetchRows() {
	for r := range 4 {
		d.prefetch(r)
	}
}

// prefetch asks for the blocks' worth of bytes of stream r; with one column for one line more, so that every line is asked for twice at least. While as many
// are under way as the processor keeps track of, 24 in Zen 3, it drops requests, up to a tenth; and a line that was not asked for is waited for.
func (d *dot) prefetch(r int) {
	bytes := d.blocks * d.bytes
	if d.cols == 1 {
		bytes += 64
	}
	for at := 0; at < bytes; at += 64 {
		d.p("PREFETCHT0 %s", d.w(r, prefetchAhead+at))
	}
}

// ask asks, with each row, for so many lines of what is read next, and of what is read later. It uses CX, DI and SI.
func (f *file) ask() {
	f.arg("lines", "CX")
	f.p("TESTQ CX, CX")
	f.p("JZ asked")
	f.arg("ahead", "DI")
	f.arg("later", "SI")
	f.label("ask")
	f.p("PREFETCHT1 (DI)")
	f.p("PREFETCHT1 (SI)")
	f.p("ADDQ $64, DI")
	f.p("ADDQ $64, SI")
	f.p("DECQ CX")
	f.p("JNZ ask")
	f.p("MOVQ DI, %s", f.param("ahead"))
	f.p("MOVQ SI, %s", f.param("later"))
	f.label("asked")
}

// addLanes adds the lanes of Ya into X0, using X1.
func (d *dot) addLanes(a int) {
	d.p("VEXTRACTF128 $1, Y%d, X1", a)
	d.p("VADDPS X1, X%d, X0", a)
}

// fourRows adds up parts of four vectors into the first of them: dwords a b c d in both lanes. It uses all and temp.
func (d *dot) fourRows(add string, a, b, c, e, temp int) {
	d.interleave("DQ", add, a, b, temp, a)
	d.interleave("DQ", add, c, e, temp, c)
	d.interleave("QDQ", add, a, c, temp, a)
}

// interleave adds the vectors a and b after interleaving their dwords or qwords; add is VPADDW, VPADDD or VADDPS. It uses a and temp.
func (d *dot) interleave(unit, add string, a, b, temp, to int) {
	d.p("VPUNPCKL%s Y%d, Y%d, Y%d", unit, b, a, temp)
	d.p("VPUNPCKH%s Y%d, Y%d, Y%d", unit, b, a, a)
	d.p("%s Y%d, Y%d, Y%d", add, temp, a, to)
}

// multiplySigned puts the products of the signed weights in Yw with 32 activations in Yx into Yto, which may be Yw, as dwords, using Ytemp. The signs
// of the weights go to the activations; magnitudes of 128 have room in the unsigned operand.
func (d *dot) multiplySigned(w, x, to, temp int) {
	d.p("VPSIGNB Y%d, Y%d, Y%d", w, x, temp)
	d.p("VPABSB Y%d, Y%d", w, to)
	d.p("VPMADDUBSW Y%d, Y%d, Y%d", temp, to, to)
	d.p("VPMADDWD %s, Y%d, Y%d", d.ones(), to, to)
}

// dotFloat: rows of floats with columns of float32, 8 elements at a time. Columns are in Y0 to Y2, the sums from Y4 on.
func dotFloat(f *file, t floatType, cols int) {
	name := fmt.Sprintf("dot%sx%d", t.name, cols)
	f.begin(name, "w *byte, hop, stride int, x *float32, ldx, eights int, y *float32, ldy, yhop, ystep, rows int, ahead, later *byte, lines int", 0, fmt.Sprintf(
		"%s multiplies rows of 8*eights %s elements with %d columns of float32, ldx bytes apart. Row r of stream i starts at\n"+
			"w + i*hop + r*stride; its product with column c goes to y + c*ldy + r*ystep + i*yhop. Each row asks for so many lines at ahead and later.",
		name, t.name, cols))
	f.arg("w", "R8")
	f.arg("hop", "R9")
	f.arg("ldx", "AX")
	f.p("LEAQ (R9)(R9*2), R10")
	d := &dot{file: f, cols: cols}
	f.label("row")
	f.ask()
	f.p("MOVQ R8, DI")
	f.arg("x", "SI")
	f.arg("eights", "CX")
	for i := range 4 * cols {
		f.p("VXORPS Y%d, Y%d, Y%d", 4+i, 4+i, 4+i)
	}
	f.p("PCALIGN $32")
	f.label("next")
	for c := range cols {
		f.p("VMOVUPS %s, Y%d", []string{"(SI)", "(SI)(AX*1)", "(SI)(AX*2)"}[c], c)
	}
	for r := range 4 {
		t.load1(f, d.w(r, 0), 3)
		for c := range cols {
			f.p("VFMADD231PS Y%d, Y3, Y%d", c, 4+4*c+r)
		}
	}
	f.p("ADDQ $%d, DI", 8*t.bytes)
	f.p("ADDQ $32, SI")
	f.p("DECQ CX")
	f.p("JNZ next")
	d.beginStore()
	for c := range cols {
		sum := 4 + 4*c
		d.fourRows("VADDPS", sum, sum+1, sum+2, sum+3, 0)
		d.addLanes(sum)
		d.storeRows(c)
	}
	d.endStore()
	f.p("ADDQ %s, R8", f.param("stride"))
	f.p("DECQ %s", f.param("rows"))
	f.p("JNZ row")
	f.end()
}
