// Package quantize makes a smaller GGUF file of a GGUF file: which tensor gets which type (package mix), the conversion in
// bounded memory (package encode), and a report of what it cost.
package quantize

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
	"github.com/ggufkit/ggufkit/quantize/mix"
)

// quantizationVersion is the value of general.quantization_version: that of the block formats.
const quantizationVersion = 2

// sourceTypeKey records what a file was quantized from when that was quantized already.
const sourceTypeKey = "ggufkit.requantized_from"

// ErrRequantize means that the source is quantized already and Options do not allow to lose more.
var ErrRequantize = errors.New("the source is quantized already")

// Options say what to make of a file.
type Options struct {
	Recipe          *mix.Recipe
	Mix             mix.Options
	AllowRequantize bool // quantized tensors may get another type
	KeepSplit       bool // as many files as the source has, with the same tensors each; else one
}

// TensorPlan is what becomes of one tensor.
type TensorPlan struct {
	mix.Choice
	Shape       []uint64 // as in gguf.Tensor
	Elements    uint64
	SourceBytes uint64
	Bytes       uint64 // of the result
}

// Copied reports whether the bytes stay as they are.
func (t *TensorPlan) Copied() bool { return t.From == t.To }

// Plan is everything about the result but the blocks themselves. It is a pure function of the file's header and the options.
type Plan struct {
	Recipe *mix.Recipe
	Meta   *gguf.Meta // of the result
	// Tensors of the result, in the order of the source file. (llama-quantize sorts them by block and name. The file's
	// order is kept since a file is then read front to back, and convert gives the same bytes in one pass.)
	Tensors []TensorPlan
	// Size of the result in bytes, exactly: of all its files.
	Size uint64

	source *gguf.File
	counts []int // tensors in each file, nil for one
	parts  []gguf.Part
}

// NewPlan decides what becomes of every tensor of f, which must stay open until Run has returned. Metadata is kept in order but for
// general.file_type and general.quantization_version, which are set, and split.*, which is removed. It fails for a source
// that is quantized already (ErrRequantize) or has no tensors, for tensors of a type that cannot be decoded or encoded, and as mix.Choose does.
func NewPlan(f *gguf.File, o Options) (*Plan, error) {
	p, err := newPlan(f, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return p, nil
}

func newPlan(f *gguf.File, o Options) (*Plan, error) {
	if o.Recipe == nil {
		return nil, errors.New("no quantization type given")
	}
	if err := checkSource(f); err != nil {
		return nil, err
	}
	choices, err := mix.Choose(o.Recipe, mix.ModelOf(f.Meta), f.Tensors, o.Mix)
	if err != nil {
		return nil, err
	}
	return assemble(f, o, choices)
}

// assemble makes the plan of what was chosen for each tensor.
func assemble(f *gguf.File, o Options, choices []mix.Choice) (*Plan, error) {
	p := &Plan{Recipe: o.Recipe, Meta: outputMeta(f, o.Recipe, choices), source: f}
	if o.KeepSplit {
		p.counts = f.Counts()
	}
	for i := range f.Tensors {
		t, err := planTensor(&f.Tensors[i], choices[i])
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", choices[i].Name, err)
		}
		p.Tensors = append(p.Tensors, t)
	}
	if err := p.checkRequantize(o.AllowRequantize); err != nil {
		return nil, err
	}
	if err := p.checkCodecs(); err != nil {
		return nil, err
	}
	var err error
	if p.parts, err = gguf.SplitAt(p.Meta, p.outputTensors(), p.counts); err != nil {
		return nil, err
	}
	for _, part := range p.parts {
		p.Size += part.Bytes
	}
	return p, nil
}

// planTensor sizes one tensor.
func planTensor(t *gguf.Tensor, c mix.Choice) (TensorPlan, error) {
	p := TensorPlan{Choice: c, Shape: t.Shape}
	var err error
	if p.Elements, err = t.Elements(); err != nil {
		return p, err
	}
	if p.SourceBytes, err = t.Bytes(); err != nil {
		return p, err
	}
	if p.Copied() {
		p.Bytes = p.SourceBytes
		return p, nil
	}
	out := gguf.Tensor{Name: t.Name, Type: c.To, Shape: t.Shape}
	p.Bytes, err = out.Bytes()
	return p, err
}

