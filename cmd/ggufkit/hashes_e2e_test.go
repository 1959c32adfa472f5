//go:build e2e

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// recordedFile is what the reference programs wrote: the type and the first 8 bytes of the SHA-256 sum of each tensor.
type recordedFile map[string][2]string

// readRecorded reads the recordings of the real SmolLM2 by file type. Conversions list their tensors, quantizations map them by name.
func readRecorded(t *testing.T) map[string]recordedFile {
	t.Helper()
	oracle := os.Getenv("ORACLE")
	if oracle == "" {
		t.Fatal("ORACLE does not name the folder of reference data")
	}
	data, err := os.ReadFile(filepath.Join(oracle, "real", "smollm2-135m.gguf.json"))
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	delete(raw, "quant_source")
	files := map[string]recordedFile{}
	for name, text := range raw {
		var quantized struct{ Tensors map[string][2]string }
		if json.Unmarshal(text, &quantized) == nil {
			files[name] = quantized.Tensors
			continue
		}
		var converted struct{ Tensors [][4]json.RawMessage } // name, shape, type, sum
		if err := json.Unmarshal(text, &converted); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		files[name] = recordedFile{}
		for _, row := range converted.Tensors {
			var tensor, typ, sum string
			for i, dst := range map[int]*string{0: &tensor, 2: &typ, 3: &sum} {
				if err := json.Unmarshal(row[i], dst); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			files[name][tensor] = [2]string{typ, sum}
		}
	}
	return files
}

// compareTensors holds a file's tensors against a recording, all of them.
func compareTensors(t *testing.T, path string, want recordedFile) {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Tensors) != len(want) || len(want) == 0 {
		t.Fatalf("%d tensors, recorded are %d", len(f.Tensors), len(want))
	}
	for i := range f.Tensors {
		tensor := &f.Tensors[i]
		data, err := f.Data(tensor)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		got := [2]string{tensor.Type.String(), hex.EncodeToString(sum[:8])}
		if got != want[tensor.Name] {
			t.Errorf("%s is %v, recorded is %v", tensor.Name, got, want[tensor.Name])
		}
	}
}

// TestHashesOfRealCheckpoint: a real checkpoint in BF16 is converted and quantized to the very bytes of the reference programs.
func TestHashesOfRealCheckpoint(t *testing.T) {
	recorded := readRecorded(t)
	if len(recorded) != 10 {
		t.Fatalf("%d recordings, expected 2 conversions and 8 quantizations", len(recorded))
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "auto.gguf")
	checkpoint := filepath.Join(models(t), "bf16", "smollm2-135m")
	ggufkit(t, "convert", checkpoint, "-o", source, "-q")
	compareTensors(t, source, recorded["auto"])
	for name, want := range recorded {
		if name == "auto" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(dir, fmt.Sprintf("out-%s.gguf", name))
			defer os.Remove(out)
			if name == "f16" {
				ggufkit(t, "convert", checkpoint, "-o", out, "--type", name, "-q")
			} else {
				ggufkit(t, "quantize", source, out, name, "-q")
			}
			compareTensors(t, out, want)
		})
	}
}
