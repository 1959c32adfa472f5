package main

import "math"

// quantize turns groups of 32 into integers of 8 bits.
func quantize(f *file) {
	f.begin("quantizeRow", "x *float32, q *byte, d, s, h *float32, groups int", 0, "quantizeRow quantizes groups of 32 elements, see quantizeGeneric.")
	for _, a := range [][2]string{{"x", "SI"}, {"q", "DI"}, {"d", "R8"}, {"s", "R9"}, {"h", "R10"}, {"groups", "CX"}} {
		f.arg(a[0], a[1])
	}
	quantizeConstants(f)
	f.p("MOVQ $4, BX")
	f.p("PCALIGN $32")
	f.label("group")
	largestOf32(f)
	finite(f, "X", "belowTiniest", 0x1p-120)
	f.p("VDIVPS X4, X14, X5")
	f.p("VDIVPS X14, X4, X6")
	f.p("VSUBPS X4, X4, X8")
	f.p("VBLENDVPS X7, X6, X8, X6")
	f.p("VBROADCASTSS X5, Y5")
	f.p("VBROADCASTSS X7, Y7")
	roundGroup(f)
	f.p("DECQ CX")
	f.p("JNZ group")
	f.end()
}

// quantizeUnits does the same in blocks of 256, their scales being whole units.
func quantizeUnits(f *file) {
	f.begin("quantizeUnits", "x *float32, q *byte, d, s, h, unit *float32, ints *int16, blocks int", 32,
		"quantizeUnits quantizes blocks of 256 elements, see quantizeUnitsGeneric.")
	for _, a := range [][2]string{{"x", "SI"}, {"q", "DI"}, {"d", "R8"}, {"s", "R9"}, {"h", "R10"}, {"unit", "R11"}, {"ints", "R12"}} {
		f.arg(a[0], a[1])
	}
	quantizeConstants(f)
	f.p("MOVQ $4, BX")
	f.label("block")
	f.p("XORQ CX, CX")
	f.label("largest")
	largestOf32(f)
	f.p("VMOVD X4, (SP)(CX*4)")
	f.p("ADDQ $128, SI")
	f.p("INCQ CX")
	f.p("CMPQ CX, $8")
	f.p("JLT largest")
	f.p("SUBQ $1024, SI")
	f.p("VMOVDQU (SP), Y9")
	f.p("VEXTRACTI128 $1, Y9, X5")
	f.p("VMOVDQA X9, X4")
	largestOf8(f)
	f.p("VPBROADCASTD X4, Y4")
	finite(f, "Y", "belowTiniestUnits", 0x1p-100)
	f.note("the unit: a 127th of a 63rd; of what is not finite NaN, of what is tiny 0")
	f.p("VBROADCASTSS %s, Y6", f.single("levelsTimesUnits", 127*63))
	f.p("VDIVPS Y6, Y4, Y6")
	f.p("VSUBPS Y4, Y4, Y8")
	f.p("VBLENDVPS Y7, Y6, Y8, Y6")
	f.p("VMOVUPS Y6, (R11)")
	f.note("units of each group: what its largest magnitude needs")
	f.p("VBROADCASTSS %s, Y3", f.single("mostUnits", 63))
	f.p("VDIVPS Y4, Y3, Y5")
	f.p("VMULPS Y5, Y9, Y9")
	f.p("VROUNDPS $2, Y9, Y9")
	f.p("VBROADCASTSS %s, Y8", f.single("one", 1))
	f.p("VMAXPS Y8, Y9, Y9")
	f.p("VMINPS Y3, Y9, Y9")
	f.p("VBLENDVPS Y7, Y9, Y8, Y9")
	f.p("VCVTPS2DQ Y9, Y5")
	f.p("VEXTRACTI128 $1, Y5, X10")
	f.p("VPACKSSDW X10, X5, X5")
	f.p("VMOVDQU X5, (R12)")
	f.p("VMULPS Y9, Y6, Y6")
	f.p("VMOVUPS Y6, (R8)")
	f.p("VDIVPS Y6, Y8, Y6")
	f.p("VMOVUPS Y6, (SP)")
	f.p("XORQ CX, CX")
	f.label("group")
	for i := range 4 {
		f.p("VMOVUPS %d(SI), Y%d", 32*i, i)
	}
	f.p("VBROADCASTSS (SP)(CX*4), Y5")
	f.p("VBROADCASTSS (R8), X6")
	roundGroup(f)
	f.p("VPEXTRW $0, X9, 16(R12)")
	f.p("VPEXTRW $0, X8, 32(R12)")
	f.p("VPEXTRW $2, X8, 48(R12)")
	f.p("ADDQ $2, R12")
	f.p("INCQ CX")
	f.p("CMPQ CX, $8")
	f.p("JLT group")
	f.p("ADDQ $32, R11")
	f.p("ADDQ $48, R12")
	f.p("DECQ %s", f.param("blocks"))
	f.p("JNZ block")
	f.end()
}

