package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nlpodyssey/safetensors"
)

const testdata = "../../testdata"

// vector is one case of testdata/badsafetensors.
type vector struct {
	name, path        string
	expect, reference string
}

// vectors reads all cases; a line that it does not know fails the test.
func vectors(t *testing.T) []vector {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(testdata, "badsafetensors", "*.txt"))
	if err != nil || len(paths) < 100 {
		t.Fatalf("found %d cases, error %v", len(paths), err)
	}
	var list []vector
	for _, path := range paths {
		base := strings.TrimSuffix(path, ".txt")
		v := vector{name: filepath.Base(base), path: base + extension}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch key {
			case "expect":
				v.expect = value
			case "reference":
				v.reference = value
			case "comment":
			default:
				t.Fatalf("%s: unknown line %q", path, line)
			}
		}
		list = append(list, v)
	}
	return list
}

// open opens a checkpoint and closes it with the test.
func open(t *testing.T, path string) *Checkpoint {
	t.Helper()
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Damaged headers give an error that tells what is wrong (field report R028).
func TestBadSafetensors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.name, func(t *testing.T) {
			if v.expect == "ok" && v.reference != "accepts" {
				t.Fatalf("the case contradicts the reference, which %s the file", v.reference)
			}
			start := time.Now()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c, err := Open(v.path)
			runtime.ReadMemStats(&after)
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("took %v", d)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
				t.Errorf("allocated %d bytes", n)
			}
			if v.expect == "ok" {
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatalf("no error, want %q", v.expect)
			}
			if !strings.Contains(err.Error(), v.expect) {
				t.Errorf("error %q lacks %q", err, v.expect)
			}
			if !strings.HasPrefix(err.Error(), v.path+": ") {
				t.Errorf("error %q does not begin with the file", err)
			}
			if strings.Count(err.Error(), "\nhint: ") != 1 {
				t.Errorf("error %q should have a hint", err)
			}
		})
	}
}

func TestReadRowsWidensEveryType(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testdata, "golden", "safetensors", "dtypes.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]string
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	c := open(t, filepath.Join(testdata, "golden", "safetensors", "dtypes.safetensors"))
	for name, bits := range want {
		tensor, ok := c.Tensor(name)
		if !ok {
			t.Errorf("no tensor %s", name)
			continue
		}
		got := make([]float32, len(bits))
		if err := c.ReadRows(tensor, 0, 1, got); err != nil {
			t.Error(err)
			continue
		}
		for i, f := range got {
			text := fmt.Sprintf("%08x", math.Float32bits(f))
			if f != f {
				text = "nan"
			}
			if text != bits[i] {
				t.Errorf("%s[%d] = %s, want %s", name, i, text, bits[i])
			}
		}
	}
	for d, info := range dtypes {
		if _, tested := want[string(d)]; tested != (info.decode != nil) {
			t.Errorf("%s: golden values %v, decoder %v", d, tested, info.decode != nil)
		}
	}
}

// FuzzScanHeader looks for panics, and for headers that pass and yet place a tensor outside the file or give it the wrong size.
func FuzzScanHeader(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join(testdata, "badsafetensors", "*"+extension))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		if len(b) < 4096 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := scanHeader(b)
		if err != nil {
			identify(b)
			return
		}
		end := 8 + binary.LittleEndian.Uint64(b)
		for _, e := range h.entries {
			n, ok := elements(e.shape)
			if h.data+e.begin != end || e.end < e.begin || !ok || n*e.dtype.Bits()/8 != e.end-e.begin {
				t.Errorf("tensor %q: [%d,%d] of %s %v", e.name, e.begin, e.end, e.dtype, e.shape)
			}
			end = h.data + e.end
		}
		if end != uint64(len(b)) {
			t.Errorf("tensors end at %d of %d", end, len(b))
		}
		if _, err := safetensors.Deserialize(b); h.plain && err != nil {
			t.Errorf("the module refuses what passed: %v", err)
		}
	})
}
