package mix

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// best is the least cost within a budget, by trying everything.
func best(items [][]Option, budget uint64) float64 {
	if len(items) == 0 {
		return 0
	}
	least := math.Inf(1)
	for _, o := range items[0] {
		if o.Size <= budget {
			least = min(least, o.Cost+best(items[1:], budget-o.Size))
		}
	}
	return least
}

// Allocations keep within the budget and cost at most one step more than the best of all; most are the best (field report R048).
func TestAllocateAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(48, 1))
	optimal, total := 0, 0
	for range 300 {
		items := make([][]Option, 1+r.IntN(5))
		var least, most uint64
		largest := 0.0 // step of cost of any item
		for i := range items {
			lo, hi := uint64(math.MaxUint64), uint64(0)
			cheap, dear := math.Inf(1), 0.0
			for range 1 + r.IntN(6) {
				o := Option{Size: uint64(1 + r.IntN(60)), Cost: float64(r.IntN(1000))}
				items[i] = append(items[i], o)
				lo, hi = min(lo, o.Size), max(hi, o.Size)
				cheap, dear = min(cheap, o.Cost), max(dear, o.Cost)
			}
			least, most, largest = least+lo, most+hi, max(largest, dear-cheap)
		}
		for budget := least; budget <= most; budget++ {
			picks, err := Allocate(items, budget)
			if err != nil {
				t.Fatal(err)
			}
			size, cost := uint64(0), 0.0
			for i, k := range picks {
				size += items[i][k].Size
				cost += items[i][k].Cost
			}
			want := best(items, budget)
			if size > budget || cost > want+largest {
				t.Fatalf("%v, budget %d: %v has size %d, cost %g; the best is %g", items, budget, picks, size, cost, want)
			}
			if total++; cost == want {
				optimal++
			}
		}
		for _, budget := range []uint64{least - 1, most + 1} {
			e := (*BudgetError)(nil)
			if _, err := Allocate(items, budget); !errors.As(err, &e) || e.Least != least || e.Most != most {
				t.Errorf("budget %d: %v, want the range %d to %d", budget, err, least, most)
			}
		}
	}
	if optimal*4 < total*3 {
		t.Errorf("only %d of %d allocations are the best", optimal, total)
	}
}

// With convex costs and a budget on the path of steps the result is the optimum (field report R048).
func TestAllocateHull(t *testing.T) {
	items := [][]Option{
		{{10, 100}, {20, 40}, {30, 35}},
		{{10, 90}, {20, 60}, {30, 50}},
		{{5, 0}},
	}
	for budget, want := range map[uint64][]int{
		25: {0, 0, 0}, 34: {0, 0, 0}, 35: {1, 0, 0}, 45: {1, 1, 0}, 55: {1, 2, 0}, 65: {2, 2, 0},
	} {
		if got, err := Allocate(items, budget); err != nil || !slices.Equal(got, want) {
			t.Errorf("budget %d: %v, %v, want %v", budget, got, err, want)
		}
	}
}

// Kept tensors and those with a type of their own have no candidates; rows that are not whole blocks have what stands in (field report R048).
func TestCandidates(t *testing.T) {
	q8 := gguf.Q8_0
	tensors := []gguf.Tensor{
		{Name: "token_embd.weight", Shape: []uint64{256, 10}},
		{Name: "output.weight", Shape: []uint64{256, 10}},
		{Name: "output_norm.weight", Shape: []uint64{256}},
		{Name: "blk.0.ffn_gate_inp.weight", Shape: []uint64{256, 4}},
		{Name: "blk.0.attn_v.weight", Shape: []uint64{256, 64}},
		{Name: "blk.0.ffn_down.weight", Shape: []uint64{96, 64}},
		{Name: "blk.0.ffn_up.weight", Shape: []uint64{100, 64}},
	}
	got, err := Candidates(Model{Arch: "llama", Layers: 1}, tensors, Options{OutputType: &q8, Overrides: []Override{{"attn_v", gguf.F16}}})
	if err != nil {
		t.Fatal(err)
	}
	want := [][]gguf.Type{
		budgetTypes, nil, nil, nil, nil,
		{gguf.Q4_0, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0},
		{gguf.F16},
	}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%v, want %v", got, want)
	}
}
