package block_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/half"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// reference is a folder of what ggml's quantizers made, in a build without fused multiply-add.
type reference struct {
	dir    string
	Inputs map[string]struct {
		File string `json:"file"`
	} `json:"inputs"` // by set and class
	Imatrix map[string]struct {
		File string `json:"file"`
	} `json:"imatrix"` // by set and columns
	Cases       []referenceCase        `json:"cases"`
	Activations []referenceActivations `json:"activations"`
}

// referenceCase is one run of a quantizer.
type referenceCase struct {
	Type          string `json:"type"`
	Set           string `json:"set"`
	Class         string `json:"cls"`
	Mode          string `json:"mode"` // ref, or imx with importance weights
	Rows          int    `json:"rows"`
	Cols          int    `json:"cols"`
	Quant         string `json:"quant"`
	DequantSHA256 string `json:"dequant_sha256"` // of the float32 that the blocks decode to
}

// referenceActivations is one run of the routines that quantize activations.
type referenceActivations struct {
	Type  string `json:"type"`
	Set   string `json:"set"`
	Class string `json:"cls"`
	Ref   string `json:"ref"`
	CPU   string `json:"cpu"` // of the vectorized routine, where it differs
}

func openReference(t *testing.T, dir string) *reference {
	t.Helper()
	r := &reference{dir: dir}
	if err := json.Unmarshal(r.bytes(t, "manifest.json"), r); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *reference) bytes(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (r *reference) floats(t *testing.T, name string) []float32 {
	t.Helper()
	b := r.bytes(t, name)
	x := make([]float32, len(b)/4)
	codec(t, gguf.F32).Decode(x, b)
	return x
}

// check encodes and decodes every case of the types that have a codec and returns how many there were of each.
func (r *reference) check(t *testing.T) map[gguf.Type]int {
	seen := map[gguf.Type]int{}
	for _, c := range r.Cases {
		typ, err := gguf.ParseType(c.Type)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(block.Types(), typ) {
			continue // the data is ahead of the codecs
		}
		seen[typ]++
		t.Run(c.Type+"/"+c.Class+"/"+c.Mode, func(t *testing.T) { r.checkCase(t, typ, c) })
	}
	return seen
}

func (r *reference) checkCase(t *testing.T, typ gguf.Type, c referenceCase) {
	want := r.bytes(t, c.Quant)
	x := make([]float32, c.Rows*c.Cols)
	q := codec(t, typ)
	q.Decode(x, want)
	decoded := make([]byte, 4*len(x))
	codec(t, gguf.F32).Encode(decoded, x)
	if sum := sha256.Sum256(decoded); hex.EncodeToString(sum[:]) != c.DequantSHA256 {
		t.Error("decoded values differ")
	}

	src, got := r.floats(t, r.Inputs[c.Set+"."+c.Class].File), make([]byte, len(want))
	if c.Mode == "imx" && q.EncodeWeighted != nil {
		w := r.floats(t, r.Imatrix[fmt.Sprintf("%s.%d", c.Set, c.Cols)].File)
		size := len(got) / c.Rows
		for i := range c.Rows {
			q.EncodeWeighted(got[i*size:][:size], src[i*c.Cols:][:c.Cols], w)
		}
	} else {
		q.Encode(got, src)
	}
	info, _ := typ.Info()
	size, differing := int(info.Bytes), 0
	for i := 0; i < len(want); i += size {
		if g, w := got[i:i+size], want[i:i+size]; !bytes.Equal(g, w) {
			if differing++; differing == 1 {
				t.Errorf("block %d:\n got % x\nwant % x", i/size, g, w)
			}
		}
	}
	if differing > 0 {
		t.Errorf("%d of %d blocks differ", differing, len(want)/size)
	}
}

// checkActivations compares Quantize with the vectorized routines for Q8_0 and Q8_1, which are Q8_0's 32 integers after a
// float16 scale, in Q8_1 with the float16 of scale times sum between them.
func (r *reference) checkActivations(t *testing.T) (checked int) {
	for _, c := range r.Activations {
		at := map[string]int{"Q8_0": 2, "Q8_1": 4}[c.Type] // where the integers are
		if at == 0 {
			continue
		}
		name := c.Ref
		if c.CPU != "" {
			name = c.CPU
		}
		checked++
		t.Run(c.Type+"/"+c.Class, func(t *testing.T) {
			x, want := r.floats(t, r.Inputs[c.Set+"."+c.Class].File), r.bytes(t, name)
			a := activations(x)
			for g := range a.Scale {
				b := want[g*(at+32):][:at+32]
				if largest(x[32*g:][:32]) < 0x1p-120 {
					continue // where the routine's factor is infinite and its integers are arbitrary
				}
				scale := []float32{a.Scale[g], a.Sum[g]}[:at/2]
				for i, s := range scale {
					if h := half.F32ToF16(s); b[2*i] != byte(h) || b[2*i+1] != byte(h>>8) {
						t.Fatalf("group %d: scale or sum %v is %#04x, want % x", g, s, h, b[2*i:][:2])
					}
				}
				for i, q := range a.Q[32*g:][:32] {
					if q != int8(b[at+i]) {
						t.Fatalf("group %d, element %d: %v is %d, want %d", g, i, x[32*g+i], q, int8(b[at+i]))
					}
				}
			}
		})
	}
	return checked
}

func largest(x []float32) (top float64) {
	for _, v := range x {
		top = math.Max(top, math.Abs(float64(v)))
	}
	return top
}

func codec(tb testing.TB, typ gguf.Type) *block.Codec {
	tb.Helper()
	c, err := block.ForType(typ)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// A part of the reference data for every type: real weights, ties of the rounding, outliers.
func TestReference(t *testing.T) {
	r := openReference(t, "testdata")
	seen := r.check(t)
	for _, typ := range block.Types() {
		if seen[typ] == 0 && typ != gguf.F32 {
			t.Errorf("no case of %s", typ)
		}
	}
	if r.checkActivations(t) == 0 {
		t.Error("no activations")
	}
}
