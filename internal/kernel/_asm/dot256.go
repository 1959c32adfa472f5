package main

import "fmt"

// Dot kernels of the super-blocks of 256 elements. As in dot32.go a lane belongs to one row: rows r and r+2, r 0 or 1, are a pair. A run is 64
// elements, two groups: the halves of 16 of a pair are in Y0 to Y3. Their products with activations are in the same registers if there is one column,
// else in Y4 to Y7. The sums of the four groups of two runs, half a block, come together in four dwords of each lane.
//
// With one column both pairs are multiplied before the next run, as they share the activations in Y4 to Y7. Then Y8 and Y9 are the sums of half a
// block, Y10 and Y11 those of the rows, Y12 and Y13 what belongs to a pair. With more columns one pair comes after the other: Y8 to Y11 are the
// columns' sums of half a block, those of the rows are in the scratch, and Y12 belongs to the pair. Y14 and Y15 are for intermediate values.
//
// The integer scales of groups or halves, 16 bits, are multiplied in by the VPMADDWD that adds neighbours.

// The scratch: the sums of a pair's rows for column c; a factor for each lane of what is scaled, and one of what is added for the activations' sums; and
// room for a header.
func (d *dot) rowSums(r, c int) string { return fmt.Sprintf("%d(BX)", 64*c+32*r) }
func (d *dot) factor(r int) string     { return fmt.Sprintf("%d(BX)", 64*d.cols+32*r) }
func (d *dot) minimum(r int) string    { return fmt.Sprintf("%d(BX)", 64*d.cols+64+32*r) }
func (d *dot) header(at int) string    { return fmt.Sprintf("%d(BX)", 64*d.cols+128+at) }
func (d *dot) scratch() int            { return 64*d.cols + 128 + 64 }

// pair is the register of what belongs to pair r.
func (d *dot) pair(r int) int {
	if d.cols == 1 {
		return 12 + r
	}
	return 12
}

// products is the first of the four registers of a run's products.
func (d *dot) products() int {
	if d.cols == 1 {
		return 0
	}
	return 4
}

// superBlock describes how the blocks of a format are multiplied.
type superBlock struct {
	// header prepares what rows r and r+2 need for their whole blocks: the pair's register, the factors in the scratch. It may use Y0 to Y7.
	header func(d *dot, r int)
	// half does the same before the runs of half a block; nil if there is nothing to do.
	half func(d *dot, r, half int)
	// load puts a run of rows r and r+2 into Y0 to Y3.
	load func(d *dot, r, run int)
	// group is the first or second group of a run.
	group func(run, i int) int
	// signed weights are multiplied by the format itself; of others run makes the products, words.
	signed bool
	// sum makes the sums of a run's two groups: a b a b in each lane, words or dwords, in the first register of the products.
	sum func(d *dot, r, run int)
	// join is how these sums and those of the next run are interleaved, and add how they are added: QDQ where runs are groups 0 1 and 2 3, DQ for
	// 0 2 and 1 3; VPADDW or VPADDD.
	join, add string
	// prepare makes Y0 and Y1, for half a block, of the pair's register.
	prepare func(d *dot, r, half int)
	// scale makes float32 of the groups' sums in Yr, multiplied with their scales, but for the activations'.
	scale func(d *dot, r int)
	// factors is the operand of what is left to multiply with.
	factors func(d *dot, r int) string
	// offset adds to Ysum what minimums or an offset make for column c; nil if there are none.
	offset func(d *dot, r, sum, c, half int)
}

func (b *superBlock) block(d *dot) {
	if d.cols > 1 {
		for r := range 2 {
			b.header(d, r)
			for half := range 2 {
				b.begin(d, r, half)
				for run := 2 * half; run < 2*half+2; run++ {
					b.load(d, r, run)
					for c := range d.cols {
						b.activations(d, c, run)
						b.run(d, r, run, 8+c)
					}
				}
				b.end(d, r, half)
			}
		}
		return
	}
	for r := range 2 {
		b.header(d, r)
	}
	for half := range 2 {
		for r := range 2 {
			b.begin(d, r, half)
		}
		for run := 2 * half; run < 2*half+2; run++ {
			b.activations(d, 0, run)
			for r := range 2 {
				b.load(d, r, run)
				b.run(d, r, run, 8+r)
			}
		}
		for r := range 2 {
			b.end(d, r, half)
		}
	}
}

func (b *superBlock) begin(d *dot, r, half int) {
	if b.half != nil {
		b.half(d, r, half)
	}
}

