package kernel

import (
	"bytes"
	"math"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
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

// FuzzDot: products with any stored bytes, as long as they are numbers of ordinary size.
func FuzzDot(f *testing.F) {
	types := quantizedTypes()
	seeds(f, types, 4)
	f.Fuzz(func(t *testing.T, which, seed byte, data []byte) {
		typ := types[int(which)%len(types)]
		info, _ := typ.Info()
		codec, err := block.ForType(typ)
		if err != nil {
			t.Fatal(err)
		}
		blocks := min(len(data)/int(info.Bytes)/4, 40)
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
			y := make([]float32, 4*columns)
			s.dot(typ)(&dotJob{data: data, hop: row, stride: row, rows: 1, blocks: blocks, columns: columns, x: acts, y: y, ldy: 4, yhop: 1, ystep: 4})
			for i, got := range y {
				codec.Decode(w, data[i%4*row:][:row])
				want, magnitude := product(w, widened(x[i/4*k:][:k], info.Block == superBlock))
				if !(magnitude < 1e30) { // infinite or not a number
					continue
				}
				// A weight is a difference of its scaled integer and its minimum, which may be larger.
				if bound := 3e-6*magnitude + 1e-5*float64(k)*largest(w); !(math.Abs(float64(got)-want) <= bound) {
					t.Fatalf("%s %s: row %d, column %d is %g, want %g (bound %g)", s.name, typ, i%4, i/4, got, want, bound)
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
			for name, c := range map[string][2]func([]byte, []float32){
				"F16":  {s.encodeF16, rowOpsGeneric.encodeF16},
				"BF16": {s.encodeBF16, rowOpsGeneric.encodeBF16},
			} {
				got, want := make([]byte, 2*len(x)), make([]byte, 2*len(x))
				c[0](got, x)
				c[1](want, x)
				if !bytes.Equal(got, want) {
					t.Fatalf("%s: encoding %v as %s: %x, want %x", s.name, x, name, got, want)
				}
			}
			if got, want := s.max(x), maxGeneric(x); !sameFloat(got, want) && got != want {
				t.Fatalf("%s: the largest of %v is %g, want %g", s.name, x, got, want)
			}
		}
	})
}
