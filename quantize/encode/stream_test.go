package encode

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// matrix makes rows of normal values, a different one for each seed.
func matrix(seed, rowLen, rows uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	data := make([]float32, rowLen*rows)
	for i := range data {
		data[i] = float32(r.NormFloat64())
	}
	return data
}

// reader serves rows of data.
func reader(data []float32, rowLen uint64) func(lo, hi uint64, dst []float32) error {
	return func(lo, hi uint64, dst []float32) error {
		if copy(dst, data[lo*rowLen:hi*rowLen]) != len(dst) {
			return errors.New("short read")
		}
		return nil
	}
}

// Stream gives the bytes and sums of Rows over the whole tensor, for any number of threads.
func TestStreamAsRows(t *testing.T) {
	const rowLen, rows = 512, 1500 // three slabs, the last one shorter
	data := matrix(1, rowLen, rows)
	for _, typ := range []gguf.Type{gguf.F32, gguf.BF16, gguf.Q8_0} {
		rowBytes, _ := typ.RowBytes(rowLen)
		want := make([]byte, rowBytes*rows)
		var sums Stats
		if err := Rows(typ, want, data, rowLen, nil, &sums); err != nil {
			t.Fatal(err)
		}
		var first Stats
		for _, threads := range []int{0, 1, 2, 7} {
			var out bytes.Buffer
			told := 0
			stats, err := Stream(t.Context(), &out, Job{
				Type: typ, RowLen: rowLen, Rows: rows, Read: reader(data, rowLen), Progress: func(n int) { told += n },
			}, threads)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Errorf("%s, %d threads: bytes differ from those of Rows", typ, threads)
			}
			if told != len(want) {
				t.Errorf("%s: progress was told of %d bytes of %d", typ, told, len(want))
			}
			if threads == 0 {
				first = stats
			}
			if stats != first {
				t.Errorf("%s, %d threads: sums %+v, want %+v", typ, threads, stats, first)
			}
			if stats.N != sums.N || stats.MaxError != sums.MaxError || math.Abs(stats.RMSE()-sums.RMSE()) > 1e-12*sums.RMSE() {
				t.Errorf("%s: sums %+v, those of Rows %+v", typ, stats, sums)
			}
		}
	}
}

// Each group of rows is encoded with its own weights, also where a slab holds several groups or a part of one.
func TestStreamWeights(t *testing.T) {
	for _, tt := range []struct{ rowLen, rows, groups uint64 }{{256, 12, 4}, {256, 2400, 2}, {256, 6, 6}, {256, 9, 1}} {
		data := matrix(2, tt.rowLen, tt.rows)
		weights := make([]float32, tt.rowLen*tt.groups)
		r := rand.New(rand.NewPCG(3, 3))
		for i := range weights {
			weights[i] = r.Float32() * r.Float32()
		}
		rowBytes, _ := gguf.Q4_0.RowBytes(tt.rowLen)
		want := make([]byte, rowBytes*tt.rows)
		per := tt.rows / tt.groups
		for g := range tt.groups {
			err := Rows(gguf.Q4_0, want[g*per*rowBytes:][:per*rowBytes], data[g*per*tt.rowLen:][:per*tt.rowLen], int(tt.rowLen), weights[g*tt.rowLen:][:tt.rowLen], nil)
			if err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		job := Job{Type: gguf.Q4_0, RowLen: tt.rowLen, Rows: tt.rows, Read: reader(data, tt.rowLen), Weights: weights, NoStats: true}
		if _, err := Stream(t.Context(), &out, job, 3); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.Bytes(), want) {
			t.Errorf("%+v: bytes differ from those of each group", tt)
		}
	}
	for _, n := range []int{1, 255, 256 * 5} {
		_, err := Stream(t.Context(), &bytes.Buffer{}, Job{Type: gguf.Q4_K, RowLen: 256, Rows: 12, Weights: make([]float32, n)}, 1)
		if err == nil {
			t.Errorf("%d weights for 12 rows of 256 are accepted", n)
		}
	}
}

