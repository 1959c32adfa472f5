package main

import "fmt"

// The tile kernels of the matrix product: 16 weight rows times n columns of activations, n up to 6.
//
// A panel is 16 rows of weights, unpacked. Its block of 32 elements (k) starts with the weights in the order
// [8 groups of k][16 rows][4 k], so that one 32-byte vector holds 4 consecutive k of 8 rows. A tile of activations has
// [8 groups of k][n columns][4 k]: one 4-byte broadcast is the same 4 k of a column. VPMADDUBSW multiplies unsigned weights
// with signed activations and adds neighbours into 16 bits; after VPMADDWD with ones (or with the scales of the weights),
// each 32-bit lane belongs to one row.
//
// Registers: Y0 to Y(2n-1) are the sums of the tile, Y12 and Y13 weights, Y14 a broadcast, Y15 a product. The tile in float32
// stays in an aligned part of the stack, in y it would suffer from stores and loads whose addresses differ by multiples of 4096.

// tileColumns is the largest number of columns of a tile.
const tileColumns = 6

// panelFormat is a layout of weights in a panel and how their products are added.
type panelFormat struct {
	name string
	// widen is after how many groups of k the sums of 16 bits have to be widened: before they can overflow, and where a scale ends.
	widen int
	// halves: scales (16 bits, each twice) and minimums belong to 16 k, else to 32.
	halves bool
}

var panelFormats = []panelFormat{
	{name: "U4", widen: 8},               // weights below 16: 8 * 2*15*127 = 30480
	{name: "U5", widen: 4},               // below 32: 4 * 2*31*127 = 31496
	{name: "U6", widen: 2, halves: true}, // below 64: 2 * 2*63*127 = 32004
	{name: "U3", widen: 4, halves: true}, // below 8
}

// Offsets in a panel block after the 512 bytes of weights.
const (
	atScale      = 512 // dw[16], mw[16] float32
	atHalfScales = 512 // [2 halves][16 rows][2] int16
	atHalfFactor = 640 // dw[16] float32
	atHalfMins   = 704 // mw[2 halves][16 rows] float32
)

func (p panelFormat) blockBytes() int {
	if p.halves {
		return 832
	}
	return 640
}

func gemm(f *file) {
	for n := 1; n <= tileColumns; n++ {
		for _, p := range panelFormats {
			gemmBytes(f, p, n)
		}
		gemmWords(f, n)
		gemmF32(f, n)
	}
}

const gemmParams = "w, q *byte, s, h, y *float32, ldy int, init *float32, ldi, blocks, tiles int, ahead *byte, step int"

func gemmDoc(name string, n int, what string) string {
	return fmt.Sprintf("%s multiplies a panel with tiles of %d columns: %s.\n"+
		"y[c*ldy+r] = init[c*ldi+r] + the product, columns counted through all tiles; ldy and ldi count bytes.\n"+
		"With each block it asks for step more bytes from ahead on.", name, n, what)
}

// lookAhead asks for step more bytes of what the next panel is made of, in the second-level cache. A burst for the whole tile would hold up the
// multiplications until memory has answered.
func lookAhead(f *file) {
	f.p("ADDQ DX, R15")
	f.p("CMPQ R13, R15")
	f.p("JGE asked")
	f.label("ask")
	f.p("PREFETCHT1 (R13)")
	f.p("ADDQ $64, R13")
	f.p("CMPQ R13, R15")
	f.p("JLT ask")
	f.label("asked")
}

// fetchDistance is how many bytes ahead activations are asked for. They come from the third-level cache once in each panel; what the processor
// fetches on its own accord comes too late where others use that cache as well.
const fetchDistance = 2304

// fetchActivations asks for the activations of a later block, as many bytes as a block has.
func fetchActivations(f *file, blockBytes int) {
	for at := 0; at < blockBytes; at += 64 {
		f.p("PREFETCHT0 %d(SI)", fetchDistance+at)
	}
}

