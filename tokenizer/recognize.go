package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// Split patterns by the name of the stage that does the same. Several spellings of one pattern may be listed.
var knownPatterns = map[string]string{
	`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`:                                                                                                                                                                                                         "gpt2",
	`'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`:                                                                                                                                                                                                            "gpt2",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                                                "llama3",
	`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                                                       "llama3",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                                                     "qwen2",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                                                  "qwen2",
	`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                   "llama3",
	`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                                                                                        "qwen2",
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                                                                "tekken",
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`: "gpt-4o",
	`\p{N}`: "digits",
}

// knownPre maps the canonical form of a byte-level BPE tokenizer, with ignore_merges, to tokenizer.ggml.pre. Several names may split alike: the
// one of the model's own family (model_type of config.json) comes first.
var knownPre = []struct {
	stages       string
	ignoreMerges bool
	modelType    string // "" for any
	pre          string
}{
	{"gpt2", false, "", "gpt-2"},
	{"llama3", true, "", "llama-bpe"},
	{"llama3", false, "", "dbrx"},
	{"qwen2", false, "", "qwen2"},
	{"digits gpt2", false, "starcoder2", "starcoder"},
	{"digits gpt2", false, "", "smollm"},
	{"tekken", true, "", "tekken"},
	{"gpt-4o", false, "", "gpt-4o"},
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
	var stages []string
	parts := flatten(t.PreTokenizer)
	if len(parts) == 0 || parts[len(parts)-1].Type != "ByteLevel" {
		return "", fmt.Errorf("pre_tokenizer: it does not end in ByteLevel, so the tokenizer is not a byte-level one")
	}
	for i, p := range parts {
		stage, err := p.stage(i == len(parts)-1)
		if err != nil {
			return "", fmt.Errorf("pre_tokenizer, part %d: %w", i, err)
		}
		if stage != "" {
			stages = append(stages, stage)
		}
	}
	form := strings.Join(stages, " ")
	for _, k := range knownPre {
		if k.stages == form && k.ignoreMerges == t.Model.IgnoreMerges && (k.modelType == "" || k.modelType == modelType) {
			return k.pre, nil
		}
	}
	return "", fmt.Errorf("pre_tokenizer: no known pre-tokenizer splits by %q with ignore_merges %v", form, t.Model.IgnoreMerges)
}

// stage is the canonical name of one part of a pre-tokenizer; "" if it splits nothing.
func (c *component) stage(last bool) (string, error) {
	switch c.Type {
	case "ByteLevel":
		if !last {
			return "", fmt.Errorf("ByteLevel is not the last part")
		}
		if c.AddPrefix != nil && *c.AddPrefix {
			return "", fmt.Errorf("ByteLevel puts a space before the text (add_prefix_space), which GGUF cannot say")
		}
		if c.UseRegex == nil || *c.UseRegex {
			return "gpt2", nil
		}
		return "", nil
	case "Digits":
		if c.Individual {
			return "digits", nil
		}
		return "", fmt.Errorf("individual_digits false is not known for Digits")
	case "Split":
		pattern, err := c.pattern("Regex")
		if err != nil {
			return "", err
		}
		// Every known pattern but the one for digits matches all of a text, so that keeping only its matches is the same as isolating them.
		name, ok := knownPatterns[pattern]
		isolated := c.Behavior == "Isolated" || c.Behavior == "Removed" && c.Invert && name != "digits"
		if !ok || !isolated {
			return "", fmt.Errorf("the pattern %q of Split (%s, invert %v) is not known", pattern, c.Behavior, c.Invert)
		}
		return name, nil
	}
	return "", fmt.Errorf("the part %s is not known", c.Type)
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
