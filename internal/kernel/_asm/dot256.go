package main

import (
	"fmt"
	"strings"
)

// Dot kernels of the super-blocks of 256 elements. As in dot32.go a lane belongs to one row: rows r and r+2, r 0 or 1, are a pair. A run is 64
// elements, two groups: the halves of 16 of a pair are in its four weights. Their products with activations are in the same registers if there is one
// column, else in others. The sums of the four groups of two runs, half a block, come together in four dwords of each lane.
//
// With one column both pairs are multiplied together, their instructions in turns: so each waits less for the one before. With more columns one pair
// comes after the other, as each has products and sums of groups for every column. The sums of rows are in the scratch, as is what belongs to a pair.
//
// The integer scales of groups or halves, 16 bits, are multiplied in by the VPMADDWD that adds neighbours.

// Registers, see above.
func (d *dot) weight(r, i int) int  { return d.either(4*r+i, i) }
func (d *dot) product(r, i int) int { return d.either(4*r+i, 4+i) }
func (d *dot) groups(r, c int) int  { return d.either(8+r, 8+c) }
func (d *dot) mask(i int) int       { return d.either(10+i, 12+i) }
func (d *dot) temp(r, i int) int    { return d.either(12+r+2*i, 14+i) }
func (d *dot) either(one, more int) int {
	if d.cols == 1 {
		return one
	}
	return more
}

// The scratch: the sums of a pair's rows for column c; a factor for each lane of what is scaled, and one of what is added for the activations' sums; and
// room for vectors of a pair.
func (d *dot) rowSums(r, c int) string { return fmt.Sprintf("%d(BX)", 64*c+32*r) }
func (d *dot) factor(r int) string     { return fmt.Sprintf("%d(BX)", 64*d.cols+32*r) }
func (d *dot) minimum(r int) string    { return fmt.Sprintf("%d(BX)", 64*d.cols+64+32*r) }
func (d *dot) kept(r, i int) string    { return d.keptAt(r, i, 0) }
func (d *dot) keptAt(r, i, at int) string {
	return fmt.Sprintf("%d(BX)", 64*d.cols+128+64*i+32*r+at)
}
func (d *dot) scratch() int { return 64*d.cols + 128 + 4*64 }

// superBlock describes how the blocks of a format are multiplied.
type superBlock struct {
	// masks are constants that stay in registers.
	masks func(d *dot) []string
	// start prepares what all rows need for their whole blocks; nil if there is nothing to do.
	start func(d *dot)
	// header does the same for rows r and r+2, half before the runs of half a block. They may use the pair's weights and temps.
	header func(d *dot, r int)
	half   func(d *dot, r, half int) // or nil
	// load puts a run of rows r and r+2 into their weights.
	load func(d *dot, r, run int)
	// group is the first or second group of a run.
	group func(run, i int) int
	// signed tells that weights have signs; their products are dwords, of others words.
	signed bool
	// sum makes the sums of a run's two groups: a b a b in each lane, words or dwords, in Yto.
	sum func(d *dot, r, run, to int)
	// join is how these sums and those of the next run are interleaved, and add how they are added: QDQ where runs are groups 0 1 and 2 3, DQ for
	// 0 2 and 1 3; VPADDW or VPADDD.
	join, add string
	// prepare makes, for half a block, the pair's first two weights.
	prepare func(d *dot, r, half int)
	// scale makes float32 of the groups' sums in Yg, multiplied with their scales, but for the activations'.
	scale func(d *dot, r, g int)
	// factors is the operand of what is left to multiply with.
	factors func(d *dot, r int) string
	// offset adds to Ysum what minimums or an offset make for column c; nil if there are none.
	offset func(d *dot, r, sum, c, half int)
}

