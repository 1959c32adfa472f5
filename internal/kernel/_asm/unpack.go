package main

import "fmt"

// Unpackers turn 16 rows of stored blocks into a panel, 8 rows at a time. Packed integers are transposed before they are split, 4 x 4
// dwords in both lanes: rows 0 to 3 in the low lane, 4 to 7 in the high one.
//
// Registers: R8 the rows' current block, R9 their distance, R10 three times that, DI the panel, CX blocks left. Within a block
// AX is row 0 of the 8 and R11 row 4, DX the panel shifted by 32 bytes for the second 8 rows, BX counts the two passes.

const unpackParams = "src *byte, stride int, dst *byte, blocks int"

// unpacker describes an unpacker.
type unpacker struct {
	format     string // of the blocks
	blockBytes int
	panel      string // its format, in which a block becomes panelBytes
	panelBytes int
	// constants loads what the loop needs; body writes 8 rows of a block.
	constants, body func(f *file)
}

func unpack(f *file) {
	for _, u := range []unpacker{
		{"Q4_0", 18, "U4", 640, loadNibbleMask, bodyQ4_0},
		{"Q4_1", 20, "U4", 640, loadNibbleMask, bodyQ4_1},
		{"Q5_0", 22, "U5", 640, loadNibbleMask, bodyQ5_0},
		{"Q5_1", 24, "U5", 640, loadNibbleMask, bodyQ5_1},
		{"Q8_0", 34, "I16", 1088, loadWordShuffles, bodyQ8_0},
		{"IQ4_NL", 18, "I16", 1088, loadWordShuffles, bodyIQ4_NL},
		{"Q2_K", 84, "U3", 8 * 832, nil, bodyQ2_K},
		{"Q3_K", 110, "U3", 8 * 832, nil, bodyQ3_K},
		{"Q4_K", 144, "U4", 8 * 640, loadNibbleMask, bodyQ4_K},
		{"Q5_K", 176, "U5", 8 * 640, loadNibbleMask, bodyQ5_K},
		{"Q6_K", 210, "U6", 8 * 832, loadNibbleMask, bodyQ6_K},
		{"IQ4_XS", 136, "I16", 8 * 1088, loadWordShuffles, bodyIQ4_XS},
	} {
		u.write(f)
	}
	for _, t := range floatTypes {
		unpackFloat(f, t)
	}
}

func (u unpacker) write(f *file) {
	name := "unpack" + u.format
	f.begin(name, unpackParams, 0, fmt.Sprintf("%s unpacks 16 rows, stride bytes apart, of %s blocks to a panel of format %s.", name, u.format, u.panel))
	f.arg("src", "R8")
	f.arg("stride", "R9")
	f.arg("dst", "DI")
	f.arg("blocks", "CX")
	f.p("LEAQ (R9)(R9*2), R10")
	if u.constants != nil {
		u.constants(f)
	}
	f.label("block")
	f.p("MOVQ $2, BX")
	f.p("MOVQ R8, AX")
	f.p("MOVQ DI, DX")
	f.label("half")
	f.p("LEAQ (AX)(R9*4), R11")
	u.body(f)
	f.p("LEAQ (AX)(R9*8), AX")
	f.p("ADDQ $32, DX")
	f.p("DECQ BX")
	f.p("JNZ half")
	f.p("ADDQ $%d, R8", u.blockBytes)
	f.p("ADDQ $%d, DI", u.panelBytes)
	f.p("DECQ CX")
	f.p("JNZ block")
	f.end()
}

// row is the operand for the byte at offset of row r.
func row(r, offset int) string {
	base := []string{"AX", "R11"}[r/4]
	return fmt.Sprintf("%d(%s)%s", offset, base, []string{"", "(R9*1)", "(R9*2)", "(R10*1)"}[r%4])
}

// transposed loads the 16 bytes at offset of 8 rows into Y0 to Y3: Yg has dword g of each. It uses Y4 to Y7.
func transposed(f *file, offset int) {
	for r := range 4 {
		f.p("VMOVDQU %s, X%d", row(r, offset), r)
		f.p("VINSERTI128 $1, %s, Y%d, Y%d", row(r+4, offset), r, r)
	}
	transpose4(f)
}

// transpose4 transposes 4 x 4 dwords in both lanes of Y0 to Y3, using Y4 to Y7.
func transpose4(f *file) {
	for i := range 2 {
		f.p("VPUNPCKLDQ Y%d, Y%d, Y%d", 2*i+1, 2*i, 4+2*i)
		f.p("VPUNPCKHDQ Y%d, Y%d, Y%d", 2*i+1, 2*i, 5+2*i)
	}
	for i := range 2 {
		f.p("VPUNPCKLQDQ Y%d, Y%d, Y%d", 6+i, 4+i, 2*i)
		f.p("VPUNPCKHQDQ Y%d, Y%d, Y%d", 6+i, 4+i, 2*i+1)
	}
}

