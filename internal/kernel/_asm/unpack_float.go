package main

import "fmt"

// floatType is a type of 16 or 32 bits whose elements are widened one by one.
type floatType struct {
	name  string
	bytes int
	// load8 puts 4 elements of each of two places into the lanes of Yto as float32.
	load8 func(f *file, low, high string, to int)
	// load1 widens the 8 elements at a place into Yto.
	load1 func(f *file, at string, to int)
}

var floatTypes = []floatType{
	{"F32", 4, func(f *file, low, high string, to int) {
		f.p("VMOVUPS %s, X%d", low, to)
		f.p("VINSERTF128 $1, %s, Y%d, Y%d", high, to, to)
	}, func(f *file, at string, to int) {
		f.p("VMOVUPS %s, Y%d", at, to)
	}},
	{"F16", 2, func(f *file, low, high string, to int) {
		loadPair(f, low, high, to)
		f.p("VCVTPH2PS X%d, Y%d", to, to)
	}, func(f *file, at string, to int) {
		f.p("VCVTPH2PS %s, Y%d", at, to)
	}},
	{"BF16", 2, func(f *file, low, high string, to int) {
		loadPair(f, low, high, to)
		f.p("VPMOVZXWD X%d, Y%d", to, to)
		f.p("VPSLLD $16, Y%d, Y%d", to, to)
	}, func(f *file, at string, to int) {
		f.p("VPMOVZXWD %s, Y%d", at, to)
		f.p("VPSLLD $16, Y%d, Y%d", to, to)
	}},
}

// loadPair puts 8 bytes of each of two places into Xto.
func loadPair(f *file, low, high string, to int) {
	f.p("VMOVQ %s, X%d", low, to)
	f.p("VMOVHPS %s, X%d, X%d", high, to, to)
}

// unpackFloat writes the panel of 16 rows as [k][16 rows] float32. It takes whole cache lines of 8 rows, since rows are often a multiple of
// 4096 bytes apart, and then more than 8 of their lines do not fit the first-level cache at once.
func unpackFloat(f *file, t floatType) {
	name := "unpack" + t.name
	f.begin(name, "src *byte, stride int, dst *byte, fours int", 0, fmt.Sprintf(
		"%s widens 4*fours elements of 16 rows, stride bytes apart, to a panel of float32: [4*fours][16 rows].", name))
	f.arg("src", "R8")
	f.arg("stride", "R9")
	f.arg("dst", "DI")
	f.arg("fours", "CX")
	f.p("LEAQ (R9)(R9*2), R10")
	step := func(fours int) {
		f.p("MOVQ R8, AX")
		for half := range 2 {
			f.p("LEAQ (AX)(R9*4), R11")
			for i := range fours {
				for r := range 4 {
					t.load8(f, row(r, 4*t.bytes*i), row(r+4, 4*t.bytes*i), r)
				}
				transpose4(f)
				for k := range 4 {
					f.p("VMOVAPS Y%d, %d(DI)", k, 256*i+64*k+32*half)
				}
			}
			if half == 0 {
				f.p("LEAQ (AX)(R9*8), AX")
			}
		}
		f.p("ADDQ $%d, R8", 4*t.bytes*fours)
		f.p("ADDQ $%d, DI", 256*fours)
	}
	line := 64 / (4 * t.bytes)
	f.p("SUBQ $%d, CX", line)
	f.p("JLT rest")
	f.label("line")
	step(line)
	f.p("SUBQ $%d, CX", line)
	f.p("JGE line")
	f.label("rest")
	f.p("ADDQ $%d, CX", line)
	f.p("JZ done")
	f.label("four")
	step(1)
	f.p("DECQ CX")
	f.p("JNZ four")
	f.label("done")
	f.end()
}
