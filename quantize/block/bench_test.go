package block_test

import (
	"math/rand/v2"
	"testing"

	"github.com/ggufkit/ggufkit/quantize/block"
)

// The benchmarks report millions of elements a second as MB/s.

func eachCodec(b *testing.B, has func(c *block.Codec) bool, bench func(b *testing.B, c *block.Codec, row []byte, x, w []float32)) {
	r := rand.New(rand.NewPCG(1, 1))
	x, w := make([]float32, 4096), make([]float32, 4096)
	for i := range x {
		x[i], w[i] = float32(r.NormFloat64())*0.02, float32(r.ExpFloat64())
	}
	for _, typ := range block.Types() {
		c := codec(b, typ)
		if !has(c) {
			continue
		}
		row := randomBlocks(b, r, typ, len(x))
		c.Encode(row, x)
		b.Run(typ.String(), func(b *testing.B) {
			b.SetBytes(int64(len(x)))
			bench(b, c, row, x, w)
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	has := func(c *block.Codec) bool { return c.Encode != nil }
	eachCodec(b, has, func(b *testing.B, c *block.Codec, row []byte, x, _ []float32) {
		for b.Loop() {
			c.Encode(row, x)
		}
	})
}

func BenchmarkEncodeWeighted(b *testing.B) {
	has := func(c *block.Codec) bool { return c.EncodeWeighted != nil }
	eachCodec(b, has, func(b *testing.B, c *block.Codec, row []byte, x, w []float32) {
		for b.Loop() {
			c.EncodeWeighted(row, x, w)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	has := func(c *block.Codec) bool { return c.Decode != nil }
	eachCodec(b, has, func(b *testing.B, c *block.Codec, row []byte, x, _ []float32) {
		for b.Loop() {
			c.Decode(x, row)
		}
	})
}

func BenchmarkDot(b *testing.B) {
	has := func(c *block.Codec) bool { return c.Dot != nil }
	eachCodec(b, has, func(b *testing.B, c *block.Codec, row []byte, x, _ []float32) {
		a := activations(x)
		for b.Loop() {
			c.Dot(row, a)
		}
	})
}

func BenchmarkQuantizeActivations(b *testing.B) {
	x := make([]float32, 4096)
	for i := range x {
		x[i] = float32(i%97) - 48
	}
	var a block.Activations
	b.SetBytes(int64(len(x)))
	for b.Loop() {
		a.Quantize(x)
	}
}