// tileIn loads the arguments and begins with a tile: its initial sums. Operands that follow each other from tile to tile stay in registers.
func tileIn(f *file, n int) {
	f.arg("q", "SI")
	f.arg("s", "R11")
	f.arg("h", "R12")
	f.arg("y", "R8")
	f.arg("ldy", "R9")
	f.p("LEAQ 63(SP), R10")
	f.p("ANDQ $-64, R10")
	f.arg("ahead", "R13")
	f.p("MOVQ R13, R15")
	f.label("tile")
	f.arg("w", "DI")
	f.arg("blocks", "CX")
	f.arg("init", "AX")
	f.arg("ldi", "BX")
	f.p("MOVQ R8, DX")
	for c := range n {
		f.p("PREFETCHT0 (DX)") // results are far apart: stores that miss would hold up what comes next
		f.p("ADDQ R9, DX")
		f.p("VMOVUPS (AX), Y0")
		f.p("VMOVUPS 32(AX), Y1")
		f.p("VMOVAPS Y0, %d(R10)", 64*c)
		f.p("VMOVAPS Y1, %d(R10)", 64*c+32)
		f.p("ADDQ BX, AX")
	}
	f.p("MOVQ AX, %s", f.param("init"))
	f.arg("step", "DX")
}

// tileOut stores the tile and goes on with the next.
func tileOut(f *file, n int) {
	for c := range n {
		f.p("VMOVAPS %d(R10), Y0", 64*c)
		f.p("VMOVAPS %d(R10), Y1", 64*c+32)
		f.p("VMOVUPS Y0, (R8)")
		f.p("VMOVUPS Y1, 32(R8)")
		f.p("ADDQ R9, R8")
	}
	f.p("DECQ %s", f.param("tiles"))
	f.p("JNZ tile")
	f.end()
}

// multiplyGroups adds the products of some groups, first to last: multiply is the instruction that multiplies, add the one that adds.
// The sums start with the first group.
func multiplyGroups(f *file, n, first, count int, multiply, add string) {
	for g := first; g < first+count; g++ {
		f.p("VMOVDQA %d(DI), Y12", 64*g)
		f.p("VMOVDQA %d(DI), Y13", 64*g+32)
		for c := range n {
			f.p("VPBROADCASTD %d(SI), Y14", 4*(g*n+c))
			if g == first {
				f.p("%s Y14, Y12, Y%d", multiply, 2*c)
				f.p("%s Y14, Y13, Y%d", multiply, 2*c+1)
				continue
			}
			f.p("%s Y14, Y12, Y15", multiply)
			f.p("%s Y14, Y13, Y14", multiply)
			f.p("%s Y15, Y%d, Y%d", add, 2*c, 2*c)
			f.p("%s Y14, Y%d, Y%d", add, 2*c+1, 2*c+1)
		}
	}
}

// widenSums multiplies the sums of 16 bits with Y12 and Y13 in pairs and adds what earlier groups gave, which waits on the
// stack behind the tile. After the last group they stay in the registers.
func widenSums(f *file, n int, first, last bool) {
	for r := range 2 * n {
		f.p("VPMADDWD Y%d, Y%d, Y%d", 12+r&1, r, r)
		if !first {
			f.p("VPADDD %d(R10), Y%d, Y%d", 64*n+32*r, r, r)
		}
		if !last {
			f.p("VMOVDQA Y%d, %d(R10)", r, 64*n+32*r)
		}
	}
}

