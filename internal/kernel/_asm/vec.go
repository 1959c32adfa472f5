package main

import (
	"fmt"
	"math"
)

// Operations on rows of float32, eight elements at a time.

// single is a constant with the same float32 in all lanes.
func (f *file) single(name string, v float32) string {
	return f.constant(name, dwordsOf(func(int) uint32 { return math.Float32bits(v) })...)
}

// loop writes a function over vectors: start loads what does not change, body takes the vectors that the pointers (SI: x, DI: dst) are
// at.
func (f *file) loop(name, params, doc string, start, body, finish func()) {
	f.begin(name, params, 0, doc)
	pointers := []struct{ param, register string }{{"x", "SI"}, {"dst", "DI"}}
	for _, p := range pointers {
		if _, ok := f.params[p.param]; ok {
			f.arg(p.param, p.register)
		}
	}
	f.arg("eights", "CX")
	if start != nil {
		start()
	}
	f.p("PCALIGN $32")
	f.label("next")
	body()
	for _, p := range pointers {
		if _, ok := f.params[p.param]; ok {
			f.p("ADDQ $32, %s", p.register)
		}
	}
	f.p("DECQ CX")
	f.p("JNZ next")
	if finish != nil {
		finish()
	}
	f.end()
}

// scalar loads a float64 parameter as float32 into all lanes.
func (f *file) scalar(param string, to int) {
	f.p("VMOVSD %s, X%d", f.param(param), to)
	f.p("VCVTSD2SS X%d, X%d, X%d", to, to, to)
	f.p("VBROADCASTSS X%d, Y%d", to, to)
}

func vectors(f *file) {
	elementwise(f)
	sums(f)
	softmax(f)
	activationFunctions(f)
	softcap(f)
	rope(f)
	quantize(f)
	quantizeUnits(f)
	pack(f)
	convert(f)
	search(f)
}

func elementwise(f *file) {
	for _, op := range []struct{ name, instruction, doc string }{
		{"addRow", "VADDPS", "addRow is dst += x."},
		{"mulRow", "VMULPS", "mulRow is dst *= x."},
	} {
		f.loop(op.name, "dst, x *float32, eights int", op.doc, nil, func() {
			f.p("VMOVUPS (DI), Y0")
			f.p("%s (SI), Y0, Y0", op.instruction)
			f.p("VMOVUPS Y0, (DI)")
		}, nil)
	}
	f.loop("scaleRow", "dst, x *float32, scale float64, eights int", "scaleRow is dst = x * scale.", func() { f.scalar("scale", 1) }, func() {
		f.p("VMULPS (SI), Y1, Y0")
		f.p("VMOVUPS Y0, (DI)")
	}, nil)
	f.loop("normalizeRow", "dst, x *float32, mean, scale float64, eights int", "normalizeRow is dst = (x - mean) * scale in float64.", func() {
		f.p("VBROADCASTSD %s, Y2", f.param("mean"))
		f.p("VBROADCASTSD %s, Y3", f.param("scale"))
	}, func() {
		for half := range 2 {
			f.p("VCVTPS2PD %d(SI), Y0", 16*half)
			f.p("VSUBPD Y2, Y0, Y0")
			f.p("VMULPD Y3, Y0, Y0")
			f.p("VCVTPD2PSY Y0, X0")
			f.p("VMOVUPS X0, %d(DI)", 16*half)
		}
	}, nil)
}

// sums add in float64, 8 sums side by side.
func sums(f *file) {
	for _, op := range []struct {
		name, params, doc string
		start             func()
		add               func(half int)
	}{
		{"sumRow", "x *float32, sum *float64, eights int", "sumRow sets *sum to the sum of x.", nil, func(half int) {
			f.p("VADDPD Y0, Y%d, Y%d", 4+half, 4+half)
		}},
		{"sumSquares", "x *float32, sum *float64, eights int", "sumSquares sets *sum to the sum of x*x.", nil, func(half int) {
			f.p("VFMADD231PD Y0, Y0, Y%d", 4+half)
		}},
		{"sumDeviations", "x *float32, mean float64, sum *float64, eights int", "sumDeviations sets *sum to the sum of (x-mean)*(x-mean).",
			func() { f.p("VBROADCASTSD %s, Y2", f.param("mean")) }, func(half int) {
				f.p("VSUBPD Y2, Y0, Y0")
				f.p("VFMADD231PD Y0, Y0, Y%d", 4+half)
			}},
	} {
		f.loop(op.name, op.params, op.doc, func() {
			if op.start != nil {
				op.start()
			}
			f.p("VXORPD Y4, Y4, Y4")
			f.p("VXORPD Y5, Y5, Y5")
		}, func() {
			for half := range 2 {
				f.p("VCVTPS2PD %d(SI), Y0", 16*half)
				op.add(half)
			}
		}, func() { storeSum(f) })
	}
}

