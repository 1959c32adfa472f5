package block

import "math"

// Activations is a vector in 8 bits with one scale per 32 elements: x[i] = Scale[i/32] * Q[i], -127 <= Q[i] <= 127.
// Quantize or QuantizeUnits makes it; afterwards it may be read from several goroutines at once.
type Activations struct {
	Q     []int8
	Scale []float32
	// After QuantizeUnits, Scale[g] is Unit[g/8] * Units[g], rounded to float32, with 1 <= Units[g] <= MostUnits: one float for 256 elements, as
	// super-blocks have, and integers for what is different in its groups. After Quantize these are empty.
	Unit  []float32
	Units []uint8
	// Sum[j] is Scale[j] times the sum of the 32 integers of group j (for formats with a minimum).
	Sum []float32
	// Sum16[k] is the sum of the integers 16*k to 16*k+15 (for formats whose integers are stored with an offset).
	Sum16 []int32

	lanes [][2]uint64 // the integers once more, 8 in each element, see lanes.go
}

// tiniest is a magnitude below which 127/x leaves the range of float32; groups below it become zeros.
const tiniest = 0x1p-120

// Quantize fills a from x (len(x) a multiple of 32), reusing its storage. The largest magnitude of a group becomes 127.
// Integers are rounded to nearest, ties to even, as the vector instructions of x86 and ARM do (ggml's portable code
// rounds ties away from zero). A group with a NaN or an infinity gets Scale and Sum NaN, so that it cannot go unnoticed.
func (a *Activations) Quantize(x []float32) {
	a.reshape(len(x), 32)
	a.Unit, a.Units = a.Unit[:0], a.Units[:0]
	for g := range a.Scale {
		group := (*[32]float32)(x[32*g:])
		largest := largestMagnitude(group[:])
		if !(largest >= tiniest && largest <= math.MaxFloat32) {
			a.put(g, nil, largest-largest, 0) // NaN for infinity and NaN, else 0
			continue
		}
		a.put(g, group, largest/127, 127/largest)
	}
}

// MostUnits is small enough for the sums of products of weights, activations, scales and units to stay in 32 bits: in each eighth of a super-block, and in
// each half but of Q6_K and IQ4_XS.
const MostUnits = 63

// tiniestUnits is like tiniest for 256 elements, where 127*MostUnits/x must stay in range.
const tiniestUnits = 0x1p-100

// QuantizeUnits fills a from x (len(x) a multiple of 256) with scales that are whole units. The largest magnitude of 256 elements becomes 127 times MostUnits
// units; other groups take as many units as their largest magnitude needs. All else is as in Quantize; what is not finite makes all
// 256 elements NaN.
func (a *Activations) QuantizeUnits(x []float32) {
	a.reshape(len(x), 256)
	a.Unit, a.Units = grow(a.Unit, len(x)/256), grow(a.Units, len(x)/32)
	for b := range a.Unit {
		largest := largestMagnitude(x[256*b:][:256])
		finite := largest >= tiniestUnits && largest <= math.MaxFloat32
		a.Unit[b] = largest - largest
		perUnit := float32(0)
		if finite {
			a.Unit[b], perUnit = largest/(127*MostUnits), MostUnits/largest
		}
		for g := 8 * b; g < 8*b+8; g++ {
			group := (*[32]float32)(x[32*g:])
			if !finite {
				a.Units[g] = 1
				a.put(g, nil, a.Unit[b], 0)
				continue
			}
			units := min(max(float32(math.Ceil(float64(largestMagnitude(group[:])*perUnit))), 1), MostUnits)
			a.Units[g] = uint8(units)
			scale := a.Unit[b] * units
			a.put(g, group, scale, 1/scale)
		}
	}
}

// reshape makes room for n elements, whole blocks.
func (a *Activations) reshape(n, block int) {
	if n%block != 0 {
		panic("block: activations are not whole blocks")
	}
	groups := n / 32
	a.Q = grow(a.Q, n)
	a.Scale, a.Sum = grow(a.Scale, groups), grow(a.Sum, groups)
	a.Sum16, a.lanes = grow(a.Sum16, 2*groups), grow(a.lanes, 4*groups)
}

// put sets group g: the elements of x times inverse as integers, zeros where x is nil.
func (a *Activations) put(g int, x *[32]float32, scale, inverse float32) {
	q := (*[32]int8)(a.Q[32*g:])
	if x == nil {
		clear(q[:])
	} else {
		for j, v := range x {
			q[j] = int8(nearest(v * inverse))
		}
	}
	s0, s1 := packLanes((*[4][2]uint64)(a.lanes[4*g:]), q)
	a.Scale[g], a.Sum[g] = scale, scale*float32(s0+s1)
	a.Sum16[2*g], a.Sum16[2*g+1] = s0, s1
}

// grow returns a slice of n elements, s itself if it has the room. The content is not kept.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// sum32 is the sum of the integers of group g.
func (a *Activations) sum32(g int) int32 { return a.Sum16[2*g] + a.Sum16[2*g+1] }
