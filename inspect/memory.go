package inspect

import (
	"errors"
	"fmt"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// cacheTypes are those that an engine may keep keys and values in: fast precision has the first two, exact the last.
var cacheTypes = []gguf.Type{gguf.F16, gguf.Q8_0, gguf.F32}

// Memory tells what running the file at path takes for each type of cache that its heads allow. o.Cache does not count; a context of 0 is the
// one that the model was trained for. Only metadata is read. The error is for a file that cannot be opened, or whose architecture is unknown.
func Memory(path string, o arch.MemoryOptions) ([]arch.Memory, error) {
	f, err := gguf.OpenModel(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out, err := memory(f, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

func memory(f *gguf.File, o arch.MemoryOptions) ([]arch.Memory, error) {
	if o.Context < 0 || o.Context > arch.MaxContext || o.Batch < 1 || o.Threads < 1 {
		return nil, fmt.Errorf("options out of range: context %d, batch %d, %d threads", o.Context, o.Batch, o.Threads)
	}
	spec, err := arch.ForMeta(f.Meta)
	if err != nil {
		return nil, err
	}
	p, err := arch.ParamsOf(spec, f.Meta)
	if err != nil {
		return nil, err
	}
	tensors := tensorsOf(f)
	if len(tensors) == 0 {
		return nil, errors.New("the file holds no tensors, only a vocabulary\nhint: only a file with weights can be run")
	}
	var weights uint64
	for _, t := range totals(tensors) {
		weights += t.Bytes
	}
	if o.Context == 0 {
		o.Context = p.NCtxTrain
	}
	var out []arch.Memory
	for _, o.Cache = range cacheTypes {
		_, errK := o.Cache.RowBytes(uint64(p.HeadK))
		_, errV := o.Cache.RowBytes(uint64(p.HeadV))
		if errK == nil && errV == nil {
			out = append(out, arch.MemoryOf(spec, p, weights, o))
		}
	}
	return out, nil
}