// both writes what f writes for each pair, line by line in turns.
func (d *dot) both(f func(r int)) {
	before := d.text.String()
	var lines [2][]string
	for r := range 2 {
		d.text.Reset()
		f(r)
		lines[r] = strings.SplitAfter(d.text.String(), "\n")
	}
	d.text.Reset()
	d.text.WriteString(before)
	for i := range max(len(lines[0]), len(lines[1])) {
		for _, l := range lines {
			if i < len(l) {
				d.text.WriteString(l[i])
			}
		}
	}
}

// before loads the masks.
func (b *superBlock) before(d *dot) {
	for i, constant := range b.masks(d) {
		d.p("VMOVDQU %s, Y%d", constant, d.mask(i))
	}
}

func (b *superBlock) block(d *dot) {
	if b.start != nil {
		b.start(d)
	}
	if d.cols > 1 {
		for r := range 2 {
			b.header(d, r)
			for half := range 2 {
				b.begin(d, r, half)
				for run := 2 * half; run < 2*half+2; run++ {
					if r == 0 {
						d.prefetch(run)
					}
					b.load(d, r, run)
					for c := range d.cols {
						for i := range 4 {
							b.multiply(d, r, run, i, c, d.product(r, i))
						}
						b.addGroups(d, r, run, c)
					}
				}
				b.end(d, r, half)
			}
		}
		return
	}
	d.both(func(r int) { b.header(d, r) })
	for half := range 2 {
		d.both(func(r int) { b.begin(d, r, half) })
		for run := 2 * half; run < 2*half+2; run++ {
			d.prefetch(run)
			d.both(func(r int) { b.load(d, r, run) })
			for i := range 4 {
				b.multiply(d, 0, run, i, 0, d.temp(i%2, 1))
			}
			d.both(func(r int) { b.addGroups(d, r, run, 0) })
		}
		d.both(func(r int) { b.end(d, r, half) })
	}
}

func (b *superBlock) begin(d *dot, r, half int) {
	if b.half != nil {
		b.half(d, r, half)
	}
}

// multiply multiplies the weights i of pair r, with one column of both pairs, with activations in Yx.
func (b *superBlock) multiply(d *dot, r, run, i, c, x int) {
	d.p("VBROADCASTI128 %s, Y%d", d.q(c, 32*b.group(run, i/2)+16*(i%2)), x)
	last := r
	if d.cols == 1 {
		last = 1
	}
	for ; r <= last; r++ {
		w, to := d.weight(r, i), d.product(r, i)
		if b.signed {
			d.multiplySigned(w, x, to, d.temp(r, 0))
		} else {
			d.p("VPMADDUBSW Y%d, Y%d, Y%d", x, w, to)
		}
	}
}

// addGroups makes the sums of a run's groups, for column c, and joins those of two runs.
func (b *superBlock) addGroups(d *dot, r, run, c int) {
	if to, next := d.groups(r, c), d.product(r, 0); run%2 == 0 {
		b.sum(d, r, run, to)
	} else {
		b.sum(d, r, run, next)
		d.interleave(b.join, b.add, to, next, d.temp(r, 0), to)
	}
}

// end adds half a block to the sums of the rows.
func (b *superBlock) end(d *dot, r, half int) {
	b.prepare(d, r, half)
	for c := range d.cols {
		groups, sum, temp := d.groups(r, c), d.product(r, 2), d.product(r, 3)
		b.scale(d, r, groups)
		d.p("VBROADCASTF128 %s, Y%d", d.sc(c, 16*half), temp)
		d.p("VMULPS Y%d, Y%d, Y%d", temp, groups, groups)
		d.p("VMOVAPS %s, Y%d", d.rowSums(r, c), sum)
		d.p("VFMADD231PS %s, Y%d, Y%d", b.factors(d, r), groups, sum)
		if b.offset != nil {
			b.offset(d, r, sum, c, half)
		}
		d.p("VMOVAPS Y%d, %s", sum, d.rowSums(r, c))
	}
}

