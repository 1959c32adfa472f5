package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"
)

const (
	contractions  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	gpt2Pattern   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	llama3Pattern = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Pattern  = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	upperLower    = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
	upperOnly     = `|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
	caseRest      = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekkenPattern = upperLower + upperOnly + `|\p{N}` + caseRest
	gpt4oPattern  = upperLower + contractions + `?` + upperOnly + contractions + `?|\p{N}{1,3}` + caseRest
	youtuPattern  = upperLower + contractions + `?` + upperOnly + contractions + `?|\p{N}` + caseRest
	v3Pattern     = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
	latinPattern  = "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
	symbolPattern = "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"
	hanPattern    = "[一-龥ࠀ-一가-\ud7ff]+"
	kanaPattern   = "[一-龥\u3040-ゟ゠-ヿ]+"
	bloomPattern  = ` ?[^(\s|.,!?…。，、।۔،)]+`
)

// patterns are what splits the words of each pre-tokenizer, one expression after the other, as tokenizer.json files have them.
var patterns = map[string][]string{
	"default":   {`[\p{P}\$\+<=>\^~\|]+`, gpt2Pattern, `\p{N}+`, `[0-9][0-9][0-9]`},
	"llama-bpe": {llama3Pattern},
	"dbrx":      {llama3Pattern},
	"glm4":      {llama3Pattern},
	"jais-2": {contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|` +
		`\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`},
	"minicpm5":   {`\p{N}{1,3}`, contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
	"qwen2":      {qwen2Pattern},
	"megrez":     {qwen2Pattern},
	"laguna":     {`[^\n]+|[\n]+`, qwen2Pattern},
	"ufakzeka":   {`[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
	"qwen35":     {contractions + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
	"seed-coder": {contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+`},
	// Possessive quantifiers are atomic groups here.
	"bailingmoe":              {`'(?i:[sdmt]|ll|ve|re)|(?>[^\r\n\p{L}\p{N}]?)\p{L}+|\p{N}| ?(?>[^\s\p{L}\p{N}]+)[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`},
	"exaone-moe":              {contractions + `|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`},
	"gpt-2":                   {gpt2Pattern},
	"trillion":                {gpt2Pattern},
	"falcon":                  {"[\\p{P}\\$\\+<=>\\^~\\|`]+", gpt2Pattern, `[0-9][0-9][0-9]`},
	"smollm":                  {`\p{N}`, gpt2Pattern},
	"starcoder":               {`\p{N}`, gpt2Pattern},
	"tekken":                  {tekkenPattern},
	"gpt-4o":                  {gpt4oPattern},
	"granite-embed-multi-97m": {gpt4oPattern},
	// The engine's \b is another one.
	"tiny_aya": {`\d{1,3}(?=(?:\d{3})*(?![\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}]))`, gpt4oPattern},
	"youtu":    {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+", youtuPattern},
	// Han is left out by look-ahead: this engine has no intersections.
	"kimi-k2": {`\p{Han}+|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+` + contractions +
		`?|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*` + contractions +
		`?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
	"deepseek-llm":   {`[\r\n]`, latinPattern, symbolPattern, `\s+$`, hanPattern, `\p{N}+`},
	"deepseek-coder": {`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, hanPattern, `\p{N}`},
	"deepseek-v3":    {`\p{N}{1,3}`, kanaPattern, v3Pattern + `[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
	"spark2_5":       {`\p{N}{1,3}`, kanaPattern, v3Pattern + `|[\r\n]|\s+(?!\S)|\s+`, `\p{N}`},
	"afmoe": {`\p{N}+`, `\p{N}{1,3}(?=(?:\p{N}{3})*$)`,
		"[一-鿿㐀-䶿\uf900-\ufaff\u3040-ゟ゠-ヿ･-ﾟ\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+",
		v3Pattern + `[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
	"bloom":                    {bloomPattern},
	"poro-chat":                {bloomPattern},
	"viking":                   {bloomPattern, `\p{N}`},
	"chameleon":                {`<sentinel:[0-9]+>`, `(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z`, `([\t\n]|    |  )`, `\p{N}`, "[\\p{P}!-/:-@\\[-`{-~]", gpt2Pattern},
	"superbpe":                 {`\p{N}+`, `(?=(\d{3})+(?!\d))`},
	"gemma4":                   {`[^\n]+|[\n]+`},
	"granite-embed-multi-311m": {`[^\n]+|[\n]+`},
	"sarvam-moe":               {`[^\n]+|[\n]+`},
	"whitespace":               {`\S+`},
}

// cutBy splits every piece at the matches of a pattern; what is between them is kept.
func cutBy(t *testing.T, re *regexp2.Regexp, pieces []string) []string {
	t.Helper()
	var out []string
	add := func(s string) {
		if s != "" {
			out = append(out, s)
		}
	}
	for _, piece := range pieces {
		found, err := re.FindAllStringIndex(piece, -1)
		if err != nil {
			t.Fatal(err)
		}
		end := 0
		for _, m := range found {
			add(piece[end:m[0]])
			add(piece[m[0]:m[1]])
			end = m[1]
		}
		add(piece[end:])
	}
	return out
}

// Every pre-tokenizer cuts random text, and the first 4 KiB of long runs, as a regular expression engine does by its patterns (field report R073).
func TestPatterns(t *testing.T) {
	alphabet := []rune("aZé中ſſssStTrReEvVmMlLdD''''  \t\n\r\u00a0\u2003\u0085019٣½Ⅷ.,!-$+<>^~|`_#/👧ÉÉéʰʰǅ\u0301\u200d\ufffdカ가ㄅ、，。\u3000々〇あไขᄀ(؟۔")
	digits := []rune("0123456789 12a.½")
	rng := rand.New(rand.NewPCG(1, 2))
	var texts []string
	random := func(n int, from []rune) {
		for range n {
			var b strings.Builder
			for range rng.IntN(20) {
				b.WriteRune(from[rng.IntN(len(from))])
			}
			texts = append(texts, b.String())
		}
	}
	random(2000, alphabet)
	random(500, digits)
	for _, unit := range longUnits {
		texts = append(texts, strings.Repeat(unit, 4096/len(unit)), strings.Repeat(unit, 700)+"x")
	}
	texts = append(texts, "<sentinel:12>IMGIMGABCZ    IMGIMGABCDEZ<sentinel:>", "123456 1234567a 12345678_ 1234567")
	for i := range preTokenizers {
		p := &preTokenizers[i]
		name := p.names[0]
		if len(patterns[name]) == 0 {
			t.Errorf("%s: no patterns to compare with", name)
			continue
		}
		var stages []*regexp2.Regexp
		for _, s := range patterns[name] {
			re, err := regexp2.Compile(s, regexp2.None)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			stages = append(stages, re)
		}
		checkCuts(t, p, texts, stages)
	}
}

// checkCuts fails unless a pre-tokenizer cuts texts as expressions do, one after the other.
func checkCuts(t *testing.T, p *preTokenizer, texts []string, stages []*regexp2.Regexp) {
	t.Helper()
	for _, text := range texts {
		want := []string{text}
		for _, re := range stages {
			want = cutBy(t, re, want)
		}
		var got []string
		p.split(text, func(word string) bool { got = append(got, word); return true })
		if text != "" && !slices.Equal(got, want) {
			t.Errorf("%s: %.100q: %.300q, want %.300q", p.names[0], text, got, want)
			break
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
