package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// writeUntied writes a file of one block with an output matrix of its own and a matrix whose rows fill no block of 256.
func writeUntied(t *testing.T, typ gguf.Type) string {
	t.Helper()
	m := gguf.NewMeta()
	m.Set("general.architecture", gguf.New("llama"))
	m.Set("llama.block_count", gguf.New(uint32(1)))
	var tensors []gguf.Tensor
	for _, x := range []struct {
		name string
		cols uint64
	}{{"token_embd.weight", 256}, {"blk.0.attn_q.weight", 256}, {"blk.0.attn_v.weight", 256}, {"blk.0.ffn_down.weight", 64}, {"output.weight", 256}} {
		tensors = append(tensors, gguf.Tensor{Name: x.name, Shape: []uint64{x.cols, 4}, Type: typ})
	}
	return writeGGUF(t, m, tensors)
}

// The flags that choose types, one by one: the types are those of token_embd, attn_q, attn_v, ffn_down and output.
func TestQuantizeFlags(t *testing.T) {
	in, quantized := writeUntied(t, gguf.F32), writeUntied(t, gguf.Q8_0)
	for _, c := range []struct{ in, flags, want string }{
		{in, "", "Q4_K Q4_K Q6_K Q8_0 Q6_K"},
		{in, "--tensor-type attn_q=Q5_K --tensor-type ^output=F16", "Q4_K Q5_K Q6_K Q8_0 F16"},
		{in, "--output-type Q8_0", "Q4_K Q4_K Q6_K Q8_0 Q8_0"},
		{in, "--output-tensor-type q5_k", "Q4_K Q4_K Q6_K Q8_0 Q5_K"},
		{in, "--embedding-type F16", "F16 Q4_K Q6_K Q8_0 Q6_K"},
		{in, "--token_embedding_type F16", "F16 Q4_K Q6_K Q8_0 Q6_K"},
		{in, "--pure", "Q4_K Q4_K Q4_K Q5_0 Q4_K"},
		{in, "--leave-output", "Q4_K Q4_K Q6_K Q8_0 F32"},
		{in, "--strict --tensor-type ffn_down=Q8_0", "Q4_K Q4_K Q6_K Q8_0 Q6_K"},
		{in, "--strict", "blk.0.ffn_down.weight"},
		{quantized, "", "--allow-requantize"},
		{quantized, "--allow-requantize", "Q4_K Q4_K Q6_K Q8_0 Q6_K"},
	} {
		args := append([]string{"ggufkit", "quantize", c.in, "Q4_K_M", "--dry-run", "--json"}, strings.Fields(c.flags)...)
		var out, errs bytes.Buffer
		status := run(args, strings.NewReader(""), &out, &errs)
		if !strings.Contains(c.want, " ") {
			if status != 1 || !strings.Contains(errs.String(), c.want) {
				t.Errorf("%q: status %d, %s", c.flags, status, errs.String())
			}
			continue
		}
		var report struct{ Tensors []struct{ To string } }
		if err := json.Unmarshal(out.Bytes(), &report); err != nil {
			t.Fatalf("%q: status %d, %v, %s", c.flags, status, err, errs.String())
		}
		var types []string
		for _, x := range report.Tensors {
			types = append(types, x.To)
		}
		if got := strings.Join(types, " "); got != c.want {
			t.Errorf("%q: %s, want %s", c.flags, got, c.want)
		}
	}
}
