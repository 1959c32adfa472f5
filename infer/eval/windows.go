package eval

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/internal/kernel"
)

// Windows is how a text is cut, and which of its tokens are scored.
type Windows struct {
	Context int // window length in tokens
	// Stride 0 is llama-perplexity's convention: windows side by side, of which the tokens after the first half are scored. Otherwise each window
	// starts Stride tokens after the one before and scores what that one did not hold, so that every token but the first is scored
	// once: the sliding window of transformers' guide.
	Stride int
	Chunks int   // most windows; 0: all
	BOS    int32 // replaces each window's first token where Stride is 0; -1: none
}

// Convention is the name of the rule: "llama" or "sliding".
func (o Windows) Convention() string {
	if o.Stride > 0 {
		return "sliding"
	}
	return "llama"
}

// LeastWindow is the length of the shortest window, in tokens: the second half of a shorter one has none to score.
const LeastWindow = 3

// ErrTooShort is returned for a text that does not fill one window.
var ErrTooShort = errors.New("the text is too short")

// Count is how many windows a text of n tokens has, Chunks at most; 0 if it does not fill one.
func (o Windows) Count(n int) int {
	list, err := o.cut(n, o.Context)
	if err != nil {
		return 0
	}
	return len(list)
}

// window is a stretch of a text: ids[start:end], of which those from ids[first] on are scored, each given all before it in the window.
type window struct{ start, first, end int }

// cut makes the windows of n tokens for a model that holds limit of them at once.
func (o Windows) cut(n, limit int) ([]window, error) {
	switch {
	case o.Context < LeastWindow:
		return nil, fmt.Errorf("a window of %d tokens has none to score, expected %d or more", o.Context, LeastWindow)
	case o.Context > limit:
		return nil, fmt.Errorf("a window of %d tokens: %w at %d", o.Context, infer.ErrContextFull, limit)
	case o.Stride < 0 || o.Stride > o.Context:
		return nil, fmt.Errorf("a stride of %d tokens, expected 1 to the window's %d", o.Stride, o.Context)
	case n < o.Context:
		return nil, fmt.Errorf("%w: a window needs at least %d tokens, the text has %d\nhint: give more text or a smaller context", ErrTooShort, o.Context, n)
	}
	var list []window
	if o.Stride == 0 {
		for start := 0; start+o.Context <= n; start += o.Context {
			list = append(list, window{start, start + o.Context/2 + 1, start + o.Context})
		}
	} else {
		for start, end := 0, 0; end < n; start += o.Stride {
			first := max(end, start+1)
			end = min(start+o.Context, n)
			if first < end {
				list = append(list, window{start, first, end})
			}
		}
	}
	if o.Chunks > 0 {
		list = list[:min(o.Chunks, len(list))]
	}
	return list, nil
}

// logitRow is the logits of one position.
type logitRow struct {
	logits []float32
	total  float64 // logarithm of the sum of their exponentials
}

func newLogitRow(logits []float32) logitRow { return logitRow{logits, kernel.LogSumExp(logits)} }

// sound reports whether the logits are numbers, of which some but not all may be minus infinity.
func (r logitRow) sound() bool { return r.total-r.total == 0 }

// scoredRow is a scored token: its index in the text, and the logits that predict it, valid until the next ones are asked for.
type scoredRow struct {
	token int
	logitRow
}

// rows runs the windows of a text and hands out the scored tokens in order, several at a time.
func (o Windows) rows(ctx context.Context, m *infer.Model, ids []int32, list []window) iter.Seq2[[]scoredRow, error] {
	return func(yield func([]scoredRow, error) bool) {
		// Short windows are run side by side.
		for group := range slices.Chunk(list, max(infer.DefaultBatch/o.Context, 1)) {
			err := ctx.Err()
			if err == nil {
				err = o.run(m, ids, group, func(rows []scoredRow) error {
					if !yield(rows, nil) {
						return errEnough
					}
					return nil
				})
			}
			if errors.Is(err, errEnough) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// errEnough ends a run whose rows nobody wants any more.
var errEnough = errors.New("enough")

// run runs windows as sequences of their own.
func (o Windows) run(m *infer.Model, ids []int32, list []window, emit func([]scoredRow) error) error {
	var batch []infer.Token
	var tokens []int // of the text, by batch element
	for _, w := range list {
		s, err := m.NewSession()
		if err != nil {
			return err
		}
		defer s.Close()
		// The last token's logits would predict what the window does not hold.
		for i := w.start; i < w.end-1; i++ {
			id := ids[i]
			if i == w.start && o.Stride == 0 && o.BOS >= 0 {
				id = o.BOS
			}
			batch = append(batch, infer.Token{Seq: s.ID(), Pos: [4]int32{int32(i - w.start)}, ID: id, Logits: i+1 >= w.first})
			tokens = append(tokens, i+1)
		}
	}
	n := m.Params.NVocab
	var rows []scoredRow
	return m.StepBlocks(batch, func(elements []int, logits []float32) error {
		rows = slices.Grow(rows[:0], len(elements))[:len(elements)]
		m.For(len(rows), func(_, i int) {
			rows[i] = scoredRow{tokens[elements[i]], newLogitRow(logits[i*n:][:n:n])}
		})
		for _, r := range rows {
			if next := ids[r.token]; next < 0 || int(next) >= n {
				return fmt.Errorf("token %d, the vocabulary has 0 to %d", next, n-1)
			}
			if !r.sound() {
				return errNotNumbers(m.Path, r.token)
			}
		}
		return emit(rows)
	})
}

// errNotNumbers is for logits that cannot be compared.
func errNotNumbers(path string, token int) error {
	return &infer.LogitsError{Path: path, Where: fmt.Sprintf("token %d of the text", token)}
}