func quantizeConstants(f *file) {
	f.p("VMOVDQU %s, Y15", f.constant("magnitude", repeat(4, 0x7fffffff7fffffff)...))
	f.p("VMOVUPS %s, Y14", f.single("levels", 127))
	f.p("VMOVDQU %s, Y13", f.constant("unpacked", dwordsOf(func(i int) uint32 { return uint32(i%2*4 + i/2) })...))
	f.p("VMOVDQU %s, Y12", f.constant("ones8", repeat(4, 0x0101010101010101)...))
	f.p("VMOVDQU %s, Y11", f.constant("ones16", repeat(4, 0x0001000100010001)...))
}

// largestOf32 loads 32 elements into Y0 to Y3. Their largest magnitude, compared as integers so that NaN is above infinity, comes to dword 0 of X4.
func largestOf32(f *file) {
	for i := range 4 {
		f.p("VMOVUPS %d(SI), Y%d", 32*i, i)
		f.p("VPAND Y15, Y%d, Y%d", i, 4+i)
	}
	f.p("VPMAXUD Y5, Y4, Y4")
	f.p("VPMAXUD Y7, Y6, Y6")
	f.p("VPMAXUD Y6, Y4, Y4")
	f.p("VEXTRACTI128 $1, Y4, X5")
	largestOf8(f)
}

// largestOf8 brings the largest integer of X4 and X5 to dword 0 of X4.
func largestOf8(f *file) {
	for _, shuffle := range []int{0x4E, 0xB1, 0} {
		f.p("VPMAXUD X5, X4, X4")
		if shuffle != 0 {
			f.p("VPSHUFD $%d, X4, X5", shuffle)
		}
	}
}

// finite sets register 7, X or Y, where the magnitudes in register 4 are numbers and not below tiniest. It uses register 8.
func finite(f *file, kind string, name string, tiniest float32) {
	f.p("VPCMPGTD %s, %s4, %s7", f.constant(name, dwordsOf(func(int) uint32 { return math.Float32bits(tiniest) - 1 })...), kind, kind)
	f.p("VMOVDQU %s, %s8", f.constant("infinity", dwordsOf(func(int) uint32 { return 0x7f800000 })...), kind)
	f.p("VPCMPGTD %s4, %s8, %s8", kind, kind, kind)
	f.p("VPAND %s8, %s7, %s7", kind, kind, kind)
}

// roundGroup stores the integers, scale and sums of a group: its elements in Y0 to Y3 times Y5, or zeros where Y7 is not set; the scale is in X6. The
// sums of the halves are left in dwords 0 and 1 of X8, that of the group in X9. BX counts the groups whose sums of halves lie together.
func roundGroup(f *file) {
	for i := range 4 {
		f.p("VMULPS Y5, Y%d, Y%d", i, i)
		f.p("VCVTPS2DQ Y%d, Y%d", i, i)
	}
	f.p("VPACKSSDW Y1, Y0, Y0")
	f.p("VPACKSSDW Y3, Y2, Y2")
	f.p("VPACKSSWB Y2, Y0, Y0")
	f.p("VPERMD Y0, Y13, Y0")
	f.p("VPAND Y7, Y0, Y0")
	f.p("VMOVDQU Y0, (DI)")
	f.p("VPMADDUBSW Y0, Y12, Y0")
	f.p("VPMADDWD Y11, Y0, Y0")
	f.p("VEXTRACTI128 $1, Y0, X1")
	f.p("VPHADDD X1, X0, X0")
	f.p("VPHADDD X0, X0, X8")
	f.p("VPHADDD X8, X8, X9")
	f.p("VCVTDQ2PS X8, X0")
	f.p("VCVTDQ2PS X9, X1")
	f.p("VMULPS X6, X0, X0")
	f.p("VMULSS X6, X1, X1")
	f.p("VMOVSS X6, (R8)")
	f.p("VMOVSS X1, (R9)")
	f.p("VMOVSS X0, (R10)")
	f.p("VEXTRACTPS $1, X0, 16(R10)")
	f.p("ADDQ $128, SI")
	f.p("ADDQ $32, DI")
	f.p("ADDQ $4, R8")
	f.p("ADDQ $4, R9")
	f.p("ADDQ $4, R10")
	f.p("DECQ BX")
	f.p("JNZ sums")
	f.p("ADDQ $16, R10")
	f.p("MOVQ $4, BX")
	f.label("sums")
}