func gemmBytes(f *file, p panelFormat, n int) {
	name := fmt.Sprintf("gemm%sx%d", p.name, n)
	frame := 64*n + 64
	if p.widen < 8 {
		frame += 64 * n
	}
	f.begin(name, gemmParams, frame, gemmDoc(name, n, "panel format "+p.name+", activations in bytes"))
	ones := f.constant("ones16", repeat(4, 0x0001000100010001)...)
	tileIn(f, n)
	f.p("PCALIGN $32")
	f.label("block")
	lookAhead(f)
	fetchActivations(f, 32*n)
	for g := 0; g < 8; g += p.widen {
		multiplyGroups(f, n, g, p.widen, "VPMADDUBSW", "VPADDW")
		if p.halves {
			f.p("VMOVDQA %d(DI), Y12", atHalfScales+g/4*64)
			f.p("VMOVDQA %d(DI), Y13", atHalfScales+g/4*64+32)
		} else {
			f.p("VMOVDQU %s, Y12", ones)
			f.p("VMOVDQA Y12, Y13")
		}
		widenSums(f, n, g == 0, g+p.widen == 8)
	}
	if p.halves {
		foldHalves(f, n)
		f.p("ADDQ $%d, R12", 8*n)
	} else {
		fold(f, n)
	}
	f.p("ADDQ $%d, DI", p.blockBytes())
	f.p("ADDQ $%d, SI", 32*n)
	f.p("ADDQ $%d, R11", 8*n)
	f.p("DECQ CX")
	f.p("JNZ block")
	tileOut(f, n)
}

// fold adds sum*dw*scale + mw*(scale*sum of the activations) to the tile.
func fold(f *file, n int) {
	f.p("VMOVAPS %d(DI), Y12", atScale)
	f.p("VMOVAPS %d(DI), Y13", atScale+32)
	for c := range n {
		scaleColumn(f, c, 2*c)
		f.p("VBROADCASTSS %d(R11), Y14", 4*(n+c))
		for h := range 2 {
			r := 2*c + h
			if c == 0 {
				f.p("VFMADD231PS %d(DI), Y14, Y%d", atScale+64+32*h, r)
			} else {
				f.p("VFMADD231PS Y%d, Y14, Y%d", h, r)
			}
			f.p("VMOVAPS Y%d, %d(R10)", r, 32*r)
		}
		if c == 0 && n > 1 { // the sums of column 0 are stored: its registers take the minimums
			f.p("VMOVAPS %d(DI), Y0", atScale+64)
			f.p("VMOVAPS %d(DI), Y1", atScale+96)
		}
	}
}

// scaleColumn turns sums r and r+1 into tile + sum*dw*scale.
func scaleColumn(f *file, c, r int) {
	f.p("VBROADCASTSS %d(R11), Y14", 4*c)
	for h := range 2 {
		f.p("VCVTDQ2PS Y%d, Y%d", r+h, r+h)
		f.p("VMULPS Y%d, Y%d, Y%d", 12+h, r+h, r+h)
		f.p("VFMADD213PS %d(R10), Y14, Y%d", 32*(r+h), r+h)
	}
}

// foldHalves is fold with two minimums, each for 16 k.
func foldHalves(f *file, n int) {
	f.p("VMOVAPS %d(DI), Y12", atHalfFactor)
	f.p("VMOVAPS %d(DI), Y13", atHalfFactor+32)
	for c := range n {
		scaleColumn(f, c, 2*c)
		f.p("VBROADCASTSS %d(R12), Y14", 4*c)
		f.p("VBROADCASTSS %d(R12), Y15", 4*(n+c))
		for h := range 2 {
			r := 2*c + h
			f.p("VFMADD231PS %d(DI), Y14, Y%d", atHalfMins+32*h, r)
			f.p("VFMADD231PS %d(DI), Y15, Y%d", atHalfMins+64+32*h, r)
			f.p("VMOVAPS Y%d, %d(R10)", r, 32*r)
		}
	}
}

