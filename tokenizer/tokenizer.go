// Package tokenizer turns text into token ids and back.
package tokenizer

import (
	"errors"

	"github.com/ggufkit/ggufkit/gguf"
)

// TokenType is tokenizer.ggml.token_type.
type TokenType int32

// Token types.
const (
	Normal      TokenType = 1
	Unknown     TokenType = 2
	Control     TokenType = 3
	UserDefined TokenType = 4
	Unused      TokenType = 5
	Byte        TokenType = 6
)

// Vocab is everything about a tokenizer that GGUF stores, in GGUF's terms. -1 is an absent id.
type Vocab struct {
	Model  string // tokenizer.ggml.model: "gpt2", "llama" ...
	Pre    string // tokenizer.ggml.pre
	Tokens []string
	Types  []TokenType
	Scores []float32 // SPM
	Merges []string  // BPE

	BOS, EOS, EOT, EOM, UNK, SEP, PAD, CLS, Mask int32
	// EOG is every id that ends a generation, EOS among them.
	EOG []int32
	// AddBOS and so on are nil where the file does not say.
	AddBOS, AddEOS, AddSEP, AddSpacePrefix *bool
	// Templates maps names to chat templates; "" is the default one.
	Templates map[string]string
	// Notes tell the user which file supplied what, and what was odd.
	Notes []string
}

// FromCheckpoint reads tokenizer.json, tokenizer.model, tokenizer_config.json, generation_config.json and the chat templates of a checkpoint folder.
// rows is the number of rows of the embedding matrix: the vocabulary is padded to it, and ids beyond it are an error. pre overrides the recognized
// pre-tokenizer if not "".
func FromCheckpoint(dir string, rows int, pre string) (*Vocab, error) {
	return nil, errors.New("todo")
}

// WriteMeta appends the tokenizer keys in llama.cpp's order.
func (v *Vocab) WriteMeta(m *gguf.Meta) {}

// VocabOf reads the tokenizer keys of a file.
func VocabOf(m *gguf.Meta) (*Vocab, error) { return nil, errors.New("todo") }

// Tokenizer encodes and decodes with a vocabulary. It is safe for concurrent use.
type Tokenizer struct {
	Vocab *Vocab
}

// New prepares a vocabulary for use; it fails for a model or pre-tokenizer that is not supported, naming it.
func New(v *Vocab) (*Tokenizer, error) { return nil, errors.New("todo") }

// EncodeOptions: AddSpecial adds BOS and EOS as the vocabulary says; ParseSpecial reads special tokens written in the text.
type EncodeOptions struct{ AddSpecial, ParseSpecial bool }

// Encode turns text (any bytes) into ids.
func (t *Tokenizer) Encode(text string, o EncodeOptions) ([]int32, error) {
	return nil, errors.New("todo")
}

// Decode turns ids into text. special also writes control tokens out.
func (t *Tokenizer) Decode(ids []int32, special bool) (string, error) {
	return "", errors.New("todo")
}

// Piece is the bytes of one token as it appears within running text.
func (t *Tokenizer) Piece(id int32, special bool) ([]byte, error) { return nil, errors.New("todo") }

// IsEOG reports whether the id ends a generation.
func (t *Tokenizer) IsEOG(id int32) bool { return false }

// Stream collects the bytes of tokens and hands out whole characters only.
type Stream struct{}

// NewStream starts decoding ids one by one.
func (t *Tokenizer) NewStream() *Stream { return &Stream{} }

// Push adds a token and returns the text that is complete.
func (s *Stream) Push(id int32) (string, error) { return "", nil }

// Flush returns what is left at the end (invalid bytes as U+FFFD).
func (s *Stream) Flush() string { return "" }
