package tokenizer

import (
	"errors"

	"github.com/ggufkit/ggufkit/gguf"
)

// FromCheckpoint reads tokenizer.json, tokenizer.model, tokenizer_config.json, generation_config.json and the chat templates of a checkpoint folder.
// rows is the number of rows of the embedding matrix: the vocabulary is padded to it, and ids beyond it are an error. pre overrides the recognized
// pre-tokenizer if not "".
func FromCheckpoint(dir string, rows int, pre string) (*Vocab, error) {
	return nil, errors.New("todo")
}

// WriteMeta appends the tokenizer keys in llama.cpp's order.
func (v *Vocab) WriteMeta(m *gguf.Meta) {}
