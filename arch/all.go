package arch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/spelling"
)

// All lists the architectures. Adding one is a file and a line here.
var All = []*Spec{&llama, &mistral, &qwen2, &qwen3, &gemma, &gemma2, &gemma3, &phi3, &smollm3, &starcoder2, &gpt2}

// ForHF finds the architecture of a Hugging Face class; the error names the nearest known ones.
func ForHF(class string) (*Spec, error) {
	var known []string
	for _, s := range All {
		if slices.Contains(s.Classes, class) {
			return s, nil
		}
		known = append(known, s.Classes...)
	}
	return nil, fmt.Errorf("model class %q is not supported\nhint: the nearest supported classes are %s; 'ggufkit convert --list' shows them all",
		class, strings.Join(nearest(class, known), ", "))
}

// ForGGUF finds the architecture of a file by its general.architecture.
func ForGGUF(name string) (*Spec, error) {
	var known []string
	for _, s := range All {
		if s.Name == name {
			return s, nil
		}
		if !slices.Contains(known, s.Name) { // several families share a name
			known = append(known, s.Name)
		}
	}
	return nil, fmt.Errorf("architecture %q is not supported\nhint: the nearest supported ones are %s", name, strings.Join(nearest(name, known), ", "))
}

// ForMeta finds the architecture that a file's metadata names.
func ForMeta(m *gguf.Meta) (*Spec, error) {
	name, err := m.Str("general.architecture")
	if err != nil {
		return nil, err
	}
	return ForGGUF(name)
}

// nearest is up to five of known, by edit distance to name.
func nearest(name string, known []string) []string {
	const most = 5
	type scored struct {
		name string
		dist int
	}
	list := make([]scored, len(known))
	for i, k := range known {
		list[i] = scored{k, spelling.Distance(strings.ToLower(name), strings.ToLower(k))}
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(a.dist, b.dist) })
	var names []string
	for _, s := range list[:min(most, len(list))] {
		names = append(names, s.name)
	}
	return names
}
