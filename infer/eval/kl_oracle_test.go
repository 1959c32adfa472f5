//go:build oracle

package eval_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/infer/eval"
)

// The characters that testdata/lookup.py writes about, and where their tokens start.
const lookupFirst, lookupLast, lookupBytes = 33, 126, 3

// lookup is the logits that follow a character in a model of testdata/lookup.py, "a" or "b". Rows are those of SmolLM2.
func lookup(rows [][]float32, model string, n int) []float32 {
	row := rows[n%len(rows)]
	order := make([]int, len(row))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(row[j], row[i]) })
	following := lookupBytes + lookupFirst + (n+1)%(lookupLast+1-lookupFirst)
	out := make([]float32, len(row))
	for i, x := range row {
		out[((i+following-order[n%4])%len(row)+len(row))%len(row)] = x
	}
	if model == "a" {
		return out
	}
	for i, x := range out {
		out[i] = float32(math.RoundToEven(float64(x)*float64(13+n%7)) / 16)
	}
	if n%5 == 2 {
		out[slices.Index(out, slices.Max(out))]--
	}
	return out
}

// From SmolLM2's logits come the digits that llama-perplexity prints, and its base file.
func TestStatisticsOfSmolLM2(t *testing.T) {
	root := os.Getenv("ORACLE")
	if root == "" {
		t.Fatal("ORACLE does not name the folder of reference data")
	}
	var rows [][]float32
	for i := range 3 {
		data, err := os.ReadFile(filepath.Join(root, "real", fmt.Sprintf("smollm2-135m.%d.last.f32", i)))
		if err != nil {
			t.Fatal(err)
		}
		row := make([]float32, len(data)/4)
		if _, err := binary.Decode(data, binary.LittleEndian, row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	w := eval.Windows{Context: 32, Chunks: 7, BOS: -1}
	ids := []int32{1}
	for len(ids) < w.Context*w.Chunks {
		ids = append(ids, int32(lookupBytes+lookupFirst+(len(ids)-1)%(lookupLast+1-lookupFirst)))
	}
	var out bytes.Buffer
	save, err := eval.NewBaseWriter(&out, eval.Llama, ids, w, len(rows[0]))
	if err != nil {
		t.Fatal(err)
	}
	var logits []float32
	for i := range ids {
		if at := i % w.Context; at < w.Context/2 || at == w.Context-1 {
			continue
		}
		n := int(ids[i]) - lookupBytes - lookupFirst
		if err := eval.SaveLogits(save, lookup(rows, "a", n), ids[i+1]); err != nil {
			t.Fatal(err)
		}
		logits = append(logits, lookup(rows, "b", n)...)
	}
	if err := save.Close(); err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile(filepath.Join("testdata", "smollm2.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(out.Bytes()); !strings.Contains(string(recorded), hex.EncodeToString(sum[:])+"  base\n") {
		t.Errorf("the base file's sum is %x, not that of %s", sum, recorded)
	}
	path := filepath.Join(t.TempDir(), "base")
	if err := os.WriteFile(path, out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	d, err := eval.CompareLogits(openBase(t, path), logits)
	if err != nil {
		t.Fatal(err)
	}
	sameDigits(t, d, "smollm2.txt")
}
