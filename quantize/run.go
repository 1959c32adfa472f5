package quantize

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/atomicfile"
	"github.com/ggufkit/ggufkit/internal/mmap"
	"github.com/ggufkit/ggufkit/quantize/encode"
)

// copyBytes is the size of the pieces in which tensors are copied, and of the output buffer.
const copyBytes = 1 << 20

// RunOptions say how to carry out a plan.
type RunOptions struct {
	Threads int // par.Threads() if below 1
	// MaxRelRMSE, if above 0, is the largest rel_rmse (rmse over the root mean square of the source) that any tensor may have.
	// It is relative since one limit then suits all tensors, whatever their scale.
	MaxRelRMSE float64
	// Progress, if set, is called after every piece of about a megabyte, from the goroutine that called Run.
	Progress func(Progress)
}

// Progress is how far a run is.
type Progress struct {
	Tensor      string
	Done, Total uint64 // bytes of the result's tensors
}

// LimitError lists the tensors that exceed RunOptions.MaxRelRMSE.
type LimitError struct {
	Limit   float64
	Tensors []TensorReport
}

// Error names the tensors, in the order of the file.
func (e *LimitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d tensor(s) with a relative rmse above %g:", len(e.Tensors), e.Limit)
	for _, t := range e.Tensors {
		fmt.Fprintf(&b, "\n  %s: %.6g (%s)", t.Name, t.RelRMSE, t.To)
	}
	b.WriteString("\nhint: give these tensors a larger type with --tensor-type, or choose a larger recipe")
	return b.String()
}

// ValueError reports NaN or infinite weights.
type ValueError struct {
	Path     string // of the file that has the tensor
	Tensor   string
	Row, Col uint64 // of the first
	Value    float32
	Count    uint64 // in the tensor
}

// Error names the file, the tensor and the place of the first value.
func (e *ValueError) Error() string {
	return fmt.Sprintf("%s: tensor %s: row %d, column %d is %v (NaN or infinite values in this tensor: %d)\n"+
		"hint: the weights are damaged: get a sound copy of the source", e.Path, e.Tensor, e.Row, e.Col, e.Value, e.Count)
}

// Run carries out the plan and writes the result to path, or to parts that are named after it as gguf.PartPaths says; it appears whole or, after any error, not at all. The
// bytes and the report are the same for any number of threads.
//
// Memory stays below 4 MiB for each thread and 12 MiB besides, whatever the size of the tensors, unless a single
// row has more than 2^18 elements.
//
// Errors: *ValueError for NaN and infinities in the source, *LimitError (then with the report) for MaxRelRMSE,
// atomicfile.ErrNoSpace for a full disk, the cause of ctx when it is done.
func (p *Plan) Run(ctx context.Context, path string, o RunOptions) (*Report, error) {
	// The mapping is not used: its pages would count as memory of this process, and a file that shrinks meanwhile would be a fault.
	src, err := p.source.Reopen()
	if err != nil {
		return nil, err
	}
	defer src.Close()
	out, err := gguf.CreateParts(path, p.parts, p.source.Paths()...)
	if err != nil {
		return nil, err
	}
	defer out.Abort()
	stats, err := p.write(ctx, func(part int) io.Writer { return out.Files[part] }, src, o)
	if err != nil {
		return nil, err
	}
	report := p.report(stats)
	if err := report.check(o.MaxRelRMSE); err != nil {
		return report, err
	}
	if err := out.Commit(); err != nil {
		return nil, err
	}
	return report, nil
}

// check holds every tensor against the limit.
func (r *Report) check(limit float64) error {
	if limit <= 0 {
		return nil
	}
	e := &LimitError{Limit: limit}
	for _, t := range r.Tensors {
		if t.RelRMSE > limit {
			e.Tensors = append(e.Tensors, t)
		}
	}
	if len(e.Tensors) == 0 {
		return nil
	}
	return e
}

// write writes the whole result, each part to a writer of its own, and returns the error sums of each tensor.
func (p *Plan) write(ctx context.Context, w func(part int) io.Writer, src io.ReaderAt, o RunOptions) ([]encode.Stats, error) {
	progress := Progress{}
	for i := range p.Tensors {
		progress.Total += p.Tensors[i].Bytes
	}
	var stats []encode.Stats
	tensors := p.outputTensors()
	for k, part := range p.parts {
		buffered := bufio.NewWriterSize(w(k), copyBytes)
		out, err := gguf.NewWriter(buffered, part.Meta, tensors[part.Lo:part.Hi])
		if err != nil {
			return nil, err
		}
		for i := part.Lo; i < part.Hi; i++ {
			progress.Tensor = p.Tensors[i].Name
			s, err := p.writeTensor(ctx, out, i, src, o.Threads, func(n int) {
				progress.Done += uint64(n)
				if o.Progress != nil {
					o.Progress(progress)
				}
			})
			if err != nil {
				return nil, err
			}
			stats = append(stats, s)
		}
		if err := out.Close(); err != nil {
			return nil, err
		}
		if err := buffered.Flush(); err != nil {
			return nil, err
		}
	}
	return stats, nil
}

