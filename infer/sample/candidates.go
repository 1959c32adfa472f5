package sample

import (
	"cmp"
	"math"
	"slices"
)

// candidate is a token that may be drawn.
type candidate struct {
	id    int32
	logit float32
}

// compare orders by falling logit, then by rising id.
func (c candidate) compare(o candidate) int {
	return cmp.Or(cmp.Compare(o.logit, c.logit), cmp.Compare(c.id, o.id))
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

const (
	// Tokens are grouped by how far their logits are below the highest: binsPerUnit groups from one integer to the next, bins in all.
	binsPerUnit = 64
	bins        = 2048
	// rounding is what a total of probabilities in float32 may be off by.
	rounding = 1e-6
)

// nucleus keeps the fewest most likely tokens that together have a probability of at least p, at least one. probs are those of the
// tokens. Only tokens of the group in which the total reaches p need to be ordered; they go through edge, an empty list.
func nucleus(c, edge candidates, probs []float32, top, p float32) (kept, used candidates) {
	bin := func(x candidate) int { return int(min((top-x.logit)*binsPerUnit, bins-1)) }
	var mass [bins]float64
	highest := float32(0)
	for i, x := range c {
		mass[bin(x)] += float64(probs[i])
		highest = max(highest, probs[i])
	}
	needed := float64(p) * (1 - rounding)
	last, sum := 0, 0.0
	for ; last < bins-1 && sum+mass[last] < needed; last++ {
		sum += mass[last]
	}
	kept = c[:0]
	for _, x := range c {
		switch b := bin(x); {
		case b < last:
			kept = append(kept, x)
		case b == last:
			edge = append(edge, x)
		}
	}
	slices.SortFunc(edge, candidate.compare)
	for _, x := range edge {
		kept = append(kept, x)
		if sum += float64(highest) * math.Exp(float64(x.logit-top)); sum >= needed {
			break
		}
	}
	return kept, edge
}

// above keeps tokens with a logit of at least floor.
func (c *candidates) above(floor float32) {
	*c = slices.DeleteFunc(*c, func(x candidate) bool { return x.logit < floor })
}
