package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"
)

// patterns are what the stages match, as tokenizer.json files have them.
var patterns = map[string]struct {
	stage   stage
	pattern string
}{
	"gpt2":    {gpt2Word, `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`},
	"llama3":  {llama3Word, `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
	"qwen2":   {qwen2Word, `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
	"tekken":  {tekkenWord, `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
	"gpt-4o":  {gpt4oWord, `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
	"digit":   {singleNumbers, `\p{N}|[^\p{N}]+`},
	"digits":  {numberRuns, `\p{N}+|[^\p{N}]+`},
	"three":   {threeDigits, `[0-9][0-9][0-9]|(?:(?![0-9][0-9][0-9])[\s\S])+`},
	"symbols": {symbolRuns, `[\p{P}\$\+<=>\^~\|]+|[^\p{P}\$\+<=>\^~\|]+`},
	"falcon":  {falconSymbols, "[\\p{P}\\$\\+<=>\\^~\\|`]+|[^\\p{P}\\$\\+<=>\\^~\\|`]+"},
}

// The hand-written stages cut random text as a regular expression engine does.
func TestStages(t *testing.T) {
	alphabet := []rune("aZé中ſſssStTrReEvVmMlLdD''''  \t\n\r\u00a0\u2003\u0085019٣½Ⅷ.,!-$+<>^~|`_#/👧ÉÉéʰʰǅ\u0301\u200d\ufffd")
	rng := rand.New(rand.NewPCG(1, 2))
	for name, p := range patterns {
		re, err := regexp2.Compile(p.pattern, regexp2.None)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for range 3000 {
			var b strings.Builder
			for range rng.IntN(20) {
				b.WriteRune(alphabet[rng.IntN(len(alphabet))])
			}
			texts = append(texts, b.String())
		}
		for _, unit := range longUnits {
			texts = append(texts, strings.Repeat(unit, 4096/len(unit)))
		}
		for _, text := range texts {
			var got, want []string
			for rest := text; rest != ""; {
				n := p.stage(rest)
				got = append(got, rest[:n])
				rest = rest[n:]
			}
			m, err := re.FindStringMatch(text)
			for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
				want = append(want, m.String())
			}
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("%s: %.100q: %.200q, want %.200q (%v)", name, text, got, want, err)
			}
		}
	}
}

// Folding case makes U+017F an s: Oniguruma, which models' own tokenizers use, does so.
func TestLongS(t *testing.T) {
	for _, c := range []struct {
		stage stage
		want  int
	}{{llama3Word, 3}, {qwen2Word, 3}, {gpt2Word, 1}} {
		if got := c.stage("'\u017fa"); got != c.want {
			t.Errorf("%d bytes, want %d", got, c.want)
		}
	}
}
