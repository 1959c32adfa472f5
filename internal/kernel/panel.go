package kernel

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// A panel is panelRows rows of a weight matrix, unpacked for the tile kernels. It is a list of blocks of blockK elements (k) of all
// rows, k from first to last. In the byte formats a block has, in this order:
//
//	[8 groups of k][16 rows][4 k]      uint8, the integers of the weights
//	without halves:
//	  [16 rows] float32                scale of the row's 32 weights
//	  [16 rows] float32                what is added to each weight after scaling, its minimum
//	with halves (of 16 elements):
//	  [2 halves][16 rows][2] int16     scale of the half, twice
//	  [16 rows] float32                factor of both scales
//	  [2 halves][16 rows] float32      minimum of the half
//
// in I16 the weights are int16 as [16 pairs of k][16 rows][2 k], and then come the scales; in F32 it is [k][16 rows] float32.
// One 64-byte vector is the same k of 16 rows; sets with shorter vectors take it in pieces.
const (
	panelRows = 16
	blockK    = 32
	// tileColumns is the largest number of columns that a tile kernel multiplies with a panel at once.
	tileColumns = 6
)

// panelFormat is how the weights of a panel are laid out.
type panelFormat int

// U4 to U6 are unsigned integers below 16, 32, 8 and 64; what distinguishes them is how many products may be added in 16 bits.
const (
	panelU4 panelFormat = iota
	panelU5
	panelU3 // with halves
	panelU6 // with halves
	panelI16
	panelF32
	panelFormats
)

// halves reports whether scales and minimums belong to 16 elements.
func (p panelFormat) halves() bool { return p == panelU3 || p == panelU6 }

// blockBytes is the size of a block of blockK elements of 16 rows.
func (p panelFormat) blockBytes() int {
	return [panelFormats]int{panelU4: 640, panelU5: 640, panelU3: 832, panelU6: 832, panelI16: 1088, panelF32: 2048}[p]
}

// activationBytes is the size of one element of the activations that a format is multiplied with.
func (p panelFormat) activationBytes() int {
	return [panelFormats]int{panelU4: 1, panelU5: 1, panelU3: 1, panelU6: 1, panelI16: 2, panelF32: 4}[p]
}

// Offsets in a block of a byte format.
const (
	atScale      = 512
	atMin        = 576
	atHalfScales = 512
	atHalfFactor = 640
	atHalfMins   = 704
	atWordScale  = 1024
)

// tile is one call of a tile kernel: a panel times some tiles of n columns of quantized activations. For r < 16 and c < tiles*n
//
//	y[c*ldy+r] = init[c*ldi+r] + sum over k of weight[r][k] * activation[c][k]
//
// init may be y. The kernel's order of additions depends on nothing but blocks.
type tile struct {
	n, blocks, tiles int
	w                []byte    // blocks of the panel, 32-byte aligned
	q                []byte    // tile after tile, per block [8 groups of k][n][4 k] int8, for I16 [16 pairs of k][n][2 k] int16
	s                []float32 // per block [n] scales, [n] scales times sums of the 32 integers
	h                []float32 // per block [2 halves][n] scales times sums of 16; formats with halves only
	y                []float32
	ldy              int
	init             []float32
	ldi              int
	ahead            []byte // will be needed soon: the kernel may ask for it little by little
}

// check panics unless everything that the kernel for p touches is inside the slices.
func (t *tile) check(p panelFormat) {
	if t.n < 1 || t.n > tileColumns || t.blocks < 1 || t.tiles < 1 || t.ldy < 0 || t.ldi < 0 {
		panic("kernel: tile of impossible shape")
	}
	columns := t.tiles * t.n
	_ = t.w[:t.blocks*p.blockBytes()]
	_ = t.q[:t.blocks*blockK*columns*p.activationBytes()]
	_ = t.s[:2*columns*t.blocks]
	if p.halves() {
		_ = t.h[:2*columns*t.blocks]
	}
	_ = t.y[:(columns-1)*t.ldy+panelRows]
	_ = t.init[:(columns-1)*t.ldi+panelRows]
	checkAligned(t.w)
}

// checkAligned panics unless a panel can be read with instructions for aligned vectors.
func checkAligned(panel []byte) {
	if uintptr(unsafe.Pointer(&panel[0]))%32 != 0 {
		panic("kernel: panel is not aligned")
	}
}

// tileF32 is the same for weights and activations in float32. All strides count elements. Several panels may follow each other: those of
// w are wstep apart, those of y panelRows, those of init istep.
type tileF32 struct {
	n, k   int
	panels int
	w      []float32 // k rows of 16, ldw apart
	ldw    int
	wstep  int
	x      []float32 // element i of column c is x[c*ldx+i*step]
	ldx    int
	step   int
	y      []float32
	ldy    int
	init   []float32
	ldi    int
	istep  int
}

func (t *tileF32) check() {
	if t.n < 1 || t.n > tileColumns || t.k < 1 || t.panels < 1 || t.ldw < 0 || t.wstep < 0 || t.ldx < 0 || t.step < 1 || t.ldy < 0 || t.ldi < 0 || t.istep < 0 {
		panic("kernel: tile of impossible shape")
	}
	_ = t.w[:(t.panels-1)*t.wstep+(t.k-1)*t.ldw+panelRows]
	_ = t.x[:(t.n-1)*t.ldx+(t.k-1)*t.step+1]
	_ = t.y[:(t.n-1)*t.ldy+t.panels*panelRows]
	_ = t.init[:(t.n-1)*t.ldi+(t.panels-1)*t.istep+panelRows]
}

