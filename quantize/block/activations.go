package block

// Activations is a vector in 8 bits with one scale per 32 elements: x[i] = Scale[i/32] * Q[i].
// Sum[j] is Scale[j] times the sum of the 32 integers of group j (for formats with a minimum).
type Activations struct {
	Q     []int8
	Scale []float32
	Sum   []float32
}

// Quantize fills a from x (len(x) a multiple of 32), reusing its storage.
func (a *Activations) Quantize(x []float32) {}
