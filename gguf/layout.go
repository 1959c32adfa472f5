package gguf

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// extent is where the data of one tensor lies, in bytes from the start of the tensor data.
type extent struct {
	tensor     int // index
	first, end uint64
}

// extents lists where the tensors of known size lie, by offset. Overflows are reported and left out.
func (h *headerReader) extents() []extent {
	var out []extent
	for i := range h.file.Tensors {
		t := &h.file.Tensors[i]
		h.where = tensorPlace(t.Name)
		if t.Offset%h.file.Alignment != 0 {
			h.fatal(int(h.at[i]), fmt.Errorf("%w: %d is not a multiple of the alignment %d", ErrOffset, t.Offset, h.file.Alignment), hintDamage)
		}
		if h.broken[i] {
			continue
		}
		n, err := t.Bytes()
		if err != nil || t.Offset > math.MaxInt64-h.file.DataOffset || n > math.MaxInt64-h.file.DataOffset-t.Offset {
			h.fatal(int(h.at[i]), fmt.Errorf("%w: %d bytes at offset %d", ErrOverflow, n, t.Offset), hintDamage)
			h.broken[i] = true
			continue
		}
		out = append(out, extent{i, t.Offset, t.Offset + n})
	}
	h.where = ""
	slices.SortStableFunc(out, func(a, b extent) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.end, b.end))
	})
	return out
}

// checkLayout holds the places of the tensors against each other and against the size of the file.
func (h *headerReader) checkLayout() {
	all := h.extents()
	var end uint64 // of the data before, padded
	for i, e := range all {
		t := &h.file.Tensors[e.tensor]
		h.where = tensorPlace(t.Name)
		switch {
		case i > 0 && e.first < all[i-1].end:
			before := h.file.Tensors[all[i-1].tensor].Name
			h.fatal(int(h.at[e.tensor]), fmt.Errorf("%w: the data overlaps that of tensor %q by %d bytes", ErrOffset, before, all[i-1].end-e.first), hintDamage)
		case e.first > end && !slices.Contains(h.broken, true):
			h.note(int(h.at[e.tensor]), fmt.Errorf("%w: %d bytes before the data of the tensor", ErrUnused, e.first-end), "llama.cpp refuses files with gaps")
		}
		end = max(end, (e.end+h.file.Alignment-1)&^(h.file.Alignment-1))
	}
	h.where = ""
	h.checkEnd(all, end)
}

// checkEnd holds the end of the data (padded) against the end of the file.
func (h *headerReader) checkEnd(all []extent, padded uint64) {
	f := h.file
	have := f.Size - min(f.Size, f.DataOffset) // bytes of tensor data
	var needed uint64
	short, first := 0, -1
	for _, e := range all {
		needed = max(needed, e.end)
		if e.end > have {
			short++
			if first < 0 {
				first = e.tensor
			}
		}
	}
	switch {
	case short > 0:
		h.where = tensorPlace(f.Tensors[first].Name)
		h.fatal(int(h.at[first]), fmt.Errorf("%w: %d bytes are missing: the file should have at least %d bytes and has %d; %d of %d tensors are cut off, this one is the first",
			ErrTruncated, needed-have, f.DataOffset+needed, f.Size, short, len(f.Tensors)), hintDownload)
		h.where = ""
	case have > padded && !slices.Contains(h.broken, true):
		h.note(int(f.DataOffset+padded), fmt.Errorf("%w: %d bytes after the last tensor", ErrUnused, have-padded), "")
	}
}
