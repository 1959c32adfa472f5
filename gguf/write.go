package gguf

import (
	"fmt"
	"io"
	"math"
)

// checkHeader refuses what this package would refuse to read: bad or doubled names, invalid values, bad shapes.
func checkHeader(meta *Meta, tensors []Tensor) error {
	for key, v := range meta.All() {
		switch {
		case !v.set:
			return meta.fault(key, v.wrong("a value"))
		case len(key) > MaxKeyLen:
			return meta.fault(key, fmt.Errorf("%w: the key has %d bytes, at most %d", ErrLimit, len(key), MaxKeyLen))
		case len(v.str) > MaxString:
			return meta.fault(key, fmt.Errorf("%w: %d bytes of text, at most %d", ErrLimit, len(v.str), MaxString))
		}
	}
	listed := 0
	for key, v := range meta.All() {
		if listed += v.listed(); listed > MaxListed {
			return meta.fault(key, fmt.Errorf("%w: the arrays up to this one have %d elements together, at most %d", ErrLimit, listed, MaxListed))
		}
	}
	if meta.Len() > MaxKeys || len(tensors) > MaxTensors {
		return &Error{Path: meta.path, Offset: noOffset, Err: fmt.Errorf("%w: %d keys and %d tensors, at most %d and %d", ErrLimit, meta.Len(), len(tensors), MaxKeys, MaxTensors)}
	}
	seen := make(map[string]bool, len(tensors))
	for i := range tensors {
		t := &tensors[i]
		if seen[t.Name] {
			return t.fault(fmt.Errorf("%w: the tensor is listed twice", ErrDuplicate))
		}
		seen[t.Name] = true
	}
	return nil
}

// Layout computes the offsets of tensors (in place, in order, aligned as meta's general.alignment says, else 32),
// the offset of the tensor data and the total size of the file, in bytes, the padding after the last tensor included.
func Layout(meta *Meta, tensors []Tensor) (dataOffset, total uint64, err error) {
	header, end, err := layout(meta, tensors)
	if err != nil {
		return 0, 0, err
	}
	return uint64(len(header)), uint64(len(header)) + end, nil
}

// layout is Layout, but gives the header, padded, and the size of the tensor data, padded.
func layout(meta *Meta, tensors []Tensor) (header []byte, end uint64, err error) {
	if err := checkHeader(meta, tensors); err != nil {
		return nil, 0, err
	}
	alignment, err := meta.Alignment()
	if err != nil {
		return nil, 0, err
	}
	for i := range tensors {
		t := &tensors[i]
		if err := t.check(); err != nil {
			return nil, 0, &Error{Where: tensorPlace(t.Name), Offset: noOffset, Err: err, Hint: t.Type.hint()}
		}
		n, err := t.Bytes()
		if err != nil {
			return nil, 0, err
		}
		t.Offset = end
		if n > math.MaxInt64-MaxAlignment-MaxHeader-end {
			return nil, 0, t.fault(fmt.Errorf("%w: of the file", ErrOverflow))
		}
		end, _ = alignUp(end+n, alignment) // no overflow: checked just now
	}
	header, err = padded(current.appendHeader(nil, maxVersion, meta, tensors), alignment)
	return header, end, err
}

// padded fills a header up to where the tensor data begins.
func padded(header []byte, alignment uint64) ([]byte, error) {
	if len(header) > MaxHeader {
		return nil, fmt.Errorf("%w: the header has %d bytes, at most %d", ErrLimit, len(header), MaxHeader)
	}
	n, _ := alignUp(uint64(len(header)), alignment)
	return append(header, make([]byte, n-uint64(len(header)))...), nil
}

// Writer writes a version 3 file front to back: the header first, then each tensor's bytes in order. It does not buffer:
// hand it large pieces, or a buffered writer.
type Writer struct {
	w       io.Writer
	tensors []Tensor
	total   uint64 // size of the tensor data, padded
	pos     uint64 // bytes of tensor data written
	next    int    // index of the tensor that Begin will start
	end     uint64 // where the current tensor ends
}

// NewWriter lays out a copy of tensors as Layout does and writes the header.
func NewWriter(w io.Writer, meta *Meta, tensors []Tensor) (*Writer, error) {
	tensors = append([]Tensor(nil), tensors...)
	header, total, err := layout(meta, tensors)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(header); err != nil {
		return nil, err
	}
	return &Writer{w: w, tensors: tensors, total: total}, nil
}

// Tensors is the laid-out list.
func (w *Writer) Tensors() []Tensor { return w.tensors }

// Begin starts the data of the next tensor, which must have this name; the one before must be complete.
func (w *Writer) Begin(name string) error {
	if err := w.complete(); err != nil {
		return err
	}
	if w.next >= len(w.tensors) || w.tensors[w.next].Name != name {
		want := "none is left"
		if w.next < len(w.tensors) {
			want = fmt.Sprintf("%q comes next", w.tensors[w.next].Name)
		}
		return fmt.Errorf("%s cannot be written now: %s", tensorPlace(name), want)
	}
	t := &w.tensors[w.next]
	n, err := t.Bytes()
	if err != nil {
		return err
	}
	if err := w.pad(t.Offset); err != nil {
		return err
	}
	w.next++
	w.end = t.Offset + n
	return nil
}

// complete fails when the current tensor lacks bytes.
func (w *Writer) complete() error {
	if w.pos < w.end {
		return fmt.Errorf("%s is incomplete: %d bytes are missing", tensorPlace(w.tensors[w.next-1].Name), w.end-w.pos)
	}
	return nil
}

// pad writes zeros up to a position.
func (w *Writer) pad(to uint64) error {
	n, err := writeZeros(w.w, to-w.pos)
	w.pos += uint64(n)
	return err
}

// writeZeros writes n zero bytes.
func writeZeros(w io.Writer, n uint64) (int64, error) {
	return io.CopyN(w, zeros{}, int64(n))
}

// zeros reads as zero bytes without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Write appends bytes to the current tensor; more than it holds is an error.
func (w *Writer) Write(p []byte) (int, error) {
	if uint64(len(p)) > w.end-min(w.end, w.pos) {
		if w.next == 0 {
			return 0, fmt.Errorf("%d bytes written before any tensor was begun", len(p))
		}
		return 0, fmt.Errorf("%s has no room for %d bytes: %d are left", tensorPlace(w.tensors[w.next-1].Name), len(p), w.end-min(w.end, w.pos))
	}
	n, err := w.w.Write(p)
	w.pos += uint64(n)
	return n, err
}

// Close pads the end and fails if any tensor is incomplete. It does not close the underlying writer.
func (w *Writer) Close() error {
	if err := w.complete(); err != nil {
		return err
	}
	if w.next < len(w.tensors) {
		return fmt.Errorf("%s and %d after it were not written", tensorPlace(w.tensors[w.next].Name), len(w.tensors)-w.next-1)
	}
	return w.pad(w.total)
}
