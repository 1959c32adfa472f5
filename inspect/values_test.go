package inspect

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// Block scales that are infinite and values that are NaN are told with tensor and place (field report R040). The bytes of Q4_K are
// written here by the layout of the format: d and dmin (f16), 12 bytes of scales, 128 of quants, for 256 elements.
func TestCheckValues(t *testing.T) {
	const rows, blockBytes = 300, 144
	scaled := make([]byte, rows*2*blockBytes) // rows of 512
	binary.LittleEndian.PutUint16(scaled[(257*2+1)*blockBytes:], 0x7C00)
	var floats []byte
	for i := range 3 * 8 {
		x := float32(i)
		if i == 2*8+5 {
			x = float32(math.Inf(-1))
		}
		floats = binary.LittleEndian.AppendUint32(floats, math.Float32bits(x))
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	tensors := []gguf.Tensor{
		{Name: "blk.0.ffn_up.weight", Type: gguf.Q4_K, Shape: []uint64{512, rows}},
		{Name: "blk.0.ffn_down.weight", Type: gguf.Q4_K, Shape: []uint64{512, rows}},
		{Name: "blk.0.attn_norm.weight", Type: gguf.F32, Shape: []uint64{8, 3}},
		{Name: "map", Type: gguf.I32, Shape: []uint64{2}},
		{Name: "blk.0.attn_q.weight", Type: gguf.IQ2_XXS, Shape: []uint64{256}},
	}
	meta := gguf.NewMeta()
	meta.Set("general.architecture", gguf.New("llama"))
	var file bytes.Buffer
	w, err := gguf.NewWriter(&file, meta, tensors)
	if err != nil {
		t.Fatal(err)
	}
	all0xff := bytes.Repeat([]byte{0xff}, 66) // as floats these would be NaN
	for i, data := range [][]byte{make([]byte, len(scaled)), scaled, floats, all0xff[:8], all0xff} {
		if err := w.Begin(tensors[i].Name); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := CheckValues(path)
	if err != nil {
		t.Fatal(err)
	}
	if v.Checked != 4 || len(v.Unchecked) != 1 || v.Unchecked[0] != "blk.0.attn_q.weight (IQ2_XXS)" {
		t.Errorf("checked %d, unchecked %q", v.Checked, v.Unchecked)
	}
	// Infinity times the scale 0 of the sub-blocks is NaN.
	want := []BadValue{
		{Tensor: "blk.0.ffn_down.weight", Type: "Q4_K", Row: 257, Col: 256, Value: "NaN", Count: 256},
		{Tensor: "blk.0.attn_norm.weight", Type: "F32", Row: 2, Col: 5, Value: "-Inf", Count: 1},
	}
	if len(v.Bad) != len(want) {
		t.Fatalf("found %+v, want %+v", v.Bad, want)
	}
	for i := range want {
		if v.Bad[i] != want[i] {
			t.Errorf("found %+v, want %+v", v.Bad[i], want[i])
		}
	}
}
