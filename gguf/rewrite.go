package gguf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// WriteTo writes the file as version 3, little-endian. A file that is so already comes out byte for byte: order, gaps,
// padding and trailing bytes kept. Changes of f.Meta are written; where they change the alignment so that a tensor no longer
// fits, the tensors are laid out anew, without gaps. f.Tensors must be as it was read.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	return f.writeAs(w, encoding{binary.LittleEndian, true})
}

// writeAs is WriteTo in either byte order.
func (f *File) writeAs(w io.Writer, to encoding) (int64, error) {
	r, err := f.rewriteAs(to)
	if err != nil {
		return 0, err
	}
	return r.run(w)
}

// rewrite is a plan for writing a file anew.
type rewrite struct {
	f      *File
	same   bool   // the file stands already as it should be written
	header []byte // padded
	swap   bool   // the byte order changes
	layout []extent
	from   []uint64 // where each part of layout lies now, from the start of the data
	end    uint64   // size of the data
}

// size is the size of the new file in bytes.
func (r *rewrite) size() uint64 {
	if r.same {
		return r.f.Size
	}
	return uint64(len(r.header)) + r.end
}

// rewriteAs plans the writing of f with its metadata as they are now.
func (f *File) rewriteAs(to encoding) (*rewrite, error) {
	if err := checkHeader(f.Meta, f.Tensors); err != nil {
		return nil, err
	}
	alignment, err := f.Meta.Alignment()
	if err != nil {
		return nil, err
	}
	r := &rewrite{f: f, swap: to.order != f.enc.order}
	tensors := slices.Clone(f.Tensors)
	if err := r.place(tensors, alignment); err != nil {
		return nil, err
	}
	header := to.appendHeader(nil, maxVersion, f.Meta, tensors)
	if r.same, err = f.begins(header); err != nil || r.same {
		return r, err
	}
	r.header, err = padded(header, alignment)
	return r, err
}

// begins reports whether the file begins with this header.
func (f *File) begins(header []byte) (bool, error) {
	if uint64(len(header)) != f.headerSize {
		return false, nil
	}
	now, err := f.src.View(0, f.headerSize)
	return bytes.Equal(now, header), err
}

// place decides where the data of each tensor goes: where it lies, or in order where the alignment forbids that. It sets the
// offsets of tensors.
func (r *rewrite) place(tensors []Tensor, alignment uint64) error {
	moves := slices.ContainsFunc(tensors, func(t Tensor) bool { return t.Offset%alignment != 0 })
	if !moves && !r.swap {
		// One piece, gaps and trailing bytes included, and no need to know the sizes.
		r.end = r.f.Size - min(r.f.Size, r.f.DataOffset)
		r.layout, r.from = []extent{{tensor: -1, end: r.end}}, []uint64{0}
		return nil
	}
	var end uint64
	for i := range tensors {
		_, n, err := r.f.locate(&tensors[i])
		if err != nil {
			return err
		}
		r.from = append(r.from, tensors[i].Offset)
		if moves {
			tensors[i].Offset = end
			end, _ = alignUp(end+n, alignment) // no overflow: the sum is at most the size of the file and its padding
		}
		r.layout = append(r.layout, extent{i, tensors[i].Offset, tensors[i].Offset + n})
	}
	r.end = end
	if !moves {
		r.keepGaps()
	}
	return nil
}

// keepGaps adds what lies between and behind the tensors.
func (r *rewrite) keepGaps() {
	order := slices.Clone(r.layout)
	slices.SortFunc(order, func(a, b extent) int { return cmp.Compare(a.first, b.first) })
	r.end = r.f.Size - min(r.f.Size, r.f.DataOffset)
	r.layout, r.from = nil, nil
	var pos uint64
	for _, e := range append(order, extent{tensor: -1, first: r.end, end: r.end}) {
		if e.first > pos {
			r.layout, r.from = append(r.layout, extent{-1, pos, e.first}), append(r.from, pos)
		}
		r.layout, r.from = append(r.layout, e), append(r.from, e.first)
		pos = e.end
	}
}

// run carries out the plan.
func (r *rewrite) run(w io.Writer) (int64, error) {
	if r.same {
		return io.Copy(w, io.NewSectionReader(r.f.src, 0, int64(r.f.Size)))
	}
	n, err := w.Write(r.header)
	written := int64(n)
	if err != nil {
		return written, err
	}
	var pos uint64
	for i, e := range r.layout {
		n, err := writeZeros(w, e.first-pos)
		written += n
		if err == nil {
			n, err = r.copyPart(w, e, r.from[i])
			written += n
		}
		if err != nil {
			return written, err
		}
		pos = e.end
	}
	m, err := writeZeros(w, r.end-pos)
	return written + m, err
}

// copyPart copies one part of the data, swapping the bytes of a tensor's numbers if asked to.
func (r *rewrite) copyPart(w io.Writer, e extent, from uint64) (int64, error) {
	src := io.NewSectionReader(r.f.src, int64(r.f.DataOffset+from), int64(e.end-e.first))
	if e.tensor < 0 || !r.swap {
		return io.Copy(w, src)
	}
	t := r.f.Tensors[e.tensor].Type
	i, ok := t.Info()
	if !ok {
		return 0, fmt.Errorf("%s: %w", tensorPlace(r.f.Tensors[e.tensor].Name), t.unknown())
	}
	const chunk = 1 << 18 // blocks at a time, at most
	buf := make([]byte, min(uint64(src.Size()), chunk*i.Bytes))
	var written int64
	for rest := uint64(src.Size()); rest > 0; {
		p := buf[:min(rest, uint64(len(buf)))]
		if _, err := io.ReadFull(src, p); err != nil {
			return written, err
		}
		swapBlocks(t, p)
		n, err := w.Write(p)
		written += int64(n)
		if err != nil {
			return written, err
		}
		rest -= uint64(len(p))
	}
	return written, nil
}
