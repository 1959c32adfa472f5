package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// preTokenizer is one value of tokenizer.ggml.pre: how text is cut into words before BPE merges within each.
type preTokenizer struct {
	names []string
	// stages cut one after the other, each the pieces of the one before.
	stages []stage
	// ignoreMerges takes a word that is a token as it is, without merging up to it.
	ignoreMerges bool
	// addBOS is the default when the file does not say.
	addBOS bool
	// cleanSpaces: see Tokenizer.CleanSpaces.
	cleanSpaces bool
	// raw vocabularies hold text as it is, not GPT-2's spelling of bytes; escapeSpaces ones have U+2581 for a space.
	raw, escapeSpaces bool
	// wholeNewlines takes a run of line feeds that is a token without merging up to it.
	wholeNewlines bool
}

// stage is the length in bytes of the first piece of s, which is not empty and valid UTF-8. Stages look at each
// character a bounded number of times and keep no stack.
type stage func(s string) int

// preTokenizers is the table of supported values. The patterns that stages match are written at the stages.
var preTokenizers = []preTokenizer{
	{names: []string{"default"}, stages: []stage{symbolRuns, gpt2Word, numberRuns, threeDigits}, cleanSpaces: true},
	{names: []string{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
		stages: []stage{llama3Word}, ignoreMerges: true, addBOS: true, cleanSpaces: true},
	{names: []string{"dbrx", "smaug-bpe", "chatglm-bpe"}, stages: []stage{llama3Word}, cleanSpaces: true},
	{names: []string{"glm4", "glm5"}, stages: []stage{llama3Word}, ignoreMerges: true, cleanSpaces: true},
	{names: []string{"jais-2"}, stages: []stage{llama3Word, cascade}, cleanSpaces: true},
	{names: []string{"minicpm5"}, stages: []stage{threeNumbers, minicpm5Word}, ignoreMerges: true, cleanSpaces: true},
	{names: []string{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "hunyuan", "solar-open", "grok-2"}, stages: []stage{qwen2Word}},
	{names: []string{"megrez", "stablelm2"}, stages: []stage{qwen2Word}, cleanSpaces: true},
	{names: []string{"laguna"}, stages: []stage{lines, qwen2Word}},
	{names: []string{"ufakzeka"}, stages: []stage{ufakzekaWord}},
	{names: []string{"qwen35"}, stages: []stage{qwen35Word}},
	{names: []string{"seed-coder"}, stages: []stage{seedCoderWord}},
	{names: []string{"bailingmoe", "bailingmoe2", "llada-moe"}, stages: []stage{qwen2Word}}, // its pattern is written otherwise
	{names: []string{"exaone-moe"}, stages: []stage{exaoneMoEWord}, cleanSpaces: true},
	{names: []string{"gpt-2", "phi-2", "mpt", "olmo", "jais", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "a.x-4.0", "mellum",
		"modern-bert", "exaone4", "jina-v1-en", "jina-v2-code", "roberta-bpe"}, stages: []stage{gpt2Word}, cleanSpaces: true},
	{names: []string{"trillion", "granite-docling"}, stages: []stage{gpt2Word}},
	{names: []string{"falcon"}, stages: []stage{falconSymbols, gpt2Word, threeDigits}, cleanSpaces: true},
	{names: []string{"smollm", "command-r"}, stages: []stage{singleNumbers, gpt2Word}},
	{names: []string{"starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"}, stages: []stage{singleNumbers, gpt2Word}, cleanSpaces: true},
	{names: []string{"tekken"}, stages: []stage{tekkenWord}, ignoreMerges: true, addBOS: true},
	{names: []string{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, stages: []stage{gpt4oWord}},
	{names: []string{"granite-embed-multi-97m"}, stages: []stage{gpt4oWord}, ignoreMerges: true},
	{names: []string{"tiny_aya", "cohere2moe"}, stages: []stage{boundedThrees, digitThrees, gpt4oWord}},
	{names: []string{"youtu"}, stages: []stage{youtuScripts, youtuWord}, ignoreMerges: true},
	{names: []string{"kimi-k2"}, stages: []stage{kimiWord}},
	{names: []string{"deepseek-llm"}, stages: []stage{newlines, latinWord, deepseekSymbols, trailingSpaces, hanRuns, numberRuns}},
	{names: []string{"deepseek-coder"}, stages: []stage{newlines, spacedLetters, spacedPunctuation, hanRuns, singleNumbers}},
	{names: []string{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, stages: []stage{threeNumbers, kanaRuns, deepseekV3Word}},
	{names: []string{"spark2_5"}, stages: []stage{threeNumbers, kanaRuns, sparkWord, singleNumbers}},
	{names: []string{"afmoe"}, stages: []stage{numberRuns, rightThrees, numberThrees, asianRuns, deepseekV3Word}},
	{names: []string{"bloom", "gpt3-finnish"}, stages: []stage{bloomWord}, cleanSpaces: true},
	{names: []string{"poro-chat"}, stages: []stage{bloomWord}},
	{names: []string{"viking"}, stages: []stage{bloomWord, singleNumbers}},
	{names: []string{"chameleon"}, stages: []stage{regular(`<sentinel:[0-9]+>`), regular(`IMGIMG[A-I]{1,4}Z`), regular(`[\t\n]|    |  `),
		singleNumbers, singlePunctuation, gpt2Word}, addBOS: true},
	{names: []string{"superbpe"}, stages: []stage{numberRuns, superThrees, digitThrees}},
	{names: []string{"gemma4"}, stages: []stage{lines}, raw: true, escapeSpaces: true, wholeNewlines: true, cleanSpaces: true},
	{names: []string{"granite-embed-multi-311m"}, stages: []stage{lines}, raw: true, escapeSpaces: true, cleanSpaces: true},
	{names: []string{"sarvam-moe"}, stages: []stage{lines}, raw: true, escapeSpaces: true},
	{names: []string{"whitespace"}, stages: []stage{solidRuns}, raw: true, cleanSpaces: true},
}

// preByName finds a pre-tokenizer; no name at all means "default".
func preByName(name string) (*preTokenizer, error) {
	if name == "" {
		name = "default"
	}
	var known []string
	for i := range preTokenizers {
		if slices.Contains(preTokenizers[i].names, name) {
			return &preTokenizers[i], nil
		}
		known = append(known, preTokenizers[i].names...)
	}
	slices.Sort(known)
	return nil, fmt.Errorf("tokenizer.ggml.pre: pre-tokenizer %q is not supported\nhint: supported are %s", name, strings.Join(known, ", "))
}

// split hands out the words of text one by one, until yield returns false.
func (p *preTokenizer) split(text string, yield func(word string) bool) {
	splitStages(p.stages, text, yield)
}

func splitStages(stages []stage, text string, yield func(string) bool) bool {
	if len(stages) == 0 {
		return yield(text)
	}
	for text != "" {
		n := stages[0](text)
		if !splitStages(stages[1:], text[:n], yield) {
			return false
		}
		text = text[n:]
	}
	return true
}
