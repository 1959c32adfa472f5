//go:build !noasm

package kernel

import (
	"unsafe"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/cpu"
)

// choose follows the processor and the environment. What is wrong with the latter is for the command line to say.
func choose() *set {
	if level, _ := cpu.Choose(); level >= cpu.AVX2 {
		return &avx2
	}
	return &generic
}

var avx2 = set{
	name:       "avx2",
	tile:       tileAVX2,
	tileF32:    tileF32AVX2,
	unpack:     func(t gguf.Type) func([]byte, rowBlocks) { return unpackersAVX2[t] },
	widenPanel: widenPanelAVX2,
	widen:      widenAVX2,
	transpose:  transposeAVX2,
	dot:        dotAVX2,
	wideDot:    func(t gguf.Type) func(*dotJob) { return wideDotsAVX2[t] },
	quantize:   quantizeAVX2,
	packBytes:  func(dst []byte, q []int8, columns, c int) { packAVX2(packBytes, 1, dst, q, columns, c) },
	packWords:  func(dst []byte, q []int8, columns, c int) { packAVX2(packWords, 2, dst, q, columns, c) },
	rowOps:     rowOpsAVX2,
	weigh:      func(t gguf.Type) func(*weighJob) { return weighersAVX2[t] },
	prefetch:   prefetchAVX2,
	pause:      pause,
	peakBytes: func(rounds int) int {
		peakBytes(rounds)
		return 12 * 32
	},
	peakFloats: func(rounds int) int {
		peakFloats(rounds)
		return 12 * 8
	},
	read: readAVX2,
}

type gemmFunc func(w, q *byte, s, h, y *float32, ldy int, init *float32, ldi, blocks, tiles int, ahead *byte, step int)

var gemms = [panelFormats][tileColumns + 1]gemmFunc{
	panelU4:  {nil, gemmU4x1, gemmU4x2, gemmU4x3, gemmU4x4, gemmU4x5, gemmU4x6},
	panelU5:  {nil, gemmU5x1, gemmU5x2, gemmU5x3, gemmU5x4, gemmU5x5, gemmU5x6},
	panelU3:  {nil, gemmU3x1, gemmU3x2, gemmU3x3, gemmU3x4, gemmU3x5, gemmU3x6},
	panelU6:  {nil, gemmU6x1, gemmU6x2, gemmU6x3, gemmU6x4, gemmU6x5, gemmU6x6},
	panelI16: {nil, gemmI16x1, gemmI16x2, gemmI16x3, gemmI16x4, gemmI16x5, gemmI16x6},
}

func tileAVX2(p panelFormat, t *tile) {
	t.check(p)
	ahead, step := &t.w[0], 0
	if len(t.ahead) > 0 {
		calls := t.blocks * t.tiles
		ahead, step = &t.ahead[0], (len(t.ahead)+calls-1)/calls
	}
	gemms[p][t.n](&t.w[0], &t.q[0], &t.s[0], unsafe.SliceData(t.h), &t.y[0], 4*t.ldy, &t.init[0], 4*t.ldi, t.blocks, t.tiles, ahead, step)
}

var gemmsF32 = [tileColumns + 1]func(w *float32, ldw, wstep int, x *float32, ldx, step int, y *float32, ldy int, init *float32, ldi, istep, k, panels int){
	nil, gemmF32x1, gemmF32x2, gemmF32x3, gemmF32x4, gemmF32x5, gemmF32x6,
}

func tileF32AVX2(t *tileF32) {
	t.check()
	gemmsF32[t.n](&t.w[0], 4*t.ldw, 4*t.wstep, &t.x[0], 4*t.ldx, 4*t.step, &t.y[0], 4*t.ldy, &t.init[0], 4*t.ldi, 4*t.istep, t.k, t.panels)
}

func packAVX2(f func(q, dst *byte, gap, groups int), size int, dst []byte, q []int8, columns, c int) {
	if len(q) < blockK || c < 0 || c >= columns {
		panic("kernel: column of impossible shape")
	}
	_ = dst[:size*columns*len(q)]
	f((*byte)(unsafe.Pointer(&q[0])), &dst[4*c], 4*columns, len(q)/blockK)
}

var unpackers = map[gguf.Type]func(src *byte, stride int, dst *byte, blocks int){
	gguf.Q4_0: unpackQ4_0, gguf.Q4_1: unpackQ4_1, gguf.Q5_0: unpackQ5_0, gguf.Q5_1: unpackQ5_1, gguf.Q8_0: unpackQ8_0,
	gguf.Q2_K: unpackQ2_K, gguf.Q3_K: unpackQ3_K, gguf.Q4_K: unpackQ4_K, gguf.Q5_K: unpackQ5_K, gguf.Q6_K: unpackQ6_K,
	gguf.IQ4_NL: unpackIQ4_NL, gguf.IQ4_XS: unpackIQ4_XS,
}

// perType calls make for each of the types once.
func perType[F, R any](types map[gguf.Type]F, make func(t gguf.Type, f F) R) map[gguf.Type]R {
	all := map[gguf.Type]R{}
	for t, f := range types {
		all[t] = make(t, f)
	}
	return all
}

