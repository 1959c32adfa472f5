package block

// scales6 is how Q4_K and Q5_K store the 6-bit scales and minimums of their 8 groups in 12 bytes:
//
//	byte j   (j < 4)       scale j in the low 6 bits, the top 2 bits of scale j+4 above
//	byte j+4               minimum j in the low 6 bits, the top 2 bits of minimum j+4 above
//	byte j+8               the low 4 bits of scale j+4, the low 4 bits of minimum j+4 above
type scales6 = [12]byte

// unpackScales6 gives the scales and minimums, each below 64.
func unpackScales6(b *scales6) (scale, minimum [8]uint8) {
	for j := range 4 {
		scale[j], minimum[j] = b[j]&63, b[j+4]&63
		scale[j+4] = b[j+8]&15 | b[j]>>6<<4
		minimum[j+4] = b[j+8]>>4 | b[j+4]>>6<<4
	}
	return scale, minimum
}

// packScales6 is the inverse of unpackScales6 for values below 64.
func packScales6(b *scales6, scale, minimum *[8]uint8) {
	for j := range 4 {
		b[j] = scale[j] | scale[j+4]>>4<<6
		b[j+4] = minimum[j] | minimum[j+4]>>4<<6
		b[j+8] = scale[j+4]&15 | minimum[j+4]<<4
	}
}