// The first bad value of the tensor is reported, whichever slab is done first.
func TestStreamNamesFirstBadValue(t *testing.T) {
	const rowLen, rows = 256, 5000
	inf := float32(math.Inf(-1))
	for _, at := range []uint64{0, 3*rowLen + 17, 2000*rowLen + 5, rows*rowLen - 1} {
		data := matrix(4, rowLen, rows)
		data[at] = inf
		data[rows*rowLen-1] = inf
		for _, threads := range []int{1, 4} {
			_, err := Stream(t.Context(), &bytes.Buffer{}, Job{Type: gguf.Q8_0, RowLen: rowLen, Rows: rows, Read: reader(data, rowLen)}, threads)
			bad := (*NonFiniteError)(nil)
			if !errors.As(err, &bad) || bad.Index != at || bad.Value != inf {
				t.Errorf("error %v, want element %d", err, at)
			}
		}
		want := uint64(2)
		if at == rows*rowLen-1 {
			want = 1
		}
		if n := CountNonFinite(reader(data, rowLen), rowLen, rows); n != want {
			t.Errorf("%d bad values counted, want %d", n, want)
		}
	}
	data := matrix(5, rowLen, rows)
	data[3000*rowLen+7] = 1e30
	_, err := Stream(t.Context(), &bytes.Buffer{}, Job{Type: gguf.F16, RowLen: rowLen, Rows: rows, Read: reader(data, rowLen)}, 2)
	if bad := (*RangeError)(nil); !errors.As(err, &bad) || bad.Index != 3000*rowLen+7 {
		t.Errorf("1e30 in F16: %v", err)
	}
}

// failing is a writer that takes some bytes.
type failing struct{ left int }

var errFull = errors.New("full")

func (w *failing) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return 0, errFull
	}
	w.left -= len(p)
	return len(p), nil
}

// After any error no goroutine is left and Read is not called any more.
func TestStreamStops(t *testing.T) {
	const rowLen, rows = 1 << 10, 1 << 14
	errRead := errors.New("bad sector")
	ctx, cancel := context.WithCancelCause(t.Context())
	errStop := errors.New("stopped by the user")
	tests := []struct {
		name string
		ctx  context.Context
		left int
		read func(lo uint64) error
		want error
	}{
		{"writer", t.Context(), 3 << 20, func(uint64) error { return nil }, errFull},
		{"reader", t.Context(), math.MaxInt, func(lo uint64) error {
			if lo > 4000 {
				return errRead
			}
			return nil
		}, errRead},
		{"context", ctx, math.MaxInt, func(lo uint64) error {
			if lo > 4000 {
				cancel(errStop)
			}
			return nil
		}, errStop},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			var running atomic.Int32
			job := Job{Type: gguf.F32, RowLen: rowLen, Rows: rows, Read: func(lo, hi uint64, dst []float32) error {
				running.Add(1)
				defer running.Add(-1)
				clear(dst)
				return tt.read(lo)
			}}
			_, err := Stream(tt.ctx, &failing{tt.left}, job, 4)
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if n := running.Load(); n != 0 {
				t.Errorf("%d reads are still running", n)
			}
			if after := runtime.NumGoroutine(); after > before+1 { // the last one may be about to end
				t.Errorf("%d goroutines, %d before", after, before)
			}
		})
	}
}

func TestStreamRefuses(t *testing.T) {
	for _, job := range []Job{
		{Type: gguf.Q4_K, RowLen: 300, Rows: 1},
		{Type: gguf.F32, RowLen: 1 << 40, Rows: 1},
		{Type: gguf.Type(999), RowLen: 256, Rows: 1},
	} {
		if _, err := Stream(t.Context(), &bytes.Buffer{}, job, 1); err == nil {
			t.Errorf("%+v is accepted", job)
		}
	}
	var out bytes.Buffer
	for _, job := range []Job{{Type: gguf.Q4_K, RowLen: 256}, {Type: gguf.Q4_K, Rows: 4}} {
		if stats, err := Stream(t.Context(), &out, job, 1); err != nil || out.Len() != 0 || stats != (Stats{}) {
			t.Errorf("an empty tensor gives %d bytes, %+v, %v", out.Len(), stats, err)
		}
	}
}

// A tensor of 128 MiB is encoded in a few megabytes.
func TestStreamMemory(t *testing.T) {
	const rowLen, rows, threads = 1 << 14, 1 << 11, 2
	var peak, base runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&base)
	calls := 0
	job := Job{Type: gguf.F16, RowLen: rowLen, Rows: rows, NoStats: true,
		Read: func(lo, hi uint64, dst []float32) error { return nil },
		Progress: func(int) {
			if calls++; calls%16 == 0 {
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				peak.HeapSys = max(peak.HeapSys, now.HeapSys)
			}
		}}
	if _, err := Stream(t.Context(), &failing{math.MaxInt}, job, threads); err != nil {
		t.Fatal(err)
	}
	if limit := base.HeapSys + 32<<20; peak.HeapSys > limit {
		t.Errorf("heap of %d bytes, %d before", peak.HeapSys, base.HeapSys)
	}
}
