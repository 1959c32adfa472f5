// Package mix decides which tensor of a model gets which type, and says why.
//
// The recipes are those of llama.cpp (its "file types"), so that a model comes out with the same types as from
// llama-quantize. They are tables (recipe.go, keep.go); Choose reads them. It departs from llama-quantize in four points: an override
// shifts the layer count of no other tensor, an override works for the unquantized recipes F32, F16 and BF16 too, an override that can
// have no effect is an error, and a row length that no block fits makes the tensor F16 instead of stopping the run.
package mix

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
)

// Recipe is one file type of llama.cpp: its general.file_type number, base type and rules.
type Recipe struct {
	Name     string // "Q4_K_M"
	FileType uint32
	Base     gguf.Type

	rules []rule // the first that applies gives the type; none: Base
	low   bool   // the recipes of 1 and 2 bits, which have rules apart
}

// Parse finds a recipe by name in any case; Q3_K, Q4_K and Q5_K mean the _M form. The error lists the names.
func Parse(name string) (*Recipe, error) {
	full := strings.ToUpper(strings.TrimSpace(name))
	switch full {
	case "Q3_K", "Q4_K", "Q5_K":
		full += "_M"
	}
	var names []string
	for _, r := range recipes {
		if r.Name == full {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return nil, fmt.Errorf("unknown quantization type %q\nhint: use one of %s", name, strings.Join(names, ", "))
}

// Recipes lists all recipes.
func Recipes() []*Recipe { return slices.Clone(recipes) }

// Model is what the rules ask about a model.
type Model struct {
	Arch    string
	Layers  int // all blocks, those of multi-token prediction included
	Heads   int // of block 0
	KVHeads int // of block 0
	Experts int
}

// ModelOf reads it from metadata; missing keys count as zero, but a missing number of key heads as that of all heads.
func ModelOf(meta *gguf.Meta) Model {
	arch, _ := meta.Str("general.architecture")
	m := Model{
		Arch:    arch,
		Layers:  count(meta, arch+".block_count"),
		Heads:   count(meta, arch+".attention.head_count"),
		KVHeads: count(meta, arch+".attention.head_count_kv"),
		Experts: count(meta, arch+".expert_count"),
	}
	if _, ok := meta.Get(arch + ".attention.head_count_kv"); !ok {
		m.KVHeads = m.Heads
	}
	return m
}

// count is an integer key, or the first element of an array of them.
func count(meta *gguf.Meta, key string) int {
	v, ok := meta.Get(key)
	if !ok {
		return 0
	}
	if a, err := v.Array(); err == nil && a.Len() > 0 {
		if v, err = a.At(0); err != nil {
			return 0
		}
	}
	n, err := v.Int()
	if err != nil || n < 0 || n > 1<<30 {
		return 0
	}
	return int(n)
}

// Override gives tensors whose name matches Pattern (a regular expression, searched anywhere in the name, case ignored) a type of their own.
type Override struct {
	Pattern string
	Type    gguf.Type
}

// Options are the user's wishes. For one tensor the first of these that applies wins: EmbeddingType (token_embd and
// per_layer_token_embd; for the latter an override goes first), OutputType (output), the first matching override, OutputType
// again for a token embedding that is the output matrix too, Pure, the recipe's rules.
type Options struct {
	Overrides       []Override
	OutputType      *gguf.Type
	EmbeddingType   *gguf.Type
	Pure            bool // no mix rules: the base type for all that is quantized
	LeaveOutput     bool // output.weight keeps its type
	HasImatrix      bool
	RefuseFallbacks bool // --strict
}

// Choice is the decision for one tensor.
type Choice struct {
	Name     string
	From, To gguf.Type
	Rule     string    // "attn_v: layer in the first or last eighth, or every third between -> Q6_K"
	Fallback bool      // the rule's type does not fit the row length
	Wanted   gguf.Type // the rule's type; To unless Fallback
}

// Choose decides for all tensors, in their order. It is a pure function: ranks within a role come from the sorted list
// of names, and an override of one tensor shifts no other. It fails for an override that is no regular expression or that
// has no tensor to act on, and with RefuseFallbacks for row lengths that need a fallback, naming all such tensors.
func Choose(r *Recipe, m Model, tensors []gguf.Tensor, o Options) ([]Choice, error) {
	overrides, err := compile(o.Overrides)
	if err != nil {
		return nil, err
	}
	sites := survey(r, m, tensors, o)
	choices := make([]Choice, len(tensors))
	var misfits []string
	for i, t := range tensors {
		c := Choice{Name: t.Name, From: t.Type}
		if sites[i].keep != "" {
			c.To, c.Wanted = t.Type, t.Type
			c.Rule = fmt.Sprintf("kept as it is: %s", sites[i].keep)
		} else {
			c.Wanted, c.Rule = decide(r, &sites[i], o, overrides)
			c.To = fit(c.Wanted, t.Shape[0])
			c.Fallback = c.To != c.Wanted
		}
		if c.Fallback {
			block, _ := c.Wanted.Info()
			note := fmt.Sprintf("rows of %d are not whole blocks of %d -> %s", t.Shape[0], block.Block, c.To)
			c.Rule += "; " + note
			misfits = append(misfits, fmt.Sprintf("  %s: %s instead of %s: %s", t.Name, c.To, c.Wanted, note))
		}
		choices[i] = c
	}
	if err := unused(overrides, tensors, sites); err != nil {
		return nil, err
	}
	if o.RefuseFallbacks && len(misfits) > 0 {
		return nil, fmt.Errorf("%d tensor(s) do not fit their type:\n%s\nhint: leave out --strict to accept these types, or set others for them with --tensor-type",
			len(misfits), strings.Join(misfits, "\n"))
	}
	return choices, nil
}

// override is a compiled Override.
type override struct {
	Override
	re *regexp.Regexp
}

func compile(list []Override) ([]override, error) {
	out := make([]override, len(list))
	for i, o := range list {
		re, err := regexp.Compile("(?i)" + o.Pattern)
		if err != nil {
			return nil, fmt.Errorf("override %q is not a regular expression: %w", o.Pattern, err)
		}
		out[i] = override{o, re}
	}
	return out, nil
}

// unused reports the overrides that have no tensor to act on.
func unused(overrides []override, tensors []gguf.Tensor, sites []site) error {
	for _, o := range overrides {
		var kept string
		hits := false
		for i, t := range tensors {
			if !o.re.MatchString(t.Name) {
				continue
			}
			if hits = sites[i].keep == ""; hits {
				break
			}
			kept = fmt.Sprintf("%s, which is never quantized (%s)", t.Name, sites[i].keep)
		}
		switch {
		case hits:
		case kept != "":
			return fmt.Errorf("override %q matches only tensors that keep their type, like %s", o.Pattern, kept)
		default:
			return fmt.Errorf("override %q matches no tensor\nhint: list the names with: ggufkit inspect FILE --tensors", o.Pattern)
		}
	}
	return nil
}

// say names the type after the reason for it.
func say(t gguf.Type, format string, args ...any) string {
	return fmt.Sprintf(format, args...) + " -> " + t.String()
}

// asked is the type that the user names for a tensor, and the rule in words; ok is false if there is none.
func asked(s *site, o Options, overrides []override) (t gguf.Type, why string, ok bool) {
	match := slices.IndexFunc(overrides, func(v override) bool { return v.re.MatchString(s.name) })
	perLayer := s.name == "per_layer_token_embd.weight" && match >= 0
	switch {
	case o.EmbeddingType != nil && (s.role == embedding || s.role == tied) && !perLayer:
		return *o.EmbeddingType, say(*o.EmbeddingType, "type asked for token embeddings"), true
	case o.OutputType != nil && s.role == output:
		return *o.OutputType, say(*o.OutputType, "type asked for the output matrix"), true
	case match >= 0:
		return overrides[match].Type, say(overrides[match].Type, "override %q", overrides[match].Pattern), true
	case o.OutputType != nil && s.role == tied:
		return *o.OutputType, say(*o.OutputType, "type asked for the output matrix, which the token embedding is too (tied)"), true
	}
	return 0, "", false
}

// decide picks the type for a tensor that is quantized, before its shape is looked at.
func decide(r *Recipe, s *site, o Options, overrides []override) (gguf.Type, string) {
	if t, why, ok := asked(s, o, overrides); ok {
		return t, why
	}
	if o.Pure {
		return r.Base, say(r.Base, "base type for all (pure)")
	}
	to, why := r.Base, "base type of "+r.Name
	for i := range r.rules {
		if r.rules[i].applies(s) {
			to, why = r.rules[i].to, r.rules[i].why(s)
			break
		}
	}
	if s.role == value && !r.low && (to == gguf.Q3_K || to == gguf.Q4_K) && s.is70B() {
		to, why = gguf.Q5_K, s.label+": it is small in a model of 70B"
	}
	if less(to, gguf.Q8_0) && s.delicate() {
		to, why = gguf.Q8_0, "never below 8 bits in "+s.model.Arch
	}
	return to, say(to, "%s", why)
}

// less reports whether a stores a weight in fewer bits than b.
func less(a, b gguf.Type) bool {
	x, _ := a.Info()
	y, _ := b.Info()
	return x.BitsPerWeight() < y.BitsPerWeight()
}

// fit is the type that rows of n elements get in place of t: t itself when its blocks fit.
func fit(t gguf.Type, n uint64) gguf.Type {
	if whole(t, n) {
		return t
	}
	if other, ok := fallbacks[t]; ok && whole(other, n) {
		return other
	}
	return gguf.F16
}

// whole reports whether n elements fill whole blocks of t.
func whole(t gguf.Type, n uint64) bool {
	info, ok := t.Info()
	return ok && n%info.Block == 0
}
