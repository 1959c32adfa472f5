package kernel

import (
	"fmt"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// benchBytes is how much of a matrix for benchmarks is random; the rest repeats it.
const benchBytes = 1 << 20

// benchMatrix is a matrix of repeated random blocks.
func benchMatrix(b *testing.B, typ gguf.Type, rows, k int) *Matrix {
	b.Helper()
	size, err := typ.RowBytes(uint64(rows) * uint64(k))
	if err != nil {
		b.Fatal(err)
	}
	info, _ := typ.Info()
	data := make([]byte, size)
	first := min(len(data), benchBytes/int(info.Bytes)*int(info.Bytes))
	fill(newRand(1), typ, data[:first])
	for n := first; n < len(data); n *= 2 {
		copy(data[n:], data[:n])
	}
	m, err := New(typ, data, rows, k)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// BenchmarkMul is the table of whole products: shapes of small models' matrices, for one or more tokens. GMAC/s are 1e9 multiplications
// a second, GB/s the stored weights that were read.
func BenchmarkMul(b *testing.B) {
	shapes := []struct {
		typ     gguf.Type
		rows, k int
	}{
		{gguf.Q4_1, 1536, 576}, {gguf.Q8_0, 1536, 576}, {gguf.Q4_K, 4096, 2048}, {gguf.Q6_K, 4096, 2048}, {gguf.Q4_0, 4096, 2048},
		{gguf.Q8_0, 4096, 2048}, {gguf.F16, 4096, 2048}, {gguf.Q4_K, 11008, 4096}, {gguf.Q8_0, 11008, 4096},
	}
	for _, shape := range shapes {
		w := benchMatrix(b, shape.typ, shape.rows, shape.k)
		for _, threads := range []int{1, 2} {
			pool := NewPool(threads)
			m := NewMultiplier(pool, false)
			for _, n := range []int{1, 2, 4, 8, 32, 128, 512} {
				x, y := normals(newRand(2), n*shape.k), make([]float32, n*shape.rows)
				b.Run(fmt.Sprintf("%s/%dx%d/threads=%d/n=%d", shape.typ, shape.rows, shape.k, threads, n), func(b *testing.B) {
					for b.Loop() {
						m.Mul(x, n, Product{W: w, Y: y})
					}
					runs := float64(b.N) / float64(b.Elapsed().Nanoseconds())
					b.ReportMetric(runs*float64(shape.rows)*float64(shape.k)*float64(n), "GMAC/s")
					b.ReportMetric(runs*float64(len(w.data)), "GB/s")
				})
			}
			pool.Close()
		}
	}
}

// BenchmarkPeak is what the processor can do at most, see Peak.
func BenchmarkPeak(b *testing.B) {
	memory := make([]byte, 512<<20)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			pool := NewPool(threads)
			defer pool.Close()
			var p Peak
			var read float64
			for b.Loop() {
				now := MeasurePeak(pool)
				p = Peak{max(p.Bytes, now.Bytes), max(p.Floats, now.Floats)}
				read = max(read, MeasureRead(pool, memory))
			}
			b.ReportMetric(p.Bytes, "int8-GMAC/s")
			b.ReportMetric(p.Floats, "float32-GMAC/s")
			b.ReportMetric(read, "GB/s")
		})
	}
}

// BenchmarkRows is operations on rows as long as a feed-forward network is wide.
func BenchmarkRows(b *testing.B) {
	const n = 8192
	x, w, half := normals(newRand(1), n), normals(newRand(2), n), make([]byte, 2*n)
	y := make([]float32, n)
	s := current()
	var acts activations
	acts.reshape(1, n, false)
	for _, op := range []struct {
		name string
		run  func()
	}{
		{"RMSNorm", func() { RMSNorm(y, x, w, 1e-5) }},
		{"LayerNorm", func() { LayerNorm(y, x, w, w, 1e-5) }},
		{"Softmax", func() { copy(y, x); Softmax(y, 0.125) }},
		{"SiLU", func() { SiLU(y, x) }},
		{"GELU", func() { GELU(y, x) }},
		{"GELUTanh", func() { GELUTanh(y, x) }},
		{"Add", func() { Add(y, x) }},
		{"RopeHalves", func() { RopeHalves(y, x[:n/2], w[:n/2]) }},
		{"RopeAdjacent", func() { RopeAdjacent(y, x[:n/2], w[:n/2]) }},
		{"EncodeF16", func() { EncodeF16(half, x) }},
		{"DecodeF16", func() { DecodeF16(y, half) }},
		{"Quantize", func() { s.quantize(acts, x) }},
		{"ArgMax", func() { ArgMax(x) }},
		{"TopK", func() { TopK(nil, x, 40) }},
	} {
		b.Run(op.name, func(b *testing.B) {
			for b.Loop() {
				op.run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
		})
	}
}

// BenchmarkAttention is one key head of 64 elements with 3 query heads, as SmolLM2 has, at a depth of 4096 positions: one token, and a
// batch of 16.
func BenchmarkAttention(b *testing.B) {
	const width, positions = 64, 4096
	for _, typ := range []gguf.Type{gguf.F16, gguf.Q8_0} {
		a := &Attention{Keys: Cache{Type: typ, Width: width}, Values: Cache{Type: typ, Width: width}, Page: 32, Scale: 0.125}
		a.Keys.Stride, a.Values.Stride = a.Keys.bytes(), a.Values.bytes()
		page := make([]byte, a.Page*a.Keys.Stride)
		fill(newRand(1), typ, page)
		for _, n := range []int{3, 48} {
			b.Run(fmt.Sprintf("%s/queries=%d", typ, n), func(b *testing.B) {
				var scratch AttentionScratch
				queries := make([]Query, n)
				for i := range queries {
					queries[i] = Query{Q: normals(newRand(2), width), Out: make([]float32, width), End: positions}
				}
				for b.Loop() {
					scratch.Run(a, queries, func(int) (keys, values []byte) { return page, page })
				}
				b.ReportMetric(float64(b.N)*2*width*positions*float64(n)/float64(b.Elapsed().Nanoseconds()), "GMAC/s")
			})
		}
	}
}
