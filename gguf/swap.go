package gguf

import "slices"

// field is a run of count numbers of size bytes each inside a block.
type field struct{ size, count int }

// numbers gives the layout of a block by the sizes of its numbers, in order; what is missing at the end are single
// bytes. Types that are not listed hold one number per block, of the block's size, or single bytes alone.
//
// Two formats keep 32-bit words in fields that are declared as bytes or 16-bit numbers (IQ2_XXS, IQ3_XXS), and one 16-bit
// words (the scales of IQ1_M): the words that the quantizer stores are what has a byte order.
var numbers = map[Type][]field{
	Q4_0: {{2, 1}}, Q4_1: {{2, 2}}, Q5_0: {{2, 1}}, Q5_1: {{2, 2}}, Q8_0: {{2, 1}}, Q8_1: {{2, 2}},
	Q2_K: {{1, 80}, {2, 2}}, Q3_K: {{1, 108}, {2, 1}}, Q4_K: {{2, 2}}, Q5_K: {{2, 2}}, Q6_K: {{1, 208}, {2, 1}},
	Q8_K: {{4, 1}, {1, 256}, {2, 16}}, IQ2_XXS: {{2, 1}, {4, 16}}, IQ2_XS: {{2, 33}}, IQ2_S: {{2, 1}},
	IQ3_XXS: {{2, 1}, {1, 64}, {4, 8}}, IQ3_S: {{2, 1}}, IQ1_S: {{2, 1}, {1, 32}, {2, 8}}, IQ1_M: {{1, 48}, {2, 4}},
	IQ4_NL: {{2, 1}}, IQ4_XS: {{2, 2}}, TQ1_0: {{1, 52}, {2, 1}}, TQ2_0: {{1, 64}, {2, 1}},
	MXFP4: {}, NVFP4: {}, Q1_0: {{2, 1}}, Q2_0: {{2, 1}},
}

// swapBlocks reverses the byte order of all numbers in whole blocks of a known type. Done twice it changes nothing.
func swapBlocks(t Type, p []byte) {
	fields, ok := numbers[t]
	size := int(types[t].Bytes)
	if !ok {
		fields = []field{{size, 1}}
	}
	for ; len(p) >= size; p = p[size:] {
		pos := 0
		for _, f := range fields {
			for range f.count {
				if f.size > 1 {
					slices.Reverse(p[pos : pos+f.size])
				}
				pos += f.size
			}
		}
	}
}
