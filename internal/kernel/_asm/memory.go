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
}
