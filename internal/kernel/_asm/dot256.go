package main

import (
	"fmt"
	"strings"
)

// Dot kernels of the super-blocks of 256 elements. A vector has 32 elements of one row: a group, or two of 16. A run is two groups, which lie together in a
// block. Scales of activations are whole units of one float for 256 elements, so that all is integers up to the end of a block: products of 32 elements
// are 16 words, VPMADDWD multiplies these with the weights' scale times the activations' units, and the dwords of all groups are added. None leaves its
// 32 bits, as units are at most 63: Q6_K's reach 8 groups * 4 products * 63*127 * 128*63, which is 2^31 less 4 %.
//
// The words of scales times units are stored in the scratch by a block's header, in vectors of several rows or groups, and read one by one.
//
// With one column the groups of a run are multiplied with all rows, and the instructions of the next block's header stand between those: vector units
// that multiply and those that shuffle have work at the same time. With more columns one row comes after the other, as each has sums for every column;
// and with one where the words of scales would else be loaded too often, see row.

// Registers: the sums of rows, or of a row for each column, are in Y0 to Y3; with one column the activations of a run in Y4 and Y5, or a row's words of scales,
// else the products; weights of a run in Y6 and Y7; Y8 and Y9 are for loading them, then for scales. Masks are in Y10 and Y15, Y11 to Y14 are the header's;
// one that they leave is the superBlock's sum.
const (
	weight0 = 6
	spare   = 8
	side    = 11
)

func (d *dot) mask(i int) int { return []int{10, 15}[i] }

// The scratch: sums of rows, with one column those of four rows together in the place of the first; those of the minimums of four rows, each in two
// dwords; the float factors of a block, times the activations' unit; all for each column. Then the words of headers: with one column R8 has the place of
// this block's, R15 of the next one's.
func (d *dot) rowSums(r, c int) string { return fmt.Sprintf("%d(BX)", 128*c+32*r) }

func (d *dot) minimumSums(c int) string {
	return fmt.Sprintf("%d(BX)", 128*d.cols+32*c)
}
func (d *dot) factor(c, i int) string { return fmt.Sprintf("%d(BX)", 160*d.cols+32*c+4*i) }

// fourSums is the operand of the sums of four rows with one column: in the register that the format has for them, or in the scratch.
func (d *dot) fourSums() string {
	if d.sum > 0 {
		return fmt.Sprintf("Y%d", d.sum)
	}
	return d.rowSums(0, 0)
}

// minimumFactors are those of minimums: with one column in the order of rows that have come together, else behind the other factors.
func (d *dot) minimumFactors(c int) string {
	if d.cols == 1 {
		return d.rowSums(1, 0)
	}
	return d.factor(c, 4)
}

const headerBytes = 256

func (d *dot) headers() int { return 192 * d.cols }
func (d *dot) scratch() int { return d.headers() + headerBytes*max(d.cols, 2) }

// word is the operand for a byte of this block's header, made the one for the header that is being made.
func (d *dot) word(c, at int) string {
	if d.cols == 1 {
		return fmt.Sprintf("%d(R8)", at)
	}
	return fmt.Sprintf("%d(BX)", d.headers()+headerBytes*c+at)
}

func (d *dot) made(c, at int) string {
	if d.cols == 1 {
		return fmt.Sprintf("%d(R15)", at)
	}
	return d.word(c, at)
}

// head is the operand for the byte at offset of row r's block whose header is being made.
func (d *dot) head(r, offset int) string {
	if d.cols == 1 {
		return strings.Replace(d.w(r, offset), "(DI)", "(DX)", 1)
	}
	return d.w(r, offset)
}

// headInts is ints for the block whose header is being made.
func (d *dot) headInts(c, offset int) string {
	if d.cols == 1 {
		return fmt.Sprintf("%d(AX)", offset)
	}
	return d.ints(c, offset)
}

// Offsets in the integers of a block of activations: units and sums of 8 groups, sums of 16.
const (
	unitsAt    = 0
	sumsAt     = 16
	halfSumsAt = 32
)

// superBlock describes how the blocks of a format are multiplied.
type superBlock struct {
	// masks are constants that stay in registers.
	masks func(d *dot) []string
	// header stores the words of scales, and what else it can prepare, for all rows and columns. It uses Y11 to Y14, with several columns Y4 and Y5 too.
	header func(d *dot)
	// factors stores the float factors of the rows, and adds the minimums that are the same for all rows. It uses Y11 to Y14.
	factors func(d *dot)
	// load puts a run of row r into its weights.
	load func(d *dot, r, run int)
	// group is the first or second group of a run.
	group func(run, i int) int
	// signed tells that weights have signs.
	signed bool
	// rowByRow tells that with one column, too, one row comes after the other.
	rowByRow bool
	// scale puts the words of scales of row r's group, for column c, into Yto.
	scale func(d *dot, r, g, c, to int)
	// minimums are those, or the integers' offset, of 16 elements, or nil.
	minimums *halfMinimums
	// factorStep is the number of factors of a row.
	factorStep int
	// minimumsOfAll tells that factors adds to minimumSums.
	minimumsOfAll bool
	// wide tells that four times what a sum of integers can be does not fit 32 bits.
	wide bool
	// sum is a register for the sums of four rows with one column, or 0: they are in the scratch.
	sum int
}

