package kernel

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/ggufkit/ggufkit/internal/par"
)

// Peak is what the processor can do at most with all threads of a pool, measured: what kernels achieve can be told as a share of it.
type Peak struct {
	Bytes  float64 // 1e9 multiplications of 8-bit integers a second, added in pairs; 0 where the set has no instruction for them
	Floats float64 // 1e9 multiplications with additions of float32 a second; 0 likewise
}

// Efforts of MeasurePeak: it takes the best of some runs, which are short, so that other programs interrupt few of them.
const (
	peakRuns   = 30
	peakRounds = 20000 // of the multiplying instructions in a run, below a tenth of a millisecond
)

// MeasurePeak measures. It takes some tens of milliseconds.
func MeasurePeak(pool *par.Pool) Peak { return current().measurePeak(pool) }

func (s *set) measurePeak(pool *par.Pool) Peak {
	return Peak{Bytes: measureRounds(pool, s.peakBytes), Floats: measureRounds(pool, s.peakFloats)}
}

const (
	readPiece = 1 << 20 // bytes that a thread reads at a time
	// ReadMinimum is how many bytes MeasureRead wants at least: several times what caches hold.
	ReadMinimum = 64 << 20
)

// MeasureRead reads memory once, as four streams for each thread, and gives the rate in 1e9 bytes a second; 0 for less than 64 MB, which would tell of
// caches. The mapping of a model serves well, once it is in memory.
func MeasureRead(pool *par.Pool, memory []byte) float64 { return current().measureRead(pool, memory) }

func (s *set) measureRead(pool *par.Pool, memory []byte) float64 {
	if len(memory) < ReadMinimum {
		return 0
	}
	pieces := len(memory) / readPiece
	start := time.Now()
	pool.For(pieces, func(_, i int) { s.read(memory[i*readPiece:][:readPiece]) })
	return float64(pieces*readPiece) / float64(time.Since(start).Nanoseconds())
}

// measureRounds gives the best number of multiplications in a nanosecond of all threads together.
func measureRounds(pool *par.Pool, f func(rounds int) int) (best float64) {
	if f == nil {
		return 0
	}
	var multiplications atomic.Int64
	for range peakRuns {
		multiplications.Store(0)
		start := time.Now()
		pool.For(pool.Threads(), func(_, _ int) { multiplications.Add(int64(f(peakRounds)) * peakRounds) })
		best = max(best, float64(multiplications.Load())/float64(time.Since(start).Nanoseconds()))
	}
	return best
}

// readGeneric is the portable read.
func readGeneric(b []byte) {
	n := len(b) / 4 &^ 7
	var sum uint64
	for i := 0; i < n; i += 8 {
		for stream := range 4 {
			sum += binary.LittleEndian.Uint64(b[stream*n+i:])
		}
	}
	readSum.Store(sum)
}

// readSum keeps the compiler from dropping the reads.
var readSum atomic.Uint64
