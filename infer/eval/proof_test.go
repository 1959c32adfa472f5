package eval_test

import (
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/convert"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer/eval"
)

// someIDs are n tokens of a vocabulary.
func someIDs(n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((1 + i*i*37) % vocab)
	}
	return ids
}

// Good conversions of the demo pass, and every damage is found where it is.
func TestProof(t *testing.T) {
	s := newSubject(t, "../../testdata/demo", someIDs(40, 2000))
	for _, typ := range []string{"f32", "f16", "Q2_K"} {
		s.good(t, typ)
	}
	for _, typ := range []string{"q8_0", "Q4_K_M"} {
		t.Run(typ, func(t *testing.T) { s.testDamages(t, typ) })
	}
}

// Rope factors are a tensor that no operation multiplies by; biases belong to the operation of their weight.
func TestProofOfFactorsAndBiases(t *testing.T) {
	s := newSubject(t, "../../testdata/golden/convert/tiny-llama", someIDs(40, 260))
	s.good(t, "f32")
	s.good(t, "q8_0")
	for _, d := range []damage{
		{name: "factors", place: "block 0, rope_q (rope_freqs.weight)", why: "all its values are off by about +3", spoil: add("rope_freqs.weight", 3)},
		{name: "bias", place: "block 0, attn_k (blk.0.attn_k.bias)", why: "all its values are zero", only: true, spoil: zero("blk.0.attn_k.bias")},
	} {
		s.testDamage(t, "q8_0", d)
	}
}

// What the run cannot show is found all the same: one token does not turn, so nothing but the metadata tells of another base.
func TestProofOfSettings(t *testing.T) {
	s := newSubject(t, "../../testdata/demo", []int32{7})
	p := s.prove(t, "q8_0", func(m *gguf.Meta) error {
		m.Set("llama.rope.freq_base", gguf.New(float32(500)))
		m.Set("llama.context_length", gguf.New(uint32(400)))
		return nil
	}, nil)
	if len(p.Findings) != 1 || p.Findings[0].Place() != "the metadata (llama.rope.freq_base)" || !strings.Contains(p.Findings[0].Why, "Rope.FreqBase is 500, the checkpoint's is 10000") {
		t.Errorf("findings: %+v", p.Findings)
	}
	if len(p.Settings) != 2 {
		t.Errorf("settings: %+v", p.Settings)
	}
	s.testDamage(t, "f32", damage{name: "operation too many", place: "softcap (llama.final_logit_softcapping)", only: true, edit: func(m *gguf.Meta) error {
		m.Set("llama.final_logit_softcapping", gguf.New(float32(20)))
		return nil
	}})
}

// A file and a checkpoint that do not belong together are refused.
func TestProofRefuses(t *testing.T) {
	demo := newSubject(t, "../../testdata/demo", []int32{7})
	tiny := newSubject(t, "../../testdata/golden/convert/tiny-llama", []int32{7})
	f, err := gguf.Open(tiny.convert(t, convert.Options{Type: "f32"}))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unexpected := func(stage string, _, _ uint64) { t.Errorf("%s before the refusal", stage) }
	for _, c := range []struct {
		plan *convert.Plan
		ids  []int32
		o    eval.ProofOptions
		want string
	}{
		{demo.plan, []int32{7}, eval.ProofOptions{}, "the checkpoint that the file was made from"},
		{tiny.plan, nil, eval.ProofOptions{}, "no tokens"},
		{tiny.plan, []int32{264}, eval.ProofOptions{Progress: unexpected}, "token 264, the vocabulary has 0 to 263"},
		{tiny.plan, []int32{7}, eval.ProofOptions{Recorded: make([]float32, 265)}, "the recorded logits are 265 values, expected 264: 264 for each of 1 tokens"},
	} {
		if _, err := eval.Prove(t.Context(), f, c.plan, c.ids, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
