package mix

import (
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
)

// rule gives a type to tensors of some roles if all conditions hold.
type rule struct {
	roles role
	to    gguf.Type
	when  []*condition
}

// condition is a test and its words for the user; none where it holds for nearly all models.
type condition struct {
	say   string
	holds func(s *site) bool
}

func (r *rule) applies(s *site) bool {
	return r.roles&s.role != 0 && !slices.ContainsFunc(r.when, func(c *condition) bool { return !c.holds(s) })
}

// why is the rule in words: "ffn_down: layer in the first eighth and no importance matrix".
func (r *rule) why(s *site) string {
	var words []string
	for _, c := range r.when {
		if c.say != "" {
			words = append(words, c.say)
		}
	}
	if len(words) == 0 {
		return s.label
	}
	return s.label + ": " + strings.Join(words, " and ")
}

// The conditions. Fractions of layers are integer divisions.
var (
	moreBits = &condition{"layer in the first or last eighth, or every third between", func(s *site) bool {
		i, n := s.layer, s.layers
		return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2
	}}
	firstEighth    = &condition{"layer in the first eighth", func(s *site) bool { return s.layer < s.layers/8 }}
	first16th      = &condition{"layer in the first sixteenth", func(s *site) bool { return s.layer < s.layers/16 }}
	middle         = &condition{"layer not in the first or last eighth", func(s *site) bool { return s.layer >= s.layers/8 && s.layer < 7*s.layers/8 }}
	countedEighth  = &condition{"among the first eighth", func(s *site) bool { return s.running < s.layers/8 }}
	first2         = &condition{"among the first 2", func(s *site) bool { return s.layer < 2 }}
	first4         = &condition{"among the first 4", func(s *site) bool { return s.layer < 4 }}
	shared4        = &condition{"shared by 4 or more query heads", func(s *site) bool { return s.model.KVHeads > 0 && s.model.Heads/s.model.KVHeads >= 4 }}
	experts4       = &condition{"4 or more experts", func(s *site) bool { return s.model.Experts >= 4 }}
	experts8       = &condition{"a model of 8 experts", func(s *site) bool { return s.model.Experts == 8 }}
	withImatrix    = &condition{"with an importance matrix", func(s *site) bool { return s.imatrix }}
	withoutImatrix = &condition{"without an importance matrix", func(s *site) bool { return !s.imatrix }}
	falcon         = &condition{"falcon", func(s *site) bool { return s.model.Arch == "falcon" }}
	notFalcon      = &condition{"", func(s *site) bool { return s.model.Arch != "falcon" }}
	oddRows        = &condition{"rows are not whole blocks of the base type", func(s *site) bool { return !whole(s.base, s.shape[0]) }}
	stack          = &condition{"stack of experts", func(s *site) bool {
		return len(s.shape) > 2 && s.shape[2] > 1 && (s.model.Arch != "bailingmoe3" || s.role&(up|gate|down) != 0)
	}}
)

// when makes a rule.
func when(roles role, to gguf.Type, conditions ...*condition) rule {
	return rule{roles, to, conditions}
}

// recipe makes a recipe of quantized types: the output matrix gets out, and models of 8 experts the bits they need.
func recipe(name string, fileType uint32, base, out gguf.Type, own ...rule) *Recipe {
	rules := []rule{
		when(head, gguf.Q8_0, falcon),
		when(head, gguf.Q8_0, oddRows),
		when(head, out),
		when(value|key, gguf.Q8_0, experts8),
	}
	return &Recipe{Name: name, FileType: fileType, Base: base, rules: append(rules, own...)}
}

// lowBits makes a recipe of 1 or 2 bits. embd is for token embeddings, more for values and the first ffn_down.
func lowBits(name string, fileType uint32, base, embd, more gguf.Type, own ...rule) *Recipe {
	rules := []rule{
		when(head, gguf.Q8_0, falcon),
		when(head, gguf.Q8_0, oddRows),
		when(head, gguf.Q5_K),
		when(embedding, embd),
		when(value, gguf.Q4_K, shared4),
		when(value, gguf.Q4_K, experts4),
		when(value, more),
		when(key, gguf.Q4_K, experts8),
		when(down, more, countedEighth),
		when(attnOut, gguf.Q5_K, experts8),
	}
	return &Recipe{Name: name, FileType: fileType, Base: base, rules: append(rules, own...), low: true}
}