// zeros is an initial tile of nothing, with ldi 0.
var zeros = make([]float32, panelRows)

// tileGeneric is the portable tile kernel.
func tileGeneric(p panelFormat, t *tile) {
	t.check(p)
	elements := t.blocks * t.n // of each tile, blocks of activations
	for i := range t.tiles {
		q, s, h := t.q[i*elements*blockK*p.activationBytes():], t.s[2*elements*i:], []float32(nil)
		if p.halves() {
			h = t.h[2*elements*i:]
		}
		for c := range t.n {
			sum := [panelRows]float32(t.init[(i*t.n+c)*t.ldi:])
			for b := range t.blocks {
				addBlock(p, &sum, t.w[b*p.blockBytes():][:p.blockBytes()], q[b*blockK*t.n*p.activationBytes():], s[2*t.n*b:], h[min(2*t.n*b, len(h)):], t.n, c)
			}
			copy(t.y[(i*t.n+c)*t.ldy:], sum[:])
		}
	}
}

// addBlock adds the products of a panel block and column c of n of a block of activations.
func addBlock(p panelFormat, sum *[panelRows]float32, w, q []byte, s, h []float32, n, c int) {
	switch {
	case p == panelI16:
		dot := sumWords(w, q, n, c)
		for r := range sum {
			sum[r] += float32(float32(dot[r])*f32At(w[atWordScale+4*r:])) * s[c]
		}
	case p.halves():
		n0, n1 := sumBytes(w, q, n, c, 0), sumBytes(w, q, n, c, 4)
		for r := range sum {
			k0, k1 := i16At(w[atHalfScales+4*r:]), i16At(w[atHalfScales+64+4*r:])
			sum[r] += float32(float32(n0[r]*k0+n1[r]*k1)*f32At(w[atHalfFactor+4*r:])) * s[c]
			sum[r] += float32(f32At(w[atHalfMins+4*r:])*h[c]) + float32(f32At(w[atHalfMins+64+4*r:])*h[n+c])
		}
	default:
		n0, n1 := sumBytes(w, q, n, c, 0), sumBytes(w, q, n, c, 4)
		for r := range sum {
			sum[r] += float32(float32(n0[r]+n1[r])*f32At(w[atScale+4*r:])) * s[c]
			sum[r] += f32At(w[atMin+4*r:]) * s[n+c]
		}
	}
}

// sumBytes adds the products of four groups of k from first on, for the rows of a panel block and column c of n.
func sumBytes(w, q []byte, n, c, first int) (sum [panelRows]int32) {
	for g := first; g < first+4; g++ {
		x := q[4*(g*n+c):][:4]
		x0, x1, x2, x3 := int32(int8(x[0])), int32(int8(x[1])), int32(int8(x[2])), int32(int8(x[3]))
		v := (*[4 * panelRows]byte)(w[4*panelRows*g:])
		for r := range sum {
			sum[r] += int32(v[4*r])*x0 + int32(v[4*r+1])*x1 + int32(v[4*r+2])*x2 + int32(v[4*r+3])*x3
		}
	}
	return sum
}

// sumWords adds the products of 16-bit weights and activations.
func sumWords(w, q []byte, n, c int) (sum [panelRows]int32) {
	for g := range blockK / 2 {
		x := q[4*(g*n+c):]
		x0, x1 := i16At(x), i16At(x[2:])
		v := (*[4 * panelRows]byte)(w[4*panelRows*g:])
		for r := range sum {
			sum[r] += i16At(v[4*r:])*x0 + i16At(v[4*r+2:])*x1
		}
	}
	return sum
}

// tileF32Generic is the portable tile kernel of float32.
func tileF32Generic(t *tileF32) {
	t.check()
	for p := range t.panels {
		for c := range t.n {
			sum := [panelRows]float32(t.init[c*t.ldi+p*t.istep:])
			for k := range t.k {
				x, w := t.x[c*t.ldx+k*t.step], (*[panelRows]float32)(t.w[p*t.wstep+k*t.ldw:])
				for r := range sum {
					sum[r] += float32(w[r] * x)
				}
			}
			copy(t.y[c*t.ldy+p*panelRows:], sum[:])
		}
	}
}

func i16At(b []byte) int32         { return int32(int16(binary.LittleEndian.Uint16(b))) }
func f32At(b []byte) float32       { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }
func putI16(b []byte, v int16)     { binary.LittleEndian.PutUint16(b, uint16(v)) }
func putF32At(b []byte, v float32) { binary.LittleEndian.PutUint32(b, math.Float32bits(v)) }

// alignedBytes returns n bytes that start at a multiple of 64.
func alignedBytes(n int) []byte {
	b := make([]byte, n+63)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63)
	return b[skip : skip+n : skip+n]
}

// alignedFloats returns n floats that start at a multiple of 64 bytes.
func alignedFloats(n int) []float32 {
	b := make([]float32, n+15)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b)))&63) / 4
	return b[skip : skip+n : skip+n]
}
