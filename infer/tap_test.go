package infer

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// tappedNames runs ids through a model and lists the operations, "layer.name", of one block.
func tappedNames(t *testing.T, m tiny, layer int) string {
	t.Helper()
	var names []string
	tap := &Tap{After: func(op *TapOp) error {
		if op.Layer == layer {
			names = append(names, op.Name)
		}
		if op.Rows == 0 || len(op.Values)%op.Rows != 0 {
			t.Errorf("%s: %d values in %d rows", op.Name, len(op.Values), op.Rows)
		}
		return nil
	}}
	all(t, newSession(t, m.load(t, Options{Precision: Exact, Tap: tap})), m.ids(5), 5)
	return strings.Join(names, " ")
}

// Operations are named alike whether a tensor holds one weight or several.
func TestTapNames(t *testing.T) {
	zoo := families()
	const llama = "attn_norm attn_q attn_k attn_v rope_q rope_k attention attn_output residual_attention ffn_norm ffn_gate ffn_up activation ffn_down residual_ffn"
	for _, c := range []struct {
		family string
		layer  int
		want   string
	}{
		{"mistral", 1, llama},
		{"phi3", 1, llama},
		{"qwen3", 0, strings.Replace(llama, "attn_v", "attn_v attn_q_norm attn_k_norm", 1)},
		{"gpt2", 1, strings.NewReplacer(" rope_q rope_k", "", " ffn_gate", "").Replace(llama)},
		{"gpt2", -1, "token_embd position_embd add_positions output_norm output"},
		{"gemma2", -1, "token_embd scale output_norm output softcap"},
	} {
		if got := tappedNames(t, zoo[c.family], c.layer); got != c.want {
			t.Errorf("%s, block %d: %s\nwant %s", c.family, c.layer, got, c.want)
		}
	}
}

// Weights are told by the rows of their tensors.
func TestTapWeights(t *testing.T) {
	m := families()["phi3"]
	tap := &Tap{}
	m.load(t, Options{Precision: Exact, Tap: tap})
	var rows []int
	for _, w := range tap.Weights() {
		if w.Tensor == "blk.1.attn_qkv.weight" {
			if w.Width != m.embd {
				t.Errorf("%+v: width, want %d", w, m.embd)
			}
			rows = append(rows, w.Row, w.Row+w.Rows)
		}
	}
	slices.Sort(rows)
	q, k, v := m.heads*m.headK, m.kvHeads*m.headK, m.kvHeads*m.headV
	if want := []int{0, q, q, q + k, q + k, q + k + v}; !slices.Equal(rows, want) {
		t.Errorf("rows %v, want %v", rows, want)
	}
}

// Watching changes no bit; replaced values go on; an error ends the pass, and the sequence is as it was.
func TestTapReplaces(t *testing.T) {
	m := families()["qwen3"]
	ids := m.ids(6)
	plain := all(t, newSession(t, m.load(t, Options{Precision: Exact})), ids, len(ids))
	tap := &Tap{After: func(*TapOp) error { return nil }}
	model := m.load(t, Options{Precision: Exact, Tap: tap})
	sameBits(t, "watched", all(t, newSession(t, model), ids, len(ids)), plain)

	tap.After = func(op *TapOp) error {
		if op.Name == "output" {
			op.Replace(slices.Repeat([]float32{7}, len(op.Values)))
		}
		return nil
	}
	for _, row := range all(t, newSession(t, model), ids, len(ids)) {
		if slices.Min(row) != 7 || slices.Max(row) != 7 {
			t.Fatalf("replaced logits are %v", row)
		}
	}

	stop := errors.New("stop")
	calls := 0
	tap.After = func(op *TapOp) error {
		calls++
		if op.Layer == 1 {
			return stop
		}
		return nil
	}
	s := newSession(t, model)
	if _, err := s.Append(ids); !errors.Is(err, stop) {
		t.Errorf("error %v, want %v", err, stop)
	}
	before := calls
	tap.After = nil
	if s.Len() != 0 || before != 1+17+1 {
		t.Errorf("%d positions after %d operations", s.Len(), before)
	}
	sameBits(t, "afterwards", all(t, s, ids, len(ids)), plain)
}
