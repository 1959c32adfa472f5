package convert

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ggufkit/ggufkit/convert/checkpoint"
	"github.com/ggufkit/ggufkit/gguf"
)

// golden is the tiny checkpoint that testdata/gen/tinyllama.py makes.
const golden = "../testdata/golden/convert/tiny-llama"

// stTensor is a tensor for writeSafetensors.
type stTensor struct {
	dtype string
	shape []uint64
	data  []byte
}

// f32s is a tensor of float32 values.
func f32s(shape []uint64, values ...float32) stTensor {
	t := stTensor{dtype: "F32", shape: shape}
	for _, v := range values {
		t.data = binary.LittleEndian.AppendUint32(t.data, math.Float32bits(v))
	}
	return t
}

// writeSafetensors writes tensors in the order of their names.
func writeSafetensors(t *testing.T, path string, tensors map[string]stTensor) {
	t.Helper()
	type entry struct {
		DType   string   `json:"dtype"`
		Shape   []uint64 `json:"shape"`
		Offsets [2]int   `json:"data_offsets"`
	}
	header, data := map[string]entry{}, []byte{}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		st := tensors[name]
		shape := st.shape
		if shape == nil {
			shape = []uint64{}
		}
		header[name] = entry{st.dtype, shape, [2]int{len(data), len(data) + len(st.data)}}
		data = append(data, st.data...)
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	if err := os.WriteFile(path, slices.Concat(file, text, data), 0o666); err != nil {
		t.Fatal(err)
	}
}

// ckptCopy is a checkpoint of a test: the golden one, changed.
type ckptCopy struct {
	config  map[string]any
	tensors map[string]stTensor
	files   map[string]string // others, by name
	name    string            // of the folder
}

// loadGolden reads the golden checkpoint into memory.
func loadGolden(t *testing.T) *ckptCopy {
	t.Helper()
	c := &ckptCopy{config: map[string]any{}, tensors: map[string]stTensor{}, files: map[string]string{}, name: "tiny-llama"}
	for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"} {
		b, err := os.ReadFile(filepath.Join(golden, name))
		if err != nil {
			t.Fatal(err)
		}
		c.files[name] = string(b)
	}
	if err := json.Unmarshal([]byte(c.files["config.json"]), &c.config); err != nil {
		t.Fatal(err)
	}
	ckpt := open(t, golden)
	for i := range ckpt.Tensors {
		src := &ckpt.Tensors[i]
		raw, err := ckpt.ReadRaw(src, 0, src.Rows())
		if err != nil {
			t.Fatal(err)
		}
		c.tensors[src.Name] = stTensor{string(src.DType), src.Shape, bytes.Clone(raw)}
	}
	return c
}

// write puts the checkpoint into a new folder.
func (c *ckptCopy) write(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), c.name)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c.config)
	if err != nil {
		t.Fatal(err)
	}
	c.files["config.json"] = string(text)
	for name, content := range c.files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	writeSafetensors(t, filepath.Join(dir, "model.safetensors"), c.tensors)
	return dir
}

func open(t *testing.T, dir string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// planOf plans a conversion that must be possible.
func planOf(t *testing.T, dir string, o Options) *Plan {
	t.Helper()
	p, err := NewPlan(open(t, dir), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run converts and returns the path of the output.
func run(t *testing.T, p *Plan, o Options) (string, []TensorReport) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.gguf")
	reports, err := p.Run(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	return path, reports
}

// convertTo converts a folder and opens the result.
func convertTo(t *testing.T, dir string, o Options) *gguf.File {
	t.Helper()
	path, _ := run(t, planOf(t, dir, o), o)
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// hash is the first 16 hexadecimal digits of the sha256 of a tensor's bytes.
func hash(t *testing.T, f *gguf.File, tensor *gguf.Tensor) string {
	t.Helper()
	b, err := f.Data(tensor)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