// gemmWords: weights and activations of 16 bits, exact sums of 32 bits over 32 k. Weights: [16 pairs of k][16 rows][2 k],
// then dw[16] float32. Activations: [16 pairs of k][n columns][2 k].
func gemmWords(f *file, n int) {
	name := fmt.Sprintf("gemmI16x%d", n)
	f.begin(name, gemmParams, 64*n+64, gemmDoc(name, n, "weights and activations in 16 bits"))
	tileIn(f, n)
	f.p("PCALIGN $32")
	f.label("block")
	lookAhead(f)
	fetchActivations(f, 64*n)
	multiplyGroups(f, n, 0, 16, "VPMADDWD", "VPADDD")
	f.p("VMOVAPS 1024(DI), Y12")
	f.p("VMOVAPS 1056(DI), Y13")
	for c := range n {
		scaleColumn(f, c, 2*c)
		f.p("VMOVAPS Y%d, %d(R10)", 2*c, 64*c)
		f.p("VMOVAPS Y%d, %d(R10)", 2*c+1, 64*c+32)
	}
	f.p("ADDQ $1088, DI")
	f.p("ADDQ $%d, SI", 64*n)
	f.p("ADDQ $%d, R11", 8*n)
	f.p("DECQ CX")
	f.p("JNZ block")
	tileOut(f, n)
}

// gemmF32: each element of the tile is one chain of fused multiply-adds in the order of k, whatever n is.
func gemmF32(f *file, n int) {
	name := fmt.Sprintf("gemmF32x%d", n)
	f.begin(name, "w *float32, ldw, wstep int, x *float32, ldx, step int, y *float32, ldy int, init *float32, ldi, istep, k, panels int", 0, fmt.Sprintf(
		"%s computes y[c*ldy+r] = init[c*ldi+r] + the sum over i < k of w[i*ldw+r] * x[c*ldx+i*step], 16 rows by %d columns.\n"+
			"Strides count bytes; y may be init. It does so for several panels: w steps by wstep, y by 64, init by istep.", name, n))
	f.arg("ldx", "R11")
	f.arg("step", "R13")
	f.p("LEAQ (R11)(R11*2), DX")
	f.label("panel")
	f.arg("w", "DI")
	f.arg("ldw", "R9")
	f.arg("x", "SI")
	f.arg("init", "AX")
	f.arg("ldi", "BX")
	f.arg("k", "CX")
	f.p("LEAQ (SI)(DX*1), R12")
	for c := range n {
		f.p("VMOVUPS (AX), Y%d", 2*c)
		f.p("VMOVUPS 32(AX), Y%d", 2*c+1)
		f.p("ADDQ BX, AX")
	}
	step := func() {
		f.p("VMOVUPS (DI), Y12")
		f.p("VMOVUPS 32(DI), Y13")
		f.p("ADDQ R9, DI")
		for c := range n {
			x := []string{"(SI)", "(SI)(R11*1)", "(SI)(R11*2)", "(R12)", "(R12)(R11*1)", "(R12)(R11*2)"}[c]
			f.p("VBROADCASTSS %s, Y14", x)
			f.p("VFMADD231PS Y14, Y12, Y%d", 2*c)
			f.p("VFMADD231PS Y14, Y13, Y%d", 2*c+1)
		}
		f.p("ADDQ R13, SI")
		if n > 3 {
			f.p("ADDQ R13, R12")
		}
	}
	f.p("SUBQ $4, CX")
	f.p("JLT rest")
	f.p("PCALIGN $32")
	f.label("four")
	for range 4 {
		step()
	}
	f.p("SUBQ $4, CX")
	f.p("JGE four")
	f.label("rest")
	f.p("ADDQ $4, CX")
	f.p("JZ done")
	f.label("one")
	step()
	f.p("DECQ CX")
	f.p("JNZ one")
	f.label("done")
	f.arg("y", "R8")
	f.arg("ldy", "R9")
	for c := range n {
		f.p("VMOVUPS Y%d, (R8)", 2*c)
		f.p("VMOVUPS Y%d, 32(R8)", 2*c+1)
		f.p("ADDQ R9, R8")
	}
	f.p("ADDQ $64, %s", f.param("y"))
	f.arg("wstep", "AX")
	f.p("ADDQ AX, %s", f.param("w"))
	f.arg("istep", "AX")
	f.p("ADDQ AX, %s", f.param("init"))
	f.p("DECQ %s", f.param("panels"))
	f.p("JNZ panel")
	f.end()
}