// halfMinimums subtract the words from byte `at` of the header on, times the sums of activations, times a factor of the row: with several columns the
// one that factor tells, with one column minimumFactors.
type halfMinimums struct {
	at     int
	factor func(r int) int
}

func (b *superBlock) format(name string, bytes int) dotFormat {
	return dotFormat{format: name, bytes: bytes, elements: 256, minimums: b.minimumsOfAll, sum: b.sum, before: b.before, block: b.block}
}

// before loads the masks, and with one column makes the first header.
func (b *superBlock) before(d *dot) {
	for i, constant := range b.masks(d) {
		d.p("VMOVDQU %s, Y%d", constant, d.mask(i))
	}
	if d.cols > 1 {
		return
	}
	d.p("LEAQ %d(BX), R8", d.headers())
	d.p("LEAQ %d(R8), R15", headerBytes)
	d.arg("w", "DX")
	d.arg("ints", "AX")
	b.header(d)
}

// nextRow puts the row after this one, or this one again, into R12.
func (d *dot) nextRow() {
	if d.cols > 1 {
		return
	}
	d.p("MOVQ DI, R12")
	d.p("CMPQ %s, $1", d.param("rows"))
	d.p("JEQ last")
	d.p("ADDQ %s, R12", d.param("stride"))
	d.label("last")
}

func (b *superBlock) block(d *dot) {
	if d.cols > 1 {
		b.header(d)
		b.factors(d)
		for r := range 4 {
			d.prefetch(r)
			for run := range 4 {
				b.load(d, r, run)
				for i := range 2 {
					for c := range d.cols {
						b.multiply(d, r, run, i, c)
						b.add(d, r, run, i, c)
					}
				}
			}
			for c := range d.cols {
				b.end(d, r, c)
			}
		}
		return
	}
	d.note("the header that is made here is the next block's: in this row or the next one, else one that is there")
	d.p("XCHGQ R8, R15")
	d.p("LEAQ %d(DI), DX", d.bytes)
	d.p("LEAQ 64(R13), AX")
	d.p("CMPQ CX, $1")
	d.p("CMOVQEQ R12, DX")
	d.p("CMOVQEQ %s, AX", d.param("ints"))
	between(d, func() {
		if b.rowByRow {
			for r := range 4 {
				b.row(d, r)
			}
			return
		}
		for run := range 4 {
			for i := range 2 {
				d.p("VMOVDQU %s, Y%d", d.q(0, 32*b.group(run, i)), 4+i)
			}
			for r := range 4 {
				b.load(d, r, run)
				for i := range 2 {
					b.multiply(d, r, run, i, 0)
					b.add(d, r, run, i, 0)
				}
			}
		}
	}, func() {
		b.factors(d)
		b.header(d)
	}, d.prefetchRows)
	b.endTogether(d)
}

// endTogether adds a block of four rows to their sums for the one column, after these have been brought together: rows 0 1 2 3 twice, four parts of each
// row's sum added. As integers where they fit: Q5_K's reach 4 * 8 groups * 4 products * 31*127 * 63*63, which is 2^31 less 7 %.
func (b *superBlock) endTogether(d *dot) {
	add := "VPADDD"
	if b.wide {
		add = "VADDPS"
		for r := range 4 {
			d.p("VCVTDQ2PS Y%d, Y%d", r, r)
		}
	}
	d.fourRows(add, 0, 1, 2, 3, spare)
	if !b.wide {
		d.p("VCVTDQ2PS Y0, Y0")
	}
	const minimums = 5
	if b.minimums != nil {
		d.p("VMOVDQU %s, Y4", d.ints(0, halfSumsAt))
		for r, to := range []int{minimums, 1, 2, 3} {
			d.p("VPMADDWD %s, Y4, Y%d", d.word(0, b.minimums.at+32*r), to)
		}
		d.fourRows("VPADDD", minimums, 1, 2, 3, spare)
		d.p("VCVTDQ2PS Y%d, Y%d", minimums, minimums)
	}
	to := d.sum
	if to > 0 {
		d.p("VFMADD231PS %s, Y0, Y%d", d.factor(0, 0), to)
	} else {
		d.p("VMOVAPS %s, Y%d", d.factor(0, 0), spare)
		d.p("VFMADD213PS %s, Y%d, Y0", d.fourSums(), spare)
	}
	if b.minimums != nil {
		d.p("VFNMADD231PS %s, Y%d, Y%d", d.minimumFactors(0), minimums, to)
	}
	if to == 0 {
		d.p("VMOVAPS Y0, %s", d.fourSums())
	}
}

