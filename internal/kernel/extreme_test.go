package kernel

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/half"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// TestDotExtremes: integers at both ends of what blocks hold, met by activations of 127 in as many units as can be, whose signs make the largest sums, or
// the smallest: the intermediate sums of the kernels must hold them.
func TestDotExtremes(t *testing.T) {
	ends := []byte{0x00, 0xff, 0x80, 0x7f, 0x1f, 0xe0}
	for _, typ := range quantizedTypes() {
		info, _ := typ.Info()
		codec, _ := block.ForType(typ)
		var rows [][]byte
		for split := 0; split < int(info.Bytes); split += 16 { // a block has one byte up to here, from here on another
			for i := range len(ends) * len(ends) {
				row := make([]byte, 512/int(info.Block)*int(info.Bytes))
				for j := range row {
					row[j] = ends[i%len(ends)]
					if j%int(info.Bytes) >= split {
						row[j] = ends[i/len(ends)]
					}
				}
				rows = append(rows, row)
			}
		}
		r := newRand(uint64(typ))
		for i := range 300 {
			row := make([]byte, len(rows[0]))
			for j := range row {
				row[j] = ends[r.IntN(len(ends)-i%5)]
			}
			rows = append(rows, row)
		}
		top, w := 0.0, make([]float32, 512)
		for i, row := range rows { // floats are 1 or -1
			for at := 0; at < len(row); at += int(info.Bytes) {
				for j, off := range halvesAt[typ] {
					binary.LittleEndian.PutUint16(row[at+off:], half.F32ToF16([]float32{1, -1}[(j+i/3)%2]))
				}
			}
			codec.Decode(w, row)
			top = max(top, largest(w))
		}
		for _, s := range assembled() {
			for i, row := range rows {
				codec.Decode(w, row)
				checkExtreme(t, s, typ, row, w, i, top)
			}
		}
	}
}

// checkExtreme multiplies a row with activations whose signs are those of the weights, all their opposites, or neither. Any weight may be the difference of
// two as large as top.
func checkExtreme(t *testing.T, s *set, typ gguf.Type, row []byte, w []float32, trial int, top float64) {
	t.Helper()
	info, _ := typ.Info()
	k := len(w)
	x := make([]float32, k)
	for i, v := range w {
		x[i] = []float32{127, -127}[i/7%2]
		if same := v < 0 == (x[i] < 0); same != (trial%3 == 0) && trial%3 < 2 {
			x[i] = -x[i]
		}
	}
	want, _ := product(w, x)
	for columns := 1; columns <= maxDotColumns; columns++ {
		d := dotJob{data: row, rows: 1, blocks: k / int(info.Block), columns: columns, y: make([]float32, columns), ldy: 1}
		d.x.reshape(columns, k, info.Block == superBlock)
		for c := range columns {
			quantizeGeneric(d.x.row(c), x)
		}
		s.dot(typ)(&d)
		for c, got := range d.y {
			if !(math.Abs(float64(got)-want) <= 3e-6*float64(k)*127*top) {
				t.Fatalf("%s %s, %d columns: column %d is %g, want %g\nrow % x", s.name, typ, columns, c, got, want, row)
			}
		}
	}
}
