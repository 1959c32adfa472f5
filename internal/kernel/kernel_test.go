package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/half"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// halvesAt are the offsets of the float16 fields of a block.
var halvesAt = map[gguf.Type][]int{
	gguf.Q4_0: {0}, gguf.Q4_1: {0, 2}, gguf.Q5_0: {0}, gguf.Q5_1: {0, 2}, gguf.Q8_0: {0},
	gguf.Q4_K: {0, 2}, gguf.Q5_K: {0, 2}, gguf.Q6_K: {208},
	gguf.Q2_K: {80, 82}, gguf.Q3_K: {108}, gguf.IQ4_NL: {0}, gguf.IQ4_XS: {0},
}

// quantizedTypes are the types with integer kernels, in a fixed order.
func quantizedTypes() []gguf.Type {
	var types []gguf.Type
	for t := range unpackings {
		types = append(types, t)
	}
	slices.Sort(types)
	return types
}

var floatTypes = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16}

// fill makes b random blocks of type t: any integers, scales of ordinary size.
func fill(r *rand.Rand, t gguf.Type, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	switch t {
	case gguf.F32:
		for i := 0; i+4 <= len(b); i += 4 {
			putF32At(b[i:], float32(r.NormFloat64()))
		}
	case gguf.F16:
		for i := 0; i+2 <= len(b); i += 2 {
			binary.LittleEndian.PutUint16(b[i:], half.F32ToF16(float32(r.NormFloat64())))
		}
	case gguf.BF16:
		for i := 0; i+2 <= len(b); i += 2 {
			binary.LittleEndian.PutUint16(b[i:], half.F32ToBF16(float32(r.NormFloat64())))
		}
	}
	info, _ := t.Info()
	for at := 0; at+int(info.Bytes) <= len(b); at += int(info.Bytes) {
		for _, off := range halvesAt[t] {
			binary.LittleEndian.PutUint16(b[at+off:], half.F32ToF16(float32(r.NormFloat64())/64))
		}
	}
}

