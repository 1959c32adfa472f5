package gguf

import "io"

// Layout computes the offsets of tensors (in place, in order, aligned as meta's general.alignment says, else 32),
// the offset of the tensor data and the total size of the file.
func Layout(meta *Meta, tensors []Tensor) (dataOffset, total uint64, err error) { return 0, 0, errTODO }

// Writer writes a version 3 file front to back: the header first, then each tensor's bytes in order.
type Writer struct{}

// NewWriter lays out the tensors and writes the header.
func NewWriter(w io.Writer, meta *Meta, tensors []Tensor) (*Writer, error) { return nil, errTODO }

// Tensors is the laid-out list.
func (w *Writer) Tensors() []Tensor { return nil }

// Begin starts the data of the next tensor, which must have this name; the one before must be complete.
func (w *Writer) Begin(name string) error { return errTODO }

// Write appends bytes to the current tensor; more than it holds is an error.
func (w *Writer) Write(p []byte) (int, error) { return 0, errTODO }

// Close pads the end and fails if any tensor is incomplete. It does not close the underlying writer.
func (w *Writer) Close() error { return errTODO }