// activations loads those of a run into Y4 to Y7.
func (b *superBlock) activations(d *dot, c, run int) {
	for i := range 4 {
		d.p("VBROADCASTI128 %s, Y%d", d.q(c, 32*b.group(run, i/2)+16*(i%2)), 4+i)
	}
}

// run multiplies, and adds to the sums of half a block in Yto.
func (b *superBlock) run(d *dot, r, run, to int) {
	p := d.products()
	if !b.signed {
		for i := range 4 {
			d.p("VPMADDUBSW Y%d, Y%d, Y%d", 4+i, i, p+i)
		}
	}
	b.sum(d, r, run)
	if run%2 == 0 {
		d.p("VMOVDQA Y%d, Y%d", p, to)
	} else {
		d.interleave(b.join, b.add, to, p, 14)
	}
}

// end adds half a block to the sums of the rows.
func (b *superBlock) end(d *dot, r, half int) {
	b.prepare(d, r, half)
	for c := range d.cols {
		groups, sum := 8+c, 4
		if d.cols == 1 {
			groups, sum = 8+r, 10+r
		} else {
			d.p("VMOVAPS %s, Y%d", d.rowSums(r, c), sum)
		}
		b.scale(d, groups)
		d.p("VBROADCASTF128 %s, Y5", d.sc(c, 16*half))
		d.p("VMULPS Y5, Y%d, Y%d", groups, groups)
		d.p("VFMADD231PS %s, Y%d, Y%d", b.factors(d, r), groups, sum)
		if b.offset != nil {
			b.offset(d, r, sum, c, half)
		}
		if d.cols > 1 {
			d.p("VMOVAPS Y%d, %s", sum, d.rowSums(r, c))
		}
	}
}

func convertSums(d *dot, r int)       { d.p("VCVTDQ2PS Y%d, Y%d", r, r) }
func pairFactor(d *dot, r int) string { return d.factor(r) }
func consecutive(run, i int) int      { return 2*run + i }
func alternating(run, i int) int      { return 4*(run/2) + run%2 + 2*i }
func (d *dot) dwords(name string, v uint32) string {
	return d.constant(name, dwordsOf(func(int) uint32 { return v })...)
}

// The formats with scales and minimums of 6 bits for every 32 elements. The pair's register has the bytes of both rows: 8 scales, 8 minimums. Before
// the first pair the factors of all rows, d dmin of rows 0, 1, 2, 3, go to the scratch.

func headerScales6Lanes(d *dot, r int) {
	if r == 0 {
		for i := range 2 {
			d.lanes(i, 0, i)
		}
		d.p("VPUNPCKLDQ Y1, Y0, Y2")
		d.p("VPERMQ $0x08, Y2, Y2")
		d.p("VCVTPH2PS X2, Y2")
		for i, at := range []string{d.factor(0), d.minimum(0), d.factor(1), d.minimum(1)} {
			d.p("VPERMILPS $%d, Y2, Y3", 0x55*i)
			d.p("VMOVAPS Y3, %s", at)
		}
	} else if d.cols > 1 {
		d.lanes(1, 0, 1)
	}
	headerScales6(d.file, "Y", r, d.pair(r), 14)
}

// scaleWords puts the bytes at a, b, c and d of pair r's register, each as two equal words, into Yto.
func (d *dot) scaleWords(r, to int, bytes ...int) {
	name := "scaleWords"
	for _, b := range bytes {
		name += fmt.Sprintf("_%d", b)
	}
	d.p("VPSHUFB %s, Y%d, Y%d", d.constant(name, bytesOf(func(i int) int {
		if i%2 == 1 {
			return 0x80
		}
		return bytes[i%16/4]
	})...), d.pair(r), to)
}

// minimums6 puts the minimums of four groups, float32, into Y1.
func minimums6(d *dot, r, half int) {
	d.p("VPSHUFB %s, Y%d, Y1", d.constant(fmt.Sprintf("minimumDwords%d", half), bytesOf(func(i int) int {
		if i%4 > 0 {
			return 0x80
		}
		return 8 + 4*half + i%16/4
	})...), d.pair(r))
	d.p("VCVTDQ2PS Y1, Y1")
}

func subtractMinimums(d *dot, r, sum, c, half int) {
	d.p("VBROADCASTF128 %s, Y6", d.s(c, 16*half))
	d.p("VMULPS Y1, Y6, Y6")
	d.p("VFNMADD231PS %s, Y6, Y%d", d.minimum(r), sum)
}

