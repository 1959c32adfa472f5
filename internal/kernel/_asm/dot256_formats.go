package main

import (
	"fmt"
	"math"
)

// The formats of super-blocks: how their integers, scales and factors are loaded.

func consecutive(run, i int) int { return 2*run + i }
func alternating(run, i int) int { return 4*(run/2) + run%2 + 2*i }
func (d *dot) dwords(name string, v uint32) string {
	return d.constant(name, dwordsOf(func(int) uint32 { return v })...)
}

// broadcastAt brings the rows' float16 at offset together in X11: one of each row, rows 0 1 2 3 twice, if broadcast is VPBROADCASTW; or two, if it is
// VPBROADCASTD. It uses X12.
func (d *dot) broadcastAt(broadcast string, offset int) {
	x, from := side, side+1
	d.p("%s %s, X%d", broadcast, d.w(0, offset), x)
	for r := 1; r < 4; r++ {
		d.p("%s %s, X%d", broadcast, d.w(r, offset), from)
		if broadcast == "VPBROADCASTW" {
			d.p("VPBLENDW $%d, X%d, X%d, X%d", 0x11<<r, from, x, x)
		} else {
			d.p("VPBLENDD $%d, X%d, X%d, X%d", 1<<r, from, x, x)
		}
	}
}

// oneFactor stores the rows' float16 at offset, times the unit, and these times minus if that is not 0.
func oneFactor(offset, minus int) func(d *dot) {
	return func(d *dot) {
		x, product, wide := side, side+1, "X"
		if d.cols == 1 {
			wide = "Y"
		}
		d.broadcastAt("VPBROADCASTW", offset)
		d.p("VCVTPH2PS X%d, %s%d", x, wide, x)
		for c := range d.cols {
			d.p("VMULPS %s, %s%d, %s%d", d.sc(c, 0), wide, x, wide, product)
			d.p("VMOVAPS %s%d, %s", wide, product, d.factor(c, 0))
			if minus == 0 {
				continue
			}
			d.p("VMULPS %s, %s%d, %s%d", d.dwords(fmt.Sprintf("float%d", minus), math.Float32bits(float32(minus))), wide, product, wide, product)
			d.p("VMOVAPS %s%d, %s", wide, product, d.minimumFactors(c))
		}
	}
}

// twoFactors stores the rows' two float16 at offset, times the unit, one after the other for each row.
func (d *dot) twoFactors(offset int) {
	x, product := side, side+1
	d.broadcastAt("VPBROADCASTD", offset)
	d.p("VCVTPH2PS X%d, Y%d", x, x)
	for c := range d.cols {
		d.p("VMULPS %s, Y%d, Y%d", d.sc(c, 0), x, product)
		d.p("VMOVAPS Y%d, %s", product, d.factor(c, 0))
	}
}

// twoFactorsApart stores, for one column, the first of them in the order of rows that have come together, and puts the second into Y13, in the order
// that the words of a constant have.
func (d *dot) twoFactorsApart(offset int, order string, words ...uint64) {
	x, second := side, side+2
	d.broadcastAt("VPBROADCASTD", offset)
	d.p("VPSHUFB %s, X%d, X%d", d.constant(order, words...), x, second)
	d.p("VPSHUFB %s, X%d, X%d", d.constant("factorsTwice", repeat(2, 0x0d0c090805040100)...), x, x)
	for _, x := range []int{x, second} {
		d.p("VCVTPH2PS X%d, Y%d", x, x)
		d.p("VMULPS %s, Y%d, Y%d", d.sc(0, 0), x, x)
	}
	d.p("VMOVAPS Y%d, %s", x, d.factor(0, 0))
}

// splitNibbles puts the low halves of 32 bytes into the first weight, the others into the second.
func (d *dot) splitNibbles(r, offset int) {
	d.p("VMOVDQU %s, Y7", d.w(r, offset))
	d.p("VPAND Y%d, Y7, Y6", d.mask(0))
	d.p("VPSRLW $4, Y7, Y7")
	d.p("VPAND Y%d, Y7, Y7", d.mask(0))
}

// orBits moves bits of the bytes in Y8, those from bit `at` on, to bit `want`, and adds those of the second mask to weight i.
func (d *dot) orBits(at, want, i int) {
	from := spare
	switch {
	case at < want:
		from = spare + 1
		d.p("VPSLLW $%d, Y8, Y9", want-at)
	case at > want:
		from = spare + 1
		d.p("VPSRLW $%d, Y8, Y9", at-want)
	}
	d.p("VPAND Y%d, Y%d, Y9", d.mask(1), from)
	d.p("VPOR Y9, Y%d, Y%d", weight0+i, weight0+i)
}