func convertSums(d *dot, _, g int)    { d.p("VCVTDQ2PS Y%d, Y%d", g, g) }
func pairFactor(d *dot, r int) string { return d.factor(r) }
func consecutive(run, i int) int      { return 2*run + i }
func alternating(run, i int) int      { return 4*(run/2) + run%2 + 2*i }
func (d *dot) dwords(name string, v uint32) string {
	return d.constant(name, dwordsOf(func(int) uint32 { return v })...)
}

// The formats with scales and minimums of 6 bits for every 32 elements. Kept are the bytes of both rows of a pair: 8 scales, 8 minimums. The factors of
// all rows, d dmin of rows 0, 1, 2, 3, go to the scratch first.

func startScales6(d *dot) {
	a, b, to := 0, d.either(4, 1), d.temp(0, 0)
	d.lanes(0, 0, a)
	d.lanes(1, 0, b)
	d.p("VPUNPCKLDQ Y%d, Y%d, Y%d", b, a, to)
	d.p("VPERMQ $0x08, Y%d, Y%d", to, to)
	d.p("VCVTPH2PS X%d, Y%d", to, to)
	for i, at := range []string{d.factor(0), d.minimum(0), d.factor(1), d.minimum(1)} {
		d.p("VPERMILPS $%d, Y%d, Y%d", 0x55*i, to, d.temp(0, 1))
		d.p("VMOVAPS Y%d, %s", d.temp(0, 1), at)
	}
}

func headerScales6Lanes(d *dot, r int) {
	from, to, temp := d.weight(r, 0), d.weight(r, 1), d.temp(r, 0)
	if d.cols > 1 && r == 1 {
		d.lanes(1, 0, from)
	}
	headerScales6(d.file, "Y", from, to, temp)
	d.p("VMOVDQA Y%d, %s", to, d.kept(r, 0))
}

// scaleWords puts the kept bytes at a, b, c and d, each as two equal words, into Yto.
func (d *dot) scaleWords(r, to int, bytes ...int) {
	name := "scaleWords"
	for _, b := range bytes {
		name += fmt.Sprintf("_%d", b)
	}
	d.p("VMOVDQA %s, Y%d", d.kept(r, 0), to)
	d.p("VPSHUFB %s, Y%d, Y%d", d.constant(name, bytesOf(func(i int) int {
		if i%2 == 1 {
			return 0x80
		}
		return bytes[i%16/4]
	})...), to, to)
}

// minimums6 puts the minimums of four groups, float32, into the pair's second weight.
func minimums6(d *dot, r, half int) {
	to := d.weight(r, 1)
	d.p("VMOVDQA %s, Y%d", d.kept(r, 0), to)
	d.p("VPSHUFB %s, Y%d, Y%d", d.constant(fmt.Sprintf("minimumDwords%d", half), bytesOf(func(i int) int {
		if i%4 > 0 {
			return 0x80
		}
		return 8 + 4*half + i%16/4
	})...), to, to)
	d.p("VCVTDQ2PS Y%d, Y%d", to, to)
}

func subtractMinimums(d *dot, r, sum, c, half int) {
	temp := d.product(r, 3)
	d.p("VBROADCASTF128 %s, Y%d", d.s(c, 16*half), temp)
	d.p("VMULPS Y%d, Y%d, Y%d", d.weight(r, 1), temp, temp)
	d.p("VFNMADD231PS %s, Y%d, Y%d", d.minimum(r), temp, sum)
}

// splitNibbles puts the low halves of 16 bytes into weight low, the others into weight high.
func (d *dot) splitNibbles(r, offset, low, high int) {
	low, high = d.weight(r, low), d.weight(r, high)
	d.lanes(r, offset, high)
	d.p("VPAND Y%d, Y%d, Y%d", d.mask(0), high, low)
	d.p("VPSRLW $4, Y%d, Y%d", high, high)
	d.p("VPAND Y%d, Y%d, Y%d", d.mask(0), high, high)
}

// nibbleRun: two times 16 bytes, with one group low and the next one high.
func (d *dot) nibbleRun(r, offset int) {
	for i := range 2 {
		d.splitNibbles(r, offset+16*i, i, 2+i)
	}
}

