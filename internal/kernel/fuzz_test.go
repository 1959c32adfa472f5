package kernel

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/half"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// seeds gives the fuzzer one input of some rows of a random block for each of some types.
func seeds(f *testing.F, types []gguf.Type, rows int) {
	for i, typ := range types {
		info, _ := typ.Info()
		b := make([]byte, rows*int(info.Bytes))
		fill(newRand(uint64(i)), typ, b)
		f.Add(byte(i), byte(0), b)
	}
}

// FuzzUnpack: any bytes become the same panel, bit by bit, but for the payload of NaN.
func FuzzUnpack(f *testing.F) {
	types := quantizedTypes()
	seeds(f, types, panelRows)
	f.Fuzz(func(t *testing.T, which, gap byte, data []byte) {
		typ := types[int(which)%len(types)]
		info, _ := typ.Info()
		u := unpackings[typ]
		blocks := len(data) / (panelRows * (int(info.Bytes) + int(gap%4)))
		if blocks == 0 {
			return
		}
		src := rowBlocks{data: data, stride: len(data) / panelRows, blocks: blocks}
		size := blocks * int(info.Block) / blockK * u.panel.blockBytes()
		want := alignedBytes(size)
		unpackGeneric(typ)(want, src)
		for _, s := range assembled() {
			got := alignedBytes(size)
			s.unpack(typ)(got, src)
			for at := 0; at < size; at += 4 {
				if a, b := f32At(got[at:]), f32At(want[at:]); !bytes.Equal(got[at:at+4], want[at:at+4]) && (a == a || b == b) {
					t.Fatalf("%s %s: bytes at %d of block %d are %x, want %x", s.name, typ, at%u.panel.blockBytes(), at/u.panel.blockBytes(),
						got[at:at+4], want[at:at+4])
				}
			}
		}
	})
}

// integerRanges bound what a float16 factor of a block is multiplied with: scaled integers and minimums.
var integerRanges = map[gguf.Type]float64{
	gguf.Q4_0: 16, gguf.Q4_1: 16, gguf.Q5_0: 32, gguf.Q5_1: 32, gguf.Q8_0: 128, gguf.IQ4_NL: 128,
	gguf.Q2_K: 4 * 16, gguf.Q3_K: 8 * 32, gguf.Q4_K: 16 * 64, gguf.Q5_K: 32 * 64, gguf.Q6_K: 64 * 128, gguf.IQ4_XS: 128 * 32,
}

// partSizes is the size of what a product with a row consists of before parts of it cancel.
func partSizes(typ gguf.Type, row []byte, x []float32) (sum float64) {
	info, _ := typ.Info()
	for b := range len(x) / int(info.Block) {
		top := 0.0
		for _, off := range halvesAt[typ] {
			top = max(top, math.Abs(float64(half.F16ToF32(binary.LittleEndian.Uint16(row[b*int(info.Bytes)+off:])))))
		}
		for _, v := range x[b*int(info.Block):][:info.Block] {
			sum += top * integerRanges[typ] * math.Abs(float64(v))
		}
	}
	return sum
}

// FuzzDot: products with any stored bytes, as long as they are numbers of ordinary size.
func FuzzDot(f *testing.F) {
	types := quantizedTypes()
	const rows = 2 // of each stream
	seeds(f, types, 4*rows)
	f.Fuzz(func(t *testing.T, which, seed byte, data []byte) {
		typ := types[int(which)%len(types)]
		info, _ := typ.Info()
		codec, err := block.ForType(typ)
		if err != nil {
			t.Fatal(err)
		}
		blocks := min(len(data)/int(info.Bytes)/(4*rows), 40)
		if blocks == 0 {
			return
		}
		row, k := blocks*int(info.Bytes), blocks*int(info.Block)
		columns := 1 + int(seed)%maxDotColumns
		x := normals(newRand(uint64(seed)), columns*k)
		var acts activations
		acts.reshape(columns, k, info.Block == superBlock)
		for c := range columns {
			quantizeGeneric(acts.row(c), x[c*k:][:k])
		}
		w := make([]float32, k)
		for _, s := range assembled() {
			d := dotJob{data: data, hop: rows * row, stride: row, rows: rows, blocks: blocks, columns: columns, x: acts, y: make([]float32, 4*rows*columns),
				ldy: 4 * rows, yhop: rows, ystep: 1}
			s.dot(typ)(&d)
			for i, got := range d.y {
				stored, c := data[i%(4*rows)*row:][:row], i/(4*rows)
				values := widened(x[c*k:][:k], info.Block == superBlock)
				codec.Decode(w, stored)
				want, _ := product(w, values)
				parts := partSizes(typ, stored, values)
				if !(parts < 1e30) { // infinite or not a number
					continue
				}
				if bound := 1e-6 * parts; !(math.Abs(float64(got)-want) <= bound) {
					t.Fatalf("%s %s: row %d, column %d is %g, want %g (bound %g)", s.name, typ, i%(4*rows), c, got, want, bound)
				}
			}
		}
	})
}

func largest(x []float32) float64 {
	var top float64
	for _, v := range x {
		top = max(top, math.Abs(float64(v)))
	}
	return top
}

// FuzzRows: any floats, in operations that give the same bits as the portable ones.
func FuzzRows(f *testing.F) {
	for n := range 20 {
		b := make([]byte, 100+4*n)
		fill(newRand(uint64(n)), gguf.F32, b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		x := make([]float32, len(data)/4)
		for i := range x {
			x[i] = f32At(data[4*i:])
		}
		for _, s := range assembled() {
			checkQuantize(t, s, x[:len(x)&^31], false)
			checkQuantize(t, s, x[:len(x)&^255], true)
			for i, c := range [][2]func([]byte, []float32){{s.encodeF16, rowOpsGeneric.encodeF16}, {s.encodeBF16, rowOpsGeneric.encodeBF16}} {
				got, want := make([]byte, 2*len(x)), make([]byte, 2*len(x))
				c[0](got, x)
				c[1](want, x)
				if !bytes.Equal(got, want) {
					t.Fatalf("%s: encoding %v as %s: %x, want %x", s.name, x, []string{"F16", "BF16"}[i], got, want)
				}
			}
			if got, want := s.max(x), maxGeneric(x); !sameFloat(got, want) && got != want {
				t.Fatalf("%s: the largest of %v is %g, want %g", s.name, x, got, want)
			}
		}
	})
}
