package inspect

import (
	"cmp"
	"slices"

	"github.com/ggufkit/ggufkit/gguf"
)

// Tensor is one tensor. Shape is in GGUF order, the row length first; Offset counts from the start of the tensor data of its file, which is named
// where a model has several. Bytes is nil where the size of the type is not known.
type Tensor struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Shape  []uint64 `json:"shape"`
	Offset uint64   `json:"offset"`
	Bytes  *uint64  `json:"bytes"`
	File   string   `json:"file,omitempty"`
	// elements is 0 where the product overflows.
	elements uint64
}

// TypeTotal sums the tensors of one type.
type TypeTotal struct {
	Type       string `json:"type"`
	Tensors    int    `json:"tensors"`
	Parameters uint64 `json:"parameters"`
	Bytes      uint64 `json:"bytes"`
}

func tensorsOf(f *gguf.File) []Tensor {
	out := make([]Tensor, len(f.Tensors))
	split := len(f.Paths()) > 1
	for i := range f.Tensors {
		t := &f.Tensors[i]
		out[i] = Tensor{Name: t.Name, Type: t.Type.String(), Shape: t.Shape, Offset: t.Offset}
		if split {
			out[i].File, out[i].Offset = f.Place(t)
		}
		if n, err := t.Bytes(); err == nil {
			out[i].Bytes = &n
		}
		if n, err := t.Elements(); err == nil {
			out[i].elements = n
		}
	}
	return out
}

// totals sums tensors by type, the type with most bytes first.
func totals(tensors []Tensor) []TypeTotal {
	sums := []TypeTotal{}
	index := map[string]int{}
	for _, t := range tensors {
		i, known := index[t.Type]
		if !known {
			i = len(sums)
			index[t.Type] = i
			sums = append(sums, TypeTotal{Type: t.Type})
		}
		sums[i].Tensors++
		sums[i].Parameters += t.elements
		if t.Bytes != nil {
			sums[i].Bytes += *t.Bytes
		}
	}
	slices.SortStableFunc(sums, func(a, b TypeTotal) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return sums
}
