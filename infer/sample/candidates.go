package sample

import (
	"math"
	"slices"
)

// candidate is a token that may be drawn.
type candidate struct {
	id    int32
	logit float32
}

// before orders by falling logit, then by rising id.
func (c candidate) before(o candidate) bool {
	return c.logit > o.logit || c.logit == o.logit && c.id < o.id
}

// candidates is a list of tokens. Vocabularies are large and few tokens matter, so it is ordered only as far as needed.
type candidates []candidate

// all takes every possible token, by id.
func (c *candidates) all(logits []float32) {
	*c = (*c)[:0]
	for id, l := range logits {
		if !math.IsInf(float64(l), -1) {
			*c = append(*c, candidate{int32(id), l})
		}
	}
}

// best takes the k most likely tokens, in order.
func (c *candidates) best(logits []float32, k int) {
	// The heap's root is the worst of the best so far; almost all tokens are below it.
	worse := func(a, b candidate) bool { return b.before(a) }
	h := (*c)[:0]
	floor := float32(math.Inf(-1))
	for id, l := range logits {
		switch {
		case l <= floor: // an equal logit has a higher id
		case len(h) < k:
			h = append(h, candidate{int32(id), l})
			siftUp(h, worse)
			if len(h) == k {
				floor = h[0].logit
			}
		default:
			h[0] = candidate{int32(id), l}
			siftDown(h, 0, worse)
			floor = h[0].logit
		}
	}
	slices.SortFunc(h, func(a, b candidate) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	*c = h
}

// nucleus keeps the fewest most likely tokens with a total probability of at least p, in order.
func (c *candidates) nucleus(p float64, top float32) {
	h := *c
	total := 0.0
	for _, x := range h {
		total += math.Exp(float64(x.logit - top))
	}
	for i := len(h)/2 - 1; i >= 0; i-- {
		siftDown(h, i, candidate.before)
	}
	// The best one is popped to the end of the heap, so the kept ones gather there in reverse.
	sum, n := 0.0, len(h)
	for n > 0 {
		n--
		h[0], h[n] = h[n], h[0]
		siftDown(h[:n], 0, candidate.before)
		if sum += math.Exp(float64(h[n].logit - top)); sum >= p*total {
			break
		}
	}
	kept := h[n:]
	slices.Reverse(kept)
	*c = append(h[:0], kept...)
}

// above keeps tokens with a logit of at least floor.
func (c *candidates) above(floor float32) {
	*c = slices.DeleteFunc(*c, func(x candidate) bool { return x.logit < floor })
}

// siftUp moves the last element of a heap to its place; first(a, b) says that a stands above b.
func siftUp(h []candidate, first func(a, b candidate) bool) {
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !first(h[i], h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// siftDown moves element i of a heap to its place.
func siftDown(h []candidate, i int, first func(a, b candidate) bool) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if right := child + 1; right < len(h) && first(h[right], h[child]) {
			child = right
		}
		if !first(h[child], h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