// The formats with a scale for every 32 elements. A header has the words of groups 0 to 3 of rows 0 1 2 3, then those of groups 4 to 7; minimums come after both.

func wordOfGroup(d *dot, r, g, c, to int) {
	d.p("VPBROADCASTW %s, Y%d", d.word(c, 32*(g/4)+8*r+2*(g%4)), to)
}

const minimumWords = 64

// headerScales6Rows: bytes 4 to 7 of a block have the first four scales and, in their top bits, the top bits of the last four; 8 to 11 the same of the
// minimums; 12 to 15 the low four bits of the last ones, scales low, minimums high.
func headerScales6Rows(d *dot) {
	a, b, units, words := side, side+1, side+2, side+3
	for i, x := range []int{a, b} { // rows i and i+2
		d.p("VBROADCASTI128 %s, Y%d", d.head(i+2, 0), units)
		d.p("VPBLENDD $0x0F, %s, Y%d, Y%d", d.head(i, 0), units, x)
	}
	d.p("VPUNPCKLDQ Y%d, Y%d, Y%d", b, a, words)
	d.p("VPUNPCKHDQ Y%d, Y%d, Y%d", b, a, b)
	d.p("VPALIGNR $8, Y%d, Y%d, Y%d", words, b, a) // dwords 1 1 2 2 of two rows
	d.p("VPSHUFD $0xEE, Y%d, Y%d", b, b)           // dwords 3 3 3 3
	d.p("VPSRLD $2, Y%d, Y%d", a, words)
	d.p("VPSRLVD %s, Y%d, Y%d", d.constant("minimumsShift", repeat(2, 0, 0x0000000400000004)...), b, b)
	d.p("VPAND %s, Y%d, Y%d", d.constant("sixBits", repeat(4, 0x3f3f3f3f3f3f3f3f)...), a, a)
	d.p("VPAND %s, Y%d, Y%d", d.constant("topPairs", repeat(4, 0x3030303030303030)...), words, words)
	d.p("VPAND Y%d, Y%d, Y%d", d.mask(0), b, b)
	d.p("VPOR Y%d, Y%d, Y%d", words, b, b)
	zeros := d.constant("zeros", repeat(4, 0)...)
	for i, x := range []int{a, b} { // groups 0 to 3, 4 to 7: bytes of scales, then of minimums
		d.p("VPUNPCKLBW %s, Y%d, Y%d", zeros, x, words)
		d.p("VPUNPCKHBW %s, Y%d, Y%d", zeros, x, x)
		for c := range d.cols {
			d.p("VPBROADCASTQ %s, Y%d", d.headInts(c, unitsAt+8*i), units)
			for kind, from := range []int{words, x} {
				to := from
				if d.cols > 1 {
					to = 4
				}
				d.p("VPMULLW Y%d, Y%d, Y%d", units, from, to)
				d.p("VMOVDQA Y%d, %s", to, d.made(c, 32*i+minimumWords*kind))
			}
		}
	}
}

// factorsMinimums6 stores the factors, and subtracts the minimums.
func factorsMinimums6(d *dot) {
	a, b, factors := side, side+1, side+2
	if d.cols == 1 {
		d.twoFactorsApart(0, "minimumsTwice", 0x0706070603020302, 0x0f0e0f0e0b0a0b0a)
	} else {
		d.twoFactors(0)
	}
	for c := range d.cols {
		d.p("VPBROADCASTQ %s, Y%d", d.ints(c, sumsAt), a)
		d.p("VPMADDWD %s, Y%d, Y%d", d.word(c, minimumWords), a, a)
		d.p("VPBROADCASTQ %s, Y%d", d.ints(c, sumsAt+8), b)
		d.p("VPMADDWD %s, Y%d, Y%d", d.word(c, minimumWords+32), b, b)
		d.p("VPADDD Y%d, Y%d, Y%d", b, a, a)
		d.p("VCVTDQ2PS Y%d, Y%d", a, a)
		if d.cols > 1 {
			d.p("VMOVSHDUP %s, Y%d", d.factor(c, 0), factors)
		}
		d.p("VFNMADD213PS %s, Y%d, Y%d", d.minimumSums(c), factors, a)
		d.p("VMOVAPS Y%d, %s", a, d.minimumSums(c))
	}
}

// scales6 completes what is the same for the formats with scales and minimums of 6 bits.
func scales6(b superBlock) *superBlock {
	b.header, b.factors, b.factorStep, b.minimumsOfAll = headerScales6Rows, factorsMinimums6, 2, true
	b.group, b.scale = consecutive, wordOfGroup
	return &b
}

