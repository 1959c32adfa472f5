package eval

import (
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/internal/kernel"
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
type Peak kernel.Peak

// peakMemory bounds what MeasurePeak reads of a file (it reads it four times).
const peakMemory = 1 << 30

// MeasurePeak measures what a number of threads (0: the cores that the process may use) can do at most. Memory is read in the mapping of
// a model; of a file below 64 MB that is not measured, since it would tell of caches.
func MeasurePeak(f *gguf.File, threads int) Peak {
	var memory []byte
	if n := min(f.Size-min(f.Size, f.DataOffset), peakMemory); n > 0 {
		memory, _ = f.Data(&gguf.Tensor{Type: gguf.I8, Shape: []uint64{n}}) // all tensors as one; without it the rest is measured
	}
	pool := kernel.NewPool(threads)
	defer pool.Close()
	return Peak(kernel.MeasurePeak(pool, memory))
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
