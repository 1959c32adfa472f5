//go:build oracle

package block_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// oracleCase is one run of the reference quantizer.
type oracleCase struct {
	Type          string `json:"type"`
	Set           string `json:"set"`
	Class         string `json:"cls"`
	Mode          string `json:"mode"` // ref, or imx with importance weights
	Rows          int    `json:"rows"`
	Cols          int    `json:"cols"`
	Quant         string `json:"quant"`
	DequantSHA256 string `json:"dequant_sha256"`
}

// oracleActivations is one run of the routines that quantize activations.
type oracleActivations struct {
	Type  string `json:"type"`
	Set   string `json:"set"`
	Class string `json:"cls"`
	Ref   string `json:"ref"`
	CPU   string `json:"cpu"` // set where the vectorized routine differs from the reference
}

type oracleManifest struct {
	Inputs map[string]struct {
		File string `json:"file"`
	} `json:"inputs"`
	Imatrix map[string]struct {
		File string `json:"file"`
		Cols int    `json:"cols"`
	} `json:"imatrix"`
	Cases       []oracleCase        `json:"cases"`
	Activations []oracleActivations `json:"activations"`
}

type oracle struct {
	dir string
	oracleManifest
}

func openOracle(t *testing.T) oracle {
	t.Helper()
	root := os.Getenv("ORACLE")
	if root == "" {
		t.Fatal("ORACLE is not set: it names the folder of reference data")
	}
	o := oracle{dir: filepath.Join(root, "quant")}
	if err := json.Unmarshal(o.bytes(t, "manifest.json"), &o.oracleManifest); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o oracle) bytes(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(o.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (o oracle) input(t *testing.T, set, class string) []float32 {
	return floats(t, o.bytes(t, o.Inputs[set+"."+class].File))
}

func (o oracle) weights(t *testing.T, set string, cols int) []float32 {
	t.Helper()
	for name, m := range o.Imatrix {
		if m.Cols == cols && name[:len(set)] == set {
			return floats(t, o.bytes(t, m.File))
		}
	}
	t.Fatalf("no importance weights for set %s, %d columns", set, cols)
	return nil
}

// Every case of every type that has a codec: the same bytes, and the same values when they are decoded.
func TestOracle(t *testing.T) {
	o := openOracle(t)
	seen := map[string]int{}
	for _, c := range o.Cases {
		typ, err := gguf.ParseType(c.Type)
		if err != nil {
			t.Fatal(err)
		}
		codec, err := block.ForType(typ)
		if err != nil {
			continue
		}
		seen[c.Type]++
		t.Run(c.Type+"/"+c.Class+"/"+c.Mode, func(t *testing.T) {
			want := o.bytes(t, c.Quant)
			x := make([]float32, c.Rows*c.Cols)
			codec.Decode(x, want)
			if got := sha256.Sum256(float32Bytes(x)); hex.EncodeToString(got[:]) != c.DequantSHA256 {
				t.Errorf("decoded values differ")
			}
			src, got := o.input(t, c.Set, c.Class), make([]byte, len(want))
			if c.Mode == "imx" && codec.EncodeWeighted != nil {
				w := o.weights(t, c.Set, c.Cols)
				rowBytes := len(got) / c.Rows
				for r := range c.Rows {
					codec.EncodeWeighted(got[r*rowBytes:][:rowBytes], src[r*c.Cols:][:c.Cols], w)
				}
			} else {
				codec.Encode(got, src)
			}
			compareBlocks(t, typ, got, want)
		})
	}
	for _, typ := range block.Types() {
		if seen[typ.String()] == 0 && typ != gguf.F32 {
			t.Errorf("%s: the reference data has no case", typ)
		}
	}
}

// compareBlocks reports the first block that differs.
func compareBlocks(t *testing.T, typ gguf.Type, got, want []byte) {
	t.Helper()
	info, _ := typ.Info()
	size := int(info.Bytes)
	differing, first := 0, -1
	for i := 0; i < len(want); i += size {
		if !bytes.Equal(got[i:i+size], want[i:i+size]) {
			if differing++; first < 0 {
				first = i
			}
		}
	}
	if differing > 0 {
		t.Errorf("%d of %d blocks differ; block %d:\n got % x\nwant % x", differing, len(want)/size, first/size,
			got[first:first+size], want[first:first+size])
	}
}

func floats(t *testing.T, b []byte) []float32 {
	t.Helper()
	codec, err := block.ForType(gguf.F32)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, len(b)/4)
	codec.Decode(x, b)
	return x
}

func float32Bytes(x []float32) []byte {
	b := make([]byte, 0, 4*len(x))
	for _, f := range x {
		u := math.Float32bits(f)
		b = append(b, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
	}
	return b
}