// storeSum adds up Y4 and Y5 and stores the sum.
func storeSum(f *file) {
	f.p("VADDPD Y5, Y4, Y4")
	f.p("VEXTRACTF128 $1, Y4, X5")
	f.p("VADDPD X5, X4, X4")
	f.p("VHADDPD X4, X4, X4")
	f.arg("sum", "AX")
	f.p("VMOVSD X4, (AX)")
}

// exp replaces Yx by its exponential, using Yx+1 to Yx+4; see expGeneric. For x that is never above 88 over is false.
func exp(f *file, x int, over bool) {
	n, p, under, above := x+1, x+2, x+3, x+4
	if over {
		f.p("VMOVUPS %s, Y%d", f.single("expHighest", 88.72), n)
		f.p("VCMPPS $1, Y%d, Y%d, Y%d", x, n, above)
		f.p("VANDPS %s, Y%d, Y%d", f.single("infinity", float32(math.Inf(1))), above, above)
		f.p("VMINPS Y%d, Y%d, Y%d", x, n, x) // x where it is NaN
	}
	f.p("VCMPPS $1, %s, Y%d, Y%d", f.single("expLowest", -87.33), x, under)
	f.p("VMULPS %s, Y%d, Y%d", f.single("log2e", math.Log2E), x, n)
	f.p("VROUNDPS $0, Y%d, Y%d", n, n)
	f.p("VFNMADD231PS %s, Y%d, Y%d", f.single("ln2High", 0x1.62ep-1), n, x)
	f.p("VFNMADD231PS %s, Y%d, Y%d", f.single("ln2Low", float32(math.Ln2-0x1.62ep-1)), n, x)
	f.p("VCVTPS2DQ Y%d, Y%d", n, n)
	f.p("VPSLLD $23, Y%d, Y%d", n, n)
	f.p("VMOVUPS %s, Y%d", f.single("exp6", 0x1.6a241ap-10), p)
	for i, c := range []float32{0x1.1239f2p-7, 0x1.5558f2p-5, 0x1.555492p-3, 0x1.fffffcp-2} {
		f.p("VFMADD213PS %s, Y%d, Y%d", f.single(fmt.Sprintf("exp%d", 5-i), c), x, p)
	}
	f.p("VMULPS Y%d, Y%d, Y%d", x, p, p)
	f.p("VFMADD213PS Y%d, Y%d, Y%d", x, x, p) // p*x*x + x
	f.p("VADDPS %s, Y%d, Y%d", f.single("one", 1), p, p)
	f.p("VPADDD Y%d, Y%d, Y%d", n, p, p)
	if over {
		f.p("VMAXPS Y%d, Y%d, Y%d", p, above, p) // p where it is NaN
	}
	f.p("VANDNPS Y%d, Y%d, Y%d", p, under, x)
}

func softmax(f *file) {
	f.loop("scaleMax", "x *float32, scale float64, top *float32, eights int", "scaleMax is x *= scale; *top becomes the largest x.", func() {
		f.scalar("scale", 1)
		f.p("VMOVUPS %s, Y2", f.single("minusInfinity", float32(math.Inf(-1))))
	}, func() {
		f.p("VMULPS (SI), Y1, Y0")
		f.p("VMOVUPS Y0, (SI)")
		f.p("VMAXPS Y2, Y0, Y2") // Y2 where Y0 is NaN
	}, func() { storeMax(f) })
	f.loop("expSum", "x *float32, top float64, sum *float64, eights int",
		"expSum is x = exp(x - top) for x that is not above top; *sum becomes the sum of the results, added as float32 in 8 parts.", func() {
			f.scalar("top", 8)
			f.p("VXORPS Y9, Y9, Y9")
		}, func() {
			f.p("VMOVUPS (SI), Y0")
			f.p("VSUBPS Y8, Y0, Y0")
			exp(f, 0, false)
			f.p("VMOVUPS Y0, (SI)")
			f.p("VADDPS Y0, Y9, Y9")
		}, func() {
			f.p("VEXTRACTF128 $1, Y9, X1")
			f.p("VCVTPS2PD X9, Y4")
			f.p("VCVTPS2PD X1, Y5")
			storeSum(f)
		})
}

