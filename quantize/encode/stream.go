package encode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/mmap"
	"github.com/ggufkit/ggufkit/internal/par"
)

// slabElements is how many elements one unit of work has, at least one row. It depends on nothing else, so that
// the error sums are added in the same groups for any number of threads.
const slabElements = 1 << 18

// maxRow bounds the memory that one row can ask for, in elements.
const maxRow = 1 << 28

// Job is one tensor to encode.
type Job struct {
	Type   gguf.Type // of the output
	RowLen uint64    // elements of a row, whole blocks of Type
	Rows   uint64
	// Read fills dst with rows [lo, hi), (hi-lo)*RowLen elements. Several goroutines call it at once, for different rows.
	Read func(lo, hi uint64, dst []float32) error
	// Weights is nil, or holds RowLen importance weights for each group of consecutive rows (an expert). The groups are
	// equally large: Rows is a multiple of len(Weights)/RowLen.
	Weights []float32
	// NoStats leaves the error sums out, which saves decoding what was encoded.
	NoStats bool
	// Progress, if set, is told the bytes of each slab when they are written, in order, by the goroutine that called Stream.
	Progress func(bytes int)
}

// Stream reads a tensor, encodes it and writes the blocks to w in order. The bytes and the error sums are
// the same for any number of threads (par.Threads() if threads < 1).
//
// Peak memory: threads+2 slabs are alive, each with 4 bytes per element for the source and at most 4 for the blocks;
// measuring the error may take 4 more. A slab has 2^18 elements, or one row if that is longer: about 3 MiB per thread,
// whatever the size of the tensor.
//
// A NaN or infinity in the source gives a *NonFiniteError, a value beyond the range of the type a *RangeError, with an Index
// that counts from the start of the tensor; it is the first one in the tensor. Errors of Read and of w are returned as they are, and ctx's cause when it is done.
// After an error, w has received a part of the tensor.
func Stream(ctx context.Context, w io.Writer, job Job, threads int) (Stats, error) {
	p, err := newPipeline(job, threads)
	if err != nil || p.slabs == 0 {
		return Stats{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		par.For(p.threads, p.threads, func(_, _ int) { p.work(ctx) })
	}()
	defer func() { cancel(nil); <-finished }() // Read is not called after Stream has returned

	var total Stats
	for i := range p.slabs {
		s, err := p.slab(ctx, i)
		if err != nil {
			return total, err
		}
		if _, err := w.Write(s.dst); err != nil {
			return total, err
		}
		total.Add(s.stats)
		if job.Progress != nil {
			job.Progress(len(s.dst))
		}
		p.free <- s
	}
	return total, nil
}

// slab is one unit of work and its buffers, which are used again.
type slab struct {
	index uint64
	src   []float32
	dst   []byte
	stats Stats
	err   error
}

// pipeline hands slabs out in order and collects them in order.
type pipeline struct {
	job      Job
	threads  int
	rows     uint64 // of a slab; the last may have fewer
	slabs    uint64
	group    uint64 // rows that share weights
	rowBytes uint64
	next     atomic.Uint64
	free     chan *slab
	done     chan *slab
	early    map[uint64]*slab // done before their turn
}

func newPipeline(job Job, threads int) (*pipeline, error) {
	if job.RowLen == 0 || job.Rows == 0 { // nothing to do
		return &pipeline{}, nil
	}
	if job.RowLen > maxRow {
		return nil, fmt.Errorf("%w: a row of %d elements, more than %d", gguf.ErrLimit, job.RowLen, maxRow)
	}
	rowBytes, err := job.Type.RowBytes(job.RowLen)
	if err != nil {
		return nil, err
	}
	p := &pipeline{job: job, threads: threads, rowBytes: rowBytes, group: job.Rows, early: map[uint64]*slab{}}
	if job.Weights != nil {
		groups := uint64(len(job.Weights)) / job.RowLen
		if groups == 0 || uint64(len(job.Weights))%job.RowLen != 0 || job.Rows%groups != 0 {
			return nil, fmt.Errorf("%d importance weights do not fit %d rows of %d elements", len(job.Weights), job.Rows, job.RowLen)
		}
		p.group = job.Rows / groups
	}
	p.rows = min(max(1, slabElements/job.RowLen), job.Rows)
	p.slabs = (job.Rows-1)/p.rows + 1
	if p.threads < 1 {
		p.threads = par.Threads()
	}
	p.threads = int(min(uint64(p.threads), p.slabs))
	alive := p.threads + 2
	p.free, p.done = make(chan *slab, alive), make(chan *slab, alive)
	for range alive {
		p.free <- &slab{} // buffers are made at first use
	}
	return p, nil
}

// work encodes slabs until there are no more. It takes a buffer before a number, so that the slab that the writer waits
// for always has one.
func (p *pipeline) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-p.free:
			if s.index = p.next.Add(1) - 1; s.index >= p.slabs {
				return
			}
			p.encode(s)
			p.done <- s
		}
	}
}

