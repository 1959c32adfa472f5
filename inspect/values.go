package inspect

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/encode"
)

// slabElements is how many elements are decoded at a time; it is a multiple of every block size.
const slabElements = 1 << 16

// Values is what CheckValues found.
type Values struct {
	Checked   int        `json:"checked"`   // tensors
	Unchecked []string   `json:"unchecked"` // tensors of types that cannot be decoded, as "name (TYPE)"
	Bad       []BadValue `json:"bad"`       // one for each tensor that has any
}

// BadValue is the first element of a tensor that is no number. Row and Col count from 0; a row has the first dimension's length.
type BadValue struct {
	Tensor string `json:"tensor"`
	File   string `json:"file,omitempty"` // the part of a split model that has it
	Type   string `json:"type"`
	Row    uint64 `json:"row"`
	Col    uint64 `json:"col"`
	Value  string `json:"value"` // "NaN", "+Inf" or "-Inf"
	Count  uint64 `json:"count"` // such elements of the tensor
}

// CheckValues decodes every tensor of the file at path and looks for NaN and infinities. It finds the scale of a block that
// is not finite too: all elements of the block are products with it, and none of those is finite, not even that with 0.
// Tensors of integers have nothing to find. With the first part of a split model it looks at all that Read reports as one. The error is for a file that
// cannot be opened or is big-endian.
func CheckValues(path string) (*Values, error) {
	f, err := openAlone(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Order.Uint16([]byte{1, 0}) != 1 {
		return nil, fmt.Errorf("%s: the file is big-endian: its values cannot be checked\nhint: gguf-convert-endian of the Python package gguf makes it little-endian", path)
	}
	v := &Values{Unchecked: []string{}, Bad: []BadValue{}}
	buf := make([]float32, slabElements)
	for i := range f.Tensors {
		t := &f.Tensors[i]
		switch t.Type {
		case gguf.I8, gguf.I16, gguf.I32, gguf.I64:
			v.Checked++
			continue
		}
		if encode.Decode(t.Type, nil, nil) != nil {
			v.Unchecked = append(v.Unchecked, fmt.Sprintf("%s (%s)", t.Name, t.Type))
			continue
		}
		v.Checked++
		file, _ := f.Place(t)
		bad, err := checkTensor(f, t, buf)
		if err != nil {
			return nil, fmt.Errorf("%s: tensor %s: %w", file, t.Name, err)
		}
		if len(f.Paths()) > 1 {
			bad.File = file
		}
		if bad.Count > 0 {
			v.Bad = append(v.Bad, bad)
		}
	}
	return v, nil
}

// openAlone opens the model that a file begins, or the file alone where it is a later part, or others are not there.
func openAlone(path string) (*gguf.File, error) {
	f, err := gguf.Open(path)
	if err != nil || partOf(f.Meta).later() {
		return f, err
	}
	whole, err := f.Join()
	switch {
	case err == nil:
		return whole, nil
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	}
	f.Close()
	return nil, err
}

// checkTensor counts the values of a tensor that are not finite and describes the first.
func checkTensor(f *gguf.File, t *gguf.Tensor, buf []float32) (BadValue, error) {
	bad := BadValue{Tensor: t.Name, Type: t.Type.String()}
	n, err := t.Elements()
	if err != nil {
		return bad, err
	}
	data, err := f.Data(t)
	if err != nil {
		return bad, err
	}
	slabBytes, err := t.Type.RowBytes(slabElements)
	if err != nil {
		return bad, err
	}
	for lo := uint64(0); lo < n; lo += slabElements {
		part := buf[:min(slabElements, n-lo)]
		src := data[:min(slabBytes, uint64(len(data)))]
		data = data[len(src):]
		if err := encode.Decode(t.Type, part, src); err != nil {
			return bad, err
		}
		for i, x := range part {
			if x-x == 0 { // finite: NaN otherwise
				continue
			}
			if bad.Count == 0 {
				at := lo + uint64(i)
				bad.Row, bad.Col, bad.Value = at/t.Shape[0], at%t.Shape[0], fmt.Sprint(x)
			}
			bad.Count++
		}
	}
	return bad, nil
}