// storeMax stores the largest lane of Y2.
func storeMax(f *file) {
	f.p("VEXTRACTF128 $1, Y2, X3")
	f.p("VMAXPS X3, X2, X2")
	f.p("VPERMILPS $0x4E, X2, X3")
	f.p("VMAXPS X3, X2, X2")
	f.p("VPERMILPS $0xB1, X2, X3")
	f.p("VMAXPS X3, X2, X2")
	f.arg("top", "AX")
	f.p("VMOVSS X2, (AX)")
}

func activationFunctions(f *file) {
	const params = "dst, x *float32, eights int"
	negate := func(from, to int) {
		f.p("VXORPS %s, Y%d, Y%d", f.constant("sign", repeat(4, 0x8000000080000000)...), from, to)
	}
	// logistic is dst = x / (1 + exp(y)), x in Y8 and y in Y0.
	logistic := func() {
		exp(f, 0, true)
		f.p("VADDPS %s, Y0, Y0", f.single("one", 1))
		f.p("VDIVPS Y0, Y8, Y0")
		f.p("VMOVUPS Y0, (DI)")
	}
	f.loop("siluRow", params, "siluRow is dst = x / (1 + exp(-x)).", nil, func() {
		f.p("VMOVUPS (SI), Y8")
		negate(8, 0)
		logistic()
	}, nil)
	f.loop("geluTanhRow", params, "geluTanhRow is dst = x/2 * (1 + tanh(c*(x + 0.044715*x*x*x))) with c = sqrt(2/pi).", nil, func() {
		// 1 + tanh(u) = 2 / (1 + exp(-2u))
		f.p("VMOVUPS (SI), Y8")
		f.p("VMULPS Y8, Y8, Y0")
		f.p("VMOVUPS %s, Y1", f.single("geluCubic", float32(-2*0.044715*math.Sqrt(2/math.Pi))))
		f.p("VFMADD213PS %s, Y1, Y0", f.single("geluLinear", float32(-2*math.Sqrt(2/math.Pi))))
		f.p("VMULPS Y8, Y0, Y0")
		logistic()
	}, nil)
	f.loop("geluRow", params, "geluRow is dst = x * (the share of the standard normal distribution below x), see geluGeneric.", nil, func() {
		f.p("VMOVUPS (SI), Y8")
		f.p("VANDPS %s, Y8, Y9", f.constant("magnitude", repeat(4, 0x7fffffff7fffffff)...))
		f.p("VMULPS Y8, Y8, Y0")
		f.p("VMULPS %s, Y0, Y0", f.single("minusHalf", -0.5))
		exp(f, 0, false)
		f.p("VMOVUPS %s, Y10", f.single("one", 1))
		f.p("VMOVUPS Y10, Y11")
		f.p("VFMADD231PS %s, Y9, Y10", f.single("tailScale", 0.3))
		f.p("VDIVPS Y10, Y11, Y10") // t
		f.p("VMULPS Y10, Y0, Y0")
		f.p("VMOVUPS %s, Y1", f.single("tail7", tail[7]))
		for i := 6; i >= 0; i-- {
			f.p("VFMADD213PS %s, Y10, Y1", f.single(fmt.Sprintf("tail%d", i), tail[i]))
		}
		f.p("VMULPS Y1, Y0, Y0") // the share beyond |x|
		f.p("VSUBPS Y0, Y11, Y1")
		f.p("VCMPPS $14, %s, Y8, Y2", f.single("zero", 0)) // x > 0
		f.p("VBLENDVPS Y2, Y1, Y0, Y0")
		f.p("VMULPS Y8, Y0, Y0")
		f.p("VMOVUPS Y0, (DI)")
	}, nil)
}

