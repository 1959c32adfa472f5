package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/internal/par"
	"github.com/ggufkit/ggufkit/quantize/encode"
)

// TensorProof compares a tensor with what the checkpoint's conversion gives.
type TensorProof struct {
	Name      string `json:"name"`
	Type      string `json:"type"`
	Error     Number `json:"error"`     // of all values
	Explained Number `json:"explained"` // the same for the checkpoint's values in the tensor's type
	Cosine    Number `json:"cosine"`
	MaxError  Number `json:"max_error"`
	Rows      uint64 `json:"rows"`
	BadRows   uint64 `json:"bad_rows"` // with more error than the type explains
	// Groups are stretches of up to 32 elements of a row, the unit of most scales; Outliers are those that their type does not explain.
	Groups   uint64    `json:"groups"`
	Outliers uint64    `json:"outliers"`
	Worst    []Outlier `json:"worst,omitempty"` // of the outliers
	Fault    string    `json:"fault,omitempty"` // what is wrong, in words; "" where nothing is
}

// Outlier is a group of elements that does not hold what the checkpoint has.
type Outlier struct {
	Row       uint64 `json:"row"`
	Expert    uint64 `json:"expert"` // of tensors that hold several matrices; Row counts within
	Block     uint64 `json:"block"`  // of the row, by the blocks of the type
	First     uint64 `json:"first"`  // element of the row
	Last      uint64 `json:"last"`
	Error     Number `json:"error"`
	Explained Number `json:"explained"`
	Slope     Number `json:"slope"` // the file's values are about this many times the checkpoint's
}

// excess is how many times what is explained the error is, for a ranking.
func (o *Outlier) excess() float64 {
	if x := float64(o.Error) / (float64(o.Explained) + exactness); x == x {
		return x
	}
	return math.Inf(1)
}

// lostKey is a weight: consecutive rows of a tensor.
type lostKey struct {
	tensor string
	row    int
}

// lost is what the type of a weight explains: sums of squared errors by column and, of tables that are looked up, by row. share is the sum of all by the
// sum of the squared values.
type lost struct {
	columns []float64
	rows    []float64
	share   float64
}

const (
	groupSize = 32
	halfStep  = 1.0 / (1 << 25) // half the distance of the smallest F16 values: a quantized file may have been F16 before
	slabSize  = 1 << 18         // elements that a thread takes at once
	mostWorst = 4               // outliers that are told
)

