package main

import "fmt"

// Dot products of stored rows with activations in 8 bits, for few columns. Four rows are multiplied together which lie far apart, at
// row i, i+rows, i+2*rows and i+3*rows of a piece of the matrix, so that memory is read as four long sequential streams.
//
// Registers: DI the block of row 0, R9 the distance of the streams, R10 three times that, CX blocks left. The activations: SI
// integers, R11 scales, R12 scales times sums of 32, R13 scales times sums of 16; the second column lies AX bytes further on in the
// first, R15 = AX/8 in the next two, twice that in the last. BX is scratch on the stack, 64-byte aligned, and R8 an offset in it.
// Y8 to Y11 are the sums of the four rows with column 0, Y12 to Y15 those with column 1, or constants if there is one column.

const dotParams = "w *byte, hop, stride int, q *byte, d, s, h *float32, k, blocks int, y *float32, ldy, rows int"

// How many columns a dot kernel takes at most: activations in 8 bits, and float32.
const (
	maxDotColumns     = 2
	maxWideDotColumns = 3
)

// dotFormat describes the dot kernel of a block format.
type dotFormat struct {
	format   string
	bytes    int // of a block
	elements int // of a block
	// header, if set, prepares the scales of a block for all rows in a buffer of so many bytes per column. It runs one block ahead of
	// block, at an offset of 0 or 1 blocks, and there are two buffers.
	header func(d *dot, offset int)
	buffer int
	// block adds one block of all rows.
	block func(d *dot)
	// mins: sums besides Y8 to Y15 are kept, see withMin. finish adds them to the four sums in X0 of column c.
	mins   bool
	finish func(d *dot, c int)
}

// Scratch: what withMin keeps, or prepared activations; then what a header passes on to itself; then the buffers, or the scales of a
// block of 32.
const (
	atMins    = 0
	atHeader  = 128
	atBuffers = 256
)

// dot is a dot kernel being written.
type dot struct {
	*file
	dotFormat
	cols int
	reg  map[string]string // constants that are in registers
}

// w is the operand for the byte at offset of row r's block.
func (d *dot) w(r, offset int) string {
	return fmt.Sprintf("%d(DI)%s", offset, []string{"", "(R9*1)", "(R9*2)", "(R10*1)"}[r])
}

// Operands of column c's activations, offsets in bytes.
func (d *dot) q(c, offset int) string  { return d.column("SI", "(AX*1)", c, offset) }
func (d *dot) sc(c, offset int) string { return d.column("R11", "(R15*1)", c, offset) }
func (d *dot) s(c, offset int) string  { return d.column("R12", "(R15*1)", c, offset) }
func (d *dot) h(c, offset int) string  { return d.column("R13", "(R15*2)", c, offset) }

func (d *dot) column(base, index string, c, offset int) string {
	if c == 0 {
		index = ""
	}
	return fmt.Sprintf("%d(%s)%s", offset, base, index)
}

// acc is the register of the sums of row r and column c.
func (d *dot) acc(r, c int) int { return 8 + 4*c + r }

// keep loads a constant into a register that one column leaves free; with two columns it stays in memory.
func (d *dot) keep(register int, operand string) {
	if d.cols == 1 {
		d.p("VMOVDQU %s, Y%d", operand, register)
		d.reg[operand] = fmt.Sprintf("Y%d", register)
	}
}

// constantIn is the operand of a constant: its register, or memory.
func (d *dot) constantIn(name string, words ...uint64) string {
	operand := d.constant(name, words...)
	if r, ok := d.reg[operand]; ok {
		return r
	}
	return operand
}

func (d *dot) ones() string     { return d.constantIn("ones16", repeat(4, 0x0001000100010001)...) }
func (d *dot) nibbles() string  { return d.constantIn("nibbles", repeat(4, 0x0f0f0f0f0f0f0f0f)...) }
func (d *dot) codebook() string { return codebook(d.file) }