// addHalves adds products of weights whose groups have one scale; add is VPADDW or VPADDD.
func (d *dot) addHalves(r, to int, add string) {
	p := d.product(r, 0)
	d.p("%s Y%d, Y%d, Y%d", add, p+1, p, p)
	d.p("%s Y%d, Y%d, Y%d", add, p+3, p+2, p+2)
	d.interleave("DQ", add, p, p+2, p+1, to)
}

var superBlockQ4_K = &superBlock{
	masks:  func(d *dot) []string { return []string{d.nibbles()} },
	start:  startScales6,
	header: headerScales6Lanes,
	load:   func(d *dot, r, run int) { d.nibbleRun(r, 16+32*run) },
	group:  consecutive,
	sum:    func(d *dot, r, _, to int) { d.addHalves(r, to, "VPADDW") },
	join:   "QDQ",
	add:    "VPADDW", // 8 * 2*15*127 in a word
	prepare: func(d *dot, r, half int) {
		d.scaleWords(r, d.weight(r, 0), 4*half, 4*half+1, 4*half+2, 4*half+3)
		minimums6(d, r, half)
	},
	scale: func(d *dot, r, g int) {
		d.p("VPMADDWD Y%d, Y%d, Y%d", d.weight(r, 0), g, g)
		convertSums(d, r, g)
	},
	factors: pairFactor,
	offset:  subtractMinimums,
}

var superBlockQ5_K = &superBlock{
	masks: func(d *dot) []string {
		return []string{d.nibbles(), d.constant("sixteens", repeat(4, 0x1010101010101010)...)}
	},
	start:  startScales6,
	header: headerScales6Lanes,
	load: func(d *dot, r, run int) {
		d.nibbleRun(r, 48+32*run)
		for i := range 2 {
			d.lanes(r, 16+16*i, d.temp(r, 0))
			d.orBits(r, 2*run, 4, i)
			d.orBits(r, 2*run+1, 4, 2+i)
		}
	},
	group: consecutive,
	sum: func(d *dot, r, run, to int) {
		d.addHalves(r, to, "VPADDW") // 4 * 2*31*127 in a word
		d.scaleWords(r, d.temp(r, 0), 2*run, 2*run+1, 2*run, 2*run+1)
		d.p("VPMADDWD Y%d, Y%d, Y%d", d.temp(r, 0), to, to)
	},
	join:    "QDQ",
	add:     "VPADDD",
	prepare: minimums6,
	scale:   convertSums,
	factors: pairFactor,
	offset:  subtractMinimums,
}

// orBits moves bits of the pair's first temp, of each byte those from bit `at` on, to bit `want`, and adds those of the second mask to weight i.
func (d *dot) orBits(r, at, want, i int) {
	from, to := d.temp(r, 0), d.temp(r, 1)
	switch {
	case at < want:
		d.p("VPSLLW $%d, Y%d, Y%d", want-at, from, to)
	case at > want:
		d.p("VPSRLW $%d, Y%d, Y%d", at-want, from, to)
	}
	if at != want {
		from = to
	}
	d.p("VPAND Y%d, Y%d, Y%d", d.mask(1), from, to)
	d.p("VPOR Y%d, Y%d, Y%d", to, d.weight(r, i), d.weight(r, i))
}

// The formats with a scale for every 16 elements. Kept are, for half a block, what is multiplied with the activations' sums of 16, and the 8 scales, each
// twice, all words of both rows. For integers with an offset, or minimums, the first two weights are these factors times 2^16: those of the first
// halves of the groups, then those of the second halves. The runs of half a block are groups 0 and 2, and 1 and 3.

