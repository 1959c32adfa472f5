package quantize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/encode"
	"github.com/ggufkit/ggufkit/quantize/mix"
)

// sampleElements is about how much of a tensor is measured; smaller ones are measured whole.
const sampleElements = 1 << 20

// Target is the size that a result must not exceed: one of the two.
type Target struct {
	Bytes uint64  // of all files
	BPW   float64 // bits per weight, over all tensors, as in Report
}

func (t Target) String() string {
	if t.BPW > 0 {
		return fmt.Sprintf("%g bits per weight", t.BPW)
	}
	return fmt.Sprintf("%d bytes", t.Bytes)
}

// RangeError reports a target that no choice of types can meet, or that is above the largest of them.
type RangeError struct {
	Target      Target
	Least, Most Target // the possible range
}

// Error names the range.
func (e *RangeError) Error() string {
	return fmt.Sprintf("a target of %s is out of range: from %s to %s are possible\n"+
		"hint: choose a target in this range, or give single tensors other types with --tensor-type", e.Target, e.Least, e.Most)
}

// NewTargetPlan chooses the type of every tensor so that the result is as near to f as it can be within a target. It
// measures what each type of mix.Candidates costs, on rows spread over the tensor (about 2^20 elements; all rows of smaller
// tensors), then minimizes the sum over the tensors of
//
//	elements * (sum of squared errors / sum of squared values)
//
// by mix.Allocate: relative errors are comparable between tensors whose values have different scales. Tensors that no recipe
// quantizes stay as they are, o.Mix may settle others; o.Recipe is not used. general.file_type is that of the recipe named for the type
// that holds most of the weights, since llama.cpp has no number for such mixtures.
//
// Of ro, Threads and Progress are used. Errors: *RangeError, *ValueError, and those of NewPlan.
func NewTargetPlan(ctx context.Context, f *gguf.File, o Options, target Target, ro RunOptions) (*Plan, error) {
	p, err := newTargetPlan(ctx, f, o, target, ro)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return p, nil
}

func newTargetPlan(ctx context.Context, f *gguf.File, o Options, target Target, ro RunOptions) (*Plan, error) {
	if (target.BPW > 0) == (target.Bytes > 0) {
		return nil, errors.New("a target is a number of bytes or of bits per weight, above 0")
	}
	m := mix.ModelOf(f.Meta)
	candidates, err := mix.Candidates(m, f.Tensors, o.Mix)
	if err != nil {
		return nil, err
	}
	if o.Recipe, err = mix.Parse("Q2_K"); err != nil {
		return nil, err
	}
	// This plan settles the other tensors, and fails before time is spent on measuring.
	p, err := newPlan(f, o)
	if err != nil {
		return nil, err
	}
	if _, err := p.allocate(candidates, nil, target); err != nil {
		return nil, err
	}
	measured, err := p.measure(ctx, candidates, ro)
	if err != nil {
		return nil, err
	}
	picks, err := p.allocate(candidates, measured, target)
	if err != nil {
		return nil, err
	}
	choices := make([]mix.Choice, len(p.Tensors))
	for i := range p.Tensors {
		choices[i] = p.Tensors[i].Choice
		if candidates[i] == nil {
			continue
		}
		c := &choices[i]
		c.To = candidates[i][picks[i]]
		c.Wanted, c.Fallback = c.To, false
		c.Rule = fmt.Sprintf("target of %s: relative rmse %.5f measured -> %s", target, measured[i][picks[i]].RelRMSE(), c.To)
	}
	nearest, err := nearestRecipe(p.Tensors, choices, candidates)
	if err != nil {
		return nil, err
	}
	r := *nearest
	r.Name = "target of " + target.String()
	o.Recipe = &r
	return assemble(f, o, choices)
}

// nearestRecipe is the recipe named for the type that most of the weights got, among those that had a choice.
func nearestRecipe(tensors []TensorPlan, choices []mix.Choice, candidates [][]gguf.Type) (*mix.Recipe, error) {
	weights := map[gguf.Type]uint64{}
	most := gguf.Q2_K
	for i, c := range choices {
		if candidates[i] == nil {
			continue
		}
		weights[c.To] += tensors[i].Elements
		if weights[c.To] > weights[most] {
			most = c.To
		}
	}
	return mix.Parse(most.String())
}

// measure gives the error sums of each candidate, from a sample of each tensor.
func (p *Plan) measure(ctx context.Context, candidates [][]gguf.Type, ro RunOptions) ([][]encode.Stats, error) {
	src, err := p.source.Reopen()
	if err != nil {
		return nil, err
	}
	defer src.Close()
	progress := Progress{}
	for i := range p.Tensors {
		progress.Total += p.Tensors[i].sampleRows() * uint64(len(candidates[i]))
	}
	stats := make([][]encode.Stats, len(candidates))
	for i := range p.Tensors {
		t := &p.Tensors[i]
		progress.Tensor = t.Name
		for _, to := range candidates[i] {
			s, err := p.sample(ctx, src, i, to, ro.Threads)
			if err != nil {
				return nil, err
			}
			stats[i] = append(stats[i], s)
			if progress.Done += t.sampleRows(); ro.Progress != nil {
				ro.Progress(progress)
			}
		}
	}
	return stats, nil
}

