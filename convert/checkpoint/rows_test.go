package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ggufkit/ggufkit/internal/mmap"
)

// ramp is a tensor whose element i is i.
func ramp(name string, shape ...uint64) testTensor {
	n, _ := elements(shape)
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	x := f32s(name, values...)
	x.shape = shape
	return x
}

func TestReadRowsRanges(t *testing.T) {
	tests := []struct {
		shape        []uint64
		rows, rowLen uint64
	}{
		{[]uint64{}, 1, 1},
		{[]uint64{5}, 1, 5},
		{[]uint64{0}, 1, 0},
		{[]uint64{3, 4}, 3, 4},
		{[]uint64{3, 1}, 3, 1},
		{[]uint64{3, 0}, 3, 0},
		{[]uint64{0, 3}, 0, 0},
		{[]uint64{2, 3, 4}, 2, 12},
		{[]uint64{2, 1, 3, 2}, 2, 6},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.shape), func(t *testing.T) {
			// A second tensor behind it shows reads that go too far.
			c := open(t, folder(t, map[string]any{"model.safetensors": tensorFile{ramp("x", test.shape...), f32s("y", -1, -1)}}))
			x, _ := c.Tensor("x")
			if x.Rows() != test.rows || x.RowLen() != test.rowLen {
				t.Fatalf("%d rows of %d, want %d of %d", x.Rows(), x.RowLen(), test.rows, test.rowLen)
			}
			for lo := range test.rows + 1 {
				for hi := lo; hi <= test.rows; hi++ {
					dst := make([]float32, (hi-lo)*test.rowLen)
					if err := c.ReadRows(x, lo, hi, dst); err != nil {
						t.Fatal(err)
					}
					raw, err := c.ReadRaw(x, lo, hi)
					if err != nil || len(raw) != 4*len(dst) || cap(raw) != len(raw) {
						t.Fatalf("%d raw bytes of %d, error %v", len(raw), cap(raw), err)
					}
					for i, v := range dst {
						if v != float32(lo*test.rowLen)+float32(i) {
							t.Fatalf("rows %d to %d: element %d is %v", lo, hi, i, v)
						}
					}
					if err := c.Advise(x, lo, hi, mmap.Sequential); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

func TestReadRowsErrors(t *testing.T) {
	c := open(t, folder(t, map[string]any{"model.safetensors": tensorFile{
		ramp("x", 3, 4),
		{"f8", "F8_E4M3", []uint64{2, 2}, make([]byte, 4)},
		{"f4", "F4", []uint64{2, 3}, make([]byte, 3)},
	}}))
	tensor := func(name string) *Tensor {
		x, ok := c.Tensor(name)
		if !ok {
			t.Fatalf("no tensor %s", name)
		}
		return x
	}
	tests := []struct {
		name   string
		t      *Tensor
		lo, hi uint64
		n      int
		is     error
		want   string
	}{
		{"past the end", tensor("x"), 2, 4, 8, ErrRange, "rows 2 to 4 of 3"},
		{"backwards", tensor("x"), 2, 1, 0, ErrRange, "rows 2 to 1"},
		{"wraps", tensor("x"), 1 << 63, 1 << 63, 0, ErrRange, "of 3"},
		{"short buffer", tensor("x"), 0, 2, 7, ErrRange, "buffer of 7"},
		{"long buffer", tensor("x"), 0, 2, 9, ErrRange, "buffer of 9"},
		{"fp8", tensor("f8"), 0, 2, 4, ErrDType, "F8_E4M3"},
		{"fp4", tensor("f4"), 0, 2, 6, ErrDType, "F4"},
		{"not ours", &Tensor{Name: "z", DType: F32, Shape: []uint64{1}}, 0, 1, 1, ErrRange, "not part"},
	}
	for _, test := range tests {
		err := c.ReadRows(test.t, test.lo, test.hi, make([]float32, test.n))
		if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.t.File+": tensor") {
			t.Errorf("%s: error %v, want %v with %q", test.name, err, test.is, test.want)
		}
	}
	if raw, err := c.ReadRaw(tensor("f8"), 1, 2); err != nil || len(raw) != 2 {
		t.Errorf("raw F8 rows: %d bytes, error %v", len(raw), err)
	}
	if _, err := c.ReadRaw(tensor("f4"), 0, 1); !errors.Is(err, ErrDType) {
		t.Errorf("row of one and a half bytes: error %v", err)
	}
	if c.Dir == "" || len(c.Notes) != 0 {
		t.Errorf("folder %q, notes %q", c.Dir, c.Notes)
	}
}

func TestReadRowsConcurrently(t *testing.T) {
	c := open(t, folder(t, map[string]any{"model.safetensors": tensorFile{ramp("x", 64, 8)}}))
	x, _ := c.Tensor("x")
	var wg sync.WaitGroup
	for worker := range uint64(8) {
		wg.Go(func() {
			dst := make([]float32, 8)
			for i := range x.Rows() {
				row := (i + worker*8) % x.Rows()
				if err := c.ReadRows(x, row, row+1, dst); err != nil || dst[3] != float32(8*row+3) {
					t.Errorf("row %d: %v, error %v", row, dst, err)
				}
			}
		})
	}
	wg.Wait()
}

// sparse writes a file of tensors with [rows, 4096] BF16 elements each, as one hole on disk.
func sparse(t *testing.T, tensors, rows int) string {
	t.Helper()
	size := rows * 4096 * 2
	header := map[string]any{}
	for i := range tensors {
		header[fmt.Sprintf("model.layers.%d.weight", i)] = map[string]any{"dtype": BF16, "shape": []int{rows, 4096}, "data_offsets": []int{i * size, (i + 1) * size}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(lengthSize+len(text)+tensors*size)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenLargeFile(t *testing.T) {
	path := sparse(t, 4096, 128) // 4 GiB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	c := open(t, path)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if len(c.Tensors) != 4096 {
		t.Errorf("%d tensors", len(c.Tensors))
	}
	t.Logf("%v, %d bytes allocated", took, after.TotalAlloc-before.TotalAlloc)
	if took > 5*time.Second {
		t.Errorf("opening took %v", took)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
		t.Errorf("opening allocated %d bytes", n)
	}
	last := &c.Tensors[4095]
	raw, err := c.ReadRaw(last, 127, 128)
	if err != nil || !bytes.Equal(raw, make([]byte, 8192)) {
		t.Errorf("%d bytes of the last row, error %v", len(raw), err)
	}
}
