package arch

import (
	"math"
	"math/bits"
	"slices"

	"github.com/ggufkit/ggufkit/gguf"
)

// CachePage is how many positions the memory of a sequence grows by.
const CachePage = 64

// MemoryOptions are what the memory of a running model depends on besides the model.
type MemoryOptions struct {
	Context int       // positions of a sequence
	Batch   int       // most tokens computed at once
	Threads int       // that compute
	Cache   gguf.Type // of keys and values
}

// Memory is what a running model takes, in bytes.
type Memory struct {
	Context   int    `json:"context"`
	Batch     int    `json:"batch"` // most tokens computed at once, no more than the context
	Threads   int    `json:"threads"`
	CacheType string `json:"cache_type"`

	// Weights are pages of the file, which all processes that run it share and the system can drop.
	Weights uint64 `json:"weights"`
	// CachePosition is the keys and values of one position, Cache those of one sequence that fills the context: it grows page by page.
	CachePosition uint64 `json:"cache_position"`
	Cache         uint64 `json:"cache"`
	// Windowed is the part of Cache that belongs to blocks with a window; it is kept whole, so that a sequence can be cut anywhere.
	Windowed uint64 `json:"windowed"`
	// Scratch is what a batch is computed in, once it has been full.
	Scratch uint64 `json:"scratch"`
	// Fixed is about what the program itself takes, a tokenizer included.
	Fixed uint64 `json:"fixed"`
}

// Anonymous is all but the weights: memory that belongs to the process alone.
func (m *Memory) Anonymous() uint64 {
	own := m.Scratch + min(m.Fixed, math.MaxUint64-m.Scratch)
	return own + min(m.Cache, math.MaxUint64-own)
}

// What the program takes besides: about so much by itself, and for each token of a vocabulary, so that texts can be split.
const (
	fixedMemory = 8 << 20
	tokenMemory = 128
)

// MemoryOf computes what a model takes whose tensors have the given number of bytes in all.
func MemoryOf(s *Spec, p *Params, weights uint64, o MemoryOptions) Memory {
	m := Memory{
		Context: o.Context, Batch: min(o.Batch, o.Context), Threads: o.Threads, CacheType: o.Cache.String(),
		Weights: weights, Scratch: scratch(s, p, o), Fixed: fixedMemory + tokenMemory*uint64(p.NVocab),
	}
	pages := uint64((o.Context + CachePage - 1) / CachePage)
	for il, heads := range p.NHeadKV {
		keys, _ := o.Cache.RowBytes(uint64(p.HeadK))
		values, _ := o.Cache.RowBytes(uint64(p.HeadV))
		n := uint64(heads) * (keys + values)
		m.CachePosition += n
		if p.Windowed[il] {
			m.Windowed += n
		}
	}
	m.Windowed, m.Cache = times(m.Windowed, CachePage*pages), times(m.CachePosition, CachePage*pages)
	return m
}

// times is the product, or the largest number there is.
func times(a, b uint64) uint64 {
	if hi, lo := bits.Mul64(a, b); hi == 0 {
		return lo
	}
	return math.MaxUint64
}

// scratch is the buffers of a batch and what each thread computes in.
func scratch(s *Spec, p *Params, o MemoryOptions) uint64 {
	const (
		float   = 4 // bytes
		panel   = 16
		queries = 96 // that a thread attends with at a time
		keys    = 256
		pieces  = 64 // of keys and values that are decoded together
	)
	heads, keyHeads, ff := slices.Max(p.NHead), slices.Max(p.NHeadKV), slices.Max(p.NFF)
	rows := min(o.Batch, o.Context)
	widest := max(p.NEmbd, ff, heads*p.HeadV)
	row := 2*p.NEmbd + (heads+keyHeads)*(p.HeadK+p.HeadV) + ff + p.Rope.Dim + p.LocalRope.Dim
	if s.Block.Gated {
		row += ff
	}
	total := times(uint64(rows), uint64(float*(row+widest))) // the operand of a product is packed
	thread := 2*panel*widest + panel*float*1024 + rows*panel*float
	thread += float * (max(queries, heads/max(keyHeads, 1))*(p.HeadK+p.HeadV+keys) + pieces*(p.HeadK+max(p.HeadK, p.HeadV)))
	rest := times(uint64(o.Threads), uint64(thread)) + 2*float*uint64(p.NVocab) // logits, and a copy of them
	return total + min(rest, math.MaxUint64-total)
}
