package main

import "fmt"

// The dot kernel of Q4_K for one column: a run of 32 bytes holds a group of 32 elements in its low nibbles and the next group, the pair's second, in
// its high ones. VMOVDDUP, which costs no more than a load, doubles the even or the odd quarters of a run; then one shift by lanes of 64 bits
// leaves the first group in the even quarters and the second in the odd ones:
//
//	first[0:8] second[0:8] first[16:24] second[16:24]   and   first[8:16] second[8:16] first[24:32] second[24:32]
//
// With activations in the same order the two products are added as they are, with no shuffle, and each 64 bits belong to one
// group. VSHUFPS makes of two pairs the words of four groups in each lane, and VPMADDWD multiplies with the scales while it adds. For several
// columns there are too few registers to keep what the rows share, and it would be no faster than the way of dot256.go.

// loadPair puts the activations of pair j in order into Yto and the next register; Ytemp is used.
func (d *dot) loadPair(j, to, temp int) {
	d.p("VMOVDQU %s, Y%d", d.q(0, 64*j), temp)
	d.p("VMOVDQU %s, Y%d", d.q(0, 64*j+32), to+1)
	d.p("VPUNPCKLQDQ Y%d, Y%d, Y%d", to+1, temp, to)
	d.p("VPUNPCKHQDQ Y%d, Y%d, Y%d", to+1, temp, to+1)
}

// loadWeights puts the weights of pair j of row r in order into Yto and the next register. Nothing beyond the block is read.
func (d *dot) loadWeights(r, j, to int) {
	at := 16 + 32*j
	d.p("VMOVDDUP %s, Y%d", d.w(r, at), to)
	if at+40 <= d.bytes {
		d.p("VMOVDDUP %s, Y%d", d.w(r, at+8), to+1)
	} else {
		d.p("VPERMILPD $15, %s, Y%d", d.w(r, at), to+1)
	}
	for i := range 2 {
		d.p("VPSRLVQ Y14, Y%d, Y%d", to+i, to+i)
		d.p("VPAND Y15, Y%d, Y%d", to+i, to+i)
	}
}

// multiplyPairs multiplies pairs j and j+1 of row r with the activations in Y10 to Y13: words of their four groups in each lane of Yto. It uses
// Y0 to Y3.
func (d *dot) multiplyPairs(r, j, to int) {
	for p := range 2 {
		d.loadWeights(r, j+p, 2*p)
	}
	for p := range 2 {
		d.multiply(2*p, fmt.Sprintf("Y%d", 10+2*p), 2*p)
		d.multiply(2*p+1, fmt.Sprintf("Y%d", 11+2*p), 2*p+1)
		d.p("VPADDW Y%d, Y%d, Y%d", 2*p+1, 2*p, 2*p)
	}
	d.p("VSHUFPS $0x88, Y2, Y0, Y1")
	d.p("VSHUFPS $0xDD, Y2, Y0, Y2")
	d.p("VPADDW Y1, Y2, Y%d", to) // 4 * 2*15*127 in a word
}

// scalePairs adds the sums of row r, words, times scales: those of groups 0 to 3 are in each lane of Ylow, those of groups 4 to 7 in
// Y0. It uses Y1 to Y5.
func (d *dot) scalePairs(r, low int) {
	words := d.constant("scaleWords", bytesOf(func(i int) int { // the byte of each group as two words
		if i%2 == 1 {
			return 0x80
		}
		return i / 4
	})...)
	header, factor := d.atBlock()+16*r, d.atBlock()+64+[]int{0, 16, 8, 24}[r]
	d.p("VPBLENDD $0xF0, Y0, Y%d, Y2", low)
	d.p("VPERM2I128 $0x21, Y0, Y%d, Y3", low)
	d.p("VBROADCASTI128 %d(BX), Y1", header)
	d.p("VPSHUFB %s, Y1, Y1", words)
	d.p("VPADDW Y2, Y3, Y2")
	d.p("VPMADDWD Y1, Y2, Y2")
	d.p("VCVTDQ2PS Y2, Y2")
	d.p("VBROADCASTSS %d(BX), Y1", factor)
	d.p("VMULPS %s, Y1, Y1", d.sc(0, 0))
	d.p("VPMOVZXBD %d(BX), Y3", header+8)
	d.p("VCVTDQ2PS Y3, Y3")
	d.p("VBROADCASTSS %d(BX), Y4", factor+4)
	d.p("VMULPS %s, Y4, Y4", d.s(0, 0))
	d.p("VMOVAPS %s, Y5", d.sums(r, 0))
	d.p("VFMADD231PS Y1, Y2, Y5")
	d.p("VFNMADD231PS Y4, Y3, Y5")
	d.p("VMOVAPS Y5, %s", d.sums(r, 0))
}

// pairsQ4_K is a block of Q4_K for one column.
func pairsQ4_K(d *dot) {
	d.headersScales6()
	d.p("VMOVDQU %s, Y14", d.constant("secondBy4", repeat(2, 0, 4)...))
	for half := range 2 {
		d.loadPair(2*half, 10, 0)
		d.loadPair(2*half+1, 12, 0)
		for r := range 4 {
			if half == 0 {
				d.multiplyPairs(r, 0, 6+r)
				continue
			}
			d.multiplyPairs(r, 2, 0)
			d.scalePairs(r, 6+r)
		}
	}
}
