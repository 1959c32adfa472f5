package main

// pack spreads one column of a tile of activations: the tile has 4 bytes of every column, then the next 4 of every column, and so on.
func pack(f *file) {
	f.begin("packBytes", "q, dst *byte, gap, groups int", 0,
		"packBytes copies groups of 32 bytes, 4 bytes at a time, to places that are gap bytes apart.")
	packBegin(f)
	for i := range 4 {
		f.p("MOVQ %d(SI), %s", 8*i, []string{"AX", "BX", "R12", "R13"}[i])
	}
	for i, r := range []string{"AX", "BX", "R12", "R13"} {
		storeTwo(f, r, 2*i)
	}
	packEnd(f, 32)

	f.begin("packWords", "q, dst *byte, gap, groups int", 0,
		"packWords widens groups of 32 signed bytes to 16 bits and copies them, 2 at a time, to places that are gap bytes apart.")
	packBegin(f)
	for half := range 2 {
		for i := range 2 {
			f.p("VPMOVSXBW %d(SI), X%d", 16*half+8*i, i)
			f.p("VMOVQ X%d, %s", i, []string{"AX", "R12"}[i])
			f.p("VPEXTRQ $1, X%d, %s", i, []string{"BX", "R13"}[i])
		}
		for i, r := range []string{"AX", "BX", "R12", "R13"} {
			storeTwo(f, r, 2*i)
		}
		if half == 0 {
			f.p("LEAQ (DI)(R9*8), DI")
		}
	}
	packEnd(f, 32)
}

// packBegin loads the arguments: R9 is the gap, R10 three times, R11 five times and DX seven times that.
func packBegin(f *file) {
	f.arg("q", "SI")
	f.arg("dst", "DI")
	f.arg("gap", "R9")
	f.arg("groups", "CX")
	f.p("LEAQ (R9)(R9*2), R10")
	f.p("LEAQ (R9)(R9*4), R11")
	f.p("LEAQ (R10)(R9*4), DX")
	f.label("group")
}

// storeTwo stores the halves of a register at places i and i+1.
func storeTwo(f *file, register string, i int) {
	places := []string{"(DI)", "(DI)(R9*1)", "(DI)(R9*2)", "(DI)(R10*1)", "(DI)(R9*4)", "(DI)(R11*1)", "(DI)(R10*2)", "(DI)(DX*1)"}
	f.p("MOVL %s, %s", register, places[i])
	f.p("SHRQ $32, %s", register)
	f.p("MOVL %s, %s", register, places[i+1])
}

func packEnd(f *file, bytes int) {
	f.p("ADDQ $%d, SI", bytes)
	f.p("LEAQ (DI)(R9*8), DI")
	f.p("DECQ CX")
	f.p("JNZ group")
	f.end()
}
