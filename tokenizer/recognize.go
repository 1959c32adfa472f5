package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// forms is the structures of tokenizer.json by the value of tokenizer.ggml.pre that splits alike. Several values may do so: the one of the model's
// own family (model_type of config.json) comes first.
var forms = []struct {
	stages       string // names of patterns and other parts
	ignoreMerges bool
	modelTypes   string // "" for any
	pre          string
}{
	{"gpt2", false, "phi", "phi-2"},
	{"gpt2", false, "mpt", "mpt"},
	{"gpt2", false, "roberta", "roberta-bpe"},
	{"gpt2", false, "gpt_neox olmo olmoe mamba mamba2", "olmo"},
	{"gpt2", false, "", "gpt-2"},
	{"llama3", true, "glm glm4 glm4_moe", "glm4"},
	{"llama3", true, "", "llama-bpe"},
	{"llama3", false, "glm glm4 glm4_moe", "chatglm-bpe"},
	{"llama3", false, "", "dbrx"},
	{"jais2", false, "", "jais-2"},
	{"numbers3 llama3+", true, "", "minicpm5"},
	{"qwen2", false, "stablelm", "stablelm2"},
	{"qwen2", false, "", "qwen2"},
	{"lines qwen2", false, "", "laguna"},
	{"ufakzeka", false, "", "ufakzeka"},
	{"qwen35", false, "", "qwen35"},
	{"seed-coder", false, "", "seed-coder"},
	{"bailing", false, "", "bailingmoe"},
	{"exaone-moe", false, "", "exaone-moe"},
	{"number gpt2", false, "starcoder2", "starcoder"},
	{"number gpt2", false, "granite granitemoe", "refact"},
	{"number gpt2", false, "cohere cohere2", "command-r"},
	{"number gpt2", false, "", "smollm"},
	{"tekken", true, "", "tekken"},
	{"gpt-4o", false, "", "gpt-4o"},
	{"gpt-4o", true, "", "granite-embed-multi-97m"},
	{"rightdigits gpt-4o", false, "", "tiny_aya"},
	{"youtu-scripts youtu", true, "", "youtu"},
	{"kimi", false, "", "kimi-k2"},
	{"newline latin symbols trailing han numbers", false, "", "deepseek-llm"},
	{"newline letters punctuations han number", false, "", "deepseek-coder"},
	{"numbers3 kana deepseek-v3", false, "", "deepseek-v3"},
	{"numbers3 kana spark number", false, "", "spark2_5"},
	{"bloom", false, "", "bloom"},
	{"bloom number", false, "", "viking"},
	{"numbers superthrees", false, "", "superbpe"},
	{"punctuation gpt2 bytes numbers threes", false, "", "falcon"},
}

// flatten lists the parts of nested sequences.
func flatten(c *component) []component {
	if c == nil {
		return nil
	}
	if c.Type != "Sequence" {
		return []component{*c}
	}
	var all []component
	for _, list := range [][]component{c.Normalizers, c.PreTokenizers, c.Processors} {
		for i := range list {
			all = append(all, flatten(&list[i])...)
		}
	}
	return all
}

// recognize names the pre-tokenizer of a byte-level BPE tokenizer by the structure of tokenizer.json; the vocabulary plays no part. modelType
// chooses among names for the same.
func (t *tokenizerJSON) recognize(modelType string) (string, error) {
	parts := flatten(t.PreTokenizer)
	if !slices.ContainsFunc(parts, func(c component) bool { return c.Type == "ByteLevel" }) {
		return "", fmt.Errorf("pre_tokenizer: ByteLevel is not among its parts, so the tokenizer is not a byte-level one")
	}
	var stages []string
	for i, p := range parts {
		stage, err := p.stage(i == len(parts)-1)
		if err != nil {
			return "", fmt.Errorf("pre_tokenizer, part %d: %w", i, err)
		}
		stages = append(stages, stage...)
	}
	form := strings.Join(stages, " ")
	for _, f := range forms {
		if f.stages == form && f.ignoreMerges == t.Model.IgnoreMerges && (f.modelTypes == "" || slices.Contains(strings.Fields(f.modelTypes), modelType)) {
			return f.pre, nil
		}
	}
	return "", fmt.Errorf("pre_tokenizer: no known pre-tokenizer splits by %q with ignore_merges %v%s", form, t.Model.IgnoreMerges, nearest(form, t.Model.IgnoreMerges))
}

// nearest tells of the known form that shares the longest start with this one, and where the two part.
func nearest(form string, ignoreMerges bool) string {
	stages := strings.Fields(form)
	best, at := -1, -1
	for i, f := range forms {
		n := 0
		for known := strings.Fields(f.stages); n < min(len(stages), len(known)) && stages[n] == known[n]; {
			n++
		}
		if n > at {
			best, at = i, n
		}
	}
	f := forms[best]
	if f.stages == form {
		return fmt.Sprintf("; %q splits so with ignore_merges %v", f.pre, f.ignoreMerges)
	}
	return fmt.Sprintf("; the nearest, %q, splits by %q", f.pre, f.stages)
}