// attnOut8 is the rule for the attention output of models of 8 experts.
var attnOut8 = when(attnOut, gguf.Q5_K, experts8, notFalcon)

// recipes are llama.cpp's file types, by number. File type 39 (NVFP4) is written by converters only.
var recipes = []*Recipe{
	{Name: "F32", FileType: 0, Base: gguf.F32},
	{Name: "F16", FileType: 1, Base: gguf.F16},
	recipe("Q4_0", 2, gguf.Q4_0, gguf.Q6_K, when(down, gguf.Q4_1, firstEighth, withImatrix)),
	recipe("Q4_1", 3, gguf.Q4_1, gguf.Q6_K),
	recipe("Q8_0", 7, gguf.Q8_0, gguf.Q8_0),
	recipe("Q5_0", 8, gguf.Q5_0, gguf.Q6_K, when(down, gguf.Q5_1, firstEighth, withImatrix)),
	recipe("Q5_1", 9, gguf.Q5_1, gguf.Q6_K),
	recipe("Q2_K", 10, gguf.Q2_K, gguf.Q6_K,
		when(value, gguf.Q4_K, shared4),
		when(value, gguf.Q3_K),
		when(down, gguf.Q3_K),
		attnOut8,
		when(attnOut, gguf.Q3_K, notFalcon)),
	recipe("Q3_K_S", 11, gguf.Q3_K, gguf.Q6_K, attnOut8),
	recipe("Q3_K_M", 12, gguf.Q3_K, gguf.Q6_K,
		when(value, gguf.Q5_K, first2),
		when(value, gguf.Q4_K),
		when(down, gguf.Q5_K, first16th),
		when(down, gguf.Q4_K, notFalcon),
		when(down, gguf.Q4_K, moreBits),
		attnOut8,
		when(attnOut, gguf.Q4_K, notFalcon)),
	recipe("Q3_K_L", 13, gguf.Q3_K, gguf.Q6_K,
		when(value, gguf.Q5_K),
		when(down, gguf.Q4_K, falcon),
		when(down, gguf.Q5_K),
		when(attnOut, gguf.Q4_K, falcon),
		when(attnOut, gguf.Q3_K, experts8),
		when(attnOut, gguf.Q5_K)),
	recipe("Q4_K_S", 14, gguf.Q4_K, gguf.Q6_K,
		when(value, gguf.Q5_K, first4),
		when(down, gguf.Q5_K, firstEighth, notFalcon),
		attnOut8),
	recipe("Q4_K_M", 15, gguf.Q4_K, gguf.Q6_K,
		when(value, gguf.Q6_K, moreBits),
		when(down, gguf.Q6_K, moreBits, notFalcon),
		when(down, gguf.Q6_K, first16th),
		when(down, gguf.Q5_K, moreBits),
		attnOut8),
	recipe("Q5_K_S", 16, gguf.Q5_K, gguf.Q6_K),
	recipe("Q5_K_M", 17, gguf.Q5_K, gguf.Q6_K, when(value|down, gguf.Q6_K, moreBits)),
	recipe("Q6_K", 18, gguf.Q6_K, gguf.Q6_K),
	lowBits("IQ2_XXS", 19, gguf.IQ2_XXS, gguf.Q2_K, gguf.Q2_K),
	lowBits("IQ2_XS", 20, gguf.IQ2_XS, gguf.Q2_K, gguf.Q2_K),
	recipe("Q2_K_S", 21, gguf.Q2_K, gguf.Q6_K,
		when(value, gguf.Q4_K, shared4),
		when(down, gguf.Q4_K, firstEighth)),
	recipe("IQ3_XS", 22, gguf.IQ3_S, gguf.Q6_K,
		when(value, gguf.Q4_K, shared4),
		when(key|query, gguf.IQ3_XXS),
		when(up|gate, gguf.IQ3_XXS, middle),
		attnOut8),
	recipe("IQ3_XXS", 23, gguf.IQ3_XXS, gguf.Q5_K,
		when(embedding, gguf.IQ3_S),
		when(value, gguf.Q4_K, shared4),
		when(value, gguf.IQ3_S, withoutImatrix),
		when(key|query, gguf.IQ2_S),
		when(down, gguf.Q4_K, firstEighth, withoutImatrix),
		when(down, gguf.Q3_K, withoutImatrix),
		attnOut8,
		when(attnOut, gguf.IQ3_S, notFalcon)),
	lowBits("IQ1_S", 24, gguf.IQ1_S, gguf.Q2_K, gguf.Q2_K, when(attnOut, gguf.IQ2_XXS)),
	recipe("IQ4_NL", 25, gguf.IQ4_NL, gguf.Q6_K,
		when(value, gguf.Q5_K, shared4),
		when(down, gguf.Q5_K, firstEighth, withoutImatrix),
		attnOut8),
	recipe("IQ3_S", 26, gguf.IQ3_S, gguf.Q6_K, when(value, gguf.Q4_K, shared4), attnOut8),
	recipe("IQ3_M", 27, gguf.IQ3_S, gguf.Q6_K,
		when(value, gguf.Q4_K),
		when(down, gguf.Q4_K, firstEighth),
		when(down, gguf.Q4_K, experts8, moreBits),
		attnOut8,
		when(attnOut, gguf.Q4_K, notFalcon)),
	lowBits("IQ2_S", 28, gguf.IQ2_XS, gguf.IQ3_S, gguf.IQ3_S, when(attnOut, gguf.IQ3_S)),
	lowBits("IQ2_M", 29, gguf.IQ2_S, gguf.IQ3_S, gguf.IQ3_S, when(attnOut, gguf.IQ3_S)),
	recipe("IQ4_XS", 30, gguf.IQ4_XS, gguf.Q6_K,
		when(value, gguf.Q5_K, shared4),
		when(down, gguf.Q5_K, firstEighth, withoutImatrix),
		attnOut8),
	lowBits("IQ1_M", 31, gguf.IQ1_M, gguf.Q2_K, gguf.Q2_K, when(attnOut, gguf.IQ2_XXS)),
	{Name: "BF16", FileType: 32, Base: gguf.BF16},
	recipe("TQ1_0", 36, gguf.TQ1_0, gguf.Q6_K, when(embedding, gguf.Q4_K)),
	recipe("TQ2_0", 37, gguf.TQ2_0, gguf.Q6_K, when(embedding, gguf.Q4_K)),
	{Name: "MXFP4_MOE", FileType: 38, Base: gguf.MXFP4, rules: []rule{
		when(head, gguf.Q8_0),
		when(every, gguf.MXFP4, stack),
		when(every, gguf.Q8_0),
	}},
	recipe("Q1_0", 40, gguf.Q1_0, gguf.Q6_K),
	recipe("Q2_0", 41, gguf.Q2_0, gguf.Q6_K, when(embedding, gguf.Q4_K)),
}