// checkCodecs refuses types that cannot be read or written, all at once.
func (p *Plan) checkCodecs() error {
	known := block.Types()
	users := map[string][]string{}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.Copied() {
			continue
		}
		if !slices.Contains(known, t.From) {
			users["read "+t.From.String()] = append(users["read "+t.From.String()], t.Name)
		}
		if !slices.Contains(known, t.To) {
			users["write "+t.To.String()] = append(users["write "+t.To.String()], t.Name)
		}
	}
	var missing, names []string
	for _, what := range slices.Sorted(maps.Keys(users)) {
		missing = append(missing, fmt.Sprintf("cannot %s (%d tensor(s), such as %s)", what, len(users[what]), users[what][0]))
	}
	if len(missing) == 0 {
		return nil
	}
	for _, t := range known {
		names = append(names, t.String())
	}
	hint := "choose a recipe of these types, or others for these tensors"
	if strings.HasPrefix(missing[0], "cannot read") { // sorted first
		hint = "start from a file of these types"
	}
	return fmt.Errorf("%s\nhint: %s: %s", strings.Join(missing, "; "), hint, strings.Join(names, " "))
}

// outputTensors is the tensor list of the result, not laid out yet.
func (p *Plan) outputTensors() []gguf.Tensor {
	list := make([]gguf.Tensor, len(p.Tensors))
	for i, t := range p.Tensors {
		list[i] = gguf.Tensor{Name: t.Name, Type: t.To, Shape: t.Shape}
	}
	return list
}

// outputMeta is the metadata of the result.
func outputMeta(f *gguf.File, r *mix.Recipe, choices []mix.Choice) *gguf.Meta {
	meta := f.Meta.Clone()
	var split []string
	for key := range meta.All() {
		if strings.HasPrefix(key, "split.") {
			split = append(split, key)
		}
	}
	for _, key := range split {
		meta.Remove(key)
	}
	meta.Set("general.quantization_version", gguf.New(uint32(quantizationVersion)))
	meta.Set("general.file_type", gguf.New(r.FileType))
	var from []string
	for _, c := range choices {
		if c.From != c.To && quantized(c.From) && !slices.Contains(from, c.From.String()) {
			from = append(from, c.From.String())
		}
	}
	if len(from) > 0 {
		slices.Sort(from)
		meta.Set(sourceTypeKey, gguf.New(strings.Join(from, " ")))
	}
	return meta
}

func quantized(t gguf.Type) bool {
	info, ok := t.Info()
	return ok && info.Quantized()
}

// checkRequantize refuses to lose precision twice unless that is wanted.
func (p *Plan) checkRequantize(allow bool) error {
	if allow {
		return nil
	}
	var first *TensorPlan
	n := 0
	for i := range p.Tensors {
		if t := &p.Tensors[i]; !t.Copied() && quantized(t.From) {
			n++
			if first == nil {
				first = t
			}
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d tensor(s), such as %s (%s -> %s)\nhint: start from the F32, F16 or BF16 file: errors add up, and the report can only measure "+
		"against this source; --allow-requantize does it all the same", ErrRequantize, n, first.Name, first.From, first.To)
}

// checkSource refuses files whose tensors this package does not read.
func checkSource(f *gguf.File) error {
	if n, err := f.Meta.Uint("split.count"); err == nil && n > 1 {
		return fmt.Errorf("the file is one of %d parts\nhint: open all of them by the first one", n)
	}
	if len(f.Tensors) == 0 {
		return errors.New("the file has no tensors: there is nothing to quantize\nhint: give the file that has the weights")
	}
	if !littleEndian(f) {
		return errors.New("the file is big-endian\nhint: gguf-convert-endian of the Python package gguf makes it little-endian")
	}
	return nil
}

// littleEndian reports the byte order of the tensors.
func littleEndian(f *gguf.File) bool { return f.Order.Uint16([]byte{1, 0}) == 1 }