// weights compares all tensors. Of those that the run multiplies by it keeps what their types explain.
func (p *prover) weights(ctx context.Context) error {
	pieces := map[string][]infer.TapWeight{}
	for _, w := range p.forced.tap.Weights() {
		pieces[w.Tensor] = append(pieces[w.Tensor], w)
	}
	var done, total uint64
	for i := range p.file.Tensors {
		n, err := p.file.Tensors[i].Elements()
		if err != nil {
			return err
		}
		total += n
	}
	for i := range p.file.Tensors {
		t := &p.file.Tensors[i]
		list := pieces[t.Name]
		slices.SortFunc(list, func(a, b infer.TapWeight) int { return cmp.Compare(a.Row, b.Row) })
		out, err := p.weigh(ctx, t, list, func(elements uint64) {
			done += elements
			p.progress("comparing weights", done, total)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		p.tensors[t.Name] = len(p.proof.Tensors)
		p.proof.Tensors = append(p.proof.Tensors, out)
	}
	for _, name := range p.plan.Names() {
		if _, ok := p.file.Tensor(name); !ok {
			t, _ := p.plan.Tensor(name)
			out := TensorProof{Name: name, Type: t.Type.String(), Error: 1, Rows: t.Rows(), BadRows: t.Rows(), Fault: "the file does not have it"}
			p.tensors[name] = len(p.proof.Tensors)
			p.proof.Tensors = append(p.proof.Tensors, out)
		}
	}
	return nil
}

// standIn is the tensor of the checkpoint that a file's tensor is compared with: another where two are tied and the file has both.
func (p *prover) standIn(name string) (*gguf.Tensor, bool) {
	if t, ok := p.plan.Tensor(name); ok {
		return t, true
	}
	for _, rule := range p.spec.Tensors {
		if rule.Name == name && rule.Tied != "" {
			return p.plan.Tensor(rule.Tied)
		}
	}
	return nil, false
}

// weigh compares one tensor, slab by slab. The sums are added in the order of the slabs, so that threads change no bit.
func (p *prover) weigh(ctx context.Context, t *gguf.Tensor, pieces []infer.TapWeight, progress func(elements uint64)) (TensorProof, error) {
	out := TensorProof{Name: t.Name, Type: t.Type.String(), Rows: t.Rows()}
	source, ok := p.standIn(t.Name)
	if !ok {
		out.Error, out.BadRows, out.Fault = Number(math.Inf(1)), out.Rows, "the checkpoint has no such tensor"
		return out, nil
	}
	if source.Shape[0] != t.Shape[0] || source.Rows() != t.Rows() {
		out.Error, out.BadRows, out.Fault = Number(math.Inf(1)), out.Rows, fmt.Sprintf("its shape is %v, the checkpoint's %v", t.Shape, source.Shape)
		return out, nil
	}
	read, err := p.plan.Reader(source.Name)
	if err != nil {
		return out, err
	}
	data, err := p.file.Data(t)
	if err != nil {
		return out, err
	}
	w := &weighing{tensor: t, width: t.Shape[0], data: data, read: read, table: strings.HasSuffix(t.Name, "_embd.weight"), sums: sums{badRow: noRow}}
	if w.rowBytes, err = t.Type.RowBytes(w.width); err != nil {
		return out, err
	}
	if len(t.Shape) == 1 || !cover(pieces, t.Rows()) { // a vector, one that the run does not use, or several matrices
		pieces = []infer.TapWeight{{Tensor: t.Name, Rows: int(t.Rows())}}
	}
	for _, piece := range pieces {
		l := &lost{columns: make([]float64, w.width)}
		if err := w.piece(ctx, uint64(piece.Row), uint64(piece.Row+piece.Rows), l, p.options.Threads, progress); err != nil {
			return out, err
		}
		p.lost[lostKey{t.Name, piece.Row}] = l
	}
	w.result(&out)
	out.Fault, err = w.fault(ctx, &out)
	return out, err
}

// result fills in what has been measured.
func (w *weighing) result(out *TensorProof) {
	w.allow()
	out.Error, out.Explained = Number(w.relative(w.diff)), Number(w.relative(w.own))
	out.Cosine, out.MaxError = Number(w.cosine()), Number(w.largest)
	out.Groups, out.Outliers, out.Worst, out.BadRows = w.groups, w.outliers, w.worst, w.badRows
}

// cover reports whether pieces follow each other and make up all rows.
func cover(pieces []infer.TapWeight, rows uint64) bool {
	var next uint64
	for _, piece := range pieces {
		if uint64(piece.Row) != next {
			return false
		}
		next += uint64(piece.Rows)
	}
	return next == rows
}

// weighing is the comparison of one tensor at work.
type weighing struct {
	tensor          *gguf.Tensor
	width, rowBytes uint64
	data            []byte
	read            func(lo, hi uint64, dst []float32) error
	table           bool // its rows are looked up
	sums
}

// sums are those of a stretch of rows.
type sums struct {
	contrast         // of the file's values with the checkpoint's
	own      float64 // squared error of the checkpoint's values in the tensor's type
	shift    float64 // sum of the differences
	elements uint64
	groups   uint64
	same     uint64 // groups with the error that our quantizer makes
	outliers uint64
	far      uint64 // those of the outliers that no importance matrix explains
	worst    []Outlier
	badRows  uint64
	badRow   uint64    // the first that is different altogether
	columns  []float64 // squared error in the tensor's type
	rows     []float64 // the same by row
}

const noRow = math.MaxUint64

// piece compares rows [lo, hi).
func (w *weighing) piece(ctx context.Context, lo, hi uint64, l *lost, threads int, progress func(elements uint64)) error {
	if threads < 1 {
		threads = par.Threads()
	}
	step := max(slabSize/w.width, 1)
	scratches := make([]slabScratch, threads)
	results, errs := make([]sums, threads), make([]error, threads)
	before := w.sums
	for at := lo; at < hi; at += step * uint64(threads) {
		if err := ctx.Err(); err != nil {
			return err
		}
		par.For(threads, threads, func(worker, i int) {
			results[i], errs[i] = sums{badRow: noRow}, nil
			if first := at + uint64(i)*step; first < hi {
				errs[i] = w.slab(first, min(first+step, hi), &scratches[worker], &results[i])
			}
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for i := range results {
			if results[i].elements > 0 {
				w.merge(&results[i], l)
				progress(results[i].elements)
			}
		}
	}
	if values := w.ref - before.ref; values > 0 {
		l.share = (w.own - before.own) / values
	}
	return nil
}

// allow takes back the outliers that an importance matrix explains, if there was one: without, nearly all groups have the error that our
// quantizer makes.
func (w *weighing) allow() {
	if float64(w.same) >= 0.9*float64(w.groups) {
		return
	}
	w.outliers = w.far
	w.worst = slices.DeleteFunc(w.worst, func(o Outlier) bool { return o.excess() <= farFactor })
}

// merge adds the sums of a slab.
func (w *weighing) merge(s *sums, l *lost) {
	w.contrast.merge(&s.contrast)
	w.own += s.own
	w.shift += s.shift
	w.elements += s.elements
	w.groups += s.groups
	w.same += s.same
	w.outliers += s.outliers
	w.far += s.far
	w.badRows += s.badRows
	w.badRow = min(w.badRow, s.badRow)
	w.worst = ranked(append(w.worst, s.worst...))
	for i, x := range s.columns {
		l.columns[i] += x
	}
	if w.table {
		l.rows = append(l.rows, s.rows...)
	}
}

// ranked keeps the worst outliers, in order.
func ranked(list []Outlier) []Outlier {
	slices.SortStableFunc(list, func(a, b Outlier) int { return cmp.Compare(b.excess(), a.excess()) })
	return list[:min(len(list), mostWorst)]
}

// slabScratch is what one thread works in.
type slabScratch struct {
	ref, got, own []float32
	blocks        []byte
}

// slab compares rows [lo, hi).
func (w *weighing) slab(lo, hi uint64, b *slabScratch, s *sums) error {
	n := (hi - lo) * w.width
	b.ref, b.got, b.own = sized(b.ref, n), sized(b.got, n), sized(b.own, n)
	b.blocks = sized(b.blocks, (hi-lo)*w.rowBytes)
	if err := w.read(lo, hi, b.ref); err != nil {
		return err
	}
	if err := encode.Rows(w.tensor.Type, b.blocks, b.ref, int(w.width), nil, nil); err != nil {
		return fmt.Errorf("the checkpoint's values: %w", err)
	}
	if err := encode.Decode(w.tensor.Type, b.own, b.blocks); err != nil {
		return err
	}
	if err := encode.Decode(w.tensor.Type, b.got, w.data[lo*w.rowBytes:hi*w.rowBytes]); err != nil {
		return err
	}
	s.columns, s.elements = make([]float64, w.width), n
	for row := lo; row < hi; row++ {
		at := (row - lo) * w.width
		w.row(row, b.ref[at:][:w.width], b.got[at:][:w.width], b.own[at:][:w.width], s)
	}
	return nil
}

func sized[T any](s []T, n uint64) []T {
	return slices.Grow(s[:0], int(n))[:n]
}

// group is the sums of a group of elements.
type group struct {
	contrast
	own    float64 // squared error of the checkpoint's values in the tensor's type
	ownDot float64 // of those with the checkpoint's values
}

// row compares one row: first what its type explains of all of it, which bounds from below what it explains of a group.
func (w *weighing) row(row uint64, ref, got, own []float32, s *sums) {
	var whole contrast
	whole.add(ref, got)
	var lostInRow float64
	for i, r := range ref {
		d := float64(own[i]) - float64(r)
		s.columns[i] += d * d
		lostInRow += d * d
		s.shift += float64(got[i]) - float64(r)
	}
	s.contrast.merge(&whole)
	s.own += lostInRow
	if w.table {
		s.rows = append(s.rows, lostInRow)
	}
	exact := exactness * exactness * whole.ref
	if info, _ := w.tensor.Type.Info(); info.Quantized() {
		exact += halfStep * halfStep * float64(len(ref))
	}
	if !(whole.diff <= groupFactor*groupFactor*lostInRow+exact) {
		s.badRows++
		if !(whole.diff <= 0.25*whole.ref) {
			s.badRow = min(s.badRow, row)
		}
	}
	if whole.diff == lostInRow && whole.diff == 0 {
		n := uint64(len(ref)+groupSize-1) / groupSize
		s.groups += n
		s.same += n
		return
	}
	least, floor := 0.0, exact/float64(len(ref))
	if whole.ref > 0 {
		least = lostInRow / whole.ref / 16 // a quarter of the relative error
	}
	for at := 0; at < len(ref); at += groupSize {
		end := min(at+groupSize, len(ref))
		g := grouped(ref[at:end], got[at:end], own[at:end])
		s.groups++
		if g.alike() {
			s.same++
		}
		squares, floor := max(g.own, least*g.ref), floor*float64(end-at)
		if g.explains(squares, floor) {
			continue
		}
		s.outliers++
		if !(g.diff <= farFactor*farFactor*squares+floor) {
			s.far++
		}
		s.worst = ranked(append(s.worst, w.outlier(row, uint64(at), uint64(end), &g)))
	}
}

func grouped(ref, got, own []float32) group {
	var g group
	g.contrast.add(ref, got)
	for i, r := range ref {
		r, o := float64(r), float64(own[i])
		g.own += (o - r) * (o - r)
		g.ownDot += r * o
	}
	return g
}

// alike reports whether the group has the error that our quantizer makes, give or take a twentieth.
func (g *group) alike() bool {
	return math.Abs(math.Sqrt(g.diff)-math.Sqrt(g.own)) <= 0.05*math.Sqrt(g.own)
}

// explains reports whether the squared error that a type explains, and some rounding, account for the group's.
func (g *group) explains(squares, floor float64) bool {
	if !(g.diff <= groupFactor*groupFactor*squares+floor) {
		return false
	}
	if g.ref == 0 {
		return true
	}
	slope := math.Abs(g.dot-g.ownDot) / g.ref
	return slope <= slopeFactor*math.Sqrt(squares/g.ref)+math.Sqrt(floor/g.ref)
}

// outlier describes a group.
func (w *weighing) outlier(row, first, end uint64, g *group) Outlier {
	info, _ := w.tensor.Type.Info()
	o := Outlier{Block: first / uint64(max(info.Block, 1)), First: first, Last: end - 1}
	o.Row, o.Expert = w.within(row)
	o.Error, o.Explained = Number(g.relative(g.diff)), Number(g.relative(g.own))
	if g.ref > 0 {
		o.Slope = Number(g.dot / g.ref)
	}
	return o
}

// within is a row by its number in the matrix that it belongs to, and the number of that among several.
func (w *weighing) within(row uint64) (number, expert uint64) {
	if len(w.tensor.Shape) < 3 {
		return row, 0
	}
	return row % w.tensor.Shape[1], row / w.tensor.Shape[1]
}
