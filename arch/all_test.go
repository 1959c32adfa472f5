package arch

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestSpecIsPlainData(t *testing.T) {
	for _, s := range All {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		var back Spec
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		if !reflect.DeepEqual(*s, back) {
			t.Errorf("%s: JSON loses something", s.Name)
		}
	}
}

// Names must be unambiguous: each class belongs to one architecture, each tensor and source name to one rule.
func TestNamesAreUnique(t *testing.T) {
	classes, names := map[string]string{}, map[string]*Spec{}
	for _, s := range All {
		if other := names[s.Name]; other != nil && !(reflect.DeepEqual(s.Block, other.Block) && reflect.DeepEqual(s.Tensors, other.Tensors)) {
			t.Errorf("architecture %s is declared twice, with tensors or wiring that differ", s.Name)
		}
		names[s.Name] = s
		for _, c := range s.Classes {
			if o, dup := classes[c]; dup {
				t.Errorf("class %s belongs to %s and %s", c, o, s.Name)
			}
			classes[c] = s.Name
		}
		seen := map[string]bool{}
		tensors := map[string]*Tensor{}
		for i := range s.Tensors {
			r := &s.Tensors[i]
			tensors[r.Name] = r
			for _, n := range append([]string{r.Name}, r.HF...) {
				if seen[n] {
					t.Errorf("%s: %s stands in two rules", s.Name, n)
				}
				seen[n] = true
				if strings.Contains(n, "%d") != strings.Contains(r.Name, "%d") {
					t.Errorf("%s: %s and %s differ in being per block", s.Name, r.Name, n)
				}
			}
			if len(r.Shape) == 0 || (r.Flag != "" || r.Tied != "") && !r.Optional {
				t.Errorf("%s: rule %s is inconsistent", s.Name, r.Name)
			}
		}
		for _, r := range s.Tensors {
			if r.Tied != "" && tensors[r.Tied] == nil {
				t.Errorf("%s: %s is tied to the unknown %s", s.Name, r.Name, r.Tied)
			}
		}
		keys := map[string]bool{}
		for _, k := range s.Keys {
			if keys[k.Name] {
				t.Errorf("%s: key %s is declared twice", s.Name, k.Name)
			}
			keys[k.Name] = true
			if after, ok := strings.CutPrefix(k.Default, "="); ok && !keys[after[strings.Index(after, "*")+1:]] {
				t.Errorf("%s: %s defaults to %s, which does not come before it", s.Name, k.Name, after)
			}
		}
		for _, needed := range []string{"block_count", "general.file_type"} {
			if !keys[needed] {
				t.Errorf("%s: no key %s", s.Name, needed)
			}
		}
		for _, d := range s.Drop {
			if _, err := regexp.Compile(d.Pattern); err != nil || d.Reason == "" {
				t.Errorf("%s: drop %q: %v", s.Name, d.Pattern, err)
			}
		}
	}
}

// The wiring and the tensors of a declaration must tell the same story.
func TestWiringFitsTensors(t *testing.T) {
	for _, s := range All {
		b := &s.Block
		has := func(name string) bool {
			return slices.ContainsFunc(s.Tensors, func(r Tensor) bool { return r.Name == name })
		}
		for name, want := range map[string]bool{
			"blk.%d.attn_qkv.weight": b.FusedQKV, "blk.%d.attn_q.weight": !b.FusedQKV, "blk.%d.attn_q_norm.weight": b.QKNorm, "blk.%d.attn_k_norm.weight": b.QKNorm,
			"blk.%d.post_attention_norm.weight": b.PostNorm, "blk.%d.post_ffw_norm.weight": b.PostNorm, "position_embd.weight": b.Positions,
			"blk.%d.ffn_gate.weight": b.Gated && !b.FusedGateUp, "blk.%d.attn_norm.bias": b.Norm == "layer", "output_norm.bias": b.Norm == "layer",
			"rope_freqs.weight": b.Rope != "none", "token_embd.weight": true, "output_norm.weight": true, "output.weight": true,
		} {
			if has(name) != want {
				t.Errorf("%s: tensor %s declared: %v, which the wiring does not fit", s.Name, name, !want)
			}
		}
		if !slices.Contains([]string{"rms", "layer"}, b.Norm) || !slices.Contains([]string{"norm", "neox", "none"}, b.Rope) ||
			!slices.Contains([]string{"silu", "gelu", "gelu_tanh"}, b.Activation) {
			t.Errorf("%s: wiring %+v", s.Name, *b)
		}
		if b.Rope == "none" && (b.NoRopeEvery > 0 || b.Window.FreqBase > 0) || b.FusedGateUp && !b.Gated || b.Rope == "none" && !b.Positions {
			t.Errorf("%s: the parts of the wiring contradict each other: %+v", s.Name, *b)
		}
		permuted := slices.ContainsFunc(s.Tensors, func(r Tensor) bool { return strings.HasPrefix(r.Transform, "permute") })
		if permuted != (b.Rope == "norm") {
			t.Errorf("%s: rope %q, but rows are reordered: %v", s.Name, b.Rope, permuted)
		}
	}
}

func TestForHF(t *testing.T) {
	for class, want := range map[string]string{"LlamaForCausalLM": "llama", "LlamaModel": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen2Model": "qwen2",
		"MistralForCausalLM": "llama", "Gemma3ForConditionalGeneration": "gemma3", "GPT2Model": "gpt2"} {
		if s, err := ForHF(class); err != nil || s.Name != want {
			t.Errorf("%s: %v", class, err)
		}
	}
	_, err := ForHF("LLamaForCausalLm")
	if err == nil || !strings.Contains(err.Error(), "LlamaForCausalLM") || !strings.Contains(err.Error(), "hint:") {
		t.Errorf("no nearest class: %v", err)
	}
	if _, err := ForGGUF("lama"); err == nil || strings.Count(err.Error(), "llama") != 1 {
		t.Error(err)
	}
	if _, err := ForGGUF("qwen"); err == nil || !strings.Contains(err.Error(), "qwen2") {
		t.Errorf("no nearest architecture: %v", err)
	}
}

func TestNearest(t *testing.T) {
	if got := nearest("b", []string{"xxxx", "a", "bb"}); !slices.Equal(got, []string{"a", "bb", "xxxx"}) {
		t.Errorf("order: %v", got)
	}
}
