package eval

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/ggufkit/ggufkit/infer"
)

// CompareOptions are those of Compare.
type CompareOptions struct {
	Windows
	Progress func(done, total int, running Divergence) // after each window; running has no percentiles
}

// Base is what a model is compared with: a *ModelBase or a *BaseFile.
type Base interface {
	// check fails unless the base fits a vocabulary of so many tokens and a text.
	check(vocab int, ids []int32, o Windows) error
	// each hands out the distributions of the scored tokens in order, several at a time. They are valid until the next ones are asked for.
	each(ctx context.Context, ids []int32, o Windows, list []window) iter.Seq2[[]baseRow, error]
}

// ModelBase is a model that runs side by side with the one that is compared.
type ModelBase struct {
	Model *infer.Model
	Save  *BaseWriter // gets the base's predictions too, unless nil
}

func (b *ModelBase) check(vocab int, _ []int32, o Windows) error {
	switch {
	case b.Model.Params.NVocab != vocab:
		return fmt.Errorf("the base has %d tokens in its vocabulary, the model %d\nhint: compare files of the same model", b.Model.Params.NVocab, vocab)
	case b.Model.Context < o.Context:
		return fmt.Errorf("a window of %d tokens: %w of the base at %d", o.Context, infer.ErrContextFull, b.Model.Context)
	}
	return nil
}

func (b *ModelBase) each(ctx context.Context, ids []int32, o Windows, list []window) iter.Seq2[[]baseRow, error] {
	return func(yield func([]baseRow, error) bool) {
		var out []baseRow
		for rows, err := range o.rows(ctx, b.Model, ids, list) {
			out = out[:0]
			for _, r := range rows {
				if b.Save != nil && err == nil {
					err = b.Save.add(r.logitRow, ids[r.token])
				}
				out = append(out, logitsRow{r.logitRow})
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}

func (b *BaseFile) check(vocab int, ids []int32, o Windows) error {
	if b.Vocab != vocab {
		return fmt.Errorf("%s has %d tokens in its vocabulary, the model %d\nhint: compare with a base of the same model", b.path, b.Vocab, vocab)
	}
	if o.Context != b.Windows.Context || o.Stride != 0 {
		return fmt.Errorf("%s has windows of %d tokens, not %d", b.path, b.Windows.Context, o.Context)
	}
	return b.CheckText("this one", ids)
}

// CheckText fails unless a text, which has a name for messages, starts with the windows of the file.
func (b *BaseFile) CheckText(name string, ids []int32) error {
	different := func(format string, args ...any) error {
		return fmt.Errorf("%s was made from another text than %s: %s\nhint: leave -f out, the file has the text", b.path, name, fmt.Sprintf(format, args...))
	}
	for i, id := range ids[:min(len(ids), len(b.IDs))] {
		if b.IDs[i] != id {
			return different("token %d is %d there, %d here", i, b.IDs[i], id)
		}
	}
	if len(ids) < len(b.IDs) {
		return different("%d tokens there, only %d here", len(b.IDs), len(ids))
	}
	return nil
}

func (b *BaseFile) each(context.Context, []int32, Windows, []window) iter.Seq2[[]baseRow, error] {
	return b.distributions()
}

// Compare runs a text (ids, tokenized as the vocabulary says) through a model and holds each prediction against the base's. A *BaseFile is read
// once, from its start; its windows bound those of o.
func Compare(ctx context.Context, m *infer.Model, base Base, ids []int32, o CompareOptions) (Divergence, error) {
	if err := base.check(m.Params.NVocab, ids, o.Windows); err != nil {
		return Divergence{}, err
	}
	list, err := o.cut(len(ids), m.Context)
	if err != nil {
		return Divergence{}, err
	}
	if f, ok := base.(*BaseFile); ok {
		list = list[:min(len(list), f.header.chunks)]
	}
	h := &holding{CompareOptions: &o, path: m.Path, ids: ids, list: list, share: m.For, scratch: make([]rowScratch, m.Memory().Threads)}
	return h.run(o.rows(ctx, m, ids, list), base.each(ctx, ids, o.Windows, list))
}

// holding is a comparison at work.
type holding struct {
	*CompareOptions
	path    string // of the model, for messages
	ids     []int32
	list    []window
	share   func(n int, f func(worker, i int)) // shares a loop out over threads
	scratch []rowScratch                       // by thread
	xs      []change                           // of rows at hand
	sums    changes
	done    int // windows
}

// result is what is known so far.
func (h *holding) result() Divergence { return h.frame(h.sums.result()) }

func (h *holding) frame(d Divergence) Divergence {
	d.Chunks, d.Context, d.BOS = h.done, h.Context, h.Stride == 0 && h.BOS >= 0
	return d
}

// run holds a model's predictions of the scored tokens against the base's.
func (h *holding) run(rows iter.Seq2[[]scoredRow, error], base iter.Seq2[[]baseRow, error]) (Divergence, error) {
	// The base is a coroutine: it runs only while its next rows are waited for.
	next, stop := iter.Pull2(base)
	defer stop()
	var theirs []baseRow
	for ours, err := range rows {
		for err == nil && len(ours) > 0 {
			if len(theirs) == 0 {
				var ok bool
				if theirs, err, ok = next(); err == nil && !ok {
					err = fmt.Errorf("the base ends before token %d of the text", ours[0].token)
				}
				continue
			}
			n := min(len(ours), len(theirs))
			err = h.add(ours[:n], theirs[:n])
			ours, theirs = ours[n:], theirs[n:]
		}
		if err != nil {
			return h.result(), err
		}
	}
	return h.result(), nil
}

// add compares rows, shared out over threads, and adds the changes in order, so that threads change no bit.
func (h *holding) add(ours []scoredRow, theirs []baseRow) error {
	h.xs = slices.Grow(h.xs[:0], len(ours))[:len(ours)]
	h.share(len(ours), func(worker, i int) {
		h.xs[i] = theirs[i].compare(ours[i].logitRow, h.ids[ours[i].token], &h.scratch[worker])
	})
	for i, r := range ours {
		x := h.xs[i]
		if math.IsNaN(x.nll) || math.IsNaN(x.base) || math.IsNaN(x.kld) {
			return errNotNumbers(h.path, r.token)
		}
		h.sums.add(x)
		if r.token == h.list[h.done].end-1 {
			if h.done++; h.Progress != nil {
				h.Progress(h.done, len(h.list), h.frame(h.sums.means()))
			}
		}
	}
	return nil
}

// SaveBase runs a text through a model, writes what it predicts and returns the perplexity.
func SaveBase(ctx context.Context, m *infer.Model, ids []int32, o PerplexityOptions, save *BaseWriter) (PerplexityResult, error) {
	return perplexity(ctx, m, ids, o, save.add)
}