// nibbleRun: two times 16 bytes, with one group low and the next one high; mask has what remains of them.
func (d *dot) nibbleRun(r, offset int, mask string) {
	for i := range 2 {
		d.lanes(r, offset+16*i, 2+i)
		d.p("VPAND %s, Y%d, Y%d", mask, 2+i, i)
		d.p("VPSRLW $4, Y%d, Y%d", 2+i, 2+i)
		d.p("VPAND %s, Y%d, Y%d", mask, 2+i, 2+i)
	}
}

// addHalves adds products of weights whose groups have one scale.
func addHalves(d *dot) {
	p := d.products()
	d.p("VPADDW Y%d, Y%d, Y%d", p+1, p, p)
	d.p("VPADDW Y%d, Y%d, Y%d", p+3, p+2, p+2)
	d.interleave("DQ", "VPADDW", p, p+2, p+1)
}

var superBlockQ4_K = &superBlock{
	header: headerScales6Lanes,
	load:   func(d *dot, r, run int) { d.nibbleRun(r, 16+32*run, "Y15") },
	group:  consecutive,
	sum:    func(d *dot, _, _ int) { addHalves(d) },
	join:   "QDQ",
	add:    "VPADDW", // 8 * 2*15*127 in a word
	prepare: func(d *dot, r, half int) {
		d.scaleWords(r, 0, 4*half, 4*half+1, 4*half+2, 4*half+3)
		minimums6(d, r, half)
	},
	scale: func(d *dot, r int) {
		d.p("VPMADDWD Y0, Y%d, Y%d", r, r)
		convertSums(d, r)
	},
	factors: pairFactor,
	offset:  subtractMinimums,
}

var superBlockQ5_K = &superBlock{
	header: headerScales6Lanes,
	load: func(d *dot, r, run int) {
		d.nibbleRun(r, 48+32*run, d.nibbles())
		for i := range 2 {
			d.lanes(r, 16+16*i, 14)
			d.orBits(14, 2*run, 4, "sixteens", 0x1010101010101010, i)
			d.orBits(14, 2*run+1, 4, "sixteens", 0x1010101010101010, 2+i)
		}
	},
	group: consecutive,
	sum: func(d *dot, r, run int) {
		addHalves(d) // 4 * 2*31*127 in a word
		d.scaleWords(r, 14, 2*run, 2*run+1, 2*run, 2*run+1)
		d.p("VPMADDWD Y14, Y%d, Y%d", d.products(), d.products())
	},
	join:    "QDQ",
	add:     "VPADDD",
	prepare: minimums6,
	scale:   convertSums,
	factors: pairFactor,
	offset:  subtractMinimums,
}

// orBits moves bits of Yfrom, of each byte those from bit `at` on, to bit `want`, and adds those of the mask to Yto. It uses Y15.
func (d *dot) orBits(from, at, want int, mask string, bits uint64, to int) {
	switch {
	case at < want:
		d.p("VPSLLW $%d, Y%d, Y15", want-at, from)
	case at > want:
		d.p("VPSRLW $%d, Y%d, Y15", at-want, from)
	}
	if at != want {
		from = 15
	}
	d.p("VPAND %s, Y%d, Y15", d.constant(mask, repeat(4, bits)...), from)
	d.p("VPOR Y15, Y%d, Y%d", to, to)
}

// The formats with a scale for every 16 elements. The pair's register has the 8 scales of half a block, words, of both rows. For integers with an
// offset, or minimums, Y0 and Y1 are what is multiplied with the activations' sums of 16, times 2^16: those of the first halves of the groups, then
// those of the second halves. The runs of half a block are groups 0 and 2, and 1 and 3.

// rowFactors puts the float16 at offset of the blocks of rows r and r+2 into all dwords of their lanes of Y0.
func (d *dot) rowFactors(r, offset int) {
	d.p("VPBROADCASTW %s, X0", d.w(r, offset))
	d.p("VPBROADCASTW %s, X1", d.w(r+2, offset))
	d.p("VPUNPCKLQDQ X1, X0, X0")
	d.p("VCVTPH2PS X0, Y0")
}

// offsetFactors are those at offset, times a constant.
func (d *dot) offsetFactors(r, offset int, name string, constant uint32) {
	d.rowFactors(r, offset)
	d.p("VMULPS %s, Y0, Y1", d.dwords(name, constant))
	d.p("VMOVAPS Y1, %s", d.minimum(r))
}

// pairBytes puts 8 bytes of each row into the pair's register.
func (d *dot) pairBytes(r, offset int) {
	d.p("VMOVQ %s, X%d", d.w(r, offset), d.pair(r))
	d.p("VMOVHPS %s, X%d, X%d", d.w(r+2, offset), d.pair(r), d.pair(r))
}

