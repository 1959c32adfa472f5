// Package infer runs models: GGUF to logits.
package infer

import (
	"errors"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// Precision of the arithmetic.
type Precision int

// Precisions: Fast quantizes activations to 8 bits; Exact keeps float32 throughout and gives the same bits for any number of threads and any split of a batch.
const (
	Fast Precision = iota
	Exact
)

// Options of loading a model.
type Options struct {
	Precision Precision
	Threads   int // 0: the cores this process may use
	Context   int // most positions of one sequence; 0: as trained
	Batch     int // most tokens computed at once; 0: 512
}

// Token is one element of a batch.
type Token struct {
	Seq    int      // which sequence
	Pos    [4]int32 // position; plain models use the first
	ID     int32    // token, unless Embed is set
	Embed  []float32
	Logits bool // wanted for this element
}

// Model is a loaded model. It is not safe for concurrent Steps.
type Model struct {
	Params *arch.Params
}

// Load binds the tensors of a source without copying them. It fails, listing all of them, on missing, unused or misshapen tensors.
func Load(src arch.TensorSource, meta *gguf.Meta, o Options) (*Model, error) {
	return nil, errors.New("todo")
}

// Close frees caches and threads. The source stays open.
func (m *Model) Close() error { return nil }

// Step runs a batch. emit is called for the elements that want logits, in order, with one row of NVocab values that is valid only during the call.
func (m *Model) Step(batch []Token, emit func(i int, logits []float32) error) error {
	return errors.New("todo")
}

// Session is one sequence of a model.
type Session struct{}

// NewSession starts an empty sequence.
func (m *Model) NewSession() (*Session, error) { return nil, errors.New("todo") }

// Close gives the sequence's memory back.
func (s *Session) Close() {}

// Len is the number of positions held.
func (s *Session) Len() int { return 0 }

// Truncate forgets positions from n on.
func (s *Session) Truncate(n int) error { return errors.New("todo") }

// Append runs ids after what is held and returns the logits of the last (valid until the next call).
func (s *Session) Append(ids []int32) ([]float32, error) { return nil, errors.New("todo") }

// AppendAll runs ids and calls emit with the logits of each.
func (s *Session) AppendAll(ids []int32, emit func(i int, logits []float32) error) error {
	return errors.New("todo")
}
