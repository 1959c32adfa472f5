//go:build oracle

package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sameName maps the tensors that a conversion copies unchanged, GGUF name to the end of the checkpoint's name, for the
// architectures with the names of llama.
var sameName = map[string]string{
	"token_embd.weight":  "embed_tokens.weight",
	"output.weight":      "lm_head.weight",
	"output_norm.weight": "model.norm.weight",
	"attn_norm.weight":   "input_layernorm.weight",
	"attn_v.weight":      "self_attn.v_proj.weight",
	"attn_v.bias":        "self_attn.v_proj.bias",
	"attn_output.weight": "self_attn.o_proj.weight",
	"attn_output.bias":   "self_attn.o_proj.bias",
	"ffn_norm.weight":    "post_attention_layernorm.weight",
	"ffn_gate.weight":    "mlp.gate_proj.weight",
	"ffn_gate.bias":      "mlp.gate_proj.bias",
	"ffn_up.weight":      "mlp.up_proj.weight",
	"ffn_up.bias":        "mlp.up_proj.bias",
	"ffn_down.weight":    "mlp.down_proj.weight",
	"ffn_down.bias":      "mlp.down_proj.bias",
}

// sourceName is the checkpoint's name of a tensor; "" if it is not copied unchanged.
func sourceName(name string) string {
	block, rest := "", name
	if after, ok := strings.CutPrefix(name, "blk."); ok {
		block, rest, _ = strings.Cut(after, ".")
		block = "model.layers." + block + "."
	}
	source, ok := sameName[rest]
	switch {
	case !ok:
		return ""
	case source == "embed_tokens.weight":
		return "model." + source
	}
	return block + source
}

// oracleDir is the folder of the reference data.
func oracleDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("ORACLE")
	if dir == "" {
		t.Fatal("ORACLE does not name the folder of the reference data")
	}
	return dir
}

// hashF32 reads a tensor in pieces of a few rows and hashes its float32 values.
func hashF32(t *testing.T, c *Checkpoint, x *Tensor) string {
	t.Helper()
	h := sha256.New()
	const step = 3
	values := make([]float32, step*x.RowLen())
	raw := make([]byte, 0, 4*len(values))
	for lo := uint64(0); lo < x.Rows(); lo += step {
		hi := min(lo+step, x.Rows())
		part := values[:(hi-lo)*x.RowLen()]
		if err := c.ReadRows(x, lo, hi, part); err != nil {
			t.Fatal(err)
		}
		raw = raw[:0]
		for _, v := range part {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		h.Write(raw)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func TestOracleEveryCheckpointOpens(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(oracleDir(t), "archs", "*", "hf"))
	if err != nil || len(dirs) < 50 {
		t.Fatalf("%d checkpoints, error %v", len(dirs), err)
	}
	for _, dir := range dirs {
		c := open(t, dir)
		if len(c.Tensors) == 0 || len(c.Notes) != 0 {
			t.Errorf("%s: %d tensors, notes %q", dir, len(c.Tensors), c.Notes)
		}
		for i := range c.Tensors {
			if x := &c.Tensors[i]; x.DType.Widens() {
				hashF32(t, c, x)
			}
		}
	}
}

func TestOracleValues(t *testing.T) {
	tests := []struct {
		arch string
		// tensors that must be compared
		n int
	}{
		{"llama", 17}, {"llama-odd-bias", 27}, {"llama-tied-headdim", 16}, {"llama31-rope", 17}, {"qwen2", 19}, {"qwen3", 16}, {"mistral-nemo", 17},
	}
	for _, test := range tests {
		t.Run(test.arch, func(t *testing.T) {
			dir := filepath.Join(oracleDir(t), "archs", test.arch)
			b, err := os.ReadFile(filepath.Join(dir, "llamacpp", "f32.json"))
			if err != nil {
				t.Fatal(err)
			}
			var want struct {
				Tensors [][]any // name, dimensions, type, first 16 digits of the hash
			}
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			c := open(t, filepath.Join(dir, "hf"))
			n := 0
			for _, w := range want.Tensors {
				name := w[0].(string)
				source := sourceName(name)
				if source == "" {
					continue
				}
				x, ok := c.Tensor(source)
				if !ok {
					t.Errorf("no tensor %s for %s", source, name)
					continue
				}
				if got := hashF32(t, c, x)[:16]; got != w[3].(string) {
					t.Errorf("%s: hash %s, want %s", source, got, w[3])
				}
				n++
			}
			if n != test.n {
				t.Errorf("compared %d tensors, want %d", n, test.n)
			}
		})
	}
}