// sixteenths makes Y0 and Y1 of words in Yfrom.
func (d *dot) sixteenths(from int) {
	d.p("VPAND %s, Y%d, Y1", d.constant("highWords", repeat(4, 0xffff0000ffff0000)...), from)
	d.p("VPSLLD $16, Y%d, Y0", from)
	d.p("VCVTDQ2PS Y0, Y0")
	d.p("VCVTDQ2PS Y1, Y1")
}

func sixteenthsOfScales(d *dot, r, _ int) { d.sixteenths(d.pair(r)) }

func addSixteenths(d *dot, r, sum, c, half int) {
	d.p("VBROADCASTF128 %s, Y5", d.h(c, 32*half))
	d.p("VBROADCASTF128 %s, Y6", d.h(c, 32*half+16))
	d.p("VMULPS Y0, Y5, Y5")
	d.p("VFMADD231PS Y1, Y6, Y5")
	d.p("VFMADD231PS %s, Y5, Y%d", d.minimum(r), sum)
}

// scaleHalves multiplies products of weights whose halves of groups have scales of their own with these.
func scaleHalves(d *dot, r, run int) {
	p := d.products()
	for i := range 2 {
		a := p + 2*i
		d.interleave("DQ", "VPADDW", a, a+1, 14) // 4 * 63*127 in a word
		w := 2*(run%2) + 4*i
		d.p("VPSHUFB %s, Y%d, Y14", d.constant(fmt.Sprintf("wordsTwice%d", w), bytesOf(func(i int) int {
			return 2*(w+i/4%2) + i%2
		})...), d.pair(r))
		d.p("VPMADDWD Y14, Y%d, Y%d", a, a)
	}
	d.interleave("DQ", "VPADDD", p, p+2, 14)
}

// halfGroups completes what is the same for these formats; prepare is that of formats with an offset, unless there is another.
func halfGroups(b superBlock) *superBlock {
	b.group, b.sum, b.join, b.add = alternating, scaleHalves, "DQ", "VPADDD"
	b.scale, b.factors, b.offset = convertSums, pairFactor, addSixteenths
	if b.prepare == nil {
		b.prepare = sixteenthsOfScales
	}
	return &b
}

var superBlockQ6_K = halfGroups(superBlock{
	header: func(d *dot, r int) {
		d.offsetFactors(r, 208, "minus32by16", 0xba000000) // -32 / 2^16
		d.p("VMOVAPS Y0, %s", d.factor(r))
	},
	half: func(d *dot, r, half int) {
		d.pairBytes(r, 192+8*half)
		d.p("VPMOVSXBW X%d, Y%d", d.pair(r), d.pair(r))
	},
	load: func(d *dot, r, run int) {
		d.nibbleRun(r, 32*run, d.nibbles())
		for i := range 2 {
			d.lanes(r, 128+32*(run/2)+16*i, 14)
			d.orBits(14, 2*(run%2), 4, "topPairs", 0x3030303030303030, i)
			d.orBits(14, 2*(run%2)+4, 4, "topPairs", 0x3030303030303030, 2+i)
		}
	},
})

// bitPairRun: two times 16 bytes with two bits of four groups.
func (d *dot) bitPairRun(r, offset, run int) {
	pairs := d.constant("lowPairs", repeat(4, 0x0303030303030303)...)
	for i := range 2 {
		d.lanes(r, offset+32*(run/2)+16*i, i)
		d.p("VPSRLW $%d, Y%d, Y%d", 2*(run%2)+4, i, 2+i)
		if run%2 == 1 {
			d.p("VPSRLW $2, Y%d, Y%d", i, i)
		}
		d.p("VPAND %s, Y%d, Y%d", pairs, i, i)
		d.p("VPAND %s, Y%d, Y%d", pairs, 2+i, 2+i)
	}
}

// Q2_K's scales are low halves of bytes; the high halves are minimums, which stay in the scratch until the half block ends.
var superBlockQ2_K = halfGroups(superBlock{
	header: func(d *dot, r int) {
		d.offsetFactors(r, 82, "minusBy16", 0xb7800000) // -1 / 2^16
		d.rowFactors(r, 80)
		d.p("VMOVAPS Y0, %s", d.factor(r))
	},
	half: func(d *dot, r, half int) {
		d.pairBytes(r, 8*half)
		d.p("VPMOVZXBW X%d, Y%d", d.pair(r), d.pair(r))
		d.p("VPSRLW $4, Y%d, Y14", d.pair(r))
		d.p("VMOVDQA Y14, %s", d.header(32*r))
		d.p("VPAND %s, Y%d, Y%d", d.nibbles(), d.pair(r), d.pair(r))
	},
	load: func(d *dot, r, run int) { d.bitPairRun(r, 16, run) },
	prepare: func(d *dot, r, _ int) {
		d.p("VMOVDQA %s, Y2", d.header(32*r))
		d.sixteenths(2)
	},
})

