package eval

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/internal/kernel"
)

// stream is a model whose operations are handed out one by one.
type stream struct {
	model *infer.Model
	tap   *infer.Tap
	next  func() (*infer.TapOp, bool)
	stop  func()
	err   error // of the run, once it has ended
}

func (s *stream) close() {
	if s.stop != nil {
		s.stop()
	}
	s.model.Close()
}

// step runs ids as one sequence from its start.
func (s *stream) step(ids []int32, emit func(i int, logits []float32) error) error {
	session, err := s.model.NewSession()
	if err != nil {
		return err
	}
	defer session.Close()
	return session.AppendAll(ids, emit)
}

// start makes a coroutine of the run, which goes on only when the next operation is asked for.
func (s *stream) start(ids []int32) {
	s.next, s.stop = iter.Pull(func(yield func(*infer.TapOp) bool) {
		s.tap.After = func(op *infer.TapOp) error {
			if !yield(op) {
				return errEnough
			}
			return nil
		}
		s.err = s.step(ids, func(int, []float32) error { return nil })
	})
}

// errApart ends a run in which the models do not do the same operations.
var errApart = errors.New("the models do different operations")

// same is the next operation, which must be the one that the checkpoint has just done.
func (s *stream) same(want *infer.TapOp) (*infer.TapOp, error) {
	op, ok := s.next()
	switch {
	case !ok && s.err != nil:
		return nil, s.err
	case !ok || op.Layer != want.Layer || op.Name != want.Name || len(op.Values) != len(want.Values):
		return nil, errApart
	}
	return op, nil
}

// operation is a row of the report at work.
type operation struct {
	layer         int
	name          string
	weight        *infer.TapWeight // of the file; nil for none
	local, summed contrast
	explained     float64 // square of the error
}

// opKey tells operations apart.
type opKey struct {
	layer int
	name  string
}