// normals are n normally distributed numbers.
func normals(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// floatsIn is b as floats; its start is a multiple of 4.
func floatsIn(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// guardedFloats are n floats in front of memory that cannot be touched.
func guardedFloats(tb testing.TB, x []float32) []float32 {
	tb.Helper()
	if len(x) == 0 {
		return x
	}
	g := floatsIn(guarded(tb, 4*len(x)))
	copy(g, x)
	return g
}

// decoded is the rows of a matrix in float32.
func decoded(t *testing.T, m *Matrix) []float32 {
	t.Helper()
	w := make([]float32, m.rows*m.k)
	for r := range m.rows {
		m.Row(w[r*m.k:], r)
	}
	return w
}

func quantized(x []float32, units bool) *block.Activations {
	var a block.Activations
	if units {
		a.QuantizeUnits(x)
	} else {
		a.Quantize(x)
	}
	return &a
}

// widened is what the 8-bit activations of x stand for.
func widened(x []float32, units bool) []float32 {
	a := quantized(x, units)
	y := make([]float32, len(x))
	for i, q := range a.Q {
		y[i] = float32(q) * a.Scale[i/32]
	}
	return y
}

// product is the sum of w*x, and that of the magnitudes, in float64.
func product(w, x []float32) (sum, magnitude float64) {
	for i, v := range w {
		p := float64(v) * float64(x[i])
		sum += p
		magnitude += math.Abs(p)
	}
	return sum, magnitude
}

func TestUnpackEqualsTwin(t *testing.T) {
	for _, s := range assembled() {
		for _, typ := range quantizedTypes() {
			r := newRand(uint64(typ))
			info, _ := typ.Info()
			u := unpackings[typ]
			groups := int(info.Block) / blockK
			for blocks := 1; blocks <= 5; blocks++ {
				for _, gap := range []int{0, 1, 7} {
					row := blocks * int(info.Bytes)
					stride := row + gap
					data := guarded(t, 15*stride+row)
					fill(r, typ, data)
					src := rowBlocks{data: data, stride: stride, blocks: blocks}
					size := blocks * groups * u.panel.blockBytes()
					want, got := alignedBytes(size), guarded(t, size) // a multiple of 64: aligned
					unpackGeneric(typ)(want, src)
					s.unpack(typ)(got, src)
					for i := range want {
						if want[i] != got[i] {
							t.Fatalf("%s %s, %d blocks, gap %d: byte %d of block %d is %d, want %d", s.name, typ, blocks, gap,
								i%u.panel.blockBytes(), i/u.panel.blockBytes(), got[i], want[i])
						}
					}
				}
			}
		}
	}
}

// TestUnpackMatchesDecode holds the portable unpackers against the decoders.
func TestUnpackMatchesDecode(t *testing.T) {
	for _, typ := range quantizedTypes() {
		r := newRand(uint64(typ))
		info, _ := typ.Info()
		codec, _ := block.ForType(typ)
		b := make([]byte, info.Bytes)
		want := make([]float32, info.Block)
		var e exploded
		for range 50 {
			fill(r, typ, b)
			codec.Decode(want, b)
			unpackings[typ].explode(b, &e)
			for i, w := range want {
				got := float64(e.q[i]) * float64(e.factor[i/32])
				lowest := float64(e.min[i/32])
				if p := unpackings[typ].panel; p.halves() {
					got, lowest = got*float64(e.scale[i/16]), float64(e.min[i/16])
				} else if p == panelI16 {
					lowest = 0
				}
				if math.Abs(got+lowest-float64(w)) > 1e-6*(math.Abs(got)+math.Abs(lowest)) {
					t.Fatalf("%s: element %d is %g, want %g", typ, i, got+lowest, w)
				}
			}
		}
	}
}

// TestWidenPanelEqualsDecode: a widened panel has the bits of the decoder.
func TestWidenPanelEqualsDecode(t *testing.T) {
	for _, s := range assembled() {
		for _, typ := range quantizedTypes() {
			r := newRand(uint64(typ))
			info, _ := typ.Info()
			codec, _ := block.ForType(typ)
			u := unpackings[typ]
			for blocks := 1; blocks <= 3; blocks++ {
				row, k := blocks*int(info.Bytes), blocks*int(info.Block)
				data := make([]byte, panelRows*row)
				fill(r, typ, data)
				panel := guarded(t, k/blockK*u.panel.blockBytes())
				s.unpack(typ)(panel, rowBlocks{data: data, stride: row, blocks: blocks})
				got := floatsIn(guarded(t, 4*panelRows*k))
				s.widenPanel(u.panel, got, panel, u.offset, k/blockK)
				want := make([]float32, k)
				for row16 := range panelRows {
					codec.Decode(want, data[row16*row:][:row])
					for i, v := range want {
						if g := got[i*panelRows+row16]; g != v {
							t.Fatalf("%s %s: element %d of row %d is %x, want %x", s.name, typ, i, row16, math.Float32bits(g), math.Float32bits(v))
						}
					}
				}
			}
		}
	}
}

func TestWidenEqualsTwin(t *testing.T) {
	for _, s := range assembled() {
		for _, typ := range floatTypes {
			r := newRand(uint64(typ))
			size := floatCodecs[typ].bytes
			for k := 1; k <= 40; k++ {
				stride := k*size + k%3*size
				data := guarded(t, 15*stride+k*size)
				fill(r, typ, data)
				src := rowBlocks{data: data, stride: stride}
				want, got := make([]float32, 16*k), floatsIn(guarded(t, 64*k))
				widenGeneric(typ, want, src, k)
				s.widen(typ, got, src, k)
				if i := firstDifference(got, want); i >= 0 {
					t.Fatalf("%s %s k %d: element %d is %g, want %g", s.name, typ, k, i, got[i], want[i])
				}
			}
		}
	}
}

// firstDifference is the index of the first element whose bits differ, -1 if there is none.
func firstDifference(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i
		}
	}
	return -1
}

// randomTile fills one to three tiles for format p. Extreme: the largest integers, signs by chance. Plain: scales of 1 and no minimums, so that
// the result is an integer.
func randomTile(t *testing.T, r *rand.Rand, p panelFormat, n, blocks int, extreme, plain bool) *tile {
	limit := map[panelFormat]int{panelU4: 16, panelU5: 32, panelU3: 8, panelU6: 64}[p]
	integer := func(limit int) int {
		if extreme {
			return limit - 1
		}
		return r.IntN(limit)
	}
	sign := func(v int) int { return v * (1 - 2*r.IntN(2)) }
	number := func() float32 {
		if plain {
			return 1
		}
		return float32(r.NormFloat64())
	}
	tiles := 1 + r.IntN(3)
	columns := tiles * n
	w := guarded(t, blocks*p.blockBytes())
	q := guarded(t, blocks*blockK*columns*p.activationBytes())
	s := make([]float32, 2*columns*blocks)
	h := make([]float32, 2*columns*blocks)
	for b := range blocks {
		wb := w[b*p.blockBytes():][:p.blockBytes()]
		weights, factors := 512, atScale
		switch {
		case p == panelI16:
			weights, factors = 1024, atWordScale
			for i := range 512 {
				putI16(wb[2*i:], int16(sign(integer(128))))
			}
		case p.halves():
			factors = atHalfFactor
			for i := range 32 {
				v := int16(sign(integer(33)))
				putI16(wb[atHalfScales+4*i:], v)
				putI16(wb[atHalfScales+4*i+2:], v)
			}
		}
		if p != panelI16 {
			for i := range weights {
				wb[i] = byte(integer(limit))
			}
		}
		for i := range panelRows {
			putF32At(wb[factors+4*i:], number())
		}
		if !plain {
			for at := factors + 64; at < len(wb); at += 4 {
				putF32At(wb[at:], number())
			}
		}
	}
	for i := range blocks * blockK * columns {
		v := sign(integer(128))
		if p == panelI16 {
			putI16(q[2*i:], int16(v))
		} else {
			q[i] = byte(int8(v))
		}
	}
	for i := range s {
		s[i], h[i] = number(), number()
	}
	ldy, ldi := panelRows+r.IntN(5), r.IntN(2)*(panelRows+3)
	return &tile{n: n, blocks: blocks, tiles: tiles, w: w, q: q, s: guardedFloats(t, s), h: guardedFloats(t, h),
		y: guardedFloats(t, make([]float32, (columns-1)*ldy+panelRows)), ldy: ldy,
		init: guardedFloats(t, normals(r, (columns-1)*ldi+panelRows)), ldi: ldi, ahead: guarded(t, r.IntN(1000))}
}