var superBlockQ3_K = halfGroups(superBlock{
	header: func(d *dot, r int) {
		for i := range 2 {
			d.p("VMOVDQU %s, X4", d.w(r+2*i, 94))
			scalesQ3_K(d.file, 4, 6+i, 5, 14)
		}
		d.p("VPUNPCKLQDQ X7, X6, X4")
		d.p("VMOVDQA X4, %s", d.header(32*r))
		d.p("VPUNPCKHQDQ X7, X6, X4")
		d.p("VMOVDQA X4, %s", d.header(32*r+16))
		d.offsetFactors(r, 108, "minus4by16", 0xb8800000) // -4 / 2^16
		d.p("VMOVAPS Y0, %s", d.factor(r))
	},
	half: func(d *dot, r, half int) { d.p("VPMOVSXBW %s, Y%d", d.header(32*r+16*half), d.pair(r)) },
	load: func(d *dot, r, run int) {
		d.bitPairRun(r, 32, run)
		for i := range 2 { // third bits
			d.lanes(r, 16*i, 14)
			d.orBits(14, alternating(run, 0), 2, "fours", 0x0404040404040404, i)
			d.orBits(14, alternating(run, 1), 2, "fours", 0x0404040404040404, 2+i)
		}
	},
})

// IQ4_XS has signed values, and scales of 6 bits for every 32 elements. The pair's register has the 8 first bytes of the blocks twice in their lanes: the
// factor, the top bits of the scales, their low four bits.
var superBlockIQ4_XS = &superBlock{
	header: func(d *dot, r int) {
		d.rowFactors(r, 0)
		d.p("VMOVAPS Y0, %s", d.factor(r))
		d.p("VPBROADCASTQ %s, Y0", d.w(r, 0))
		d.p("VPBROADCASTQ %s, Y1", d.w(r+2, 0))
		d.p("VPBLENDD $0xF0, Y1, Y0, Y%d", d.pair(r))
	},
	load: func(d *dot, r, run int) {
		d.p("VMOVDQU %s, Y14", codebook(d.file))
		for i := range 2 {
			d.lanes(r, 8+32*run+16*i, 2*i+1)
			d.p("VPAND Y15, Y%d, Y%d", 2*i+1, 2*i)
			d.p("VPSRLW $4, Y%d, Y%d", 2*i+1, 2*i+1)
			d.p("VPAND Y15, Y%d, Y%d", 2*i+1, 2*i+1)
		}
		for i := range 4 {
			d.p("VPSHUFB Y%d, Y14, Y%d", i, i)
		}
	},
	group:  consecutive,
	signed: true,
	sum: func(d *dot, _, _ int) {
		p := d.products()
		for i := range 4 {
			d.multiplySigned(i, 4+i, p+i, 14)
		}
		d.p("VPADDD Y%d, Y%d, Y%d", p+1, p, p)
		d.p("VPADDD Y%d, Y%d, Y%d", p+3, p+2, p+2)
		d.interleave("DQ", "VPADDD", p, p+2, p+1)
	},
	join: "QDQ",
	add:  "VPADDD",
	prepare: func(d *dot, r, half int) {
		shift := func(name string, first, step int) string {
			return d.constant(fmt.Sprintf("%s%d", name, half), dwordsOf(func(i int) uint32 { return uint32(first + step*(4*half+i%4)) })...)
		}
		d.p("VPSHUFD $0xF5, Y%d, Y0", d.pair(r)) // dwords 1 1 3 3
		d.p("VPSHUFD $0xA0, Y%d, Y1", d.pair(r)) // dwords 0 0 2 2
		d.p("VPSRLVD %s, Y0, Y0", shift("scaleNibbles", 0, 4))
		d.p("VPSRLVD %s, Y1, Y1", shift("scaleTops", 16, 2))
		d.p("VPAND %s, Y0, Y0", d.dwords("fifteen", 15))
		d.p("VPAND %s, Y1, Y1", d.dwords("three", 3))
		d.p("VPSLLD $4, Y1, Y1")
		d.p("VPOR Y1, Y0, Y0")
		d.p("VPSUBD %s, Y0, Y0", d.dwords("thirtyTwo", 32))
		d.p("VCVTDQ2PS Y0, Y0")
		d.p("VMULPS %s, Y0, Y0", d.factor(r))
	},
	scale:   convertSums,
	factors: func(*dot, int) string { return "Y0" },
}
