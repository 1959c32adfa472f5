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
	Read   float64 // 1e9 bytes a second read from memory, as four streams for each thread
}

// Efforts of MeasurePeak: it takes the best of some runs, which are short, so that other programs interrupt few of them.
const (
	peakRuns    = 30
	peakRounds  = 20000   // of the multiplying instructions in a run, below a tenth of a millisecond
	peakPiece   = 1 << 20 // bytes that a thread reads at a time
	peakPasses  = 3
	peakMinimum = 64 << 20
	peakWindow  = 32 << 20 // bytes that are timed together
)

// MeasurePeak measures. memory is what is read, at least several times larger than the caches for a true result: the mapping of a
// model serves well. With less than 64 MB Read is 0. It takes some tens of milliseconds and the time of reading memory four times.
func MeasurePeak(pool *par.Pool, memory []byte) Peak { return current().measurePeak(pool, memory) }

func (s *set) measurePeak(pool *par.Pool, memory []byte) Peak {
	p := Peak{Bytes: measureRounds(pool, s.peakBytes), Floats: measureRounds(pool, s.peakFloats)}
	if len(memory) < peakMinimum {
		return p
	}
	for range 1 + peakPasses { // the first pass may read from a disk
		for at := 0; at+peakWindow <= len(memory); at += peakWindow {
			window := memory[at:][:peakWindow]
			start := time.Now()
			pool.For(peakWindow/peakPiece, func(_, i int) { s.read(window[i*peakPiece:][:peakPiece]) })
			p.Read = max(p.Read, peakWindow/float64(time.Since(start).Nanoseconds()))
		}
	}
	return p
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
