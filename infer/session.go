package infer

import (
	"errors"
	"io"
	"slices"
)

// Session is one sequence of a model.
type Session struct {
	model  *Model
	id     int
	state  State
	batch  []Token
	logits []float32
}

// NewSession starts an empty sequence.
func (m *Model) NewSession() (*Session, error) {
	state, err := m.decoder.be.NewState(m.decoder.caches())
	if err != nil {
		return nil, err
	}
	return m.session(state), nil
}

// session gives a state a number.
func (m *Model) session(state State) *Session {
	s := &Session{model: m, id: m.nextSeq, state: state}
	m.states[s.id] = state
	m.nextSeq++
	return s
}

// Close gives the sequence's memory back.
func (s *Session) Close() {
	if _, ok := s.model.states[s.id]; ok {
		delete(s.model.states, s.id)
		s.state.Close()
	}
}

// ID is the sequence's number, for Token.Seq.
func (s *Session) ID() int { return s.id }

// Len is the number of positions held.
func (s *Session) Len() int { return s.state.Len() }

// Truncate forgets positions from n on.
func (s *Session) Truncate(n int) error { return s.state.Truncate(n) }

// Fork starts a sequence with the same past. Memory is shared until one of them changes it.
func (s *Session) Fork() *Session { return s.model.session(s.state.Fork()) }

// Snapshot writes the sequence's memory out. Restore replaces it by one that the same model wrote with the same precision.
func (s *Session) Snapshot(w io.Writer) error { return s.state.Snapshot(w) }

// Restore reads what Snapshot wrote. After an error the sequence is as it was.
func (s *Session) Restore(r io.Reader) error { return s.state.Restore(r, s.model.Context) }

// Append runs ids after what is held and returns the logits of the last (valid until the next call).
func (s *Session) Append(ids []int32) ([]float32, error) {
	if len(ids) == 0 {
		return nil, errors.New("no tokens to run")
	}
	batch := s.tokens(ids)
	batch[len(batch)-1].Logits = true
	err := s.model.Step(batch, func(_ int, logits []float32) error {
		s.logits = append(s.logits[:0], logits...)
		return nil
	})
	return slices.Clip(s.logits), err
}

// AppendAll runs ids and calls emit with the logits of each.
func (s *Session) AppendAll(ids []int32, emit func(i int, logits []float32) error) error {
	batch := s.tokens(ids)
	for i := range batch {
		batch[i].Logits = true
	}
	return s.model.Step(batch, emit)
}

// tokens makes a batch of ids after what is held. It is valid until the next one is made.
func (s *Session) tokens(ids []int32) []Token {
	s.batch = grow(s.batch, len(ids))
	batch := s.batch
	for i, id := range ids {
		batch[i] = Token{Seq: s.id, Pos: [4]int32{int32(s.Len() + i)}, ID: id}
	}
	return batch
}
