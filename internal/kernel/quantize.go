package kernel

import (
	"math"

	"github.com/ggufkit/ggufkit/quantize/block"
)

// activations are n rows of k values in 8 bits, as block.Activations defines them: x = scale * q with one scale for 32 elements.
// Values that are not whole groups of 32 cannot be held.
type activations struct {
	n, k int
	q    []int8
	d    []float32 // scales, k/32 for each row
	s    []float32 // scales times the sum of the group's integers
	h    []float32 // scales times the sums of 16 integers, see halfSum; whole units of 8 for each row
	// For dot products of super-blocks, whose arithmetic is in integers up to the end of a block: scales are whole units. Else empty.
	unit []float32 // that of each 256 elements, 8 times
	ints []int16   // integers of each 256 elements, see unitInts
}

const (
	superBlock = 256
	unitFloats = 8 // of activations.unit for 256 elements
	// unitInts is how many of activations.ints there are for 256 elements: for their 8 groups the units in the scale, and the sums of the group's
	// integers; then the sums of the first and of the second halves.
	unitInts = 32
)

// halfSum is where in a row of h the sum of a half of group g is: four groups have their first halves together, then their second ones.
func halfSum(g, half int) int { return g/4*8 + 4*half + g%4 }

// halfSums is the length of a row of h.
func halfSums(k int) int { return (k/blockK + 3) / 4 * 8 }

// reshape makes room for n rows of k values, with scales that are whole units or not.
func (a *activations) reshape(n, k int, units bool) {
	a.n, a.k = n, k
	a.unit, a.ints = a.unit[:0], a.ints[:0]
	if units {
		a.unit, a.ints = grow(a.unit, n*k/superBlock*unitFloats), grow(a.ints, n*k/superBlock*unitInts)
	}
	a.q = grow(a.q, n*k)
	a.d = grow(a.d, n*k/blockK)
	a.s = grow(a.s, n*k/blockK)
	a.h = grow(a.h, n*halfSums(k))
}

// row is row i alone.
func (a *activations) row(i int) activations { return a.rows(i, 1) }

// rows is n rows from i on.
func (a *activations) rows(i, n int) activations {
	g, h := a.k/blockK, halfSums(a.k)
	r := activations{n: n, k: a.k, q: a.q[i*a.k:][:n*a.k], d: a.d[i*g:][:n*g], s: a.s[i*g:][:n*g], h: a.h[i*h:][:n*h]}
	if len(a.unit) > 0 {
		b := a.k / superBlock
		r.unit, r.ints = a.unit[i*b*unitFloats:][:n*b*unitFloats], a.ints[i*b*unitInts:][:n*b*unitInts]
	}
	return r
}

// tiniest is a magnitude below which 127/x leaves the range of float32; groups below it become zeros. tiniestUnits is the same for 127*block.MostUnits/x.
const (
	tiniest      = 0x1p-120
	tiniestUnits = 0x1p-100
)

// quantizeGeneric fills the only row of a from x, k values.
func quantizeGeneric(a activations, x []float32) {
	if len(a.unit) > 0 {
		for b := range a.k / superBlock {
			quantizeUnitsGeneric(a, x, b)
		}
		return
	}
	for g := range a.k / blockK {
		v := (*[blockK]float32)(x[blockK*g:])
		if largest := largestMagnitude(v[:]); largest >= tiniest && largest <= math.MaxFloat32 {
			a.put(g, v, largest/127, 127/largest)
		} else {
			a.put(g, nil, largest-largest, 0) // NaN for infinity and NaN, else 0
		}
	}
}

// quantizeUnitsGeneric fills block b of 256 elements, its scales being whole units.
func quantizeUnitsGeneric(a activations, x []float32, b int) {
	x = x[superBlock*b:][:superBlock]
	largest := largestMagnitude(x)
	unit, perUnit := largest-largest, float32(0)
	finite := largest >= tiniestUnits && largest <= math.MaxFloat32
	if finite {
		unit, perUnit = largest/(127*block.MostUnits), block.MostUnits/largest
	}
	for i := range unitFloats {
		a.unit[unitFloats*b+i] = unit
	}
	ints := (*[unitInts]int16)(a.ints[unitInts*b:])
	for i := range 8 {
		v, units, scale, inverse := (*[blockK]float32)(x[blockK*i:]), float32(1), unit, float32(0)
		if finite {
			units = min(max(float32(math.Ceil(float64(largestMagnitude(v[:])*perUnit))), 1), block.MostUnits)
			scale = unit * units
			inverse = 1 / scale
		} else {
			v = nil
		}
		s0, s1 := a.put(8*b+i, v, scale, inverse)
		ints[i], ints[8+i], ints[16+i], ints[24+i] = int16(units), int16(s0+s1), int16(s0), int16(s1)
	}
}

