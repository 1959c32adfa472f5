package block

import "encoding/binary"

// Dot products of small integers, four at a time in one 64-bit multiplication.
//
// Take X = 2^16. Four weights, unsigned, are the digits of w = w0 + w1*X + w2*X^2 + w3*X^3; four activations, signed, are
// those of q = q0*X^3 + q1*X^2 + q2*X + q3. The digit of X^3 in w*q is w0*q0 + w1*q1 + w2*q2 + w3*q3, and what is above it
// leaves the 64 bits. It can be read off as long as its magnitude and that of the digit of X^2 stay below 2^15.
// Products may be added before that: 16 weights of 4 bits, 8 of 5 bits or 4 of 6 bits.
//
// Bytes b0 to b7 in a word give the lanes b0 b2 b4 b6 and, one byte to the right, b1 b3 b5 b7. So each 8 activations are two
// words: those with even and those with odd index.

const (
	byteLanes   = 0x00ff00ff00ff00ff
	nibbleLanes = 0x000f000f000f000f
	nibbleBytes = 0x0f0f0f0f0f0f0f0f
)

// digit reads the digit of X^3 from a sum of products.
func digit(p uint64) int32 { return int32(int64(p+1<<47) >> 48) }

// packLanes lays out 32 activations and sums the first and the last 16.
func packLanes(lanes *[4][2]uint64, q *[32]int8) (s0, s1 int32) {
	for r := range 4 {
		x := (*[8]int8)(q[8*r:])
		a, b, c, d := int64(x[0]), int64(x[2]), int64(x[4]), int64(x[6])
		e, f, g, h := int64(x[1]), int64(x[3]), int64(x[5]), int64(x[7])
		lanes[r][0] = uint64(a<<48 + b<<32 + c<<16 + d)
		lanes[r][1] = uint64(e<<48 + f<<32 + g<<16 + h)
		s := int32(a + b + c + d + e + f + g + h)
		if r < 2 {
			s0 += s
		} else {
			s1 += s
		}
	}
	return s0, s1
}

// word reads 8 bytes.
func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

func putWord(b []byte, w uint64) { binary.LittleEndian.PutUint64(b, w) }

// dotNibbles adds up the products of 16 weights of 4 bits, those in the low halves of w with the 8 activations of lo and those
// in the high halves with the 8 of hi.
func dotNibbles(w uint64, lo, hi *[2]uint64) int32 {
	return digit((w&nibbleLanes)*lo[0] + (w>>4&nibbleLanes)*hi[0] + (w>>8&nibbleLanes)*lo[1] + (w>>12&nibbleLanes)*hi[1])
}

// dot5 adds up the products of 8 weights below 32, one in each byte of w, with 8 activations.
func dot5(w uint64, q *[2]uint64) int32 { return digit((w&byteLanes)*q[0] + (w>>8&byteLanes)*q[1]) }

// dot6 adds up the products of 8 weights below 64, one in each byte of w, with 8 activations.
func dot6(w uint64, q *[2]uint64) int32 {
	return digit((w&byteLanes)*q[0]) + digit((w>>8&byteLanes)*q[1])
}

// dot8 adds up the products of 8 weights below 256, one in each byte of w, with 8 activations.
func dot8(w uint64, q *[2]uint64) int32 {
	low := (w&nibbleLanes)*q[0] + (w>>8&nibbleLanes)*q[1]
	high := (w>>4&nibbleLanes)*q[0] + (w>>12&nibbleLanes)*q[1]
	return digit(low) + digit(high)<<4
}

// spreadBits gives byte k of the result the value 16 if bit k of b is set, else 0.
func spreadBits(b uint8) uint64 {
	x := uint64(b) * 0x0101010101010101 & 0x8040201008040201
	return (x + 0x7f7f7f7f7f7f7f7f) & 0x8080808080808080 >> 3
}

// gatherBits is the inverse of spreadBits; it looks at no other bits.
func gatherBits(w uint64) uint8 {
	return uint8(w >> 4 & 0x0101010101010101 * 0x0102040810204080 >> 56)
}
