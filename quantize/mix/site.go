package mix

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// role is what a tensor does in the model, as far as the rules care.
type role uint16

const (
	output    role = 1 << iota // output.weight
	tied                       // a token embedding in a model that has no output.weight
	embedding                  // another token embedding
	value                      // attention values: attn_v, and attn_qkv and attn_kv_b, which hold them
	key
	query
	attnOut
	up
	gate
	down
	other

	head  = output | tied
	every = role(1<<16 - 1)
)

// roles finds a role by a part of the name; the first hit counts.
var roles = []struct {
	part string
	role role
}{
	{"attn_qkv.weight", value},
	{"attn_kv_b.weight", value},
	{"attn_v.weight", value},
	{"attn_k.weight", key},
	{"attn_q.weight", query},
	{"attn_output.weight", attnOut},
	{"ffn_up", up}, // these three include experts and shared experts
	{"ffn_gate", gate},
	{"ffn_down", down},
}

// site is a tensor as the rules see it.
type site struct {
	name  string
	keep  string // why it is never quantized, or ""
	role  role
	label string // the role, in a message
	shape []uint64
	// layer and layers place the tensor among those of its role: the running number and the number of tensors for
	// attention values; the same and the number of blocks for the feed-forward tensors, where with experts the block
	// number stands for the running number.
	layer, layers int
	running       int // the running number within the role, always
	model         Model
	base          gguf.Type
	imatrix       bool
}

// survey finds the roles and ranks of all tensors.
func survey(r *Recipe, m Model, tensors []gguf.Tensor, o Options) []site {
	isTied := !slices.ContainsFunc(tensors, func(t gguf.Tensor) bool { return t.Name == "output.weight" })
	sites := make([]site, len(tensors))
	values, blocks := 0, 0
	for i, t := range tensors {
		s := site{name: t.Name, shape: t.Shape, model: m, base: r.Base, imatrix: o.HasImatrix}
		s.role, s.label = roleOf(t.Name, isTied)
		s.keep = keepReason(m.Arch, &tensors[i], o.LeaveOutput)
		if s.role == value {
			values++
		}
		block, _ := arch.SplitName(t.Name)
		blocks = max(blocks, block+1)
		sites[i] = s
	}
	if m.Layers > 0 {
		blocks = m.Layers
	}
	ranks := map[role]int{}
	for _, i := range sorted(tensors) {
		s := &sites[i]
		if s.keep != "" {
			continue
		}
		s.running, s.layer, s.layers = ranks[s.role], ranks[s.role], blocks
		ranks[s.role]++
		if s.role == value {
			s.layers = values
		} else if b, _ := arch.SplitName(s.name); m.Experts > 1 && b >= 0 {
			s.layer = b
		}
	}
	return sites
}

func roleOf(name string, isTied bool) (role, string) {
	switch name {
	case "output.weight":
		return output, "output matrix"
	case "token_embd.weight", "per_layer_token_embd.weight":
		if isTied {
			return tied, "token embedding, the output matrix too (tied)"
		}
		return embedding, "token embedding"
	}
	for _, r := range roles {
		if strings.Contains(name, r.part) {
			return r.role, strings.TrimSuffix(r.part, ".weight")
		}
	}
	return other, "other"
}

// sorted is the order in which ranks are given: tensors outside blocks, then by block number, then by name. It does not
// depend on the order of the file.
func sorted(tensors []gguf.Tensor) []int {
	order := make([]int, len(tensors))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := tensors[a].Name, tensors[b].Name
		inX, _ := arch.SplitName(x)
		inY, _ := arch.SplitName(y)
		return cmp.Or(cmp.Compare(inX, inY), strings.Compare(x, y))
	})
	return order
}

// is70B recognizes the models that llama.cpp calls 70B and whose values get more bits.
func (s *site) is70B() bool {
	switch s.model.Arch {
	case "llama":
		return s.model.Layers == 80 && s.model.Heads != s.model.KVHeads
	case "deci", "olmo", "qwen2":
		return s.model.Layers == 80
	case "jais2":
		return s.model.Layers == 68
	}
	return false
}

// delicate reports the tensors that a recipe gives at least Q8_0.
func (s *site) delicate() bool {
	return slices.ContainsFunc(delicate, func(d part) bool { return d.arch == s.model.Arch && strings.Contains(s.name, d.name) })
}