var superBlockQ4_K = scales6(superBlock{
	masks: func(d *dot) []string { return []string{d.nibbles()} },
	load:  func(d *dot, r, run int) { d.splitNibbles(r, 16+32*run) },
	sum:   15,
})

var superBlockQ5_K = scales6(superBlock{
	masks: func(d *dot) []string {
		return []string{d.nibbles(), d.constant("sixteens", repeat(4, 0x1010101010101010)...)}
	},
	load: func(d *dot, r, run int) {
		d.splitNibbles(r, 48+32*run)
		d.p("VMOVDQU %s, Y8", d.w(r, 16))
		d.orBits(2*run, 4, 0)
		d.orBits(2*run+1, 4, 1)
	},
})

// IQ4_XS has signed values. The factor is followed by a word with the top two bits of the scales and a dword with their low four bits.
var superBlockIQ4_XS = &superBlock{
	masks: func(d *dot) []string { return []string{d.nibbles(), codebook(d.file)} },
	header: func(d *dot) {
		a, tops, b := side, side+1, side+2
		shift := func(name string, first, step int) string {
			return d.constant(name, dwordsOf(func(i int) uint32 { return uint32(first + step*i) })...)
		}
		for r := 0; r < 4; r += 2 {
			for i, x := range []int{a, b} {
				d.p("VPBROADCASTD %s, Y%d", d.head(r+i, 4), x)
				d.p("VPBROADCASTD %s, Y%d", d.head(r+i, 0), tops)
				d.p("VPSRLVD %s, Y%d, Y%d", shift("scaleNibbles", 0, 4), x, x)
				d.p("VPSRLVD %s, Y%d, Y%d", shift("scaleTops", 12, 2), tops, tops)
				d.p("VPAND %s, Y%d, Y%d", d.dwords("fifteen", 15), x, x)
				d.p("VPAND %s, Y%d, Y%d", d.dwords("topPair", 0x30), tops, tops)
				d.p("VPOR Y%d, Y%d, Y%d", tops, x, x)
				d.p("VPSUBD %s, Y%d, Y%d", d.dwords("thirtyTwo", 32), x, x)
			}
			d.p("VPACKSSDW Y%d, Y%d, Y%d", b, a, a) // words of groups 0 to 3 of both rows, then of 4 to 7
			for c := range d.cols {
				d.p("VPBROADCASTQ %s, Y%d", d.headInts(c, unitsAt), tops)
				d.p("VPBROADCASTQ %s, Y%d", d.headInts(c, unitsAt+8), b)
				d.p("VPBLENDD $0xF0, Y%d, Y%d, Y%d", b, tops, b)
				d.p("VPMULLW Y%d, Y%d, Y%d", a, b, b)
				d.p("VMOVDQA X%d, %s", b, d.made(c, 8*r))
				d.p("VEXTRACTI128 $1, Y%d, %s", b, d.made(c, 32+8*r))
			}
		}
	},
	factors:    oneFactor(0, 0),
	factorStep: 1,
	wide:       true,
	sum:        14,
	load: func(d *dot, r, run int) {
		for i := range 2 {
			w := weight0 + i
			d.p("VBROADCASTI128 %s, Y%d", d.w(r, 8+32*run+16*i), w)
			d.p("VPSRLVD %s, Y%d, Y%d", d.constant("highLaneNibbles", 0, 0, 0x0000000400000004, 0x0000000400000004), w, w)
			d.p("VPAND Y%d, Y%d, Y%d", d.mask(0), w, w)
			d.p("VPSHUFB Y%d, Y%d, Y%d", w, d.mask(1), w)
		}
	},
	group:  consecutive,
	signed: true,
	scale:  wordOfGroup,
}

// The formats with a scale for every 16 elements. A header has, row after row, the words of the groups' first halves, then of their second halves: as the
// lanes of a group need them.

func wordsOfHalves(d *dot, r, g, c, to int) {
	d.p("VMOVDQA %s, Y%d", d.word(c, 32*r), to)
	d.p("VPSHUFB %s, Y%d, Y%d", d.constant(fmt.Sprintf("word%d", g), bytesOf(func(i int) int { return 2*g + i%2 })...), to, to)
}

// halvesWords widens 16 bytes in Xfrom, one for each half of a group, to words in that order; extend is VPMOVSXBW or VPMOVZXBW. It stores them for
// row r, times the units, from byte `at` of the header on, using Ytemp.
func (d *dot) halvesWords(r, from, temp, at int, extend string) {
	d.p("VPSHUFB %s, X%d, X%d", d.constant("halvesOrder", bytesOf(func(i int) int { return i%8*2 + i%16/8 })...), from, from)
	d.p("%s X%d, Y%d", extend, from, from)
	for c := range d.cols {
		d.p("VBROADCASTI128 %s, Y%d", d.headInts(c, unitsAt), temp)
		d.p("VPMULLW Y%d, Y%d, Y%d", temp, from, temp)
		d.p("VMOVDQA Y%d, %s", temp, d.made(c, at+32*r))
	}
}