// fallbacks names the type for rows that are not whole blocks of the type wanted. F16 takes what does not fit these either.
// llama-quantize has none for Q1_0 and NVFP4 and stops there.
var fallbacks = map[gguf.Type]gguf.Type{
	gguf.IQ1_S:   gguf.IQ4_NL,
	gguf.IQ1_M:   gguf.IQ4_NL,
	gguf.IQ2_XXS: gguf.IQ4_NL,
	gguf.IQ2_XS:  gguf.IQ4_NL,
	gguf.IQ2_S:   gguf.IQ4_NL,
	gguf.IQ3_XXS: gguf.IQ4_NL,
	gguf.IQ3_S:   gguf.IQ4_NL,
	gguf.IQ4_XS:  gguf.IQ4_NL,
	gguf.Q1_0:    gguf.Q4_0,
	gguf.Q2_0:    gguf.Q4_0,
	gguf.Q2_K:    gguf.Q4_0,
	gguf.Q3_K:    gguf.Q4_0,
	gguf.TQ1_0:   gguf.Q4_0,
	gguf.TQ2_0:   gguf.Q4_0,
	gguf.NVFP4:   gguf.Q4_0,
	gguf.Q4_K:    gguf.Q5_0,
	gguf.Q5_K:    gguf.Q5_1,
	gguf.Q6_K:    gguf.Q8_0,
}

// part is a part of a tensor's name in one architecture.
type part struct{ arch, name string }

// delicate lists the tensors that a recipe gives at least Q8_0.
var delicate = []part{
	{"glm5-next", "attn_q_a"},
	{"glm5-next", "attn_q_b"},
	{"glm5-next", "nextn.eh_proj"},
}
