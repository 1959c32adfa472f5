package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
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
}

// stage is the length in bytes of the first piece of s, which is not empty and valid UTF-8. Stages look at each
// character a bounded number of times and keep no stack.
type stage func(s string) int

// preTokenizers is the table of supported values. The patterns that stages match are written at the stages.
var preTokenizers = []preTokenizer{
	{names: []string{"default"}, stages: []stage{symbolRuns, gpt2Word, numberRuns, threeDigits}, cleanSpaces: true},
	{names: []string{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
		stages: []stage{llama3Word}, ignoreMerges: true, addBOS: true, cleanSpaces: true},
	{names: []string{"dbrx", "smaug-bpe", "chatglm-bpe"}, stages: []stage{llama3Word}, cleanSpaces: true},
	{names: []string{"glm4"}, stages: []stage{llama3Word}, ignoreMerges: true, cleanSpaces: true},
	{names: []string{"qwen2", "deepseek-r1-qwen", "hunyuan"}, stages: []stage{qwen2Word}},
	{names: []string{"megrez", "stablelm2"}, stages: []stage{qwen2Word}, cleanSpaces: true},
	{names: []string{"gpt-2", "phi-2", "mpt", "olmo", "jais", "gigachat", "exaone4"}, stages: []stage{gpt2Word}, cleanSpaces: true},
	{names: []string{"falcon"}, stages: []stage{falconSymbols, gpt2Word, threeDigits}, cleanSpaces: true},
	{names: []string{"trillion", "granite-docling"}, stages: []stage{gpt2Word}},
	{names: []string{"smollm", "command-r"}, stages: []stage{singleNumbers, gpt2Word}},
	{names: []string{"starcoder", "refact", "codeshell", "exaone", "minerva-7b"}, stages: []stage{singleNumbers, gpt2Word}, cleanSpaces: true},
	{names: []string{"tekken"}, stages: []stage{tekkenWord}, ignoreMerges: true, addBOS: true},
	{names: []string{"gpt-4o", "llama4", "kanana2", "minimax-m2"}, stages: []stage{gpt4oWord}},
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

// Classes of characters.
const (
	other   uint8 = iota // [^\s\p{L}\p{N}]
	letter               // \p{L}
	number               // \p{N}
	space                // \s but for line ends
	newline              // [\r\n]
)

var asciiClass = func() (c [utf8.RuneSelf]uint8) {
	for b := range c {
		c[b] = classOf(rune(b))
	}
	return c
}()

func classOf(r rune) uint8 {
	switch {
	case r == '\r' || r == '\n':
		return newline
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// at is the class and the length of the character at s[i:]; the length is 0 at the end.
func at(s string, i int) (class uint8, n int) {
	if i >= len(s) {
		return other, 0
	}
	if s[i] < utf8.RuneSelf {
		return asciiClass[s[i]], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return classOf(r), n
}

// run is the end of the run of characters of class c that starts at s[i:].
func run(s string, i int, c uint8) int {
	for {
		class, n := at(s, i)
		if n == 0 || class != c {
			return i
		}
		i += n
	}
}

// whitespace is the length of the run of \s at the start of s, the start of its last character, and the end of its last line end (0 if none).
func whitespace(s string) (end, last, lineEnd int) {
	for {
		class, n := at(s, end)
		if n == 0 || class != space && class != newline {
			return end, last, lineEnd
		}
		last = end
		end += n
		if class == newline {
			lineEnd = end
		}
	}
}

// contraction is the length of 's, 't, 're, 've, 'm, 'll or 'd at the start of s, else 0. With fold case does not matter, which makes
// U+017F an s.
func contraction(s string, fold bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	lower := func(i int) byte {
		if i >= len(s) {
			return 0
		}
		if fold && s[i] >= 'A' && s[i] <= 'Z' {
			return s[i] | 0x20
		}
		return s[i]
	}
	switch lower(1) {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if lower(2) == 'e' {
			return 3
		}
	case 'l':
		if lower(2) == 'l' {
			return 3
		}
	}
	if fold && strings.HasPrefix(s[1:], "\u017f") {
		return 1 + len("\u017f")
	}
	return 0
}

// gpt2Word: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func gpt2Word(s string) int {
	if n := contraction(s, false); n > 0 {
		return n
	}
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	class, n := at(s, i)
	if n > 0 && (class == letter || class == number || class == other) {
		return run(s, i, class)
	}
	return spaces(s)
}

// spaces: \s+(?!\S)|\s+ where s starts with whitespace: the last of several characters is left to the word behind them.
func spaces(s string) int {
	end, last, _ := whitespace(s)
	if last > 0 && end < len(s) {
		return last
	}
	return end
}

// llama3Word: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func llama3Word(s string) int { return modernWord(s, 3) }

// qwen2Word is llama3Word with \p{N} for \p{N}{1,3}.
func qwen2Word(s string) int { return modernWord(s, 1) }

func modernWord(s string, digits int) int {
	if n := contraction(s, true); n > 0 {
		return n
	}
	class, n := at(s, 0)
	switch class {
	case letter:
		return run(s, n, letter)
	case other, space:
		if next, k := at(s, n); k > 0 && next == letter {
			return run(s, n+k, letter)
		}
	}
	return noWord(s, digits, "\r\n")
}

// noWord: \p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[tail]*|\s*[\r\n]+|\s+(?!\S)|\s+ where none of the earlier alternatives matches at s, which does not
// start with a letter.
func noWord(s string, digits int, tail string) int {
	class, n := at(s, 0)
	if class == number {
		for range digits - 1 {
			next, k := at(s, n)
			if k == 0 || next != number {
				break
			}
			n += k
		}
		return n
	}
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	if end := run(s, i, other); end > i {
		for end < len(s) && strings.IndexByte(tail, s[end]) >= 0 {
			end++
		}
		return end
	}
	if _, _, lineEnd := whitespace(s); lineEnd > 0 {
		return lineEnd
	}
	return spaces(s)
}

// isolate makes a stage that cuts out runs of characters of a set, at most limit characters long (0: any length);
// what is between them stays together.
func isolate(in func(r rune) bool, limit int) stage {
	return func(s string) int {
		first := true
		inside, count := false, 0
		for i, r := range s {
			is := in(r)
			if first {
				first, inside = false, is
			} else if is != inside || is && count == limit {
				return i
			}
			count++
		}
		return len(s)
	}
}

var (
	// singleNumbers: \p{N}
	singleNumbers = isolate(unicode.IsNumber, 1)
	// numberRuns: \p{N}+
	numberRuns = isolate(unicode.IsNumber, 0)
	// symbolRuns: [\p{P}\$\+<=>\^~\|]+
	symbolRuns = isolate(func(r rune) bool { return unicode.IsPunct(r) || strings.ContainsRune("$+<=>^~|", r) }, 0)
	// falconSymbols: [\p{P}\$\+<=>\^~\|`]+
	falconSymbols = isolate(func(r rune) bool { return unicode.IsPunct(r) || strings.ContainsRune("$+<=>^~|`", r) }, 0)
)

// threeDigits: [0-9][0-9][0-9]
func threeDigits(s string) int {
	digits := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			digits = 0
			continue
		}
		if digits++; digits == 3 {
			if i == 2 {
				return 3
			}
			return i - 2
		}
	}
	return len(s)
}
