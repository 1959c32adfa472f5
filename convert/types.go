package convert

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ggufkit/ggufkit/convert/checkpoint"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
	"github.com/ggufkit/ggufkit/quantize/mix"
)

// fileTypes are the values of general.file_type for files that are not quantized.
var fileTypes = map[gguf.Type]uint32{gguf.F32: 0, gguf.F16: 1, gguf.BF16: 32}

// stored maps element types of a checkpoint to the tensor types that hold them without loss (F64 apart).
var stored = map[checkpoint.DType]gguf.Type{checkpoint.F32: gguf.F32, checkpoint.F16: gguf.F16, checkpoint.BF16: gguf.BF16, checkpoint.F64: gguf.F32}

// output is the type asked for: one for all matrices, each tensor's own (auto), or a recipe.
type output struct {
	name   string
	auto   bool
	base   gguf.Type
	recipe *mix.Recipe
}

// parseOutput reads the name of an output type.
func parseOutput(name string) (output, error) {
	o := output{name: strings.ToLower(name)}
	switch o.name {
	case "", "auto":
		o.name, o.auto = "auto", true
	case "f32":
		o.base = gguf.F32
	case "f16":
		o.base = gguf.F16
	case "bf16":
		o.base = gguf.BF16
	default:
		r, err := mix.Parse(name)
		if err != nil {
			return o, fmt.Errorf("--type: %w", errors.Join(err, errors.New("hint: auto, f32, f16 and bf16 store the weights without blocks")))
		}
		o.name, o.recipe = r.Name, r
	}
	return o, nil
}

// fileType is general.file_type. For auto it goes by the first tensor of the checkpoint that is a matrix.
func (o output) fileType(order []*target) uint32 {
	if o.recipe != nil {
		return o.recipe.FileType
	}
	if !o.auto {
		return fileTypes[o.base]
	}
	for _, t := range order {
		if len(t.found[0].Shape) > 1 {
			return fileTypes[stored[t.found[0].DType]]
		}
	}
	return fileTypes[gguf.F32]
}

// label names the type in file names; for auto it is that of the first matrix.
func (o output) label(order []*target) string {
	switch {
	case o.recipe != nil:
		return o.recipe.Name
	case o.auto:
		n := o.fileType(order)
		for t, id := range fileTypes {
			if id == n {
				return t.String()
			}
		}
	}
	return o.base.String()
}

// choose sets the types of all tensors and says why.
func (o output) choose(meta *gguf.Meta, tensors []PlannedTensor) (notes []string, err error) {
	if o.recipe == nil {
		for i := range tensors {
			t := &tensors[i]
			t.Type, t.Rule = o.plain(t)
		}
		return nil, nil
	}
	list := make([]gguf.Tensor, len(tensors))
	for i := range tensors {
		tensors[i].Type = gguf.F32
		list[i] = tensors[i].Tensor
	}
	choices, err := mix.Choose(o.recipe, mix.ModelOf(meta), list, mix.Options{})
	if err != nil {
		return nil, err
	}
	fallbacks := 0
	for i, c := range choices {
		if _, err := block.ForType(c.To); err != nil {
			return nil, fmt.Errorf("tensor %s (%s): %w", c.Name, c.Rule, err)
		}
		tensors[i].Type, tensors[i].Rule = c.To, c.Rule
		if c.Fallback {
			fallbacks++
		}
	}
	if fallbacks > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d tensors have rows that do not fill whole blocks and take another type", fallbacks, len(tensors)))
	}
	return notes, nil
}

// plain is the type of one tensor of a file that is not quantized: vectors, norms and whatever is no weight stay F32.
func (o output) plain(t *PlannedTensor) (gguf.Type, string) {
	switch {
	case t.f32:
		return gguf.F32, "always F32"
	case len(t.Shape) < 2:
		return gguf.F32, "one dimension: F32"
	case strings.HasSuffix(t.Name, "_norm.weight"):
		return gguf.F32, "norm: F32"
	case !strings.HasSuffix(t.Name, ".weight"):
		return gguf.F32, "no weight matrix: F32"
	case o.auto:
		typ := stored[t.Sources[0].DType]
		return typ, fmt.Sprintf("auto: %s as in the checkpoint", t.Sources[0].DType)
	}
	return o.base, "--type " + o.name
}