// dwords gathers the dword at offset of 8 rows into Yto, using Yto+1. Words sit in the low halves of zeroed dwords.
func dwords(f *file, to, offset int) {
	for r := range 8 {
		x := to + r/4
		if r%4 == 0 {
			f.p("VMOVD %s, X%d", row(r, offset), x)
		} else {
			f.p("VPINSRD $%d, %s, X%d, X%d", r%4, row(r, offset), x, x)
		}
	}
	f.p("VINSERTI128 $1, X%d, Y%d, Y%d", to+1, to, to)
}

// words gathers the 16-bit word at offset of 8 rows into Xto.
func words(f *file, to, offset int) {
	f.p("VPXOR X%d, X%d, X%d", to, to, to)
	for r := range 8 {
		f.p("VPINSRW $%d, %s, X%d, X%d", r, row(r, offset), to, to)
	}
}

// halfPairs gathers two float16 at offset of 8 rows and widens the first ones into Yto, the second ones into Yto+1. It uses Yto+2.
func halfPairs(f *file, to, offset int) {
	order := f.constant("wordsApart", repeat(2, 0x0d0c090805040100, 0x0f0e0b0a07060302)...)
	dwords(f, to, offset)
	f.p("VPSHUFB %s, Y%d, Y%d", order, to, to)
	f.p("VPERMQ $0xD8, Y%d, Y%d", to, to) // all first ones, all second ones
	f.p("VEXTRACTI128 $1, Y%d, X%d", to, to+1)
	f.p("VCVTPH2PS X%d, Y%d", to, to)
	f.p("VCVTPH2PS X%d, Y%d", to+1, to+1)
}

func loadNibbleMask(f *file) {
	f.p("VMOVDQU %s, Y15", f.constant("nibbles", repeat(4, 0x0f0f0f0f0f0f0f0f)...))
}

// splitNibbles makes Y4 to Y7 of the low halves of Y0 to Y3's bytes; Y0 to Y3 keep the high ones.
func splitNibbles(f *file) {
	for g := range 4 {
		f.p("VPAND Y15, Y%d, Y%d", g, g+4)
		f.p("VPSRLW $4, Y%d, Y%d", g, g)
		f.p("VPAND Y15, Y%d, Y%d", g, g)
	}
}

// storeGroups stores Yfrom to Yfrom+3 as groups of k first to first+3 of the panel block at offset.
func storeGroups(f *file, from, offset, first int) {
	for g := range 4 {
		f.p("VMOVDQA Y%d, %d(DX)", from+g, offset+64*(first+g))
	}
}

// storeFactors stores Y8 and Y9 as the scales and minimums of a panel block.
func storeFactors(f *file) {
	f.p("VMOVAPS Y8, %d(DX)", atScale)
	f.p("VMOVAPS Y9, %d(DX)", atScale+64)
}

// centre makes the minimums of weights that are stored with an offset: Y9 = Y8 * -offset.
func centre(f *file, name string, minusOffset uint32) {
	f.p("VMULPS %s, Y8, Y9", f.constant(name, dwordsOf(func(int) uint32 { return minusOffset })...))
}

func bodyQ4_0(f *file) {
	transposed(f, 2)
	splitNibbles(f)
	storeGroups(f, 4, 0, 0)
	storeGroups(f, 0, 0, 4)
	words(f, 8, 0)
	f.p("VCVTPH2PS X8, Y8")
	centre(f, "minus8", 0xc1000000)
	storeFactors(f)
}

func bodyQ4_1(f *file) {
	transposed(f, 4)
	splitNibbles(f)
	storeGroups(f, 4, 0, 0)
	storeGroups(f, 0, 0, 4)
	halfPairs(f, 8, 0)
	storeFactors(f)
}

func bodyQ5_0(f *file) {
	fiveBits(f, 2, 6)
	words(f, 8, 0)
	f.p("VCVTPH2PS X8, Y8")
	centre(f, "minus16", 0xc1800000)
	storeFactors(f)
}

func bodyQ5_1(f *file) {
	fiveBits(f, 4, 8)
	halfPairs(f, 8, 0)
	storeFactors(f)
}