var unpackersAVX2 = perType(unpackers, newUnpacker)

func newUnpacker(t gguf.Type, unpack func(src *byte, stride int, dst *byte, blocks int)) func(dst []byte, src rowBlocks) {
	info, _ := t.Info()
	blockBytes, panelBytes := int(info.Bytes), int(info.Block)/blockK*unpackings[t].panel.blockBytes()
	return func(dst []byte, src rowBlocks) {
		if src.blocks < 1 || src.stride < 0 {
			panic("kernel: panel of impossible shape")
		}
		_ = dst[:src.blocks*panelBytes]
		_ = src.data[:(panelRows-1)*src.stride+src.blocks*blockBytes]
		unpack(&src.data[0], src.stride, &dst[0], src.blocks)
	}
}

func widenPanelAVX2(p panelFormat, dst []float32, panel []byte, offset float32, blocks int) {
	if blocks < 1 || p == panelF32 {
		panic("kernel: panel of impossible shape")
	}
	_, _ = dst[:blocks*blockK*panelRows], panel[:blocks*p.blockBytes()]
	checkAligned(panel)
	widen := widenBytes
	switch {
	case p == panelI16:
		widen = widenWords
	case p.halves():
		widen = widenHalves
	}
	widen(&panel[0], (*byte)(unsafe.Pointer(&dst[0])), float64(offset), blocks)
}

func widenAVX2(t gguf.Type, dst []float32, src rowBlocks, k int) {
	_ = dst[:k*panelRows]
	_ = src.data[:(panelRows-1)*src.stride+k*floatCodecs[t].bytes]
	if k >= 4 {
		widen := unpackF32
		switch t {
		case gguf.F16:
			widen = unpackF16
		case gguf.BF16:
			widen = unpackBF16
		}
		widen(&src.data[0], src.stride, (*byte)(unsafe.Pointer(&dst[0])), k/4)
	}
	widenFrom(t, dst, src, k&^3, k)
}

func transposeAVX2(dst, rows []float32, k int) {
	if k == 0 {
		return
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&rows[0])), 4*len(rows))
	widenAVX2(gguf.F32, dst, rowBlocks{data: bytes, stride: 4 * k}, k)
}

type dotFunc func(w *byte, hop, stride int, q *byte, d, s *float32, k, blocks int, y *float32, ldy, yhop, ystep, rows int, ahead, later *byte, lines int)

var dotFuncs = map[gguf.Type][maxDotColumns + 1]dotFunc{
	gguf.Q4_0:   {nil, dotQ4_0x1, dotQ4_0x2, dotQ4_0x3, dotQ4_0x4},
	gguf.Q4_1:   {nil, dotQ4_1x1, dotQ4_1x2, dotQ4_1x3, dotQ4_1x4},
	gguf.Q5_0:   {nil, dotQ5_0x1, dotQ5_0x2, dotQ5_0x3, dotQ5_0x4},
	gguf.Q5_1:   {nil, dotQ5_1x1, dotQ5_1x2, dotQ5_1x3, dotQ5_1x4},
	gguf.Q8_0:   {nil, dotQ8_0x1, dotQ8_0x2, dotQ8_0x3, dotQ8_0x4},
	gguf.IQ4_NL: {nil, dotIQ4_NLx1, dotIQ4_NLx2, dotIQ4_NLx3, dotIQ4_NLx4},
}

var dotsAVX2 = perType(dotFuncs, newDot)

func dotAVX2(t gguf.Type) func(*dotJob) {
	if f := superDotsAVX2[t]; f != nil {
		return f
	}
	return dotsAVX2[t]
}

type superDotFunc func(w *byte, hop, stride int, q *byte, unit *float32, ints *int16, k, blocks int, y *float32, ldy, yhop, ystep, rows int, ahead, later *byte, lines int)

var superDotFuncs = map[gguf.Type][maxDotColumns + 1]superDotFunc{
	gguf.Q2_K:   {nil, dotQ2_Kx1, dotQ2_Kx2, dotQ2_Kx3, dotQ2_Kx4},
	gguf.Q3_K:   {nil, dotQ3_Kx1, dotQ3_Kx2, dotQ3_Kx3, dotQ3_Kx4},
	gguf.Q4_K:   {nil, dotQ4_Kx1, dotQ4_Kx2, dotQ4_Kx3, dotQ4_Kx4},
	gguf.Q5_K:   {nil, dotQ5_Kx1, dotQ5_Kx2, dotQ5_Kx3, dotQ5_Kx4},
	gguf.Q6_K:   {nil, dotQ6_Kx1, dotQ6_Kx2, dotQ6_Kx3, dotQ6_Kx4},
	gguf.IQ4_XS: {nil, dotIQ4_XSx1, dotIQ4_XSx2, dotIQ4_XSx3, dotIQ4_XSx4},
}

var superDotsAVX2 = perType(superDotFuncs, newSuperDot)