func dots(f *file) {
	for cols := 1; cols <= maxDotColumns; cols++ {
		for _, format := range dotFormats {
			d := &dot{file: f, dotFormat: format, cols: cols, reg: map[string]string{}}
			d.write()
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
	d.begin(name, dotParams, atBuffers+max(2*d.buffer, 64)*d.cols+64, fmt.Sprintf("%s multiplies rows of %s blocks with %d columns of k "+
		"activations in 8 bits. Row r of stream i\nstarts at w + i*hop + r*stride; its product with column c goes to y[c*ldy+4*r+i]. "+
		"All strides count bytes.", name, d.format, d.cols))
	d.arg("hop", "R9")
	d.arg("y", "DX")
	d.p("LEAQ (R9)(R9*2), R10")
	d.p("LEAQ 63(SP), BX")
	d.p("ANDQ $-64, BX")
	if d.cols > 1 {
		d.arg("k", "AX")
		d.p("MOVQ AX, R15")
		d.p("SHRQ $3, R15")
	}
	d.keep(15, d.constant("nibbles", repeat(4, 0x0f0f0f0f0f0f0f0f)...))
	d.keep(14, d.constant("ones16", repeat(4, 0x0001000100010001)...))
	d.label("row")
	d.clear()
	d.arg("w", "DI")
	d.arg("q", "SI")
	d.arg("d", "R11")
	d.arg("s", "R12")
	d.arg("h", "R13")
	d.arg("blocks", "CX")
	if d.header != nil {
		d.p("XORQ R8, R8")
		d.header(d, 0)
	}
	d.p("PCALIGN $32")
	d.label("block")
	if d.header != nil { // not beyond the last block
		d.p("CMPQ CX, $1")
		d.p("JEQ multiply")
		d.p("XORQ $%d, R8", d.buffer*d.cols)
		d.header(d, 1)
		d.p("XORQ $%d, R8", d.buffer*d.cols)
		d.label("multiply")
	}
	d.block(d)
	if d.header != nil {
		d.p("XORQ $%d, R8", d.buffer*d.cols)
	}
	d.p("ADDQ $%d, DI", d.bytes)
	d.p("ADDQ $%d, SI", d.elements)
	d.p("ADDQ $%d, R11", d.elements/8)
	d.p("ADDQ $%d, R12", d.elements/8)
	d.p("ADDQ $%d, R13", d.elements/4)
	d.p("DECQ CX")
	d.p("JNZ block")
	for c := range d.cols {
		d.reduce(8 + 4*c)
		if d.finish != nil {
			d.finish(d, c)
		}
		d.store(c)
	}
	d.p("ADDQ $16, DX")
	d.arg("stride", "CX")
	d.p("ADDQ CX, %s", d.param("w"))
	d.p("DECQ %s", d.param("rows"))
	d.p("JNZ row")
	d.end()
}

// clear makes all sums zero.
func (d *dot) clear() {
	for c := range d.cols {
		for r := range 4 {
			d.p("VXORPS Y%d, Y%d, Y%d", d.acc(r, c), d.acc(r, c), d.acc(r, c))
		}
	}
	if !d.mins {
		return
	}
	if d.cols == 1 {
		d.p("VXORPS Y13, Y13, Y13")
		return
	}
	d.p("VXORPS Y0, Y0, Y0")
	for c := range d.cols {
		d.p("VMOVAPS Y0, %d(BX)", atMins+64*c)
	}
}

// withMin calls add for the register with the further sum of column c: Y13, or Y7 while the sum itself stays in the scratch.
func (d *dot) withMin(c int, add func(sum int)) {
	if d.cols == 1 {
		add(13)
		return
	}
	d.p("VMOVAPS %d(BX), Y7", atMins+64*c)
	add(7)
	d.p("VMOVAPS Y7, %d(BX)", atMins+64*c)
}

// inBuffer is the operand for a byte of the current buffer.
func (d *dot) inBuffer(c, offset int) string {
	return fmt.Sprintf("%d(BX)(R8*1)", atBuffers+d.buffer*c+offset)
}

// reduce adds up the 8 parts of four rows' sums, which are in Yfirst to Yfirst+3, into X0.
func (d *dot) reduce(first int) {
	d.p("VHADDPS Y%d, Y%d, Y0", first+1, first)
	d.p("VHADDPS Y%d, Y%d, Y1", first+3, first+2)
	d.p("VHADDPS Y1, Y0, Y0")
	d.p("VEXTRACTF128 $1, Y0, X1")
	d.p("VADDPS X1, X0, X0")
}

// store writes X0 as the results of column c.
func (d *dot) store(c int) {
	if c == 0 {
		d.p("VMOVUPS X0, (DX)")
		return
	}
	d.arg("ldy", "CX")
	d.p("VMOVUPS X0, (DX)(CX*%d)", c)
}

// multiply adds the weights in Yw times the activations x times a factor to the sums of row r and column c. x is a register or
// memory; load puts the factor into a register. It uses Y6 and Y7.
func (d *dot) multiply(w int, x string, r, c int, load func(to int)) {
	d.p("VPMADDUBSW %s, Y%d, Y6", x, w)
	d.addScaled(r, c, load)
}

// addScaled adds sums of 16 bits in Y6 times a factor.
func (d *dot) addScaled(r, c int, load func(to int)) {
	d.p("VPMADDWD %s, Y6, Y6", d.ones())
	d.p("VCVTDQ2PS Y6, Y6")
	load(7)
	d.p("VFMADD231PS Y7, Y6, Y%d", d.acc(r, c))
}

// multiplySigned is multiply for signed weights: Yabs has their magnitudes, their signs go to the activations.
func (d *dot) multiplySigned(w, abs, x, r, c int, load func(to int)) {
	d.p("VPSIGNB Y%d, Y%d, Y6", w, x)
	d.p("VPMADDUBSW Y6, Y%d, Y6", abs)
	d.addScaled(r, c, load)
}

// broadcast loads one float for all lanes.
func (d *dot) broadcast(at string) func(to int) {
	return func(to int) { d.p("VBROADCASTSS %s, Y%d", at, to) }
}

// dotFloat: rows of floats with columns of float32, 8 elements at a time. Columns are in Y0 to Y2, the sums from Y4 on.
func dotFloat(f *file, t floatType, cols int) {
	name := fmt.Sprintf("dot%sx%d", t.name, cols)
	f.begin(name, "w *byte, hop, stride int, x *float32, ldx, eights int, y *float32, ldy, rows int", 0, fmt.Sprintf(
		"%s multiplies rows of 8*eights %s elements with %d columns of float32, ldx bytes apart. Row r of stream i starts at\n"+
			"w + i*hop + r*stride; its product with column c goes to y[c*ldy+4*r+i].", name, t.name, cols))
	f.arg("w", "R8")
	f.arg("hop", "R9")
	f.arg("ldx", "AX")
	f.arg("y", "DX")
	f.p("LEAQ (R9)(R9*2), R10")
	d := &dot{file: f, cols: cols}
	f.label("row")
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
	for c := range cols {
		d.reduce(4 + 4*c)
		d.store(c)
	}
	f.p("ADDQ $16, DX")
	f.p("ADDQ %s, R8", f.param("stride"))
	f.p("DECQ %s", f.param("rows"))
	f.p("JNZ row")
	f.end()
}