// softcap is cap * tanh(x/cap): a fraction where |x/cap| < 0.75, else by the exponential.
func softcap(f *file) {
	f.loop("softcapRow", "dst, x *float32, cap, inverse float64, eights int", "softcapRow is dst = cap * tanh(x*inverse).", func() {
		f.scalar("cap", 12)
		f.scalar("inverse", 13)
	}, func() {
		f.p("VMULPS (SI), Y13, Y8")
		f.p("VADDPS Y8, Y8, Y0")
		exp(f, 0, true)
		f.p("VMOVUPS %s, Y11", f.single("one", 1))
		f.p("VADDPS Y11, Y0, Y0")
		f.p("VMOVUPS %s, Y1", f.single("two", 2))
		f.p("VDIVPS Y0, Y1, Y0")
		f.p("VSUBPS Y0, Y11, Y0") // 1 - 2/(exp(2x)+1)
		f.note("x (945 + 105 x^2 + x^4) / (945 + 420 x^2 + 15 x^4)")
		f.p("VMULPS Y8, Y8, Y9")
		f.p("VADDPS %s, Y9, Y10", f.single("tanh105", 105))
		f.p("VFMADD213PS %s, Y9, Y10", f.single("tanh945", 945))
		f.p("VMULPS Y8, Y10, Y10")
		f.p("VMOVUPS %s, Y1", f.single("tanh15", 15))
		f.p("VFMADD213PS %s, Y9, Y1", f.single("tanh420", 420))
		f.p("VFMADD213PS %s, Y9, Y1", f.single("tanh945", 945))
		f.p("VDIVPS Y1, Y10, Y10")
		f.p("VANDPS %s, Y8, Y9", f.constant("magnitude", repeat(4, 0x7fffffff7fffffff)...))
		f.p("VCMPPS $1, %s, Y9, Y9", f.single("tanhSmall", 0.75))
		f.p("VBLENDVPS Y9, Y10, Y0, Y0")
		f.p("VMULPS Y12, Y0, Y0")
		f.p("VMOVUPS Y0, (DI)")
	}, nil)
}

// tail is the polynomial in t = 1/(1+0.3x) of (share of the standard normal distribution beyond x) / (t exp(-x*x/2)), x >= 0: fitted for
// the smallest relative error, 1.3e-7.
var tail = [8]float32{0.11962517211121801, 0.12081679354334965, 0.09952366545193167, 0.12984148105425242,
	-0.056092328067042535, 0.20896085580179502, -0.15871152083321177, 0.03603581999524727}

// rope rounds every product before it is added, as the portable form does.
func rope(f *file) {
	f.begin("ropeHalves", "x *float32, gap int, cos, sin *float32, eights int", 0,
		"ropeHalves turns pairs of elements that are gap bytes apart; eights counts pairs.")
	f.arg("x", "SI")
	f.arg("gap", "R8")
	f.arg("cos", "R9")
	f.arg("sin", "R10")
	f.arg("eights", "CX")
	f.label("next")
	f.p("VMOVUPS (SI), Y0")
	f.p("VMOVUPS (SI)(R8*1), Y1")
	f.p("VMOVUPS (R9), Y2")
	f.p("VMOVUPS (R10), Y3")
	f.p("VMULPS Y2, Y0, Y4")
	f.p("VMULPS Y3, Y1, Y5")
	f.p("VMULPS Y3, Y0, Y0")
	f.p("VMULPS Y2, Y1, Y1")
	f.p("VSUBPS Y5, Y4, Y4")
	f.p("VADDPS Y1, Y0, Y0")
	f.p("VMOVUPS Y4, (SI)")
	f.p("VMOVUPS Y0, (SI)(R8*1)")
	for _, r := range []string{"SI", "R9", "R10"} {
		f.p("ADDQ $32, %s", r)
	}
	f.p("DECQ CX")
	f.p("JNZ next")
	f.end()

	f.begin("ropeAdjacent", "x, cos, sin *float32, fours int", 0, "ropeAdjacent turns pairs of neighbours; fours counts pairs.")
	f.arg("x", "SI")
	f.arg("cos", "R9")
	f.arg("sin", "R10")
	f.arg("fours", "CX")
	f.p("VMOVUPS %s, Y7", f.constant("twice", dwordsOf(func(i int) uint32 { return uint32(i / 2) })...))
	f.label("next")
	f.p("VMOVUPS (SI), Y0")
	f.p("VMOVUPS (R9), X2")
	f.p("VMOVUPS (R10), X3")
	f.p("VPERMPS Y2, Y7, Y2")
	f.p("VPERMPS Y3, Y7, Y3")
	f.p("VPERMILPS $0xB1, Y0, Y1")
	f.p("VMULPS Y2, Y0, Y0")
	f.p("VMULPS Y3, Y1, Y1")
	f.p("VADDSUBPS Y1, Y0, Y0")
	f.p("VMOVUPS Y0, (SI)")
	f.p("ADDQ $32, SI")
	f.p("ADDQ $16, R9")
	f.p("ADDQ $16, R10")
	f.p("DECQ CX")
	f.p("JNZ next")
	f.end()
}