// rowFactors puts the float16 at offset of the blocks of rows r and r+2 into all dwords of their lanes of the first weight.
func (d *dot) rowFactors(r, offset int) {
	a, b := d.weight(r, 0), d.weight(r, 1)
	d.p("VPBROADCASTW %s, X%d", d.w(r, offset), a)
	d.p("VPBROADCASTW %s, X%d", d.w(r+2, offset), b)
	d.p("VPUNPCKLQDQ X%d, X%d, X%d", b, a, a)
	d.p("VCVTPH2PS X%d, Y%d", a, a)
}

// offsetFactors are those at offset, times a constant.
func (d *dot) offsetFactors(r, offset int, name string, constant uint32) {
	d.rowFactors(r, offset)
	d.p("VMULPS %s, Y%d, Y%d", d.dwords(name, constant), d.weight(r, 0), d.weight(r, 1))
	d.p("VMOVAPS Y%d, %s", d.weight(r, 1), d.minimum(r))
}

// factorsAt are those at offset.
func (d *dot) factorsAt(r, offset int) {
	d.rowFactors(r, offset)
	d.p("VMOVAPS Y%d, %s", d.weight(r, 0), d.factor(r))
}

// pairBytes widens 8 bytes of each row into the first weight; extend is VPMOVSXBW or VPMOVZXBW.
func (d *dot) pairBytes(r, offset int, extend string) {
	to := d.weight(r, 0)
	d.p("VMOVQ %s, X%d", d.w(r, offset), to)
	d.p("VMOVHPS %s, X%d, X%d", d.w(r+2, offset), to, to)
	d.p("%s X%d, Y%d", extend, to, to)
}

// keepScales keeps the scales in Yfrom, each twice: four in the second vector, four in the third.
func (d *dot) keepScales(r, from int) {
	temp := d.weight(r, 3)
	for i, half := range []string{"L", "H"} {
		d.p("VPUNPCK%sWD Y%d, Y%d, Y%d", half, from, from, temp)
		d.p("VMOVDQA Y%d, %s", temp, d.kept(r, 1+i))
	}
}

// keepWords keeps what is in the first weight, as scales and as factors of the activations' sums.
func (d *dot) keepWords(r int) {
	d.p("VMOVDQA Y%d, %s", d.weight(r, 0), d.kept(r, 0))
	d.keepScales(r, d.weight(r, 0))
}

// sixteenths makes the first two weights.
func sixteenths(d *dot, r, _ int) {
	a, b := d.weight(r, 0), d.weight(r, 1)
	d.p("VMOVDQA %s, Y%d", d.kept(r, 0), a)
	d.p("VPAND %s, Y%d, Y%d", d.constant("highWords", repeat(4, 0xffff0000ffff0000)...), a, b)
	d.p("VPSLLD $16, Y%d, Y%d", a, a)
	d.p("VCVTDQ2PS Y%d, Y%d", a, a)
	d.p("VCVTDQ2PS Y%d, Y%d", b, b)
}

func addSixteenths(d *dot, r, sum, c, half int) {
	a, b := d.product(r, 3), d.temp(r, 0)
	d.p("VBROADCASTF128 %s, Y%d", d.h(c, 32*half), a)
	d.p("VBROADCASTF128 %s, Y%d", d.h(c, 32*half+16), b)
	d.p("VMULPS Y%d, Y%d, Y%d", d.weight(r, 0), a, a)
	d.p("VFMADD231PS Y%d, Y%d, Y%d", d.weight(r, 1), b, a)
	d.p("VFMADD231PS %s, Y%d, Y%d", d.minimum(r), a, sum)
}

// scaleHalves multiplies products of weights whose halves of groups have scales of their own with these.
func scaleHalves(d *dot, r, run, to int) {
	p, temp := d.product(r, 0), d.temp(r, 0)
	for i := range 2 {
		a := p + 2*i
		d.interleave("DQ", "VPADDW", a, a+1, temp, a) // 4 * 63*127 in a word
		d.p("VPSHUFD $%d, %s, Y%d", []int{0x44, 0xEE}[run%2], d.kept(r, 1+i), temp)
		d.p("VPMADDWD Y%d, Y%d, Y%d", temp, a, a)
	}
	d.interleave("DQ", "VPADDD", p, p+2, temp, to)
}

