// Package mix decides which tensor of a model gets which type, and says why.
package mix

import (
	"errors"

	"github.com/ggufkit/ggufkit/gguf"
)

// Recipe is one file type of llama.cpp: its general.file_type number, base type and rules.
type Recipe struct {
	Name     string // "Q4_K_M"
	FileType uint32
	Base     gguf.Type
}

// Parse finds a recipe by name in any case; Q3_K, Q4_K and Q5_K mean the _M form. The error lists the names.
func Parse(name string) (*Recipe, error) { return nil, errors.New("todo") }

// Recipes lists all recipes.
func Recipes() []*Recipe { return nil }

// Model is what the rules ask about a model.
type Model struct {
	Arch    string
	Layers  int
	Heads   int // of block 0
	KVHeads int // of block 0
	Experts int
}

// ModelOf reads it from metadata; missing keys count as zero.
func ModelOf(meta *gguf.Meta) Model { return Model{} }

// Override gives tensors whose name matches Pattern (a regular expression, searched, lower case) a type of their own.
type Override struct {
	Pattern string
	Type    gguf.Type
}

// Options are the user's wishes.
type Options struct {
	Overrides       []Override
	OutputType      *gguf.Type
	EmbeddingType   *gguf.Type
	Pure            bool // no mix rules
	LeaveOutput     bool
	HasImatrix      bool
	RefuseFallbacks bool // --strict
}

// Choice is the decision for one tensor.
type Choice struct {
	Name     string
	From, To gguf.Type
	Rule     string // "attn_v: more bits in the first and last eighth -> Q6_K"
	Fallback bool   // the rule's type does not fit the row length
}

// Choose decides for all tensors, in their order. It is a pure function: ranks within a role come from the sorted list
// of names, and an override of one tensor shifts no other.
func Choose(r *Recipe, m Model, tensors []gguf.Tensor, o Options) ([]Choice, error) {
	return nil, errors.New("todo")
}