// convert is between float32 and the types of 16 bits. The pointer to 16 bits moves by half as much.
func convert(f *file) {
	for _, t := range floatTypes[1:] {
		f.begin("decode"+t.name, "dst *float32, src *byte, eights int", 0, "decode"+t.name+" widens "+t.name+" to float32.")
		f.arg("dst", "DI")
		f.arg("src", "SI")
		f.arg("eights", "CX")
		f.label("next")
		t.load1(f, "(SI)", 0)
		f.p("VMOVUPS Y0, (DI)")
		f.p("ADDQ $16, SI")
		f.p("ADDQ $32, DI")
		f.p("DECQ CX")
		f.p("JNZ next")
		f.end()
	}
	encode := func(name, doc string, body func()) {
		f.begin(name, "dst *byte, x *float32, eights int", 0, doc)
		f.arg("dst", "DI")
		f.arg("x", "SI")
		f.arg("eights", "CX")
		f.label("next")
		f.p("VMOVUPS (SI), Y0")
		f.p("VCMPPS $3, Y0, Y0, Y1") // NaN
		body()
		f.p("VMOVUPS X0, (DI)")
		f.p("ADDQ $32, SI")
		f.p("ADDQ $16, DI")
		f.p("DECQ CX")
		f.p("JNZ next")
		f.end()
	}
	encode("encodeF16", "encodeF16 rounds float32 to F16, to nearest, ties to even; a NaN becomes 0x7e00 with its sign.", func() {
		f.p("VCVTPS2PH $0, Y0, X0")
		f.p("VEXTRACTF128 $1, Y1, X2")
		f.p("VPACKSSDW X2, X1, X1")
		f.p("VPAND %s, X1, X1", f.constant("payload16", repeat(4, 0x01ff01ff01ff01ff)...))
		f.p("VPANDN X0, X1, X0")
	})
	encode("encodeBF16", "encodeBF16 rounds float32 to BF16, to nearest, ties to even; a NaN is made quiet.", func() {
		f.p("VPSRLD $16, Y0, Y2")
		f.p("VPAND %s, Y2, Y2", f.constant("ones32", repeat(4, 0x0000000100000001)...))
		f.p("VPADDD %s, Y2, Y2", f.constant("justUnderHalf", repeat(4, 0x00007fff00007fff)...))
		f.p("VPADDD Y0, Y2, Y2")
		f.p("VPOR %s, Y0, Y0", f.constant("quiet", repeat(4, 0x0040000000400000)...))
		f.p("VBLENDVPS Y1, Y0, Y2, Y0")
		f.p("VPSRLD $16, Y0, Y0")
		f.p("VEXTRACTI128 $1, Y0, X1")
		f.p("VPACKUSDW X1, X0, X0")
	})
}

// search is for large vocabularies.
func search(f *file) {
	f.loop("maxRow", "x *float32, top *float32, eights int", "maxRow sets *top to the largest x, or to NaN if one is.", func() {
		f.p("VMOVUPS %s, Y2", f.single("minusInfinity", float32(math.Inf(-1))))
		f.p("VXORPS Y4, Y4, Y4")
	}, func() {
		f.p("VMOVUPS (SI), Y0")
		f.p("VMAXPS Y2, Y0, Y2")
		f.p("VCMPPS $3, Y0, Y0, Y0")
		f.p("VORPS Y0, Y4, Y4")
	}, func() {
		storeMax(f)
		f.p("VMOVMSKPS Y4, CX")
		f.p("TESTQ CX, CX")
		f.p("JZ numbers")
		f.p("MOVL $0x7fc00000, (AX)")
		f.label("numbers")
	})
	f.begin("atLeastRow", "x *float32, threshold float64, mask *byte, eights int", 0,
		"atLeastRow writes a byte for 8 elements each, in which bit i says that element i is at least the threshold.")
	f.arg("x", "SI")
	f.arg("mask", "DI")
	f.arg("eights", "CX")
	f.scalar("threshold", 1)
	f.label("next")
	f.p("VMOVUPS (SI), Y0")
	f.p("VCMPPS $13, Y1, Y0, Y0") // at least, false for NaN
	f.p("VMOVMSKPS Y0, AX")
	f.p("MOVB AX, (DI)")
	f.p("ADDQ $32, SI")
	f.p("INCQ DI")
	f.p("DECQ CX")
	f.p("JNZ next")
	f.end()
}
