package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/arch"
)

// SettingProof is a hyperparameter that differs.
type SettingProof struct {
	Name       string   `json:"name"` // of arch.Params
	Keys       []string `json:"keys"` // of the metadata
	File       any      `json:"file"`
	Checkpoint any      `json:"checkpoint"`
	Harmless   bool     `json:"harmless"` // it changes no result

	operations []string
}

// settingKeys says which keys of the metadata hyperparameters come from, and which operations they change; Rope stands for all of its fields.
var settingKeys = []struct {
	name       string
	keys       []string
	operations []string
}{
	{"NormEps", []string{"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"}, []string{"attn_norm", "ffn_norm", "output_norm", "attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"}},
	{"Scale", []string{"attention.scale"}, []string{"attention"}},
	{"AttnSoftcap", []string{"attn_logit_softcapping"}, []string{"attention"}},
	{"FinalSoftcap", []string{"final_logit_softcapping"}, []string{"softcap"}},
	{"Window", []string{"attention.sliding_window"}, []string{"attention"}},
	{"Windowed", []string{"attention.sliding_window_pattern", "attention.sliding_window"}, []string{"attention", "rope_q", "rope_k"}},
	{"Rotates", []string{"attention.rope_pattern"}, []string{"rope_q", "rope_k"}},
	{"Rope.FreqBase", []string{"rope.freq_base"}, []string{"rope_q", "rope_k"}},
	{"LocalRope.FreqBase", []string{"rope.freq_base_swa"}, []string{"rope_q", "rope_k"}},
	{"Rope.Dim", []string{"rope.dimension_count"}, []string{"rope_q", "rope_k"}},
	{"Rope.Scaling", []string{"rope.scaling.type"}, []string{"rope_q", "rope_k"}},
	{"Rope.Factor", []string{"rope.scaling.factor"}, []string{"rope_q", "rope_k"}},
	{"Rope.OrigCtx", []string{"rope.scaling.original_context_length"}, []string{"rope_q", "rope_k"}},
	{"Rope.AttnFactor", []string{"rope.scaling.attn_factor"}, []string{"rope_q", "rope_k"}},
	{"Rope.BetaFast", []string{"rope.scaling.yarn_beta_fast"}, []string{"rope_q", "rope_k"}},
	{"Rope.BetaSlow", []string{"rope.scaling.yarn_beta_slow"}, []string{"rope_q", "rope_k"}},
	{"NCtxTrain", []string{"context_length"}, nil},
	{"NHead", []string{"attention.head_count"}, nil},
	{"NHeadKV", []string{"attention.head_count_kv"}, nil},
	{"HeadK", []string{"attention.key_length"}, nil},
	{"HeadV", []string{"attention.value_length"}, nil},
	{"NFF", []string{"feed_forward_length"}, nil},
	{"NEmbd", []string{"embedding_length"}, nil},
	{"NLayer", []string{"block_count"}, nil},
}

// settings compares the hyperparameters of the two, as the engine reads them.
func (p *prover) settings(context.Context) error {
	file, err := arch.ParamsOf(p.spec, p.file.Meta)
	if err != nil {
		return err
	}
	checkpoint, err := arch.ParamsOf(p.spec, p.plan.Meta)
	if err != nil {
		return fmt.Errorf("the checkpoint: %w", err)
	}
	// Where windowed blocks rotate like the others, the difference is told once.
	if checkpoint.LocalRope == checkpoint.Rope && file.LocalRope == file.Rope {
		file.LocalRope, checkpoint.LocalRope = arch.Rope{}, arch.Rope{}
	}
	for _, r := range []*arch.Rope{&file.Rope, &file.LocalRope, &checkpoint.Rope, &checkpoint.LocalRope} {
		if r.Scaling == "" {
			r.OrigCtx = 0 // which scaling alone needs; it may be the context of the training
		}
	}
	if file.NVocab == 0 || checkpoint.NVocab == 0 { // the embeddings decide
		file.NVocab, checkpoint.NVocab = 0, 0
	}
	a, err := flat(file)
	if err != nil {
		return err
	}
	b, err := flat(checkpoint)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if alike(a[name], b[name]) {
			continue
		}
		s := SettingProof{Name: name, File: a[name], Checkpoint: b[name], Harmless: name == "NCtxTrain"}
		for _, row := range settingKeys {
			if row.name == name {
				s.operations = row.operations
				for _, key := range row.keys {
					if p.file.Meta.Has(p.spec.Name+"."+key) || p.plan.Meta.Has(p.spec.Name+"."+key) {
						s.Keys = append(s.Keys, p.spec.Name+"."+key)
					}
				}
			}
		}
		p.proof.Settings = append(p.proof.Settings, s)
	}
	return nil
}

// flat is a structure as JSON, with "A.B" for field B of field A.
func flat(v any) (map[string]any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for name, value := range fields {
		inner, ok := value.(map[string]any)
		if !ok {
			out[name] = value
		}
		for field, value := range inner {
			out[name+"."+field] = value
		}
	}
	return out, nil
}

