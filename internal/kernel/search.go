package kernel

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// ArgMax is the index of the largest x, the first of several. It is -1 if x is empty, all minus infinity, or has a NaN.
func ArgMax(x []float32) int { return current().argMax(x) }

func (s *set) argMax(x []float32) int {
	top := s.max(x)
	if top != top || top == minusInfinity {
		return -1
	}
	first := -1
	s.eachAtLeast(x, top, func(i int) bool {
		first = i
		return false
	})
	return first
}

// TopK appends to dst the indices of the k largest x, from the largest down, the first index first among equals. NaN counts as minus
// infinity, and what is minus infinity is left out.
func TopK(dst []int32, x []float32, k int) []int32 { return current().topK(dst, x, k) }

func (s *set) topK(dst []int32, x []float32, k int) []int32 {
	if k <= 0 {
		return dst
	}
	start := len(dst)
	s.eachAtLeast(x, s.limit(x, k), func(i int) bool {
		if x[i] > minusInfinity {
			dst = append(dst, int32(i))
		}
		return true
	})
	slices.SortFunc(dst[start:], func(a, b int32) int {
		return cmp.Or(cmp.Compare(x[b], x[a]), cmp.Compare(a, b))
	})
	return dst[:min(len(dst), start+k)]
}

// limit is a value that at least k numbers of x reach, if there are as many, and not many more: the k-th largest of the largest values of
// pieces of x, of which there are about four times as many.
func (s *set) limit(x []float32, k int) float32 {
	piece := len(x) / 4 / k &^ 7
	if piece < 16 {
		return minusInfinity
	}
	tops := make([]float32, 0, len(x)/piece+1)
	for at := 0; at < len(x); at += piece {
		if top := s.max(x[at:min(at+piece, len(x))]); top == top { // pieces with NaN cannot tell
			tops = append(tops, top)
		}
	}
	if len(tops) < k {
		return minusInfinity
	}
	slices.Sort(tops)
	return tops[len(tops)-k]
}

// searchPiece is how many elements eachAtLeast compares before it looks at the results.
const searchPiece = 1 << 10

// eachAtLeast calls use for the indices of the elements that are at least limit, in order, until it returns false.
func (s *set) eachAtLeast(x []float32, limit float32, use func(i int) bool) {
	var mask [searchPiece / 8]byte
	for at := 0; at < len(x); at += searchPiece {
		piece := x[at:min(at+searchPiece, len(x))]
		whole := len(piece) &^ 7
		clear(mask[:])
		s.atLeast(mask[:whole/8], piece[:whole], limit)
		for word := 0; word < whole; word += 64 {
			for set := binary.LittleEndian.Uint64(mask[word/8:]); set != 0; set &= set - 1 {
				if !use(at + word + bits.TrailingZeros64(set)) {
					return
				}
			}
		}
		for i := whole; i < len(piece); i++ {
			if piece[i] >= limit && !use(at+i) {
				return
			}
		}
	}
}

// LogSumExp is log(sum(exp(x))) in float64, as needed for perplexity: the logarithm of what Softmax divides by. x is not changed.
func LogSumExp(x []float32) float64 { return current().logSumExp(x) }

func (s *set) logSumExp(x []float32) float64 {
	top := s.max(x)
	if top != top || math.IsInf(float64(top), 0) {
		return float64(top)
	}
	var piece [searchPiece]float32
	var sum float64
	for at := 0; at < len(x); at += searchPiece {
		sum += s.expSum(piece[:copy(piece[:], x[at:])], top)
	}
	return float64(top) + math.Log(sum)
}