// halfGroups completes what is the same for these formats.
func halfGroups(b superBlock) *superBlock {
	b.group, b.sum, b.join, b.add = alternating, scaleHalves, "DQ", "VPADDD"
	b.prepare, b.scale, b.factors, b.offset = sixteenths, convertSums, pairFactor, addSixteenths
	return &b
}

var superBlockQ6_K = halfGroups(superBlock{
	masks: func(d *dot) []string {
		return []string{d.nibbles(), d.constant("topPairs", repeat(4, 0x3030303030303030)...)}
	},
	header: func(d *dot, r int) {
		d.offsetFactors(r, 208, "minus32by16", 0xba000000) // -32 / 2^16
		d.p("VMOVAPS Y%d, %s", d.weight(r, 0), d.factor(r))
	},
	half: func(d *dot, r, half int) {
		d.pairBytes(r, 192+8*half, "VPMOVSXBW")
		d.keepWords(r)
	},
	load: func(d *dot, r, run int) {
		d.nibbleRun(r, 32*run)
		for i := range 2 {
			d.lanes(r, 128+32*(run/2)+16*i, d.temp(r, 0))
			d.orBits(r, 2*(run%2), 4, i)
			d.orBits(r, 2*(run%2)+4, 4, 2+i)
		}
	},
})

// bitPairRun: two times 16 bytes with two bits of four groups.
func (d *dot) bitPairRun(r, offset, run int) {
	for i := range 2 {
		low, high := d.weight(r, i), d.weight(r, 2+i)
		d.lanes(r, offset+32*(run/2)+16*i, low)
		d.p("VPSRLW $%d, Y%d, Y%d", 2*(run%2)+4, low, high)
		if run%2 == 1 {
			d.p("VPSRLW $2, Y%d, Y%d", low, low)
		}
		d.p("VPAND Y%d, Y%d, Y%d", d.mask(0), low, low)
		d.p("VPAND Y%d, Y%d, Y%d", d.mask(0), high, high)
	}
}

func (d *dot) bitPairs() string { return d.constant("lowPairs", repeat(4, 0x0303030303030303)...) }

// Q2_K's scales are low halves of bytes; the high halves are minimums.
var superBlockQ2_K = halfGroups(superBlock{
	masks: func(d *dot) []string { return []string{d.bitPairs(), d.nibbles()} },
	header: func(d *dot, r int) {
		d.offsetFactors(r, 82, "minusBy16", 0xb7800000) // -1 / 2^16
		d.factorsAt(r, 80)
	},
	half: func(d *dot, r, half int) {
		scales, minimums := d.weight(r, 0), d.weight(r, 1)
		d.pairBytes(r, 8*half, "VPMOVZXBW")
		d.p("VPSRLW $4, Y%d, Y%d", scales, minimums)
		d.p("VMOVDQA Y%d, %s", minimums, d.kept(r, 0))
		d.p("VPAND Y%d, Y%d, Y%d", d.mask(1), scales, scales)
		d.keepScales(r, scales)
	},
	load: func(d *dot, r, run int) { d.bitPairRun(r, 16, run) },
})

