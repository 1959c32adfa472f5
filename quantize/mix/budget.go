package mix

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ggufkit/ggufkit/gguf"
)

// budgetTypes are the types among which a budget chooses, smallest first.
var budgetTypes = []gguf.Type{gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.Q8_0}

// Candidates lists for each tensor the types that a budget may give it: K-quants and Q8_0, or what stands in for them where the rows are not
// whole blocks. The list is nil for tensors whose type is settled: those that no recipe quantizes, and those that o names a type for.
func Candidates(m Model, tensors []gguf.Tensor, o Options) ([][]gguf.Type, error) {
	overrides, err := compile(o.Overrides)
	if err != nil {
		return nil, err
	}
	out := make([][]gguf.Type, len(tensors))
	for i, s := range survey(&Recipe{}, m, tensors, o) {
		if _, _, ok := asked(&s, o, overrides); ok || s.keep != "" {
			continue
		}
		for _, t := range budgetTypes {
			if s.delicate() && less(t, gguf.Q8_0) {
				continue
			}
			if t = fit(t, s.shape[0]); !slices.Contains(out[i], t) {
				out[i] = append(out[i], t)
			}
		}
	}
	return out, nil
}

// Option is one way to store a tensor: its size and what that costs in accuracy. Costs are not negative.
type Option struct {
	Size uint64
	Cost float64
}

// BudgetError says that no choice of options meets the budget, or that all of them do with room to spare.
type BudgetError struct {
	Budget, Least, Most uint64 // Least and Most are the sizes of the smallest and the largest choice
}

// Error gives the range.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("a budget of %d is outside the possible range from %d to %d", e.Budget, e.Least, e.Most)
}

// Allocate picks one option for each item, so that the sum of costs is small and that of sizes at most budget. It returns the index of each
// item's option. The budget must be within the possible range, else the error is a *BudgetError.
//
// It walks along the lower convex hulls of (size, cost): at every moment the step that gains most per byte, which is the
// optimum for the Lagrangian of the problem. Steps that do not fit are passed over, and what is left then is filled with any
// other options that gain something. The cost exceeds the least possible by less than the largest single step on a hull.
func Allocate(items [][]Option, budget uint64) ([]int, error) {
	picks := make([]int, len(items))
	var steps []step
	e := &BudgetError{Budget: budget}
	for i, options := range items {
		hull := lowerHull(options)
		picks[i] = hull[0]
		e.Least += options[hull[0]].Size
		e.Most += slices.MaxFunc(options, func(a, b Option) int { return cmp.Compare(a.Size, b.Size) }).Size
		for k := 1; k < len(hull); k++ {
			steps = append(steps, newStep(i, hull[k], options[hull[k-1]], options[hull[k]]))
		}
	}
	if budget < e.Least || budget > e.Most {
		return nil, e
	}
	left := budget - e.Least
	// Along one hull gains per byte fall, so that the order of the list is the order of the steps of every item.
	slices.SortStableFunc(steps, steepest)
	stopped := make([]bool, len(items))
	for _, s := range steps {
		if s.size > left {
			stopped[s.item] = true
		}
		if !stopped[s.item] {
			picks[s.item] = s.to
			left -= s.size
		}
	}
	for {
		var fits []step
		for i, options := range items {
			now := options[picks[i]]
			for k, o := range options {
				if o.Cost < now.Cost && o.Size >= now.Size && o.Size-now.Size <= left {
					fits = append(fits, newStep(i, k, now, o))
				}
			}
		}
		if len(fits) == 0 {
			return picks, nil
		}
		s := slices.MinFunc(fits, steepest)
		picks[s.item] = s.to
		left -= s.size
	}
}

// step makes one item larger.
type step struct {
	item, to int
	size     uint64
	gain     float64 // of cost
}

func newStep(item, to int, from, o Option) step {
	return step{item, to, o.Size - from.Size, from.Cost - o.Cost}
}

// steepest orders steps by gain per byte, the largest first.
func steepest(a, b step) int { return cmp.Compare(b.gain*float64(a.size), a.gain*float64(b.size)) }

// lowerHull lists the options at the corners of the lower convex hull, from the smallest to the one that costs least.
func lowerHull(options []Option) []int {
	order := make([]int, len(options))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(options[a].Size, options[b].Size), cmp.Compare(options[a].Cost, options[b].Cost))
	})
	hull := order[:1:1]
	for _, k := range order[1:] {
		if options[k].Cost >= options[hull[len(hull)-1]].Cost {
			continue
		}
		for len(hull) > 1 {
			a, b := options[hull[len(hull)-2]], options[hull[len(hull)-1]]
			if steepest(newStep(0, 0, a, b), newStep(0, 0, b, options[k])) < 0 {
				break
			}
			hull = hull[:len(hull)-1]
		}
		hull = append(hull, k)
	}
	return hull
}