// writeTensor writes tensor i.
func (p *Plan) writeTensor(ctx context.Context, out *gguf.Writer, i int, src io.ReaderAt, threads int, step func(n int)) (encode.Stats, error) {
	t := &p.Tensors[i]
	if err := out.Begin(t.Name); err != nil {
		return encode.Stats{}, err
	}
	at := p.source.DataOffset + p.source.Tensors[i].Offset
	data := io.NewSectionReader(src, int64(at), int64(t.SourceBytes))
	var err error
	stats := encode.Stats{N: t.Elements}
	if t.Copied() && !float(t.From) {
		err = copyTensor(ctx, out, data, step)
	} else {
		stats, err = encodeTensor(ctx, out, data, t, threads, step)
	}
	if err != nil {
		return stats, p.explain(err, i, data)
	}
	return stats, nil
}

// float reports the types whose every element is checked even if nothing changes.
func float(t gguf.Type) bool { return t == gguf.F32 || t == gguf.F16 || t == gguf.BF16 }

// copyTensor copies bytes as they are.
func copyTensor(ctx context.Context, w io.Writer, data io.Reader, step func(n int)) error {
	buf := make([]byte, copyBytes)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := io.ReadFull(data, buf)
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		step(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil // a file that has become too short is noticed by the writer: the tensor is incomplete
		case err != nil:
			return err
		}
	}
}

// encodeTensor decodes, encodes and writes one tensor.
func encodeTensor(ctx context.Context, w io.Writer, data io.ReaderAt, t *TensorPlan, threads int, step func(n int)) (encode.Stats, error) {
	read, err := rowReader(data, t)
	if err != nil {
		return encode.Stats{}, err
	}
	return encode.Stream(ctx, w, encode.Job{
		Type:     t.To,
		RowLen:   t.Shape[0],
		Rows:     t.Elements / max(1, t.Shape[0]),
		Read:     read,
		Progress: step,
	}, threads)
}

// rowReader reads and decodes rows of a stored tensor.
func rowReader(data io.ReaderAt, t *TensorPlan) (func(lo, hi uint64, dst []float32) error, error) {
	rowBytes, err := t.From.RowBytes(t.Shape[0])
	if err != nil {
		return nil, err
	}
	var buffers sync.Pool
	return func(lo, hi uint64, dst []float32) error {
		buf, _ := buffers.Get().(*[]byte)
		if n := (hi - lo) * rowBytes; buf == nil || uint64(cap(*buf)) < n {
			buf = new(make([]byte, n))
		}
		defer buffers.Put(buf)
		part := (*buf)[:(hi-lo)*rowBytes]
		if n, err := data.ReadAt(part, int64(lo*rowBytes)); n < len(part) {
			return fmt.Errorf("reading the source: %w", err)
		}
		return encode.Decode(t.From, dst, part)
	}, nil
}

// explain gives an error about tensor i the file and the tensor, and a bad value its row and column. Errors that the system or a disk gives name their file.
func (p *Plan) explain(err error, i int, data io.ReaderAt) error {
	t := &p.Tensors[i]
	path, _ := p.source.Place(&p.source.Tensors[i])
	fault, bad := (*mmap.FaultError)(nil), (*encode.NonFiniteError)(nil)
	switch {
	case errors.As(err, &fault):
		cut := *fault
		cut.Where = "tensor " + t.Name
		return &cut
	case atomicfile.NamesFile(err):
		return err
	case !errors.As(err, &bad):
		return fmt.Errorf("%s: tensor %s: %w", path, t.Name, err)
	}
	n := t.Shape[0]
	e := &ValueError{Path: path, Tensor: t.Name, Row: bad.Index / n, Col: bad.Index % n, Value: bad.Value, Count: 1}
	if read, err := rowReader(data, t); err == nil {
		e.Count = encode.CountNonFinite(read, n, t.Elements/n)
	}
	return e
}