// offset subtracts what the integers' offset makes of the scales, whose factors are behind the others.
var offset = &halfMinimums{0, func(r int) int { return 4 + r }}

// halves completes what is the same for these formats.
func halves(b superBlock) *superBlock {
	b.group, b.scale, b.rowByRow = alternating, wordsOfHalves, true
	return &b
}

var superBlockQ6_K = halves(superBlock{
	masks: func(d *dot) []string {
		return []string{d.nibbles(), d.constant("topPairs", repeat(4, 0x3030303030303030)...)}
	},
	header: func(d *dot) {
		for r := range 4 {
			d.p("VMOVDQU %s, X%d", d.head(r, 192), side)
			d.halvesWords(r, side, side+1, 0, "VPMOVSXBW")
		}
	},
	factors:    oneFactor(208, 32),
	factorStep: 1,
	load: func(d *dot, r, run int) {
		d.splitNibbles(r, 32*run)
		if run%2 == 0 {
			d.p("VMOVDQU %s, Y8", d.w(r, 128+32*(run/2)))
		}
		d.orBits(2*(run%2), 4, 0)
		d.orBits(2*(run%2)+4, 4, 1)
	},
	minimums: offset,
	wide:     true,
	sum:      13,
})

// bitPairRun: 32 bytes with two bits of four groups.
func (d *dot) bitPairRun(r, offset, run int) {
	d.p("VMOVDQU %s, Y6", d.w(r, offset+32*(run/2)))
	d.p("VPSRLW $%d, Y6, Y7", 2*(run%2)+4)
	if run%2 == 1 {
		d.p("VPSRLW $2, Y6, Y6")
	}
	d.p("VPAND Y%d, Y6, Y6", d.mask(0))
	d.p("VPAND Y%d, Y7, Y7", d.mask(0))
}

func (d *dot) bitPairs() string { return d.constant("lowPairs", repeat(4, 0x0303030303030303)...) }

// Q2_K's scales are low halves of bytes; the high halves are minimums. These come behind the scales.
var superBlockQ2_K = halves(superBlock{
	masks: func(d *dot) []string { return []string{d.bitPairs(), d.nibbles()} },
	header: func(d *dot) {
		for r := range 4 {
			scales, minimums := side, side+1
			d.p("VMOVDQU %s, X%d", d.head(r, 0), scales)
			d.p("VPSRLW $4, X%d, X%d", scales, minimums)
			d.p("VPAND X%d, X%d, X%d", d.mask(1), scales, scales)
			d.p("VPAND X%d, X%d, X%d", d.mask(1), minimums, minimums)
			d.halvesWords(r, scales, side+2, 0, "VPMOVZXBW")
			d.halvesWords(r, minimums, side+2, 128, "VPMOVZXBW")
		}
	},
	factors: func(d *dot) {
		if d.cols > 1 {
			d.twoFactors(80)
			return
		}
		d.twoFactorsApart(80, "seconds", repeat(2, 0x0f0e0b0a07060302)...)
		d.p("VMOVAPS Y%d, %s", side+2, d.minimumFactors(0))
	},
	factorStep: 2,
	load:       func(d *dot, r, run int) { d.bitPairRun(r, 16, run) },
	minimums:   &halfMinimums{128, func(r int) int { return 2*r + 1 }},
	sum:        14,
})

var superBlockQ3_K = halves(superBlock{
	masks: func(d *dot) []string {
		return []string{d.bitPairs(), d.constant("fours", repeat(4, 0x0404040404040404)...)}
	},
	header: func(d *dot) {
		for r := range 4 {
			d.p("VMOVDQU %s, X%d", d.head(r, 94), side)
			scalesQ3_K(d.file, side, side+1, side+2, side+3)
			d.halvesWords(r, side+1, side+2, 0, "VPMOVSXBW")
		}
	},
	factors:    oneFactor(108, 4),
	factorStep: 1,
	load: func(d *dot, r, run int) {
		d.bitPairRun(r, 32, run)
		if run == 0 {
			d.p("VMOVDQU %s, Y8", d.w(r, 0)) // third bits
		}
		d.orBits(alternating(run, 0), 2, 0)
		d.orBits(alternating(run, 1), 2, 1)
	},
	minimums: offset,
})
