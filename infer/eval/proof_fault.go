package eval

import (
	"context"
	"fmt"
	"math"

	"github.com/ggufkit/ggufkit/quantize/encode"
)

// fault says what is wrong with a tensor, "" where its type explains all differences.
func (w *weighing) fault(ctx context.Context, t *TensorProof) (string, error) {
	whole := !(w.diff <= tensorFactor*tensorFactor*w.own+exactness*exactness*w.ref)
	if !whole && w.outliers == 0 {
		return "", nil
	}
	n := float64(w.elements)
	mean := w.shift / n
	slope := 0.0
	if w.ref > 0 {
		slope = w.dot / w.ref
	}
	// What is left of the error when the values are shifted or scaled back.
	unshifted, unscaled := w.diff-n*mean*mean, w.got-slope*w.dot
	small := max(0.01*w.diff, tensorFactor*tensorFactor*w.own)
	switch {
	case w.diff != w.diff || math.IsInf(w.diff, 0):
		return "it holds values that are no numbers", nil
	case w.got == 0:
		return "all its values are zero", nil
	case whole && unshifted <= small && n > 1:
		return fmt.Sprintf("all its values are off by about %+.4g", mean), nil
	case whole && unscaled <= small && math.Abs(slope-1) > 0.01:
		return fmt.Sprintf("all its values are about %.4g times the checkpoint's", slope), nil
	}
	if w.badRow != noRow && t.Rows > 1 {
		from, cosine, err := w.origin(ctx, w.badRow)
		if err != nil {
			return "", err
		}
		if cosine > 0.9 && from != w.badRow {
			return fmt.Sprintf("its rows are in another order: %s holds %s of the checkpoint's, and %d of %d rows differ",
				w.rowName(w.badRow), w.rowName(from), t.BadRows, t.Rows), nil
		}
	}
	if w.outliers > 0 {
		o := &t.Worst[0]
		return fmt.Sprintf("%d of %d groups of %d elements are not explained by the type: the worst, %s, block %d, elements %d to %d, is %.4g times the checkpoint's with an error of %.3g",
			t.Outliers, t.Groups, groupSize, w.expertRow(o.Row, o.Expert), o.Block, o.First, o.Last, o.Slope, o.Error), nil
	}
	return "its error is more than the type explains", nil
}

// origin finds the row of the checkpoint that a row of the file is most like, and the cosine between the two.
func (w *weighing) origin(ctx context.Context, row uint64) (from uint64, best float64, err error) {
	got := make([]float32, w.width)
	if err := encode.Decode(w.tensor.Type, got, w.data[row*w.rowBytes:][:w.rowBytes]); err != nil {
		return 0, 0, err
	}
	step := max(slabSize/w.width, 1)
	var ref []float32
	for lo := uint64(0); lo < w.tensor.Rows(); lo += step {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		hi := min(lo+step, w.tensor.Rows())
		ref = sized(ref, (hi-lo)*w.width)
		if err := w.read(lo, hi, ref); err != nil {
			return 0, 0, err
		}
		for r := lo; r < hi; r++ {
			var c contrast
			c.add(ref[(r-lo)*w.width:][:w.width], got)
			if x := c.cosine(); x > best && c.ref > 0 {
				from, best = r, x
			}
		}
	}
	return from, best, nil
}

// rowName is what a message calls a row.
func (w *weighing) rowName(row uint64) string { return w.expertRow(w.within(row)) }

func (w *weighing) expertRow(number, expert uint64) string {
	if len(w.tensor.Shape) < 3 {
		return fmt.Sprintf("row %d", number)
	}
	return fmt.Sprintf("row %d of expert %d", number, expert)
}
