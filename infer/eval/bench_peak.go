package eval

import (
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/internal/kernel"
	"github.com/ggufkit/ggufkit/internal/par"
)

// Work is what a run multiplies and reads: products with weights apart from the rest.
type Work struct {
	Integers float64 // multiplications of products with weights in 8-bit integers
	Floats   float64 // the same in float32
	Others   float64 // multiplications of attention
	Bytes    float64 // stored weights and cached keys and values, each read once per batch
}

func workOf(ops []infer.TraceOp) (w Work) {
	for i := range ops {
		w = w.plus(workOfOp(&ops[i]))
	}
	return w
}

func workOfOp(op *infer.TraceOp) Work {
	w, macs := Work{Bytes: float64(op.Bytes)}, float64(op.MACs)
	switch {
	case op.Integer:
		w.Integers = macs
	case op.Weights != "":
		w.Floats = macs
	default:
		w.Others = macs
	}
	return w
}

func (w Work) plus(o Work) Work {
	return Work{w.Integers + o.Integers, w.Floats + o.Floats, w.Others + o.Others, w.Bytes + o.Bytes}
}

func (w Work) times(f float64) Work {
	return Work{w.Integers * f, w.Floats * f, w.Others * f, w.Bytes * f}
}

// Peak is the most that the processor does in a second with all threads, in 1e9 multiplications and bytes; 0 where it was not measured.
type Peak struct {
	kernel.Peak
	Read float64 // bytes, as four streams for each thread
}

// Meter measures what the machine can do, with as many threads as work on a model.
type Meter struct {
	pool   *par.Pool
	memory []byte
	peak   kernel.Peak
	next   int // where in memory the next part starts
	// What was read since the last call of Peak, and the nanoseconds that it took.
	bytes, ns float64
}

// meterMemory bounds what a Meter reads, meterPart what of it while a run pauses.
const (
	meterMemory = 512 << 20
	meterPart   = kernel.ReadMinimum
)

// NewMeter measures what a number of threads (0: the cores that the process may use) multiply at most. Memory is read in the mapping of a model; of a
// file below 64 MB that is not measured, since it would tell of caches.
func NewMeter(f *gguf.File, threads int) *Meter {
	m := &Meter{pool: kernel.NewPool(threads)}
	if n := min(f.Size-min(f.Size, f.DataOffset), meterMemory); n > 0 {
		m.memory, _ = f.Data(&gguf.Tensor{Type: gguf.I8, Shape: []uint64{n}}) // all tensors as one; without it the rest is measured
	}
	m.peak = kernel.MeasurePeak(m.pool)
	kernel.MeasureRead(m.pool, m.memory) // perhaps from a disk
	return m
}

// Close ends the meter's threads.
func (m *Meter) Close() { m.pool.Close() }

// Read reads all once. What memory gives depends on its other users, from one second to the next; so it is read before and after every run, parts of it
// while a run pauses, and the mean is what the runs are compared with, not the best.
func (m *Meter) Read() { m.read(m.memory) }

// ReadPart reads the next 64 MB.
func (m *Meter) ReadPart() {
	if m.next+meterPart > len(m.memory) {
		m.next = 0
	}
	m.read(m.memory[m.next:min(m.next+meterPart, len(m.memory))])
	m.next += meterPart
}

func (m *Meter) read(memory []byte) {
	if rate := kernel.MeasureRead(m.pool, memory); rate > 0 {
		m.bytes += float64(len(memory))
		m.ns += float64(len(memory)) / rate
	}
}

// Peak is what was measured since the last call.
func (m *Meter) Peak() Peak {
	p := Peak{Peak: m.peak}
	if m.ns > 0 {
		p.Read = m.bytes / m.ns
	}
	m.bytes, m.ns = 0, 0
	return p
}

// Shares are parts of the peak that work of some nanoseconds reaches: of the multiplications, each kind against its own peak, and of reading. 0
// where the peak is not known.
func (p Peak) Shares(w Work, ns float64) (arithmetic, read float64) {
	if ns <= 0 {
		return 0, 0
	}
	if p.Bytes > 0 && p.Floats > 0 {
		arithmetic = (w.Integers/p.Bytes + (w.Floats+w.Others)/p.Floats) / ns
	}
	if p.Read > 0 {
		read = w.Bytes / p.Read / ns
	}
	return arithmetic, read
}