// stage is the canonical names of what one part of a pre-tokenizer does.
func (c *component) stage(last bool) ([]string, error) {
	switch c.Type {
	case "ByteLevel":
		if c.AddPrefix != nil && *c.AddPrefix {
			return nil, fmt.Errorf("ByteLevel puts a space before the text (add_prefix_space), which GGUF cannot say")
		}
		var stages []string
		if c.UseRegex == nil || *c.UseRegex {
			stages = append(stages, "gpt2")
		}
		if !last {
			stages = append(stages, "bytes")
		}
		return stages, nil
	case "Digits":
		if c.Individual {
			return []string{"number"}, nil
		}
		return []string{"numbers"}, nil
	case "Punctuation":
		if c.Behavior == "Contiguous" {
			return []string{"punctuation"}, nil
		}
		return nil, fmt.Errorf("the behavior %q of Punctuation is not known", c.Behavior)
	case "Split":
		pattern, err := c.pattern("Regex")
		if err != nil {
			return nil, err
		}
		name, ok := knownPatterns[pattern]
		// A pattern that matches all of a text may keep its matches only: that is the same as isolating them.
		isolated := c.Behavior == "Isolated" || c.Behavior == "Removed" && c.Invert && name.whole
		if !ok || !isolated {
			return nil, fmt.Errorf("the pattern %q of Split (%s, invert %v) is not known", pattern, c.Behavior, c.Invert)
		}
		return []string{name.stage}, nil
	}
	return nil, fmt.Errorf("the part %s is not known", c.Type)
}

// pattern is the pattern of a Split or Replace of the given kind ("Regex" or "String").
func (c *component) pattern(kind string) (string, error) {
	var s string
	if v, ok := c.Pattern[kind]; ok && json.Unmarshal(v, &s) == nil {
		return s, nil
	}
	return "", fmt.Errorf("%s: its pattern is not a %s", c.Type, kind)
}

// normalization is what the normalizer of a byte-level BPE tokenizer does, as Extras.Normalizer has it.
func (t *tokenizerJSON) normalization() (string, error) {
	form := ""
	for _, n := range flatten(t.Normalizer) {
		if n.Type != nfc {
			return "", fmt.Errorf("normalizer: %s is not known for byte-level BPE", n.Type)
		}
		form = nfc
	}
	return form, nil
}

// spacePrefix recognizes the ways in which SentencePiece's treatment of spaces is written in tokenizer.json. It reports whether a space is
// put before text, and where, as Extras.PrependScheme has it.
func (t *tokenizerJSON) spacePrefix() (prefix bool, scheme string, err error) {
	norm, pre := flatten(t.Normalizer), flatten(t.PreTokenizer)
	kinds := func(parts []component) string {
		var names []string
		for _, p := range parts {
			names = append(names, p.Type)
		}
		return strings.Join(names, " ")
	}
	form := kinds(norm) + "/" + kinds(pre)
	switch form {
	case "Prepend Replace/", "Replace/", "Replace/Split":
		replace := norm[len(norm)-1]
		if p, err := replace.pattern("String"); err != nil || p != " " || replace.Content != metaspace {
			return false, "", fmt.Errorf("normalizer: Replace does not turn spaces into %q", metaspace)
		}
		if len(norm) == 2 && norm[0].Prepend != metaspace {
			return false, "", fmt.Errorf("normalizer: Prepend of %q is not known", norm[0].Prepend)
		}
		if len(pre) == 1 {
			// Gemma's splits at spaces, of which the normalizer has left none.
			if p, err := pre[0].pattern("String"); err != nil || p != " " {
				return false, "", fmt.Errorf("pre_tokenizer: a Split is not known for SentencePiece BPE, but at spaces")
			}
		}
		return len(norm) == 2, "", nil
	case "/Metaspace":
		m := pre[0]
		if m.Replacement != metaspace || m.Split == nil || *m.Split {
			return false, "", fmt.Errorf("pre_tokenizer: Metaspace that splits at spaces, or has another sign than %q, is not known for BPE", metaspace)
		}
		switch {
		case m.Scheme == prependAlways, m.Scheme == prependFirst:
			return true, m.Scheme, nil
		case m.Scheme == "" && (m.AddPrefix == nil || *m.AddPrefix):
			return true, prependAlways, nil
		case m.Scheme == "never", m.Scheme == "":
			return false, "", nil
		}
		return false, "", fmt.Errorf("pre_tokenizer: Metaspace with prepend_scheme %q is not known", m.Scheme)
	}
	return false, "", fmt.Errorf("normalizer and pre_tokenizer (%s) are not known for SentencePiece BPE", form)
}

// looksSpecial reports markers that vendors often forget to flag.
func looksSpecial(text string) bool {
	wrapped := func(open, end string) bool { return strings.HasPrefix(text, open) && strings.HasSuffix(text, end) }
	return slices.Contains([]string{"<pad>", "<mask>", "<2mass>", "[@BOS@]"}, text) ||
		wrapped("<|", "|>") || wrapped("<｜", "｜>") || wrapped("<unused", ">")
}
