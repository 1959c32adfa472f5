package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Transcript is a sequence together with the tokens that it holds, so that a new prompt computes only what differs from them.
type Transcript struct {
	session *Session
	ids     []int32   // held by the session
	logits  []float32 // of the last; nil if they are not known
}

// NewTranscript starts an empty one.
func (m *Model) NewTranscript() (*Transcript, error) {
	s, err := m.NewSession()
	if err != nil {
		return nil, err
	}
	return &Transcript{session: s}, nil
}

// IDs are the tokens that are held. The caller leaves them as they are.
func (t *Transcript) IDs() []int32 { return t.ids }

// Fork is another transcript with the same past. Memory is shared until one of them changes it.
func (t *Transcript) Fork() *Transcript {
	return &Transcript{session: t.session.Fork(), ids: slices.Clone(t.ids), logits: slices.Clone(t.logits)}
}

// Close gives the memory back.
func (t *Transcript) Close() { t.session.Close() }

// Run makes the transcript hold exactly ids and returns the logits of the last, which are valid until the next call. What it holds already is
// kept as far as it is the same; reused is the number of these tokens. ctx is looked at between batches; after an error the transcript holds a part of ids.
func (t *Transcript) Run(ctx context.Context, ids []int32) (logits []float32, reused int, err error) {
	limit := t.session.model.Context
	if len(ids) == 0 {
		return nil, 0, errors.New("no tokens to run")
	}
	if len(ids) > limit {
		return nil, 0, fmt.Errorf("%d tokens: %w at %d", len(ids), ErrContextFull, limit)
	}
	same := CommonPrefix(t.ids, ids)
	if same == len(ids) && (len(t.ids) > same || t.logits == nil) {
		same-- // the last token runs again for its logits
	}
	if err := t.truncate(same); err != nil {
		return nil, 0, err
	}
	reused = len(t.ids)
	for piece := range slices.Chunk(ids[reused:], t.session.model.batch) { // so that a long prompt can be cancelled
		if err := ctx.Err(); err != nil {
			return nil, reused, err
		}
		if err := t.append(piece); err != nil {
			return nil, reused, err
		}
	}
	return t.logits, reused, nil
}

// append runs tokens after those held.
func (t *Transcript) append(ids []int32) error {
	t.logits = nil
	logits, err := t.session.Append(ids)
	if err != nil {
		return err
	}
	t.ids, t.logits = append(t.ids, ids...), logits
	return nil
}

// truncate forgets the tokens from n on. A memory that cannot go back there forgets everything.
func (t *Transcript) truncate(n int) error {
	if n == len(t.ids) {
		return nil
	}
	t.logits = nil
	if t.session.Truncate(n) != nil {
		n = 0
		if err := t.session.Truncate(0); err != nil {
			return err
		}
	}
	t.ids = t.ids[:n]
	return nil
}

// shift drops the older half of the tokens after the first keep ones, runs the rest again and reports whether there was a half to drop. Running again gives
// what a fresh sequence of the tokens that are left gives: keys that only turn to their new positions would still know the tokens that are gone.
func (t *Transcript) shift(ctx context.Context, keep int) (bool, error) {
	drop := (len(t.ids) - keep) / 2
	if drop <= 0 {
		return false, nil
	}
	_, _, err := t.Run(ctx, slices.Delete(slices.Clone(t.ids), keep, keep+drop))
	return true, err
}

// CommonPrefix is the number of tokens that both start with.
func CommonPrefix(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
