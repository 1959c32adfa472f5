package checkpoint

import (
	"fmt"

	"github.com/nlpodyssey/safetensors"
)

// view checks the header and cuts the mapping into tensors.
//
// The views come from the safetensors module. It knows fewer element types than the format and refuses a whole file over one of
// them (FP8 checkpoints); the views of such a file follow from our own scan, which has checked the same rules by then.
func (f *file) view() error {
	all := f.m.Bytes()
	h, err := scanHeader(all)
	if err != nil {
		return err
	}
	f.tensors = make([]Tensor, len(h.entries))
	for i, e := range h.entries {
		begin, end := h.data+e.begin, h.data+e.end
		f.tensors[i] = Tensor{
			Name: e.name, DType: e.dtype, Shape: e.shape, File: f.name,
			file: f, offset: begin, data: all[begin:end:end],
		}
	}
	if !h.plain {
		return nil
	}
	st, err := safetensors.Deserialize(all)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	for i := range f.tensors {
		t := &f.tensors[i]
		v, ok := st.Tensor(t.Name)
		if !ok {
			return fmt.Errorf("%w: tensor %q is not found again", ErrFormat, t.Name)
		}
		data := v.Data()
		t.data = data[:len(data):len(data)]
	}
	return nil
}