// row puts the integers of row r of a format with scales for every 16 elements and the one column into Ysum. Its words of scales stay in Y4 and Y5, each twice.
func (b *superBlock) row(d *dot, r int) {
	d.p("VMOVDQA %s, Y5", d.word(0, 32*r))
	d.p("VPUNPCKLWD Y5, Y5, Y4")
	d.p("VPUNPCKHWD Y5, Y5, Y5")
	for run := range 4 {
		b.load(d, r, run)
		for i := range 2 {
			w, g := weight0+i, b.group(run, i)
			d.p("VPMADDUBSW %s, Y%d, Y%d", d.q(0, 32*g), w, w)
			d.p("VPSHUFD $%d, Y%d, Y%d", 0x55*(g%4), 4+g/4, spare+1)
			if run == 0 && i == 0 {
				d.p("VPMADDWD Y%d, Y%d, Y%d", spare+1, w, r)
				continue
			}
			d.p("VPMADDWD Y%d, Y%d, Y%d", spare+1, w, w)
			d.p("VPADDD Y%d, Y%d, Y%d", w, r, r)
		}
	}
}

// between writes what the first function writes, with the lines of the others spread over it evenly.
func between(d *dot, all ...func()) {
	before := d.text.String()
	var lines []string
	for _, f := range all {
		d.text.Reset()
		f()
		more := strings.SplitAfter(strings.TrimSuffix(d.text.String(), "\n"), "\n")
		more[len(more)-1] += "\n"
		var mixed []string
		for i, l := range lines {
			mixed = append(mixed, l)
			mixed = append(mixed, more[i*len(more)/len(lines):(i+1)*len(more)/len(lines)]...)
		}
		if lines = mixed; lines == nil {
			lines = more
		}
	}
	d.text.Reset()
	d.text.WriteString(before + strings.Join(lines, ""))
}

// place is where the products of group i of a run, the scales and the sum of row r and column c are.
func (d *dot) place(r, i, c int) (products, scales, sum int) {
	if d.cols > 1 {
		return 4, 5, c
	}
	return weight0 + i, spare + i, r
}

// multiply makes words of the products of group i of a run with column c.
func (b *superBlock) multiply(d *dot, r, run, i, c int) {
	w, x := weight0+i, fmt.Sprintf("Y%d", 4+i)
	to, temp, _ := d.place(r, i, c)
	if d.cols > 1 {
		x = d.q(c, 32*b.group(run, i))
	}
	if b.signed { // the signs of the weights go to the activations
		if d.cols > 1 {
			d.p("VMOVDQU %s, Y%d", x, to)
			x = fmt.Sprintf("Y%d", to)
		}
		d.p("VPSIGNB Y%d, %s, Y%d", w, x, temp)
		d.p("VPABSB Y%d, Y%d", w, to)
		x, w = fmt.Sprintf("Y%d", temp), to
	}
	d.p("VPMADDUBSW %s, Y%d, Y%d", x, w, to)
}

// add multiplies these with the scales and adds them to the sum of the block.
func (b *superBlock) add(d *dot, r, run, i, c int) {
	products, scales, sum := d.place(r, i, c)
	b.scale(d, r, b.group(run, i), c, scales)
	if run == 0 && i == 0 {
		d.p("VPMADDWD Y%d, Y%d, Y%d", scales, products, sum)
		return
	}
	d.p("VPMADDWD Y%d, Y%d, Y%d", scales, products, products)
	d.p("VPADDD Y%d, Y%d, Y%d", products, sum, sum)
}

// end adds a block of row r to its sum for column c of several.
func (b *superBlock) end(d *dot, r, c int) {
	const temp = spare
	d.p("VCVTDQ2PS Y%d, Y%d", c, c)
	d.p("VBROADCASTSS %s, Y%d", d.factor(c, b.factorStep*r), temp)
	d.p("VFMADD213PS %s, Y%d, Y%d", d.rowSums(r, c), temp, c)
	if m := b.minimums; m != nil {
		d.p("VMOVDQU %s, Y%d", d.ints(c, halfSumsAt), temp)
		d.p("VPMADDWD %s, Y%d, Y%d", d.word(c, m.at+32*r), temp, temp)
		d.p("VCVTDQ2PS Y%d, Y%d", temp, temp)
		d.p("VBROADCASTSS %s, Y%d", d.factor(c, m.factor(r)), temp+1)
		d.p("VFNMADD231PS Y%d, Y%d, Y%d", temp+1, temp, c)
	}
	d.p("VMOVAPS Y%d, %s", c, d.rowSums(r, c))
}