// run takes the three models through the ids side by side. After each operation the activations of the one that is forced are replaced by the checkpoint's.
func (p *prover) run(ctx context.Context) error {
	p.free.start(p.ids)
	p.forced.start(p.ids)
	var order []*operation
	byKey := map[opKey]*operation{}
	rows := &logitsRows{vocab: p.reference.model.Params.NVocab}
	total := uint64(len(p.reference.tap.Weights()))
	p.reference.tap.After = func(ref *infer.TapOp) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		free, err := p.free.same(ref)
		if err != nil {
			return p.apart(ref, err)
		}
		forced, err := p.forced.same(ref)
		if err != nil {
			return p.apart(ref, err)
		}
		key := opKey{ref.Layer, ref.Name}
		op := byKey[key]
		if op == nil {
			op = &operation{layer: ref.Layer, name: ref.Name, weight: forced.Weight}
			byKey[key] = op
			order = append(order, op)
		}
		op.summed.add(ref.Values, free.Values)
		op.local.add(ref.Values, forced.Values)
		op.explained += p.explained(ref, forced)
		forced.Replace(ref.Values)
		rows.hold(free)
		p.progress("running", uint64(min(len(order)/2, int(total))), total)
		return nil
	}
	var file, recorded, recordedFile logits
	err := p.reference.step(p.ids, func(i int, row []float32) error {
		got := rows.row()
		file.add(row, got)
		if p.options.Recorded != nil {
			want := p.options.Recorded[i*len(row):][:len(row)]
			recorded.add(want, row)
			recordedFile.add(want, got)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errApart) {
		return err
	}
	if more, ok := p.free.next(); ok && err == nil {
		p.proof.Findings = append(p.proof.Findings, Finding{
			Layer: more.Layer, Operation: more.Name, Error: Number(math.Inf(1)), Keys: p.differing(more.Name),
			Why: "the file's model does this operation after all that the checkpoint's does",
		})
	}
	for _, op := range order {
		p.proof.Operations = append(p.proof.Operations, p.operation(op))
	}
	p.proof.Logits = file.result()
	if p.options.Recorded != nil {
		a, b := recorded.result(), recordedFile.result()
		p.proof.RecordedCheckpoint, p.proof.RecordedFile = &a, &b
	}
	return nil
}

// apart notes an operation that the file's model does not do.
func (p *prover) apart(ref *infer.TapOp, err error) error {
	if errors.Is(err, errApart) {
		p.proof.Findings = append(p.proof.Findings, Finding{
			Layer: ref.Layer, Operation: ref.Name, Error: Number(math.Inf(1)), Keys: p.differing(ref.Name),
			Why: "the checkpoint's model does this operation, the file's another: what comes after it was not compared",
		})
	}
	return err
}

// explained is the squared error that the quantization of an operation's weight explains in its result, if its errors are independent of each other:
// the sum over the columns of their squared error, times the squares of what meets them.
func (p *prover) explained(ref, forced *infer.TapOp) float64 {
	if forced.Weight == nil {
		return 0
	}
	l := p.lost[lostKey{forced.Weight.Tensor, forced.Weight.Row}]
	if l == nil {
		return 0
	}
	var sum float64
	switch {
	case ref.IDs != nil:
		for _, id := range ref.IDs {
			sum += l.rows[id]
		}
	case ref.Input != nil:
		for lo := 0; lo+len(l.columns) <= len(ref.Input); lo += len(l.columns) {
			for i, x := range ref.Input[lo:][:len(l.columns)] {
				sum += float64(x) * float64(x) * l.columns[i]
			}
		}
	default: // a norm, whose weights are vectors
		var values float64
		for _, x := range ref.Values {
			values += float64(x) * float64(x)
		}
		sum = values * l.share
	}
	return sum
}

// operation is a finished row of the report.
func (p *prover) operation(op *operation) OperationProof {
	local, explained := op.local.relative(op.local.diff), op.local.relative(op.explained)
	out := OperationProof{
		Layer: op.layer, Operation: op.name,
		Local: Number(local), Explained: Number(explained), Allowed: Number(operationFactor*explained + roundings),
		Error: Number(op.summed.relative(op.summed.diff)), Cosine: Number(op.summed.cosine()),
	}
	if op.weight != nil {
		out.Tensor = op.weight.Tensor
		if t, ok := p.file.Tensor(out.Tensor); ok {
			out.Type = t.Type.String()
		}
	}
	return out
}

// logitsRows finds the file's logits of a token. They come in blocks of rows; the checkpoint's are handed out one by one while those stand.
type logitsRows struct {
	vocab  int
	values []float32
	next   int
}

// hold keeps a result that can be logits: it stands until the operation that follows.
func (l *logitsRows) hold(op *infer.TapOp) {
	if op.Layer < 0 && op.Rows*l.vocab == len(op.Values) {
		l.values, l.next = op.Values, 0
	}
}

func (l *logitsRows) row() []float32 {
	row := l.values[l.next*l.vocab:][:l.vocab]
	l.next++
	return row
}

// logits compares logits row by row.
type logits struct {
	contrast
	rows, sameTop int
	kld, kldMax   float64
	scratch       []float32
}

func (l *logits) add(ref, got []float32) {
	l.contrast.add(ref, got)
	l.scratch = append(l.scratch[:0], ref...)
	kernel.Softmax(l.scratch, 1)
	kld := expectation(l.scratch, ref, got) - kernel.LogSumExp(ref) + kernel.LogSumExp(got)
	l.rows++
	l.kld += kld
	if !(kld <= l.kldMax) {
		l.kldMax = kld
	}
	if kernel.ArgMax(ref) == kernel.ArgMax(got) {
		l.sameTop++
	}
}

func (l *logits) result() LogitsProof {
	n := float64(max(l.rows, 1))
	return LogitsProof{
		Error: Number(l.relative(l.diff)), Cosine: Number(l.cosine()), MaxError: Number(l.largest),
		KLD: Number(l.kld / n), KLDMax: Number(l.kldMax), SameTop: Number(float64(l.sameTop) / n),
	}
}

// String is the comparison in a line.
func (l *LogitsProof) String() string {
	return fmt.Sprintf("error %.3g, cosine %.6f, largest difference %.3g, divergence %.3g mean, %.3g at most, same top %.1f %%",
		l.Error, l.Cosine, l.MaxError, l.KLD, l.KLDMax, 100*l.SameTop)
}