var superBlockQ3_K = halfGroups(superBlock{
	masks: func(d *dot) []string {
		return []string{d.bitPairs(), d.constant("fours", repeat(4, 0x0404040404040404)...)}
	},
	header: func(d *dot, r int) {
		from, a, b := d.weight(r, 0), d.weight(r, 1), d.weight(r, 2)
		for i := range 2 {
			d.p("VMOVDQU %s, X%d", d.w(r+2*i, 94), from)
			scalesQ3_K(d.file, from, a+i, d.weight(r, 3), d.temp(r, 0))
		}
		for i, half := range []string{"L", "H"} { // bytes of a half block: of one row, then of the other
			d.p("VPUNPCK%sQDQ X%d, X%d, X%d", half, b, a, from)
			d.p("VMOVDQA X%d, %s", from, d.keptAt(r, 3, 16*i))
		}
		d.offsetFactors(r, 108, "minus4by16", 0xb8800000) // -4 / 2^16
		d.p("VMOVAPS Y%d, %s", d.weight(r, 0), d.factor(r))
	},
	half: func(d *dot, r, half int) {
		d.p("VPMOVSXBW %s, Y%d", d.keptAt(r, 3, 16*half), d.weight(r, 0))
		d.keepWords(r)
	},
	load: func(d *dot, r, run int) {
		d.bitPairRun(r, 32, run)
		for i := range 2 { // third bits
			d.lanes(r, 16*i, d.temp(r, 0))
			d.orBits(r, alternating(run, 0), 2, i)
			d.orBits(r, alternating(run, 1), 2, 2+i)
		}
	},
})

// IQ4_XS has signed values, and scales of 6 bits for every 32 elements. Kept are the 8 first bytes of the blocks, twice in their lanes: the factor, the
// top bits of the scales, their low four bits.
var superBlockIQ4_XS = &superBlock{
	masks: func(d *dot) []string { return []string{d.nibbles(), codebook(d.file)} },
	header: func(d *dot, r int) {
		d.factorsAt(r, 0)
		a, b := d.weight(r, 0), d.weight(r, 1)
		d.p("VPBROADCASTQ %s, Y%d", d.w(r, 0), a)
		d.p("VPBROADCASTQ %s, Y%d", d.w(r+2, 0), b)
		d.p("VPBLENDD $0xF0, Y%d, Y%d, Y%d", b, a, a)
		d.p("VMOVDQA Y%d, %s", a, d.kept(r, 0))
	},
	load: func(d *dot, r, run int) {
		for i := range 2 {
			d.splitNibbles(r, 8+32*run+16*i, 2*i, 2*i+1)
		}
		for i := range 4 {
			d.p("VPSHUFB Y%d, Y%d, Y%d", d.weight(r, i), d.mask(1), d.weight(r, i))
		}
	},
	group:  consecutive,
	signed: true,
	sum:    func(d *dot, r, _, to int) { d.addHalves(r, to, "VPADDD") },
	join:   "QDQ",
	add:    "VPADDD",
	prepare: func(d *dot, r, half int) {
		shift := func(name string, first, step int) string {
			return d.constant(fmt.Sprintf("%s%d", name, half), dwordsOf(func(i int) uint32 { return uint32(first + step*(4*half+i%4)) })...)
		}
		a, b := d.weight(r, 0), d.weight(r, 1)
		d.p("VPSHUFD $0xF5, %s, Y%d", d.kept(r, 0), a) // dwords 1 1 3 3
		d.p("VPSHUFD $0xA0, %s, Y%d", d.kept(r, 0), b) // dwords 0 0 2 2
		d.p("VPSRLVD %s, Y%d, Y%d", shift("scaleNibbles", 0, 4), a, a)
		d.p("VPSRLVD %s, Y%d, Y%d", shift("scaleTops", 16, 2), b, b)
		d.p("VPAND %s, Y%d, Y%d", d.dwords("fifteen", 15), a, a)
		d.p("VPAND %s, Y%d, Y%d", d.dwords("three", 3), b, b)
		d.p("VPSLLD $4, Y%d, Y%d", b, b)
		d.p("VPOR Y%d, Y%d, Y%d", b, a, a)
		d.p("VPSUBD %s, Y%d, Y%d", d.dwords("thirtyTwo", 32), a, a)
		d.p("VCVTDQ2PS Y%d, Y%d", a, a)
		d.p("VMULPS %s, Y%d, Y%d", d.factor(r), a, a)
	},
	scale:   convertSums,
	factors: func(d *dot, r int) string { return fmt.Sprintf("Y%d", d.weight(r, 0)) },
}