// fiveBits stores the integers of a block with a 32-bit word of fifth bits at offset high and nibbles at low.
func fiveBits(f *file, high, low int) {
	transposed(f, low)
	splitNibbles(f)
	dwords(f, 8, high)
	f.p("VPSRLD $4, Y8, Y9")
	mask := f.constant("lowBits", repeat(4, 0x0804020108040201)...)
	sixteens := f.constant("bitTo16", repeat(2, 0x0000001000101000, 0x0000000000000010)...)
	for g := range 8 { // group g has bits 4g to 4g+3: in byte g/2, and in the low half of it after the shift if g is odd
		spread := f.constant(fmt.Sprintf("spread%d", g/2), bytesOf(func(i int) int { return i%16/4*4 + g/2 })...)
		to := (g + 4) % 8
		f.p("VPSHUFB %s, Y%d, Y10", spread, 8+g%2)
		f.p("VPAND %s, Y10, Y10", mask)
		f.p("VMOVDQU %s, Y11", sixteens)
		f.p("VPSHUFB Y10, Y11, Y10")
		f.p("VPOR Y10, Y%d, Y%d", to, to)
	}
	storeGroups(f, 4, 0, 0)
	storeGroups(f, 0, 0, 4)
}

// loadWordShuffles loads what extendBytes needs.
func loadWordShuffles(f *file) {
	pair := func(first int) func(i int) int {
		return func(i int) int {
			if i%2 == 0 {
				return 0x80 // zero
			}
			return i%16/4*4 + first + i%4/2
		}
	}
	f.p("VMOVDQU %s, Y15", f.constant("firstWords", bytesOf(pair(0))...))
	f.p("VMOVDQU %s, Y14", f.constant("lastWords", bytesOf(pair(2))...))
}

// extendBytes widens the signed bytes of Yfrom to Yfrom+3 and stores them as pairs of k, from group first of the block at offset on.
func extendBytes(f *file, from, offset, first int) {
	for g := range 4 {
		for half, shuffle := range []int{15, 14} {
			f.p("VPSHUFB Y%d, Y%d, Y8", shuffle, from+g)
			f.p("VPSRAW $8, Y8, Y8")
			f.p("VMOVDQA Y8, %d(DX)", offset+128*(first+g)+64*half)
		}
	}
}

func bodyQ8_0(f *file) {
	for part := range 2 {
		transposed(f, 2+16*part)
		extendBytes(f, 0, 0, 4*part)
	}
	words(f, 8, 0)
	f.p("VCVTPH2PS X8, Y8")
	f.p("VMOVAPS Y8, 1024(DX)")
}

// codebookNibbles stores the values of the nibbles of 16 bytes at offset to the panel block at to.
func codebookNibbles(f *file, offset, to int) {
	f.p("VMOVDQU %s, Y13", f.constant("nibbles", repeat(4, 0x0f0f0f0f0f0f0f0f)...))
	f.p("VMOVDQU %s, Y12", codebook(f))
	transposed(f, offset)
	for g := range 4 {
		f.p("VPAND Y13, Y%d, Y%d", g, g+4)
		f.p("VPSRLW $4, Y%d, Y%d", g, g)
		f.p("VPAND Y13, Y%d, Y%d", g, g)
		f.p("VPSHUFB Y%d, Y12, Y%d", g, g)
		f.p("VPSHUFB Y%d, Y12, Y%d", g+4, g+4)
	}
	extendBytes(f, 4, to, 0)
	extendBytes(f, 0, to, 4)
}

// codebook is the constant with the values of IQ4_NL and IQ4_XS.
func codebook(f *file) string {
	values := [16]int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	return f.constant("codebook", bytesOf(func(i int) int { return values[i%16] })...)
}

func bodyIQ4_NL(f *file) {
	codebookNibbles(f, 2, 0)
	words(f, 8, 0)
	f.p("VCVTPH2PS X8, Y8")
	f.p("VMOVAPS Y8, 1024(DX)")
}

func bodyIQ4_XS(f *file) {
	for g := range 8 {
		codebookNibbles(f, 8+16*g, 1088*g)
	}
	f.p("VPXOR X10, X10, X10")
	words(f, 0, 0)
	f.p("VCVTPH2PS X0, Y0")
	words(f, 1, 2)
	f.p("VPMOVZXWD X1, Y1") // top bits of the scales
	dwords(f, 2, 4)         // low four bits
	three := f.constant("three", dwordsOf(func(int) uint32 { return 3 })...)
	fifteen := f.constant("fifteen", dwordsOf(func(int) uint32 { return 15 })...)
	offset := f.constant("thirtyTwo", dwordsOf(func(int) uint32 { return 32 })...)
	for g := range 8 {
		f.p("VPSRLD $%d, Y2, Y3", 4*g)
		f.p("VPAND %s, Y3, Y3", fifteen)
		f.p("VPSRLD $%d, Y1, Y4", 2*g)
		f.p("VPAND %s, Y4, Y4", three)
		f.p("VPSLLD $4, Y4, Y4")
		f.p("VPOR Y4, Y3, Y3")
		f.p("VPSUBD %s, Y3, Y3", offset)
		f.p("VCVTDQ2PS Y3, Y3")
		f.p("VMULPS Y0, Y3, Y3")
		f.p("VMOVAPS Y3, %d(DX)", 1088*g+1024)
	}
}
