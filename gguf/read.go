package gguf

import (
	"encoding/binary"
	"fmt"

	"github.com/ggufkit/ggufkit/internal/mmap"
)

// File is an open GGUF file. Tensor bytes are views of a mapping, valid until Close.
type File struct {
	Path       string
	Version    uint32
	Order      binary.ByteOrder
	Meta       *Meta
	Tensors    []Tensor
	Alignment  uint64
	DataOffset uint64
	Size       uint64 // of all parts of a split model as one file

	enc        encoding
	headerSize uint64 // without padding
	src        Source
	file       mapping        // nil when src is another's
	parts      []*File        // of a split model, else nil
	index      map[string]int // tensor names; of two tensors of one name the first
}

// Open maps a file and reads its header. It returns the first fatal defect as an error. A file that it accepts
// has unique names, known tensor types, and all tensor data inside the file, without overlaps.
func Open(path string) (*File, error) {
	f, defects, err := Check(path)
	if err != nil {
		return nil, err
	}
	for _, d := range defects {
		if d.Fatal {
			if f != nil {
				f.Close()
			}
			return nil, d.Error(path)
		}
	}
	return f, nil
}

// Check reads as much of a file as it can and lists every defect. The file is nil when nothing could be read; else it must be
// closed, whatever the defects. The error is for a file that cannot be opened or mapped.
func Check(path string) (*File, []Defect, error) {
	m, err := openMapped(path)
	if err != nil {
		return nil, nil, err
	}
	f, defects, err := ReadHeader(path, m)
	if f == nil {
		m.Close()
		return nil, defects, err
	}
	f.file = m
	return f, defects, nil
}

// Close releases the mapping. No view of tensor data and no long array of the metadata may be used afterwards.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Names lists the tensors in file order.
func (f *File) Names() []string {
	names := make([]string, len(f.Tensors))
	for i := range f.Tensors {
		names[i] = f.Tensors[i].Name
	}
	return names
}

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (*Tensor, bool) {
	i, ok := f.index[name]
	if !ok {
		return nil, false
	}
	return &f.Tensors[i], true
}

// locate gives offset in the file and size of a tensor's data, checked against the size of the file.
func (f *File) locate(t *Tensor) (off, n uint64, err error) {
	fault := func(err error) error {
		return &Error{Path: f.Path, Where: tensorPlace(t.Name), Offset: noOffset, Err: err}
	}
	n, err = t.Bytes()
	if err != nil {
		return 0, 0, fault(bare(err))
	}
	have := f.Size - min(f.Size, f.DataOffset)
	if t.Offset > have || n > have-t.Offset {
		return 0, 0, fault(fmt.Errorf("%w: %d bytes needed at data offset %d, %d available", ErrTruncated, n, t.Offset, have-min(have, t.Offset)))
	}
	return f.DataOffset + t.Offset, n, nil
}

// Data is the stored bytes of a tensor of f: a view, not a copy, little-endian or as the file's order says.
func (f *File) Data(t *Tensor) ([]byte, error) {
	off, n, err := f.locate(t)
	if err != nil {
		return nil, err
	}
	return f.src.View(off, n)
}

// Advise tells the system how the bytes of a tensor will be read: WillNeed reads ahead, DontNeed gives memory back.
func (f *File) Advise(t *Tensor, a mmap.Advice) error {
	off, n, err := f.locate(t)
	if err != nil || f.file == nil {
		return err
	}
	return f.file.advise(off, n, a)
}
