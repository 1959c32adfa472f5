package infer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ggufkit/ggufkit/internal/mmap"
)

// Token is one element of a batch.
type Token struct {
	Seq int // which sequence: the ID of a Session
	// Pos is the position; plain models use the first number, which continues what the sequence holds.
	Pos    [4]int32
	ID     int32     // token, unless Embed is set
	Embed  []float32 // a row of the embedding's width in the token's place, scaled if the family scales embeddings
	Logits bool      // wanted for this element
}

// ErrContextFull is returned when a sequence would hold more positions than Options.Context.
var ErrContextFull = errors.New("the context is full")

// logitFloats bounds the logits that are held at once (32 MB), whatever the vocabulary. With many fewer rows at a time, unpacking the output matrix
// for each of these blocks would take as long as multiplying.
const logitFloats = 8 << 20

// Step runs a batch. emit is called for the elements that want logits, in order, with one row of NVocab values that is valid only during the call.
// The batch is computed in pieces of at most Options.Batch elements. After an error the sequences are as they were before. A mapped file that
// someone has cut is an error too, *mmap.FaultError.
func (m *Model) Step(batch []Token, emit func(i int, logits []float32) error) error {
	n := m.Params.NVocab
	return m.StepBlocks(batch, func(elements []int, logits []float32) error {
		for j, i := range elements {
			if err := emit(i, logits[j*n:][:n:n]); err != nil {
				return err
			}
		}
		return nil
	})
}

// StepBlocks is Step with the logits of several elements at a time, one row after the other, so that For can share out what is done with them.
func (m *Model) StepBlocks(batch []Token, emit func(elements []int, logits []float32) error) error {
	held, err := m.check(batch)
	if err != nil {
		return err
	}
	for lo := 0; lo < len(batch); lo += m.batch {
		err := mmap.Guard(func() error { return m.compute(batch, lo, min(lo+m.batch, len(batch)), emit) })
		if err != nil {
			for seq, n := range held {
				err = errors.Join(err, m.states[seq].Truncate(n))
			}
			return err
		}
	}
	return nil
}

// For calls f(worker, i) for every i in [0, n) on the model's threads and waits; worker tells the threads apart. Between two steps or in the receiver of logits
// the threads are free. f must not use the model.
func (m *Model) For(n int, f func(worker, i int)) { m.decoder.be.For(n, f) }

// check validates a batch before anything is computed. It returns the sequences it touches and how much they hold.
func (m *Model) check(batch []Token) (held map[int]int, err error) {
	clear(m.held)
	clear(m.next)
	held, next := m.held, m.next
	for i, t := range batch {
		state, ok := m.states[t.Seq]
		if !ok {
			return nil, fmt.Errorf("batch element %d: no sequence %d is open", i, t.Seq)
		}
		if _, ok := held[t.Seq]; !ok {
			held[t.Seq] = state.Len()
			next[t.Seq] = state.Len()
		}
		if next[t.Seq] >= m.Context {
			return nil, fmt.Errorf("batch element %d: sequence %d holds %d positions: %w", i, t.Seq, m.Context, ErrContextFull)
		}
		if int(t.Pos[0]) != next[t.Seq] {
			return nil, fmt.Errorf("batch element %d: position %d of sequence %d does not follow the %d before it", i, t.Pos[0], t.Seq, next[t.Seq])
		}
		next[t.Seq]++
		if t.Embed != nil && len(t.Embed) != m.Params.NEmbd {
			return nil, fmt.Errorf("batch element %d: an embedding of %d values, the model has %d", i, len(t.Embed), m.Params.NEmbd)
		}
		if t.Embed == nil && (t.ID < 0 || int(t.ID) >= m.Params.NVocab) {
			return nil, fmt.Errorf("batch element %d: token %d, the vocabulary has 0 to %d", i, t.ID, m.Params.NVocab-1)
		}
	}
	return held, nil
}

// compute runs the piece [lo, hi) of a batch.
func (m *Model) compute(batch []Token, lo, hi int, emit func(elements []int, logits []float32) error) error {
	batch = batch[lo:hi]
	runs, err := m.reserve(batch)
	if err != nil {
		return err
	}
	m.wanted = m.wanted[:0]
	for i, t := range batch {
		if t.Logits {
			m.wanted = append(m.wanted, i)
		}
	}
	m.decoder.start(batch)
	m.decoder.forward(runs, m.wanted)

	for i := range m.wanted { // numbers of rows are now those in the whole batch
		m.wanted[i] += lo
	}
	m.rows = m.rows[:0]
	for wanted := range slices.Chunk(m.wanted, max(logitFloats/m.Params.NVocab, 1)) {
		for range wanted {
			m.rows = append(m.rows, len(m.rows))
		}
		logits, err := m.decoder.project(m.rows[len(m.rows)-len(wanted):])
		if err != nil {
			return err
		}
		if err := emit(wanted, logits); err != nil {
			return err
		}
	}
	return nil
}

// reserve makes room in the sequences of a batch and cuts it into runs.
func (m *Model) reserve(batch []Token) ([]Run, error) {
	runs := m.runs[:0]
	for lo := 0; lo < len(batch); {
		hi := lo + 1
		for hi < len(batch) && batch[hi].Seq == batch[lo].Seq {
			hi++
		}
		state := m.states[batch[lo].Seq]
		runs = append(runs, Run{State: state, Row: lo, N: hi - lo, Start: state.Len()})
		if err := state.Append(hi - lo); err != nil {
			return nil, err
		}
		lo = hi
	}
	m.runs = runs
	return runs, nil
}