// largestMagnitude is NaN if an element is.
func largestMagnitude(x []float32) float32 {
	var top uint32 // magnitudes order as their bits do, NaN above infinity
	for _, f := range x {
		top = max(top, math.Float32bits(f)&^(1<<31))
	}
	return math.Float32frombits(top)
}

// put sets group g: the elements of v times inverse as integers, zeros where v is nil. It gives the sums of both halves.
func (a *activations) put(g int, v *[blockK]float32, scale, inverse float32) (s0, s1 int32) {
	q := (*[blockK]int8)(a.q[blockK*g:])
	if v == nil {
		clear(q[:])
	} else {
		for i, f := range v {
			// Adding 1.5 * 2^23 rounds to an integer, ties to even, and leaves it in the low bits.
			r := int32(math.Float32bits(float32(f*inverse)+0x1.8p23)) << 10 >> 10
			q[i] = int8(r)
			if i < blockK/2 {
				s0 += r
			} else {
				s1 += r
			}
		}
	}
	a.d[g], a.s[g] = scale, scale*float32(s0+s1)
	a.h[halfSum(g, 0)], a.h[halfSum(g, 1)] = scale*float32(s0), scale*float32(s1)
	return s0, s1
}

// tileCount is the number of tiles, of at most tileColumns and as equal as can be, for n columns.
func tileCount(n int) int { return (n + tileColumns - 1) / tileColumns }

// tileAt gives the first column of tile i of count, and how many it has. The wider tiles come first.
func tileAt(n, count, i int) (first, columns int) {
	columns, wider := n/count, n%count
	if i < wider {
		return i * (columns + 1), columns + 1
	}
	return i*columns + wider, columns
}

// tilesLike is how many tiles from tile i on, itself included, have as many columns.
func tilesLike(n, count, i int) int {
	if wider := n % count; i < wider {
		return wider - i
	}
	return count - i
}

// packed is activations in the order that tile kernels read, tile after tile: that of columns from c on starts at q[c*k*size],
// s[2*c*k/32] and h[2*c*k/32].
type packed struct {
	bytes, words bool      // which of q and w there are
	q            []byte    // in 8 bits
	w            []byte    // the same in 16 bits
	s, h         []float32 // see tile
}

// reshape makes room for the tiles of a: as bytes, words or both.
func (p *packed) reshape(a *activations, bytes, words bool) {
	p.bytes, p.words = bytes, words
	groups := a.n * a.k / blockK
	p.s, p.h = grow(p.s, 2*groups), grow(p.h, 2*groups)
	if bytes {
		p.q = grow(p.q, a.n*a.k)
	}
	if words {
		p.w = grow(p.w, 2*a.n*a.k)
	}
}

// packTile lays out tile i of a.
func (s *set) packTile(p *packed, a *activations, i int) {
	first, columns := tileAt(a.n, tileCount(a.n), i)
	for c := range columns {
		p.scales(a, first, columns, c)
		q := a.q[(first+c)*a.k:][:a.k]
		if p.bytes {
			s.packBytes(p.q[first*a.k:][:columns*a.k], q, columns, c)
		}
		if p.words {
			s.packWords(p.w[2*first*a.k:][:2*columns*a.k], q, columns, c)
		}
	}
}

// scales packs the scales and sums of column c of a tile.
func (p *packed) scales(a *activations, first, columns, c int) {
	r := a.row(first + c)
	at := 2 * first * a.k / blockK
	s, h := p.s[at:], p.h[at:]
	for g := range r.d {
		to := 2*columns*g + c
		s[to], s[to+columns] = r.d[g], r.s[g]
		h[to], h[to+columns] = r.h[halfSum(g, 0)], r.h[halfSum(g, 1)]
	}
}

// packBytesGeneric packs the integers of column c, 4 at a time.
func packBytesGeneric(dst []byte, q []int8, columns, c int) {
	for at := 4 * c; len(q) >= 4; at, q = at+4*columns, q[4:] {
		d := (*[4]byte)(dst[at:])
		d[0], d[1], d[2], d[3] = byte(q[0]), byte(q[1]), byte(q[2]), byte(q[3])
	}
}

// packWordsGeneric packs the integers of column c as 16 bits, 2 at a time.
func packWordsGeneric(dst []byte, q []int8, columns, c int) {
	for at := 4 * c; len(q) >= 2; at, q = at+4*columns, q[2:] {
		d := (*[4]byte)(dst[at:])
		d[0], d[1], d[2], d[3] = byte(q[0]), byte(q[0]>>7), byte(q[1]), byte(q[1]>>7)
	}
}

// grow returns a slice of n elements, s itself if it has room. The content is not kept.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
