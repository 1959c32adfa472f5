package kernel

import (
	"encoding/binary"
	"sync"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/half"
)

// exploded is one stored block taken apart. A block of 32 elements fills the first part of the arrays.
type exploded struct {
	q      [256]int16  // integers
	scale  [16]int16   // of 16 elements each; formats with halves only
	factor [8]float32  // of 32 elements each
	min    [16]float32 // of 32 elements each, or of 16 in formats with halves
}

// unpacking is how blocks of a type become a panel.
type unpacking struct {
	panel   panelFormat
	explode func(b []byte, e *exploded)
	offset  float32 // of the integers in formats with halves, whose minimums are -offset*scale; 0 if these are of their own
}

// unpackings lists the types whose blocks have integers that the tile kernels can take.
var unpackings = map[gguf.Type]unpacking{
	gguf.Q4_0:   {panel: panelU4, explode: explodeQ4_0},
	gguf.Q4_1:   {panel: panelU4, explode: explodeQ4_1},
	gguf.Q5_0:   {panel: panelU5, explode: explodeQ5_0},
	gguf.Q5_1:   {panel: panelU5, explode: explodeQ5_1},
	gguf.Q8_0:   {panel: panelI16, explode: explodeQ8_0},
	gguf.IQ4_NL: {panel: panelI16, explode: explodeIQ4_NL},
	gguf.Q2_K:   {panel: panelU3, explode: explodeQ2_K},
	gguf.Q3_K:   {panel: panelU3, explode: explodeQ3_K, offset: 4},
	gguf.Q4_K:   {panel: panelU4, explode: explodeQ4_K},
	gguf.Q5_K:   {panel: panelU5, explode: explodeQ5_K},
	gguf.Q6_K:   {panel: panelU6, explode: explodeQ6_K, offset: 32},
	gguf.IQ4_XS: {panel: panelI16, explode: explodeIQ4_XS},
}

// rowBlocks is 16 rows of stored blocks: row r starts at data[r*stride].
type rowBlocks struct {
	data   []byte
	stride int
	blocks int // of each row
}

// explodedRows are kept for the next call: the routine of a type, being a variable, would have each allocated.
var explodedRows = sync.Pool{New: func() any { return new(exploded) }}

// unpackGeneric is the portable unpacker of a type.
func unpackGeneric(t gguf.Type) func(dst []byte, src rowBlocks) {
	u := unpackings[t]
	info, _ := t.Info()
	size, groups := int(info.Bytes), int(info.Block)/blockK
	return func(dst []byte, src rowBlocks) {
		e := explodedRows.Get().(*exploded)
		defer explodedRows.Put(e)
		*e = exploded{} // a type fills what it has
		for b := range src.blocks {
			for r := range panelRows {
				u.explode(src.data[r*src.stride+b*size:][:size], e)
				for g := range groups {
					e.put(u.panel, dst[(b*groups+g)*u.panel.blockBytes():], r, g)
				}
			}
		}
	}
}

// put writes group g of 32 elements as row r of a panel block.
func (e *exploded) put(p panelFormat, dst []byte, r, g int) {
	q := e.q[blockK*g:][:blockK]
	if p == panelI16 {
		for k, v := range q {
			putI16(dst[4*panelRows*(k/2)+4*r+2*(k%2):], v)
		}
		putF32At(dst[atWordScale+4*r:], e.factor[g])
		return
	}
	for k, v := range q {
		dst[4*panelRows*(k/4)+4*r+k%4] = byte(v)
	}
	if !p.halves() {
		putF32At(dst[atScale+4*r:], e.factor[g])
		putF32At(dst[atMin+4*r:], e.min[g])
		return
	}
	putF32At(dst[atHalfFactor+4*r:], e.factor[g])
	for h := range 2 {
		scale := e.scale[2*g+h]
		putI16(dst[atHalfScales+64*h+4*r:], scale)
		putI16(dst[atHalfScales+64*h+4*r+2:], scale)
		putF32At(dst[atHalfMins+64*h+4*r:], e.min[2*g+h])
	}
}

func f16At(b []byte) float32 { return half.F16ToF32(binary.LittleEndian.Uint16(b)) }

// nibbles splits 16 bytes: the low halves are elements 0 to 15, the high halves 16 to 31.
func (e *exploded) nibbles(b []byte) {
	for j, v := range b[:16] {
		e.q[j], e.q[j+16] = int16(v&15), int16(v>>4)
	}
}

// fifth adds bit j of high as the fifth bit of element j.
func (e *exploded) fifth(high uint32) {
	for j := range 32 {
		e.q[j] |= int16(high>>j&1) << 4
	}
}

// centred sets the scale of a block of 32, whose integers are stored with an offset.
func (e *exploded) centred(d, offset float32) { e.factor[0], e.min[0] = d, d*-offset }

func explodeQ4_0(b []byte, e *exploded) {
	e.nibbles(b[2:])
	e.centred(f16At(b), 8)
}

func explodeQ4_1(b []byte, e *exploded) {
	e.nibbles(b[4:])
	e.factor[0], e.min[0] = f16At(b), f16At(b[2:])
}

func explodeQ5_0(b []byte, e *exploded) {
	e.nibbles(b[6:])
	e.fifth(binary.LittleEndian.Uint32(b[2:]))
	e.centred(f16At(b), 16)
}

func explodeQ5_1(b []byte, e *exploded) {
	e.nibbles(b[8:])
	e.fifth(binary.LittleEndian.Uint32(b[4:]))
	e.factor[0], e.min[0] = f16At(b), f16At(b[2:])
}

