package main

// memory writes what is about waiting and reading.
func memory(f *file) {
	f.begin("prefetch", "b *byte, lines int", 0, "prefetch asks for 64-byte lines in the second-level cache.")
	f.arg("b", "AX")
	f.arg("lines", "CX")
	f.label("next")
	f.p("PREFETCHT1 (AX)")
	f.p("ADDQ $64, AX")
	f.p("DECQ CX")
	f.p("JNZ next")
	f.p("RET")

	f.begin("pause", "", 0, "pause tells the processor that this is a loop that waits.")
	f.p("PAUSE")
	f.p("RET")

	f.begin("readStreams", "b *byte, hop, pieces int", 0, "readStreams reads pieces of 256 bytes from each of four places that are hop bytes apart.")
	f.arg("b", "SI")
	f.arg("hop", "R9")
	f.arg("pieces", "CX")
	f.p("LEAQ (R9)(R9*2), R10")
	for i := range 4 {
		f.p("VPXOR Y%d, Y%d, Y%d", i, i, i)
	}
	f.label("next")
	for stream, index := range []string{"", "(R9*1)", "(R9*2)", "(R10*1)"} {
		for i := range 8 {
			f.p("VPOR %d(SI)%s, Y%d, Y%d", 32*i, index, stream, stream)
		}
	}
	f.p("ADDQ $256, SI")
	f.p("DECQ CX")
	f.p("JNZ next")
	f.end()

	for _, peak := range []struct{ name, instruction, doc string }{
		{"peakBytes", "VPMADDUBSW", "peakBytes multiplies 12 * 32 pairs of bytes in each of n rounds and adds neighbours."},
		{"peakFloats", "VFMADD231PS", "peakFloats multiplies and adds 12 * 8 pairs of float32 in each of n rounds."},
	} {
		f.begin(peak.name, "n int", 0, peak.doc)
		f.arg("n", "CX")
		for i := range 14 {
			f.p("VXORPS Y%d, Y%d, Y%d", i, i, i)
		}
		f.p("PCALIGN $32")
		f.label("next")
		for i := range 12 {
			f.p("%s Y12, Y13, Y%d", peak.instruction, i)
		}
		f.p("DECQ CX")
		f.p("JNZ next")
		f.end()
	}
}
