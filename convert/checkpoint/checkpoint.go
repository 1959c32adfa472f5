// Package checkpoint opens a Hugging Face checkpoint folder and hands out rows of its tensors.
package checkpoint

import "errors"

// DType is a safetensors element type ("F32", "BF16", "F8_E4M3" ...).
type DType string

// Tensor is one tensor of a checkpoint. Shape is in the checkpoint's order (rows first).
type Tensor struct {
	Name  string
	DType DType
	Shape []uint64
	File  string // base name of the file it is in
}

// Checkpoint is an open folder (or a single .safetensors file).
type Checkpoint struct {
	Dir     string
	Tensors []Tensor // in order of files, then of offsets
	Notes   []string // for the user: ignored duplicates, tensors the index does not name ...
}

// Open finds the weights of a folder: the index's files, else model.safetensors, and checks every header.
func Open(dir string) (*Checkpoint, error) { return nil, errors.New("todo") }

// Close releases the mappings.
func (c *Checkpoint) Close() error { return nil }

// Tensor finds a tensor by name.
func (c *Checkpoint) Tensor(name string) (*Tensor, bool) { return nil, false }

// ReadRows decodes rows [lo, hi) of a tensor into dst as float32. A row is the product of all dimensions but the first;
// a one-dimensional tensor is one row. len(dst) is (hi-lo) times the row length.
func (c *Checkpoint) ReadRows(t *Tensor, lo, hi uint64, dst []float32) error {
	return errors.New("todo")
}