// slab waits for slab i.
func (p *pipeline) slab(ctx context.Context, i uint64) (*slab, error) {
	for p.early[i] == nil {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case s := <-p.done:
			p.early[s.index] = s
		}
	}
	s := p.early[i]
	delete(p.early, i)
	return s, s.err
}

// encode reads and encodes one slab.
func (p *pipeline) encode(s *slab) {
	lo := s.index * p.rows
	hi := lo + min(p.rows, p.job.Rows-lo)
	if s.src == nil {
		s.src, s.dst = make([]float32, p.rows*p.job.RowLen), make([]byte, p.rows*p.rowBytes)
	}
	s.src, s.dst, s.stats = s.src[:(hi-lo)*p.job.RowLen], s.dst[:(hi-lo)*p.rowBytes], Stats{}
	// Read may read a mapping.
	if s.err = mmap.Guard(func() error { return p.job.Read(lo, hi, s.src) }); s.err != nil {
		return
	}
	stats := &s.stats
	if p.job.NoStats {
		stats = nil
	}
	for row := lo; row < hi; {
		group := row / p.group
		end := min(hi, (group+1)*p.group)
		var weights []float32
		if p.job.Weights != nil {
			weights = p.job.Weights[group*p.job.RowLen:][:p.job.RowLen]
		}
		src := s.src[(row-lo)*p.job.RowLen : (end-lo)*p.job.RowLen]
		dst := s.dst[(row-lo)*p.rowBytes : (end-lo)*p.rowBytes]
		if s.err = Rows(p.job.Type, dst, src, int(p.job.RowLen), weights, stats); s.err != nil {
			s.err = shift(s.err, row*p.job.RowLen)
			return
		}
		row = end
	}
}

// shift makes the element that an error of Rows names count from the start of the tensor.
func shift(err error, first uint64) error {
	if bad := (*NonFiniteError)(nil); errors.As(err, &bad) {
		bad.Index += first
	}
	if bad := (*RangeError)(nil); errors.As(err, &bad) {
		bad.Index += first
	}
	return err
}

// CountNonFinite counts the NaN and infinite values of a tensor, for a message: Stream stops at the first. It reads
// up to where read fails.
func CountNonFinite(read func(lo, hi uint64, dst []float32) error, rowLen, rows uint64) uint64 {
	if rowLen == 0 || rowLen > maxRow {
		return 0
	}
	step := max(1, slabElements/rowLen)
	buf := make([]float32, min(step, rows)*rowLen)
	count := uint64(0)
	for lo := uint64(0); lo < rows; lo += step {
		hi := min(lo+step, rows)
		part := buf[:(hi-lo)*rowLen]
		if read(lo, hi, part) != nil {
			break
		}
		for _, f := range part {
			if f-f != 0 { // NaN for both
				count++
			}
		}
	}
	return count
}
