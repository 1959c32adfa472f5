package gguf

import (
	"encoding/binary"
	"io"
)

// Tensor describes one tensor of a file.
type Tensor struct {
	Name string
	Type Type
	// Shape is in GGUF order: Shape[0] is the row length. A scalar has shape [1].
	Shape []uint64
	// Offset of the data, from the start of the file's tensor data.
	Offset uint64
}

// Elements is the number of elements; it fails when the product overflows.
func (t *Tensor) Elements() (uint64, error) { return 0, errTODO }

// Bytes is the storage size of the tensor.
func (t *Tensor) Bytes() (uint64, error) { return 0, errTODO }

// Rows is the number of rows of length Shape[0].
func (t *Tensor) Rows() uint64 { return 0 }

// File is an open GGUF file. Tensor bytes are views of a mapping, valid until Close.
type File struct {
	Path       string
	Version    uint32
	Order      binary.ByteOrder
	Meta       *Meta
	Tensors    []Tensor
	Alignment  uint64
	DataOffset uint64
	Size       uint64
}

// Defect is one fault of a file. Err wraps a sentinel; Fatal ones make Open fail.
type Defect struct {
	Offset uint64
	Where  string // key or tensor, "" for the header
	Fatal  bool
	Err    error
}

// Open maps a file and reads its header. It returns the first fatal defect as an error.
func Open(path string) (*File, error) { return nil, errTODO }

// Check reads as much of a file as it can and lists every defect. The file is nil when nothing could be read.
func Check(path string) (*File, []Defect, error) { return nil, nil, errTODO }

// Close releases the mapping.
func (f *File) Close() error { return errTODO }

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (*Tensor, bool) { return nil, false }

// Data is the stored bytes of a tensor of f: a view, not a copy, little-endian or as the file's order says.
func (f *File) Data(t *Tensor) ([]byte, error) { return nil, errTODO }

// WriteTo writes the file as version 3, little-endian. A file that is so already comes out byte for byte: order, gaps, padding and trailing bytes kept.
func (f *File) WriteTo(w io.Writer) (int64, error) { return 0, errTODO }