// alike reports whether two settings are the same, as far as float32 can tell.
func alike(a, b any) bool {
	x, ok := a.(float64)
	y, also := b.(float64)
	if ok && also {
		return math.Abs(x-y) <= exactness*math.Abs(y)
	}
	return reflect.DeepEqual(a, b)
}

// differing are the keys behind settings that change an operation and differ.
func (p *prover) differing(operation string) []string {
	var keys []string
	for _, s := range p.proof.Settings {
		if slices.Contains(s.operations, operation) {
			for _, key := range s.Keys {
				if !slices.Contains(keys, key) {
					keys = append(keys, key)
				}
			}
		}
	}
	return keys
}

// judge makes the findings of what has been measured, in the order of the computation.
func (p *prover) judge() {
	apart := p.proof.Findings
	p.proof.Findings = []Finding{}
	told := map[string]bool{} // tensors and keys that a finding points at
	for i := range p.proof.Operations {
		if f, ok := p.finding(&p.proof.Operations[i], told); ok {
			p.proof.Findings = append(p.proof.Findings, f)
		}
	}
	p.proof.Findings = append(p.proof.Findings, apart...)
	for i := range p.proof.Findings {
		for _, key := range p.proof.Findings[i].Keys {
			told[key] = true
		}
	}
	p.unused(told)
	p.unseen(told)
	if r := p.proof.RecordedCheckpoint; r != nil && !(r.Error <= recordedLimit) {
		p.proof.Findings = append(p.proof.Findings, Finding{
			Layer: -1, Operation: "recorded logits", Error: r.Error, Allowed: recordedLimit,
			Why: "the recorded logits are not those of the checkpoint and these ids, or the engine does not compute them right",
		})
	}
	p.proof.Good = len(p.proof.Findings) == 0
}

// finding judges an operation and its weight.
func (p *prover) finding(op *OperationProof, told map[string]bool) (Finding, bool) {
	f := Finding{Layer: op.Layer, Operation: op.Operation, Error: op.Local, Allowed: op.Allowed}
	bad := !(op.Local <= op.Allowed)
	var reasons []string
	if op.Tensor != "" {
		for _, name := range []string{op.Tensor, strings.TrimSuffix(op.Tensor, "weight") + "bias"} {
			i, ok := p.tensors[name]
			if !ok {
				continue
			}
			t := &p.proof.Tensors[i]
			if t.Fault == "" || told[name] && !bad {
				continue
			}
			told[name] = true
			f.Tensor = name
			reasons = append(reasons, t.Fault)
			if !bad { // the run hardly shows it
				f.Error, f.Allowed = t.judged()
			}
		}
	}
	if !bad {
		f.Why = strings.Join(reasons, "; ")
		return f, len(reasons) > 0
	}
	if strings.HasPrefix(op.Operation, "rope_") {
		if i := slices.IndexFunc(p.proof.Tensors, func(t TensorProof) bool { return t.Fault != "" && strings.HasPrefix(t.Name, "rope_") }); i >= 0 {
			f.Tensor = p.proof.Tensors[i].Name
			told[f.Tensor] = true
			reasons = append(reasons, p.proof.Tensors[i].Fault)
		}
	}
	f.Keys = p.differing(op.Operation)
	for _, s := range p.proof.Settings {
		if slices.Contains(s.operations, op.Operation) {
			reasons = append(reasons, fmt.Sprintf("%s is %v, the checkpoint's is %v", s.Name, s.File, s.Checkpoint))
		}
	}
	if len(reasons) == 0 {
		f.Tensor = op.Tensor
		reasons = append(reasons, "on the checkpoint's activations it gives another result, more than its weight's type explains")
	}
	f.Why = strings.Join(reasons, "; ")
	return f, true
}

// judged is the error of a tensor with a fault and what is allowed: of the whole, or else of its worst group.
func (t *TensorProof) judged() (err, allowed Number) {
	err, allowed = t.Error, max(tensorFactor*t.Explained, exactness)
	if err <= allowed && len(t.Worst) > 0 {
		return t.Worst[0].Error, max(groupFactor*t.Worst[0].Explained, exactness)
	}
	return err, allowed
}

// unused tells of tensors with faults that no operation of the run points at.
func (p *prover) unused(told map[string]bool) {
	for i := range p.proof.Tensors {
		if t := &p.proof.Tensors[i]; t.Fault != "" && !told[t.Name] {
			err, allowed := t.judged()
			layer, _ := arch.SplitName(t.Name)
			p.proof.Findings = append(p.proof.Findings, Finding{
				Layer: layer, Tensor: t.Name, Error: err, Allowed: allowed, Why: t.Fault,
			})
		}
	}
}

// unseen tells of settings that differ although the run does not show it: a window that no text is as long as.
func (p *prover) unseen(told map[string]bool) {
	for _, s := range p.proof.Settings {
		if s.Harmless || len(s.Keys) > 0 && !slices.ContainsFunc(s.Keys, func(k string) bool { return !told[k] }) {
			continue
		}
		p.proof.Findings = append(p.proof.Findings, Finding{
			Layer: -1, Keys: s.Keys, Error: Number(math.Inf(1)),
			Why: fmt.Sprintf("%s is %v, the checkpoint's is %v; the run of these tokens does not show it", s.Name, s.File, s.Checkpoint),
		})
	}
}
