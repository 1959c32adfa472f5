package main

// Wideners turn panel blocks of 32 k into float32, [32 k][16 rows], with the roundings of the decoders: the integer times its scale, plus
// the minimum.

const widenParams = "panel, dst *byte, offset float64, blocks int"

func widenPanels(f *file) {
	widenBytes(f)
	widenHalves(f)
	widenWords(f)
}

func widenBegin(f *file, name, doc string) {
	f.begin(name, widenParams, 0, doc)
	f.arg("panel", "SI")
	f.arg("dst", "DI")
	f.arg("blocks", "CX")
	f.p("VMOVDQU %s, Y15", f.constant("lowByte", dwordsOf(func(int) uint32 { return 0xff })...))
	f.label("block")
}

func widenEnd(f *file, blockBytes int) {
	f.p("ADDQ $%d, SI", blockBytes)
	f.p("ADDQ $2048, DI")
	f.p("DECQ CX")
	f.p("JNZ block")
	f.end()
}

// eachByte puts the integers of group g of k for 8 rows into Y0 to Y3, one k in each, as float32, using Y4.
func eachByte(f *file, g, half int) {
	f.p("VMOVDQA %d(SI), Y4", 64*g+32*half)
	for i := range 4 {
		switch i {
		case 0:
			f.p("VPAND Y15, Y4, Y0")
		case 3:
			f.p("VPSRLD $24, Y4, Y3")
		default:
			f.p("VPSRLD $%d, Y4, Y%d", 8*i, i)
			f.p("VPAND Y15, Y%d, Y%d", i, i)
		}
		f.p("VCVTDQ2PS Y%d, Y%d", i, i)
	}
}

func widenBytes(f *file) {
	widenBegin(f, "widenBytes", "widenBytes widens panel blocks of the formats U4 and U5. offset is not used.")
	for half := range 2 {
		f.p("VMOVAPS %d(SI), Y8", atScale+32*half)
		f.p("VMOVAPS %d(SI), Y9", atScale+64+32*half)
		for g := range 8 {
			eachByte(f, g, half)
			for i := range 4 {
				f.p("VMULPS Y8, Y%d, Y%d", i, i)
				f.p("VADDPS Y9, Y%d, Y%d", i, i)
				f.p("VMOVAPS Y%d, %d(DI)", i, 64*(4*g+i)+32*half)
			}
		}
	}
	widenEnd(f, 640)
}

func widenHalves(f *file) {
	widenBegin(f, "widenHalves", "widenHalves widens panel blocks of the formats U3 and U6. If offset is not 0 the integers are less by it and there are no minimums.")
	f.scalar("offset", 14)
	f.p("VXORPS Y13, Y13, Y13")
	f.p("VCMPPS $0, Y13, Y14, Y13") // all ones if there is no offset
	for half := range 2 {
		for part := range 2 { // 16 k each
			f.p("VMOVDQA %d(SI), Y8", atHalfScales+64*part+32*half)
			f.p("VPSRAD $16, Y8, Y8")
			f.p("VCVTDQ2PS Y8, Y8")
			f.p("VMULPS %d(SI), Y8, Y8", atHalfFactor+32*half)
			f.p("VANDPS %d(SI), Y13, Y9", atHalfMins+64*part+32*half)
			for g := 4 * part; g < 4*part+4; g++ {
				eachByte(f, g, half)
				for i := range 4 {
					f.p("VSUBPS Y14, Y%d, Y%d", i, i)
					f.p("VMULPS Y8, Y%d, Y%d", i, i)
					f.p("VADDPS Y9, Y%d, Y%d", i, i)
					f.p("VMOVAPS Y%d, %d(DI)", i, 64*(4*g+i)+32*half)
				}
			}
		}
	}
	widenEnd(f, 832)
}

func widenWords(f *file) {
	widenBegin(f, "widenWords", "widenWords widens panel blocks of the format I16. offset is not used.")
	for half := range 2 {
		f.p("VMOVAPS %d(SI), Y8", 1024+32*half)
		for g := range 16 {
			f.p("VMOVDQA %d(SI), Y1", 64*g+32*half)
			f.p("VPSLLD $16, Y1, Y0")
			for i := range 2 {
				f.p("VPSRAD $16, Y%d, Y%d", i, i)
				f.p("VCVTDQ2PS Y%d, Y%d", i, i)
				f.p("VMULPS Y8, Y%d, Y%d", i, i)
				f.p("VMOVAPS Y%d, %d(DI)", i, 64*(2*g+i)+32*half)
			}
		}
	}
	widenEnd(f, 1088)
}