func TestTileEqualsTwin(t *testing.T) {
	for _, s := range assembled() {
		for p := panelU4; p < panelF32; p++ {
			r := newRand(uint64(p))
			for n := 1; n <= tileColumns; n++ {
				for blocks := 1; blocks <= 4; blocks++ {
					for mode := range 4 {
						plain := mode < 2
						x := randomTile(t, r, p, n, blocks, mode%2 == 0, plain)
						if plain {
							clear(x.init)
						}
						s.tile(p, x)
						got := slices.Clone(x.y)
						tileGeneric(p, x)
						for i := range got {
							bound := 0.0 // integers below 2^24 leave no room for error
							if !plain {
								bound = 2e-7 * tileMagnitude(p, x, i)
							}
							if math.Abs(float64(got[i])-float64(x.y[i])) > bound {
								t.Fatalf("%s, format %d, %d columns, %d blocks, mode %d: element %d is %g, want %g (bound %g)", s.name, p, n,
									blocks, mode, i, got[i], x.y[i], bound)
							}
						}
					}
				}
			}
		}
	}
}

// tileMagnitude bounds the sum of the magnitudes that make up element i of a tile's result.
func tileMagnitude(p panelFormat, x *tile, i int) float64 {
	abs := *x
	abs.w, abs.q = slices.Clone(x.w), slices.Clone(x.q)
	largest := 1.0
	for _, v := range slices.Concat(x.s, x.h, x.init) {
		largest = max(largest, math.Abs(float64(v)))
	}
	for b := range x.blocks {
		wb := x.w[b*p.blockBytes():][:p.blockBytes()]
		for at := 512; at < len(wb); at += 4 {
			if f := math.Abs(float64(f32At(wb[at:]))); (p != panelI16 || at >= 1024) && (!p.halves() || at >= 640) {
				largest = max(largest, f)
			}
		}
	}
	weight := map[panelFormat]float64{panelU4: 16, panelU5: 32, panelU3: 8 * 32, panelU6: 64 * 32, panelI16: 128}[p]
	return float64(x.blocks) * blockK * weight * 128 * largest * largest
}

func TestWideTileMatchesTwin(t *testing.T) {
	for _, s := range assembled() {
		r := newRand(1)
		for n := 1; n <= tileColumns; n++ {
			for k := 1; k <= 21; k++ {
				ldw, ldx, step, ldy, ldi := panelRows+r.IntN(3), k+r.IntN(3), 1, panelRows+r.IntN(3), r.IntN(2)*panelRows
				if r.IntN(2) == 0 {
					ldx, step = 1, n+r.IntN(2)
				}
				panels, wstep, istep := 1+r.IntN(3), r.IntN(50), r.IntN(20)
				ldy += panels * panelRows
				x := tileF32{n: n, k: k, panels: panels, ldw: ldw, wstep: wstep, ldx: ldx, step: step, ldy: ldy, ldi: ldi, istep: istep,
					w: guardedFloats(t, normals(r, (panels-1)*wstep+(k-1)*ldw+panelRows)), x: guardedFloats(t, normals(r, (n-1)*ldx+(k-1)*step+1)),
					y:    guardedFloats(t, make([]float32, (n-1)*ldy+panels*panelRows)),
					init: guardedFloats(t, normals(r, (n-1)*ldi+(panels-1)*istep+panelRows))}
				s.tileF32(&x)
				got := slices.Clone(x.y)
				tileF32Generic(&x)
				for i := range got {
					if math.Abs(float64(got[i]-x.y[i])) > float64(k+1)*16*0x1p-24*4 {
						t.Fatalf("%s: %d columns, k %d: element %d is %g, want %g", s.name, n, k, i, got[i], x.y[i])
					}
				}
			}
		}
	}
}

