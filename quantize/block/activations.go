package block

import "math"

// Activations is a vector in 8 bits with one scale per 32 elements: x[i] = Scale[i/32] * Q[i], -127 <= Q[i] <= 127.
// Quantize makes it; afterwards it may be read from several goroutines at once.
type Activations struct {
	Q     []int8
	Scale []float32
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
	if len(x)%32 != 0 {
		panic("block: activations are not whole groups of 32")
	}
	groups := len(x) / 32
	a.Q = grow(a.Q, len(x))
	a.Scale, a.Sum = grow(a.Scale, groups), grow(a.Sum, groups)
	a.Sum16, a.lanes = grow(a.Sum16, 2*groups), grow(a.lanes, 4*groups)
	for g := range groups {
		q := (*[32]int8)(a.Q[32*g:])
		a.Scale[g] = quantize8(q, (*[32]float32)(x[32*g:]))
		s0, s1 := packLanes((*[4][2]uint64)(a.lanes[4*g:]), q)
		a.Sum16[2*g], a.Sum16[2*g+1] = s0, s1
		a.Sum[g] = a.Scale[g] * float32(s0+s1)
	}
}

// quantize8 rounds one group and returns its scale.
func quantize8(q *[32]int8, x *[32]float32) float32 {
	largest := largestMagnitude(x[:])
	if !(largest >= tiniest && largest <= math.MaxFloat32) {
		clear(q[:])
		return largest - largest // NaN for infinity and NaN, else 0
	}
	inverse := 127 / largest
	for j, v := range x {
		q[j] = int8(nearest(v * inverse))
	}
	return largest / 127
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
