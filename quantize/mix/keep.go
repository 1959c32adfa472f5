package mix

import (
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
)

// kept lists the matrices that keep their type whatever the recipe: small, or harmed out of proportion.
var kept = []struct {
	part  string // of the name
	whole bool   // part is the whole name
	arch  string // only for this architecture, if not ""
	why   string
}{
	{part: "_norm.weight", why: "norm"},
	{part: "ffn_gate_inp.weight", why: "router of the experts"},
	{part: "ffn_gate_tid2eid.weight", why: "table of token to expert"},
	{part: "altup", why: "tiny"},
	{part: "laurel", why: "tiny"},
	{part: "per_layer_model_proj", why: "small"},
	{part: "position_embd.weight", whole: true, why: "position embedding"},
	{part: "token_types.weight", whole: true, why: "token type embedding"},
	{part: "ssm_conv1d", why: "small convolution"},
	{part: "shortconv.conv.weight", why: "small convolution"},
	{part: "indexer.k_proj.weight", why: "tiny"},
	{part: "indexer.q_proj.weight", why: "tiny"},
	{part: "time_mix_first.weight", why: "small part of the time mix"},
	{part: "time_mix_w0.weight", why: "small part of the time mix"},
	{part: "time_mix_w1.weight", why: "small part of the time mix"},
	{part: "time_mix_w2.weight", why: "small part of the time mix"},
	{part: "time_mix_v0.weight", why: "small part of the time mix"},
	{part: "time_mix_v1.weight", why: "small part of the time mix"},
	{part: "time_mix_v2.weight", why: "small part of the time mix"},
	{part: "time_mix_a0.weight", why: "small part of the time mix"},
	{part: "time_mix_a1.weight", why: "small part of the time mix"},
	{part: "time_mix_a2.weight", why: "small part of the time mix"},
	{part: "time_mix_g1.weight", why: "small part of the time mix"},
	{part: "time_mix_g2.weight", why: "small part of the time mix"},
	{part: "time_mix_decay_w1.weight", why: "small part of the time mix"},
	{part: "time_mix_decay_w2.weight", why: "small part of the time mix"},
	{part: "time_mix_lerp_fused.weight", why: "small part of the time mix"},
	{part: "attn_rel_b.weight", why: "relative position bias"},
	{part: ".position_embd", why: "position embedding"},
	{part: "sam.pos_embd", why: "position embedding"},
	{part: "sam.neck.", why: "convolution of the image encoder"},
	{part: "sam.net_", why: "convolution of the image encoder"},
	{part: ".rel_pos", why: "relative position embedding"},
	{part: ".patch_embd", why: "patch embedding"},
	{part: ".patch_merger", why: "patch merger"},
	{part: "a.rvq.codebook", why: "audio codebook"},
	{part: "mm.a.code_embd", why: "audio codebook"},
	{part: "hc_", arch: "glm5-next", why: "small"},
	{part: "indexer.attn_q_b", arch: "glm5-next", why: "part of the indexer"},
	{part: "indexer.attn_k", arch: "glm5-next", why: "part of the indexer"},
	{part: "indexer.proj", arch: "glm5-next", why: "part of the indexer"},
	{part: "indexer_compressor_gate", arch: "glm5-next", why: "part of the indexer"},
	{part: "indexer_compressor_ape", arch: "glm5-next", why: "part of the indexer"},
	{part: "ssm_f_a.weight", arch: "glm5-next", why: "small part of the state space"},
	{part: "ssm_f_b.weight", arch: "glm5-next", why: "small part of the state space"},
	{part: "ssm_g_a.weight", arch: "glm5-next", why: "small part of the state space"},
	{part: "ssm_g_b.weight", arch: "glm5-next", why: "small part of the state space"},
	{part: "ssm_beta.weight", arch: "glm5-next", why: "small part of the state space"},
	{part: "attn_kv_a_mqa.weight", arch: "glm5-next", why: "compressed keys and values"},
	{part: "attn_k_b.weight", arch: "glm5-next", why: "compressed keys and values"},
	{part: "attn_v_b.weight", arch: "glm5-next", why: "compressed keys and values"},
}

// keepReason says why a tensor is never quantized; "" if it may be.
func keepReason(arch string, t *gguf.Tensor, leaveOutput bool) string {
	switch t.Type {
	case gguf.I8, gguf.I16, gguf.I32, gguf.I64:
		return "integers"
	}
	if dims(t.Shape) < 2 {
		return "one dimension"
	}
	if !strings.HasSuffix(t.Name, "weight") {
		return "not a weight"
	}
	if leaveOutput && t.Name == "output.weight" {
		return "asked to leave the output matrix"
	}
	for _, k := range kept {
		if k.arch != "" && k.arch != arch {
			continue
		}
		if t.Name == k.part || !k.whole && strings.Contains(t.Name, k.part) {
			return k.why
		}
	}
	return ""
}

// dims is the number of dimensions without ones at the end.
func dims(shape []uint64) int {
	n := len(shape)
	for n > 0 && shape[n-1] == 1 {
		n--
	}
	return n
}