func newDot(t gguf.Type, functions [maxDotColumns + 1]dotFunc) func(*dotJob) {
	info, _ := t.Info()
	blockBytes, elements := int(info.Bytes), int(info.Block)
	return func(d *dotJob) {
		d.check(d.blocks*blockBytes, maxDotColumns)
		x := d.columnsOf(elements)
		_, _ = x.d[:d.columns*x.k/32], x.s[:d.columns*x.k/32]
		ahead, later, lines := d.asked()
		functions[d.columns](&d.data[0], d.hop, d.stride, (*byte)(unsafe.Pointer(&x.q[0])), &x.d[0], &x.s[0],
			x.k, d.blocks, &d.y[0], 4*d.ldy, 4*d.yhop, 4*d.ystep, d.rows, ahead, later, lines)
	}
}

func newSuperDot(t gguf.Type, functions [maxDotColumns + 1]superDotFunc) func(*dotJob) {
	info, _ := t.Info()
	blockBytes := int(info.Bytes)
	return func(d *dotJob) {
		d.check(d.blocks*blockBytes, maxDotColumns)
		x := d.columnsOf(superBlock)
		_, _ = x.unit[:d.columns*d.blocks*unitFloats], x.ints[:d.columns*d.blocks*unitInts]
		ahead, later, lines := d.asked()
		functions[d.columns](&d.data[0], d.hop, d.stride, (*byte)(unsafe.Pointer(&x.q[0])), &x.unit[0], &x.ints[0],
			x.k, d.blocks, &d.y[0], 4*d.ldy, 4*d.yhop, 4*d.ystep, d.rows, ahead, later, lines)
	}
}

type wideDotFunc func(w *byte, hop, stride int, x *float32, ldx, eights int, y *float32, ldy, yhop, ystep, rows int, ahead, later *byte, lines int)

var wideDotFuncs = map[gguf.Type][maxWideDotColumns + 1]wideDotFunc{
	gguf.F32:  {nil, dotF32x1, dotF32x2, dotF32x3},
	gguf.F16:  {nil, dotF16x1, dotF16x2, dotF16x3},
	gguf.BF16: {nil, dotBF16x1, dotBF16x2, dotBF16x3},
}

var wideDotsAVX2 = perType(wideDotFuncs, newWideDot)

func newWideDot(t gguf.Type, functions [maxWideDotColumns + 1]wideDotFunc) func(*dotJob) {
	codec := floatCodecs[t]
	return func(d *dotJob) {
		d.check(d.blocks*codec.bytes, maxWideDotColumns)
		_ = d.wide[:(d.columns-1)*d.ldx+d.blocks]
		whole := d.blocks &^ 7
		if whole > 0 {
			ahead, later, lines := d.asked()
			functions[d.columns](&d.data[0], d.hop, d.stride, &d.wide[0], 4*d.ldx, whole/8, &d.y[0], 4*d.ldy, 4*d.yhop, 4*d.ystep, d.rows, ahead, later, lines)
		}
		if whole == d.blocks {
			return
		}
		streams := 4
		if d.yhop == 0 {
			streams = 1
		}
		for i := range streams * d.rows * d.columns { // what is left of each row
			r, stream, c := i/streams%d.rows, i%streams, i/(streams*d.rows)
			row, y := d.data[stream*d.hop+r*d.stride:], &d.y[d.at(r, stream, c)]
			if whole == 0 {
				*y = 0
			}
			for k := whole; k < d.blocks; k++ {
				*y += float32(codec.at(row[k*codec.bytes:]) * d.wide[c*d.ldx+k])
			}
		}
	}
}

type weighFunc func(v *byte, stride int, p *float32, ldp int, y *float32, ldy, rows, count int)

var weighFuncs = map[gguf.Type][maxWeighColumns + 1]weighFunc{
	gguf.F32:  {nil, weighF32x1, weighF32x2, weighF32x3},
	gguf.F16:  {nil, weighF16x1, weighF16x2, weighF16x3},
	gguf.BF16: {nil, weighBF16x1, weighBF16x2, weighBF16x3},
	gguf.Q8_0: {nil, weighQ8_0x1, weighQ8_0x2, weighQ8_0x3},
}

var weighersAVX2 = perType(weighFuncs, newWeigher)

func newWeigher(t gguf.Type, functions [maxWeighColumns + 1]weighFunc) func(*weighJob) {
	unit, unitBytes := 32, 34
	if codec, ok := floatCodecs[t]; ok {
		unit, unitBytes = 8, 8*codec.bytes
	}
	return func(w *weighJob) {
		w.check(unit, unitBytes)
		functions[w.columns](&w.data[0], w.stride, &w.p[0], 4*w.ldp, &w.y[0], 4*w.ldy, w.rows, w.width/unit)
	}
}

func prefetchAVX2(b []byte) {
	if len(b) >= 64 {
		prefetch(&b[0], len(b)/64)
	}
}

// readAVX2 leaves a few bytes at the ends of the streams.
func readAVX2(b []byte) {
	if hop := len(b) / 4 / 256 * 256; hop > 0 {
		readStreams(&b[0], hop, hop/256)
	}
}