// sampleRows is the number of rows that are measured.
func (t *TensorPlan) sampleRows() uint64 {
	if t.Elements == 0 {
		return 0
	}
	return min(t.Elements/t.Shape[0], max(1, sampleElements/t.Shape[0]))
}

// sample measures one type on rows that are spread evenly over tensor i.
func (p *Plan) sample(ctx context.Context, src io.ReaderAt, i int, to gguf.Type, threads int) (encode.Stats, error) {
	t := &p.Tensors[i]
	if t.From == to || t.Elements == 0 {
		return encode.Stats{N: t.Elements}, nil // its bytes would stay
	}
	data := io.NewSectionReader(src, int64(p.source.DataOffset+p.source.Tensors[i].Offset), int64(t.SourceBytes))
	read, err := rowReader(data, t)
	if err != nil {
		return encode.Stats{}, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	n, rows, sampled := t.Shape[0], t.Elements/t.Shape[0], t.sampleRows()
	// Row k of the sample; in this order of operations nothing overflows.
	place := func(k uint64) uint64 { return k*(rows/sampled) + k*(rows%sampled)/sampled }
	stats, err := encode.Stream(ctx, io.Discard, encode.Job{
		Type: to, RowLen: n, Rows: sampled,
		Read: func(lo, hi uint64, dst []float32) error {
			for k := lo; k < hi; k++ {
				row := place(k)
				if err := read(row, row+1, dst[(k-lo)*n:(k-lo+1)*n]); err != nil {
					return err
				}
			}
			return nil
		},
	}, threads)
	if bad := (*encode.NonFiniteError)(nil); errors.As(err, &bad) {
		bad.Index = place(bad.Index/n)*n + bad.Index%n
	}
	if bad := (*encode.RangeError)(nil); errors.As(err, &bad) {
		bad.Index = place(bad.Index/n)*n + bad.Index%n
	}
	if err != nil {
		return stats, p.explain(err, i, data)
	}
	return stats, nil
}

// allocate picks a candidate for each tensor, within the target; settled tensors count with their size. Without
// measurements it tells only whether the target is within the possible range.
func (p *Plan) allocate(candidates [][]gguf.Type, measured [][]encode.Stats, target Target) ([]int, error) {
	alignment, fixed, err := p.overhead(candidates)
	if err != nil {
		return nil, err
	}
	parameters := uint64(0)
	items := make([][]mix.Option, len(p.Tensors))
	for i := range p.Tensors {
		t := &p.Tensors[i]
		parameters += t.Elements
		sizes := []mix.Option{{Size: t.Bytes}}
		if candidates[i] != nil {
			sizes = sizes[:0]
		}
		for k, to := range candidates[i] {
			out := gguf.Tensor{Name: t.Name, Type: to, Shape: t.Shape}
			n, err := out.Bytes()
			if err != nil {
				return nil, err
			}
			sizes = append(sizes, mix.Option{Size: n})
			if measured != nil {
				sizes[k].Cost = cost(measured[i][k], t.Elements)
			}
		}
		for k := range sizes {
			if target.Bytes > 0 { // each tensor of a file is padded
				sizes[k].Size += (alignment - sizes[k].Size%alignment) % alignment
			}
		}
		items[i] = sizes
	}
	budget := target.Bytes - min(fixed, target.Bytes)
	least := func(n uint64) Target { return Target{Bytes: n + fixed} }
	most := least
	if target.BPW > 0 {
		budget = uint64(min(target.BPW*float64(parameters)/8, math.MaxInt64))
		// Rounded to what is possible still.
		least = func(n uint64) Target { return Target{BPW: math.Ceil(bitsPerWeight(n, parameters)*1e4) / 1e4} }
		most = func(n uint64) Target { return Target{BPW: math.Floor(bitsPerWeight(n, parameters)*1e4) / 1e4} }
	}
	picks, err := mix.Allocate(items, budget)
	if out := (*mix.BudgetError)(nil); errors.As(err, &out) {
		return nil, &RangeError{target, least(out.Least), most(out.Most)}
	}
	return picks, err
}

// cost is a tensor's part of the sum that is minimized.
func cost(s encode.Stats, elements uint64) float64 {
	if s.SumErrSq == 0 || s.SumSq == 0 {
		return s.SumErrSq
	}
	return float64(elements) * s.SumErrSq / s.SumSq
}

// overhead is the alignment, and the size of the headers when all tensors that had a choice are said to have changed: no result has longer ones.
func (p *Plan) overhead(candidates [][]gguf.Type) (alignment, header uint64, err error) {
	choices := make([]mix.Choice, len(p.Tensors))
	for i := range p.Tensors {
		if choices[i] = p.Tensors[i].Choice; candidates[i] != nil {
			choices[i].To = gguf.F32
		}
	}
	meta := outputMeta(p.source, p.Recipe, choices)
	if alignment, err = meta.Alignment(); err != nil {
		return 0, 0, err
	}
	tensors := p.outputTensors()
	parts, err := gguf.SplitAt(meta, tensors, p.counts)
	if err != nil {
		return 0, 0, err
	}
	for _, part := range parts {
		data, _, err := gguf.Layout(part.Meta, tensors[part.Lo:part.Hi])
		if err != nil {
			return 0, 0, err
		}
		header += data
	}
	return alignment, header, nil
}