func explodeQ8_0(b []byte, e *exploded) {
	for j := range 32 {
		e.q[j] = int16(int8(b[2+j]))
	}
	e.factor[0] = f16At(b)
}

// codebook is the values of the 4-bit integers of IQ4_NL and IQ4_XS.
var codebook = [16]int16{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func explodeIQ4_NL(b []byte, e *exploded) {
	e.nibbles(b[2:])
	for j, q := range e.q[:32] {
		e.q[j] = codebook[q]
	}
	e.factor[0] = f16At(b)
}

func explodeIQ4_XS(b []byte, e *exploded) {
	d, high := f16At(b), binary.LittleEndian.Uint16(b[2:])
	for g := range 8 {
		low := b[4+g/2] >> (g % 2 * 4) & 15
		e.factor[g] = d * float32(int32(low|uint8(high>>(2*g)&3)<<4)-32)
		for j, v := range b[8+16*g:][:16] {
			e.q[32*g+j], e.q[32*g+j+16] = codebook[v&15], codebook[v>>4]
		}
	}
}

// scales6 sets scales and minimums from the 12 bytes in which Q4_K and Q5_K have them.
func (e *exploded) scales6(d, dmin float32, b []byte) {
	for j := range 4 {
		e.factor[j], e.min[j] = d*float32(b[j]&63), (0-dmin)*float32(b[j+4]&63)
		e.factor[j+4] = d * float32(b[j+8]&15|b[j]>>6<<4)
		e.min[j+4] = (0 - dmin) * float32(b[j+8]>>4|b[j+4]>>6<<4)
	}
}

func explodeQ4_K(b []byte, e *exploded) {
	e.scales6(f16At(b), f16At(b[2:]), b[4:])
	for j, v := range b[16:144] {
		at := j/32*64 + j%32
		e.q[at], e.q[at+32] = int16(v&15), int16(v>>4)
	}
}

func explodeQ5_K(b []byte, e *exploded) {
	e.scales6(f16At(b), f16At(b[2:]), b[4:])
	for j, v := range b[48:176] {
		at := j/32*64 + j%32
		h := b[16+j%32] >> (j / 32 * 2)
		e.q[at], e.q[at+32] = int16(v&15|h&1<<4), int16(v>>4|h&2<<3)
	}
}

// signedScales sets the scales of 16 groups with integers that are stored with an offset.
func (e *exploded) signedScales(d, offset float32, scale func(g int) int16) {
	for g := range 16 {
		e.scale[g] = scale(g)
		e.factor[g/2] = d
		e.min[g] = d * -offset * float32(e.scale[g])
	}
}

func explodeQ6_K(b []byte, e *exploded) {
	for half := range 2 {
		ql, qh, q := b[64*half:][:64], b[128+32*half:][:32], e.q[128*half:][:128]
		for j, h := range qh {
			q[j] = int16(ql[j]&15 | h&3<<4)
			q[j+32] = int16(ql[j+32]&15 | h>>2&3<<4)
			q[j+64] = int16(ql[j]>>4 | h>>4&3<<4)
			q[j+96] = int16(ql[j+32]>>4 | h>>6<<4)
		}
	}
	e.signedScales(f16At(b[208:]), 32, func(g int) int16 { return int16(int8(b[192+g])) })
}

func explodeQ2_K(b []byte, e *exploded) {
	d, dmin := f16At(b[80:]), f16At(b[82:])
	for i := range 256 {
		e.q[i] = int16(b[16+i/128*32+i%32] >> (i / 32 % 4 * 2) & 3)
	}
	for g := range 16 {
		e.scale[g], e.factor[g/2] = int16(b[g]&15), d
		e.min[g] = (0 - dmin) * float32(b[g]>>4)
	}
}

func explodeQ3_K(b []byte, e *exploded) {
	for i := range 256 {
		e.q[i] = int16(b[32+i/128*32+i%32]>>(i/32%4*2)&3 | b[i%32]>>(i/32)&1<<2)
	}
	e.signedScales(f16At(b[108:]), 4, func(g int) int16 {
		return int16(b[96+g%8]>>(g/8*4)&15|b[104+g%4]>>(g/4*2)&3<<4) - 32
	})
}

// floatCodecs are the types whose elements stand for themselves.
var floatCodecs = map[gguf.Type]struct {
	bytes int
	at    func(b []byte) float32
}{
	gguf.F32:  {4, f32At},
	gguf.F16:  {2, f16At},
	gguf.BF16: {2, func(b []byte) float32 { return half.BF16ToF32(binary.LittleEndian.Uint16(b)) }},
}

// widenGeneric is the portable widen.
func widenGeneric(t gguf.Type, dst []float32, src rowBlocks, k int) { widenFrom(t, dst, src, 0, k) }

// widenFrom is widenGeneric for elements from k0 on.
func widenFrom(t gguf.Type, dst []float32, src rowBlocks, k0, k int) {
	codec := floatCodecs[t]
	for r := range panelRows {
		row := src.data[r*src.stride:]
		for i := k0; i < k; i++ {
			dst[i*panelRows+r] = codec.at(row[i*codec.bytes:])
		}
	}
}

// transposeGeneric writes 16 rows of k values as [k][16 rows].
func transposeGeneric(dst, rows []float32, k int) {
	for r := range panelRows {
		for i, v := range rows[r*k:][:k] {
			dst[i*panelRows+r] = v
		}
	}
}