func TestDotMatchesReference(t *testing.T) {
	for _, s := range assembled() {
		for _, typ := range append(quantizedTypes(), floatTypes...) {
			r := newRand(uint64(typ))
			info, _ := typ.Info()
			codec, _ := block.ForType(typ)
			for blocks := 1; blocks <= 19; blocks++ {
				most := maxDotColumns
				if s.wideDot(typ) != nil {
					most = maxWideDotColumns
				}
				for columns := 1; columns <= most; columns++ {
					k := blocks * int(info.Block)
					row := blocks * int(info.Bytes)
					d := dotJob{blocks: blocks, columns: columns, rows: 1 + r.IntN(3), stride: row + r.IntN(3)*int(info.Bytes)}
					d.hop = r.IntN(4) * (d.stride + int(info.Bytes))
					size := 3*d.hop + (d.rows-1)*d.stride + row
					d.data = guarded(t, size)
					if r.IntN(2) == 0 {
						d.data = guardedStart(t, size)
					}
					fill(r, typ, d.data)
					d.yhop = 1 + r.IntN(2)
					d.ystep = 3*d.yhop + 1 + r.IntN(2)
					switch {
					case d.hop == 0 && r.IntN(2) == 0:
						d.yhop = 0
					case r.IntN(2) == 0:
						d.yhop, d.ystep = d.rows+r.IntN(3), 1
					}
					d.ldy = 3*d.yhop + d.rows*d.ystep + r.IntN(2)
					d.y = guardedFloats(t, make([]float32, d.at(d.rows-1, 3, columns-1)+1))
					x := normals(r, columns*k)
					reference := x
					if s.wideDot(typ) != nil {
						d.wide, d.ldx = guardedFloats(t, x), k
						s.wideDot(typ)(&d)
					} else {
						d.x.reshape(columns, k, info.Block == superBlock)
						reference = nil
						for c := range columns {
							quantizeGeneric(d.x.row(c), x[c*k:][:k])
							reference = append(reference, widened(x[c*k:][:k], info.Block == superBlock)...)
						}
						s.dot(typ)(&d)
					}
					w := make([]float32, k)
					for i := range 4 * d.rows * columns {
						rr, c, stream := i/4%d.rows, i/(4*d.rows), i%4
						got := float64(d.y[d.at(rr, stream, c)])
						codec.Decode(w, d.data[stream*d.hop+rr*d.stride:][:row])
						want, magnitude := product(w, reference[c*k:][:k])
						if math.IsNaN(got) || math.Abs(want-got) > 2e-6*magnitude {
							t.Fatalf("%s %s, %d blocks, %d columns, hop %d: row %d of stream %d, column %d: %g, want %g (magnitude %g)",
								s.name, typ, blocks, columns, d.hop, rr, stream, c, got, want, magnitude)
						}
					}
				}
			}
		}
	}
}

// checkQuantize holds a set's quantize against block.Activations, bit by bit.
func checkQuantize(t *testing.T, s *set, x []float32, units bool) {
	t.Helper()
	want := quantized(x, units)
	var a activations
	a.reshape(1, len(x), units)
	s.quantize(a, x)
	if !slices.Equal(a.q, want.Q) {
		t.Fatalf("%s: integers %v, want %v", s.name, a.q, want.Q)
	}
	same := func(name string, got, want float32) {
		t.Helper()
		if got != want && !(math.IsNaN(float64(got)) && math.IsNaN(float64(want))) {
			t.Fatalf("%s: %s is %g, want %g", s.name, name, got, want)
		}
	}
	for g := range len(x) / 32 {
		same("scale", a.d[g], want.Scale[g])
		same("sum", a.s[g], want.Sum[g])
		for half := range 2 {
			same("half sum", a.h[halfSum(g, half)], want.Scale[g]*float32(want.Sum16[2*g+half]))
		}
		if !units {
			continue
		}
		for i := range unitFloats {
			same("unit", a.unit[g/8*unitFloats+i], want.Unit[g/8])
		}
		ints, s0, s1 := a.ints[g/8*unitInts+g%8:], want.Sum16[2*g], want.Sum16[2*g+1]
		if got, want := [4]int32{int32(ints[0]), int32(ints[8]), int32(ints[16]), int32(ints[24])}, [4]int32{int32(want.Units[g]), s0 + s1, s0, s1}; got != want {
			t.Fatalf("%s: integers of group %d are %v, want %v", s.name, g, got, want)
		}
	}
}
