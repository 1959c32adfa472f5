package kernel

// Share is how much the positions weigh that a query has attended to: Sum is that of exp(score - Top), and Top the largest score.
type Share struct {
	Top float32
	Sum float64
}

// Share is that of query i of the last Run.
func (s *AttentionScratch) Share(i int) Share {
	return Share{Top: s.states[i].top, Sum: s.states[i].sum}
}

// Merge adds other positions with their result: out, the result for a, becomes the one for both.
func (a *Share) Merge(out []float32, b Share, other []float32) {
	top := max(a.Top, b.Top) // NaN if either is
	sumA, sumB := a.Sum*float64(expGeneric(a.Top-top)), b.Sum*float64(expGeneric(b.Top-top))
	*a = Share{Top: top, Sum: sumA + sumB}
	partA, partB := float32(sumA/a.Sum), float32(sumB/a.Sum)
	other = other[:len(out)]
	for i, v := range out {
		out[i] = float32(v*partA) + float32(other[i]*partB)
	}
}
