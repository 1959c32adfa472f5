package convert

import (
	"context"
	"io"

	"github.com/ggufkit/ggufkit/gguf"
)

// Output is one file that a plan writes.
type Output struct {
	Path    string
	Bytes   uint64 // of the whole file
	Tensors int
}

// Outputs are the files that Run writes for a path: the file itself, or parts that are named NAME-00001-of-00003.gguf and so on.
func (p *Plan) Outputs(path string) []Output {
	list := make([]Output, len(p.parts))
	for i, name := range gguf.PartPaths(path, len(p.parts)) {
		list[i] = Output{name, p.parts[i].Bytes, p.parts[i].Hi - p.parts[i].Lo}
	}
	return list
}

// Size is the size of all outputs together in bytes, exactly.
func (p *Plan) Size() (total uint64) {
	for _, part := range p.parts {
		total += part.Bytes
	}
	return total
}

// Run writes the planned files, named after path as Outputs says. They appear when all are complete, the first one last, so that
// whoever opens that finds the others; after an error or a cancellation none is left. Memory stays bounded by encode.Stream, whatever
// the size of a tensor.
func (p *Plan) Run(ctx context.Context, path string, o Options) ([]TensorReport, error) {
	files, err := gguf.CreateParts(path, p.parts, p.Inputs()...)
	if err != nil {
		return nil, err
	}
	defer files.Abort()
	run := progress{report: o.Progress}
	for i := range p.Tensors {
		n, err := p.Tensors[i].Bytes()
		if err != nil {
			return nil, err
		}
		run.total += n // no overflow: the sizes of the files have been computed
	}
	var reports []TensorReport
	for i, part := range p.parts {
		r, err := p.writePart(ctx, files.Files[i], part, o, &run)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r...)
	}
	return reports, files.Commit()
}

// progress counts bytes of tensor data over all files.
type progress struct {
	report      func(name string, done, total uint64)
	done, total uint64
}

func (r *progress) of(name string) func(int) {
	return func(n int) {
		r.done += uint64(n)
		if r.report != nil {
			r.report(name, r.done, r.total)
		}
	}
}

// writePart writes the header and the tensors of one file.
func (p *Plan) writePart(ctx context.Context, out io.Writer, part gguf.Part, o Options, run *progress) ([]TensorReport, error) {
	w, err := gguf.NewWriter(out, part.Meta, p.list()[part.Lo:part.Hi])
	if err != nil {
		return nil, err
	}
	var reports []TensorReport
	for i := part.Lo; i < part.Hi; i++ {
		t := &p.Tensors[i]
		if err := w.Begin(t.Name); err != nil {
			return nil, err
		}
		report, err := p.write(ctx, w, t, o, run.of(t.Name))
		if err != nil {
			return nil, err
		}
		reports = append(reports, report)
	}
	return reports, w.Close()
}
