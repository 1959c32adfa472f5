package block_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
)

func eachType(t *testing.T, test func(t *testing.T, c *block.Codec)) {
	for _, typ := range block.Types() {
		t.Run(typ.String(), func(t *testing.T) { test(t, codec(t, typ)) })
	}
}

func TestForType(t *testing.T) {
	if !slices.IsSorted(block.Types()) {
		t.Errorf("types out of order: %v", block.Types())
	}
	eachType(t, func(t *testing.T, c *block.Codec) {
		if c.Encode == nil || c.Decode == nil {
			t.Error("a function is missing")
		}
		info, ok := c.Type.Info()
		if !ok || info.Quantized() != (c.Dot != nil) {
			t.Errorf("quantized is %v, has a dot product: %v", info.Quantized(), c.Dot != nil)
		}
	})
	_, err := block.ForType(gguf.I32)
	if err == nil || !strings.Contains(err.Error(), "I32") || !strings.Contains(err.Error(), "Q4_K") {
		t.Errorf("I32: %v", err)
	}
}

// Decoders take any bits, encoders any floats: nothing panics, and the same input gives the same output.
func TestAnyBits(t *testing.T) {
	eachType(t, func(t *testing.T, c *block.Codec) {
		r := rand.New(rand.NewPCG(1, uint64(c.Type)))
		for range 300 {
			checkAnyBits(t, c, randomBlocks(t, r, c.Type, 512))
		}
	})
}

func FuzzAnyBits(f *testing.F) {
	r := rand.New(rand.NewPCG(2, 2))
	for i, typ := range block.Types() {
		f.Add(i, randomBlocks(f, r, typ, 256))
		f.Add(i, make([]byte, 256))
	}
	f.Fuzz(func(t *testing.T, i int, data []byte) {
		types := block.Types()
		c := codec(t, types[uint(i)%uint(len(types))])
		size, err := c.Type.RowBytes(256)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(data) / int(size); n > 0 {
			checkAnyBits(t, c, data[:min(n, 4)*int(size)])
		}
	})
}

func checkAnyBits(t *testing.T, c *block.Codec, row []byte) {
	info, _ := c.Type.Info()
	n := len(row) / int(info.Bytes) * int(info.Block)
	x, again := make([]float32, n), make([]float32, n)
	c.Decode(x, row)
	c.Decode(again, row)
	for i := range x {
		if math.Float32bits(x[i]) != math.Float32bits(again[i]) {
			t.Fatalf("element %d decodes to %v, then to %v", i, x[i], again[i])
		}
	}
	a := activations(x)
	if c.Dot != nil {
		if first, second := c.Dot(row, a), c.Dot(row, a); math.Float32bits(first) != math.Float32bits(second) {
			t.Fatalf("dot product %v, then %v", first, second)
		}
	}
	w := make([]float32, n)
	for i := range w {
		w[i] = float32(row[i%len(row)])
	}
	out := make([]byte, len(row))
	c.Encode(out, x)
	if c.EncodeWeighted != nil {
		c.EncodeWeighted(out, x, w)
	}
	// The bytes as floats: any exponent.
	codec(t, gguf.F32).Decode(x[:len(row)/4&^255], row)
	c.Encode(out, x)
	if c.EncodeWeighted != nil {
		c.EncodeWeighted(out, x, w)
	}
}

// What an encoder writes does not depend on what was in dst, nor on the blocks before: blocks can be encoded in any pieces.
func TestBlocksAreIndependent(t *testing.T) {
	eachType(t, func(t *testing.T, c *block.Codec) {
		r := rand.New(rand.NewPCG(3, uint64(c.Type)))
		x := make([]float32, 2048)
		for i := range x {
			x[i] = float32(r.NormFloat64())
			if i/256%3 == 1 {
				x[i] = 0
			}
		}
		want, got := randomBlocks(t, r, c.Type, len(x)), randomBlocks(t, r, c.Type, len(x))
		c.Encode(want, x)
		for at := 0; at < len(x); at += 256 {
			size := len(got) / 8
			c.Encode(got[at/256*size:][:size], x[at:at+256])
		}
		if string(got) != string(want) {
			t.Error("encoding in pieces gives other bytes")
		}
		y, z := make([]float32, len(x)), make([]float32, len(x))
		c.Decode(y, want)
		for at := len(x) - 256; at >= 0; at -= 256 {
			size := len(got) / 8
			c.Decode(z[at:at+256], got[at/256*size:][:size])
		}
		if !slices.Equal(y, z) {
			t.Error("decoding in pieces gives other values")
		}
	})
}

// Values that came out of a format fit it: they keep their bits where the largest element fixes the scale, and elsewhere
// encoding them again costs much less than it did the first time.
func TestEncodeAgain(t *testing.T) {
	exact := []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q5_0, gguf.Q8_0}
	eachType(t, func(t *testing.T, c *block.Codec) {
		r := rand.New(rand.NewPCG(4, uint64(c.Type)))
		x, y, z := make([]float32, 8192), make([]float32, 8192), make([]float32, 8192)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		first, second := randomBlocks(t, r, c.Type, len(x)), randomBlocks(t, r, c.Type, len(x))
		c.Encode(first, x)
		c.Decode(y, first)
		c.Encode(second, y)
		c.Decode(z, second)
		if slices.Contains(exact, c.Type) {
			if string(first) != string(second) {
				t.Error("other bytes the second time")
			}
			return
		}
		if once, twice := rmse(x, y), rmse(y, z); twice > 0.7*once {
			t.Errorf("error %v, and %v more the second time", once, twice)
		}
	})
}

func rmse(x, y []float32) float64 {
	var sum float64
	for i := range x {
		d := float64(x[i]) - float64(y[i])
		sum += d * d
	}
	return math.Sqrt(sum / float64(len(x)))
}

// Elements with a large importance weight come out better than without weights.
func TestWeightsSteerTheError(t *testing.T) {
	eachType(t, func(t *testing.T, c *block.Codec) {
		if c.EncodeWeighted == nil {
			return
		}
		r := rand.New(rand.NewPCG(5, uint64(c.Type)))
		x, w := make([]float32, 8192), make([]float32, 8192)
		for i := range x {
			x[i], w[i] = float32(r.NormFloat64()), 1
			if i%4 == 0 {
				w[i] = 100
			}
		}
		row, y := randomBlocks(t, r, c.Type, len(x)), make([]float32, len(x))
		important := func() (sum float64) {
			c.Decode(y, row)
			for i := 0; i < len(x); i += 4 {
				d := float64(x[i]) - float64(y[i])
				sum += d * d
			}
			return sum
		}
		c.Encode(row, x)
		before := important()
		c.EncodeWeighted(row, x, w)
		after := important()
		if after >= before {
			t.Errorf("squared error of the important elements %v, without weights %v", after, before)
		}
	})
}
