package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/mmap"
)

// mappedBytes is how much the benchmarks of decoding read: several times what caches hold.
const mappedBytes = 160 << 20

// mappedBlocks is a mapped file of repeated random blocks, as the weights of a model are.
func mappedBlocks(b *testing.B, typ gguf.Type) []byte {
	b.Helper()
	info, _ := typ.Info()
	piece := make([]byte, benchBytes/int(info.Bytes)*int(info.Bytes))
	fill(newRand(1), typ, piece)
	path := filepath.Join(b.TempDir(), "weights")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	for n := 0; n < mappedBytes; n += len(piece) {
		if _, err := f.Write(piece); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	m, err := mmap.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close() })
	return m.Bytes()
}

// BenchmarkDecode is products with one token, and with few, where the weights come from memory: matrices as those of a model 2048 wide. share is
// the part of what a plain read of the same bytes as four streams reaches, with which they alternate; the best of all rounds counts for both.
func BenchmarkDecode(b *testing.B) {
	for _, typ := range []gguf.Type{gguf.Q4_K, gguf.Q6_K, gguf.Q8_0, gguf.Q4_0, gguf.Q5_K, gguf.Q4_1, gguf.Q5_0, gguf.Q3_K, gguf.Q2_K, gguf.IQ4_XS, gguf.F16} {
		b.Run(typ.String(), func(b *testing.B) {
			data := mappedBlocks(b, typ)
			for _, shape := range [][2]int{{8192, 2048}, {2048, 8192}} {
				for _, threads := range []int{1, 2} {
					for _, n := range []int{1, 2, 4, 8, 16, 32, 512} {
						b.Run(fmt.Sprintf("%dx%d/threads=%d/n=%d", shape[0], shape[1], threads, n), func(b *testing.B) {
							benchDecode(b, data, typ, shape[0], shape[1], threads, n)
						})
					}
				}
			}
		})
	}
}

func benchDecode(b *testing.B, data []byte, typ gguf.Type, rows, k, threads, n int) {
	size, err := typ.RowBytes(uint64(rows) * uint64(k))
	if err != nil {
		b.Fatal(err)
	}
	var weights []*Matrix
	for ; uint64(len(data)) >= size; data = data[size:] {
		w, err := New(typ, data[:size], rows, k)
		if err != nil {
			b.Fatal(err)
		}
		weights = append(weights, w)
	}
	pool := NewPool(threads)
	defer pool.Close()
	m := NewMultiplier(pool, false)
	x, y := normals(newRand(2), n*k), make([]float32, n*rows)
	var mul, read time.Duration = 1 << 62, 1 << 62
	for b.Loop() {
		for _, w := range weights {
			start := time.Now()
			m.Mul(x, n, Product{W: w, Y: y})
			mul = min(mul, time.Since(start))
		}
		for _, w := range weights {
			start := time.Now()
			pieces := len(w.data) / readPiece
			pool.For(pieces, func(_, i int) { m.set.read(w.data[i*readPiece:][:readPiece]) })
			read = min(read, time.Since(start)*time.Duration(len(w.data))/time.Duration(pieces*readPiece))
		}
	}
	rate := float64(size) / float64(mul.Nanoseconds())
	b.ReportMetric(rate, "GB/s")
	b.ReportMetric(rate*float64(read.Nanoseconds())/float64(size), "share")
	b.ReportMetric(float64(n)*float64(rows)*float64(k)/float64(mul.Nanoseconds()), "GMAC/s")
	b.ReportMetric(0, "ns/op")
}
