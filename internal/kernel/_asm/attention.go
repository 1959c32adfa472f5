package main

import "fmt"

// maxWeighColumns is how many queries the values are read for at once.
const maxWeighColumns = 3

// weigh adds up values, rows of floats or Q8_0 blocks, each times the weight that it has for some queries. The sums of a stretch of
// elements stay in registers: eight vectors for one query, four for more.
func weigh(f *file) {
	for n := 1; n <= maxWeighColumns; n++ {
		for _, t := range floatTypes {
			weighFloats(f, t, n)
		}
		weighQ8_0(f, n)
	}
}

const weighParams = "v *byte, stride int, p *float32, ldp int, y *float32, ldy, rows, count int"

func weighBegin(f *file, t string, n int, unit string) {
	name := fmt.Sprintf("weigh%sx%d", t, n)
	f.begin(name, weighParams, 0, fmt.Sprintf("%s is y[c*ldy+i] += the sum over rows r of p[c*ldp+r] * row r's element i, for %d c and count %s.\n"+
		"Rows are stride bytes apart; ldp and ldy count bytes.", name, n, unit))
	f.arg("v", "DI")
	f.arg("stride", "R9")
	f.arg("ldp", "R10")
	f.arg("y", "DX")
	f.arg("ldy", "R8")
	f.arg("count", "BX")
}

// weightOf and sumOf are the operands of column c.
func weightOf(c int) string { return []string{"(SI)", "(SI)(R10*1)", "(SI)(R10*2)"}[c] }
func sumOf(c, offset int) string {
	return fmt.Sprintf("%d(DX)%s", offset, []string{"", "(R8*1)", "(R8*2)"}[c])
}

// weighStretch handles so many vectors of all rows. row adds the row at AX.
func weighStretch(f *file, n, vectors int, label string, row func(acc func(v, c int) int)) {
	acc := func(v, c int) int { return 4 + v*n + c }
	for c := range n {
		for v := range vectors {
			f.p("VMOVUPS %s, Y%d", sumOf(c, 32*v), acc(v, c))
		}
	}
	f.p("MOVQ DI, AX")
	f.arg("p", "SI")
	f.arg("rows", "CX")
	f.p("PCALIGN $32")
	f.label(label)
	for c := range n {
		f.p("VBROADCASTSS %s, Y%d", weightOf(c), c)
	}
	row(acc)
	f.p("ADDQ R9, AX")
	f.p("ADDQ $4, SI")
	f.p("DECQ CX")
	f.p("JNZ %s", label)
	for c := range n {
		for v := range vectors {
			f.p("VMOVUPS Y%d, %s", acc(v, c), sumOf(c, 32*v))
		}
	}
	f.p("ADDQ $%d, DX", 32*vectors)
}

func weighFloats(f *file, t floatType, n int) {
	weighBegin(f, t.name, n, "times 8 i")
	wide := 4
	if n == 1 {
		wide = 8
	}
	stretch := func(vectors int, label string) {
		weighStretch(f, n, vectors, label, func(acc func(v, c int) int) {
			for v := range vectors {
				t.load1(f, fmt.Sprintf("%d(AX)", 8*t.bytes*v), 3)
				for c := range n {
					f.p("VFMADD231PS Y%d, Y3, Y%d", c, acc(v, c))
				}
			}
		})
		f.p("ADDQ $%d, DI", 8*t.bytes*vectors)
	}
	f.p("SUBQ $%d, BX", wide)
	f.p("JLT rest")
	f.label("many")
	stretch(wide, "manyRows")
	f.p("SUBQ $%d, BX", wide)
	f.p("JGE many")
	f.label("rest")
	f.p("ADDQ $%d, BX", wide)
	f.p("JZ done")
	f.label("one")
	stretch(1, "oneRows")
	f.p("DECQ BX")
	f.p("JNZ one")
	f.label("done")
	f.end()
}

func weighQ8_0(f *file, n int) {
	weighBegin(f, "Q8_0", n, "blocks of 32 i")
	f.label("many")
	weighStretch(f, n, 4, "manyRows", func(acc func(v, c int) int) {
		f.p("VPBROADCASTW (AX), X3")
		f.p("VCVTPH2PS X3, Y3")
		for c := range n {
			f.p("VMULPS Y3, Y%d, Y%d", c, c)
		}
		for v := range 4 {
			f.p("VPMOVSXBD %d(AX), Y3", 2+8*v)
			f.p("VCVTDQ2PS Y3, Y3")
			for c := range n {
				f.p("VFMADD231PS Y%d, Y3, Y%d", c, acc(v, c))
			}
		}
	})
	f.p("ADDQ $34, DI")
	f.p("DECQ BX")
	f.p("JNZ many")
	f.end()
}
