package eval

// CompareLogits is Compare with the logits of a model that ran elsewhere: a row for each scored token of the base file.
func CompareLogits(base *BaseFile, logits []float32) (Divergence, error) {
	o := CompareOptions{Windows: base.Windows}
	list, err := o.cut(len(base.IDs), o.Context)
	if err != nil {
		return Divergence{}, err
	}
	serial := func(n int, f func(worker, i int)) {
		for i := range n {
			f(0, i)
		}
	}
	h := &holding{CompareOptions: &o, ids: base.IDs, list: list, share: serial, scratch: make([]rowScratch, 1)}
	return h.run(func(yield func([]scoredRow, error) bool) {
		for _, w := range list {
			for token := w.first; token < w.end; token++ {
				row := newLogitRow(logits[:base.Vocab])
				logits = logits[base.Vocab:]
				if !yield([]scoredRow{{token, row}}, nil) {
					return
				}
			}
		}
	}, base.distributions())
}

// SaveLogits writes the row of a scored token of a model that ran elsewhere.
func SaveLogits(b *BaseWriter, logits []float32, next int32) error {
	return b.add(newLogitRow(logits), next)
}
