package eval

import "iter"

// CompareLogits is Compare with the logits of a model that ran elsewhere: a row for each scored token of the base file.
func CompareLogits(base *BaseFile, logits []float32) (Divergence, error) {
	o := CompareOptions{Windows: base.Windows}
	list, err := o.cut(len(base.IDs), o.Context)
	if err != nil {
		return Divergence{}, err
	}
	return o.hold(base.IDs, list, func(yield func(scoredRow, error) bool) {
		for _, w := range list {
			for token := w.first; token < w.end; token++ {
				row := newLogitRow(logits[:base.Vocab])
				logits = logits[base.Vocab:]
				if !yield(scoredRow{token, row}, nil) {
					return
				}
			}
		}
	}, iter.Seq2[baseRow, error](base.distributions()))
}

// SaveLogits writes the row of a scored token of a model that ran elsewhere.
func SaveLogits(b *BaseWriter, logits []float32, next int32) error {
	return b.add(newLogitRow(logits), next)
}
