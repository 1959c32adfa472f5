package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/atomicfile"
	"github.com/ggufkit/ggufkit/quantize/encode"
)

// TensorReport is what happened to one tensor.
type TensorReport struct {
	Name  string
	Type  gguf.Type
	Rule  string
	Stats encode.Stats // with Options.Stats, of tensors that lose precision; else zero
	// Underflow counts values that became zero in F16.
	Underflow uint64
}

// Inputs are the files that the output must not replace: the checkpoint's weights, settings and vocabularies. An earlier output may stand
// among them.
func (p *Plan) Inputs() []string {
	var paths []string
	for i := range p.ckpt.Tensors {
		if path := filepath.Join(p.ckpt.Dir, p.ckpt.Tensors[i].File); !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	entries, _ := os.ReadDir(p.ckpt.Dir) // it could be read a moment ago; if not any more, the weights are listed already
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".json", ".model", ".jinja", ".txt":
			paths = append(paths, filepath.Join(p.ckpt.Dir, e.Name()))
		}
	}
	return paths
}

// write converts one tensor.
func (p *Plan) write(ctx context.Context, w io.Writer, t *PlannedTensor, o Options, progress func(int)) (TensorReport, error) {
	report := TensorReport{Name: t.Name, Type: t.Type, Rule: t.Rule}
	src, err := p.source(t)
	if err != nil {
		return report, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	read := src.read
	var half halfRange
	watched := read
	if t.Type == gguf.F16 {
		watched = half.watch(read)
	}
	job := encode.Job{Type: t.Type, RowLen: t.Shape[0], Rows: t.Rows(), Read: watched, NoStats: !o.Stats || t.lossless(), Progress: progress}
	report.Stats, err = encode.Stream(ctx, w, job, o.Threads)
	report.Underflow = half.under.Load()
	if bad := (*encode.RangeError)(nil); errors.As(err, &bad) && t.Type == gguf.F16 {
		return report, outOfRange(t, read)
	}
	if bad := (*encode.NonFiniteError)(nil); errors.As(err, &bad) {
		return report, nonFinite(t, src, bad)
	}
	if err != nil && !atomicfile.NamesFile(err) {
		err = fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	return report, err
}

// nonFinite says where in the checkpoint a NaN or infinity stands.
func nonFinite(t *PlannedTensor, src source, bad *encode.NonFiniteError) error {
	row, col := src.origin(bad.Index/t.Shape[0], bad.Index%t.Shape[0])
	return &valueError{bad, fmt.Sprintf("tensor %s (%s): the value at row %d, column %d of the source is %g\n"+
		"hint: the checkpoint is damaged or its training diverged; weights must be finite", t.Name, sourceOf(t), row, col, bad.Value)}
}

// valueError says of a value what its cause says, and where in the checkpoint it stands.
type valueError struct {
	cause *encode.NonFiniteError
	text  string
}

func (e *valueError) Error() string { return e.text }
func (e *valueError) Unwrap() error { return e.cause }

// sourceOf names where a tensor comes from.
func sourceOf(t *PlannedTensor) string {
	if len(t.Sources) == 0 {
		return "computed"
	}
	return fmt.Sprintf("%s in %s", t.Sources[0].Name, t.Sources[0].File)
}

// lossless reports whether the tensor's type holds every value of its source.
func (t *PlannedTensor) lossless() bool {
	return t.Type == gguf.F32 || len(t.Sources) > 0 && stored[t.Sources[0].DType] == t.Type
}

// outOfRange counts all values of a tensor that F16 cannot hold.
func outOfRange(t *PlannedTensor, read rowReader) error {
	var half halfRange
	count := half.watch(read)
	const slab = 1 << 18
	rows, step := t.Rows(), max(1, slab/t.Shape[0])
	buf := make([]float32, step*t.Shape[0])
	for lo := uint64(0); lo < rows; lo += step {
		hi := min(rows, lo+step)
		if err := count(lo, hi, buf[:(hi-lo)*t.Shape[0]]); err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
	}
	return fmt.Errorf("tensor %s (%s): %d values exceed the range of F16 (overflow) and %d would become zero (underflow)\n"+
		"hint: --type auto and bf16 keep the range", t.Name, sourceOf(t), half.over.Load(), half.under.Load())
}

// halfRange counts values that F16 cannot hold.
type halfRange struct{ over, under atomic.Uint64 }

// Values from halfMax on round to infinity in F16, those up to halfMin to zero (both halfway to the next number, ties to even).
const (
	halfMax = 65520
	halfMin = 1.0 / (1 << 25)
)

// watch counts while rows are read.
func (h *halfRange) watch(read rowReader) rowReader {
	return func(lo, hi uint64, dst []float32) error {
		if err := read(lo, hi, dst); err != nil {
			return err
		}
		var over, under uint64
		for _, v := range dst {
			switch a := max(v, -v); {
			case a >= halfMax && a <= math.MaxFloat32:
				over++
			case a <= halfMin && a != 0:
				under++
			}
		}
		h.over.Add(over)
		h.under.Add(under)
		return nil
	}
}
