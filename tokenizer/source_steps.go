package tokenizer

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
	"golang.org/x/text/unicode/norm"
)

// normalStep is one part of a normalizer.
type normalStep func(text string) (string, error)

// Bounds on what a file may ask for.
const (
	matchTimeout   = 5 * time.Second       // of an expression for one match, and for all of them in a piece of text
	timePerByte    = 10 * time.Microsecond // of that text, besides
	matchesPerLook = 1 << 10               // at the clock
	mostPattern    = 1 << 14               // bytes of an expression; the longest known one has 900
	mostParts      = 100                   // of a normalizer or a pre-tokenizer
)

func pure(f func(string) string) normalStep {
	return func(s string) (string, error) { return f(s), nil }
}

// stepsOf makes a step of each part of a normalizer or a pre-tokenizer.
func stepsOf[S any](parts []component, stepOf func(*component) (S, error)) ([]S, error) {
	var steps []S
	if len(parts) > mostParts {
		return nil, fmt.Errorf("%d parts, at most %d", len(parts), mostParts)
	}
	for i := range parts {
		step, err := stepOf(&parts[i])
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i, err)
		}
		steps = append(steps, step)
	}
	return steps, nil
}

func normalizerOf(c *component) (normalStep, error) {
	form := func(f norm.Form) (normalStep, error) {
		return pure(func(s string) string { return unjoined(f.String(s), s) }), nil
	}
	switch c.Type {
	case "NFC":
		return form(norm.NFC)
	case "NFD":
		return form(norm.NFD)
	case "NFKC":
		return form(norm.NFKC)
	case "NFKD":
		return form(norm.NFKD)
	case "Lowercase":
		return pure(strings.ToLower), nil
	case "StripAccents":
		return pure(func(s string) string { return without(s, unicode.Mn) }), nil
	case "Strip":
		return pure(func(s string) string {
			if c.StripLeft == nil || *c.StripLeft {
				s = strings.TrimLeftFunc(s, unicode.IsSpace)
			}
			if c.StripRight == nil || *c.StripRight {
				s = strings.TrimRightFunc(s, unicode.IsSpace)
			}
			return s
		}), nil
	case "Prepend":
		return pure(func(s string) string {
			if s == "" {
				return s
			}
			return c.Prepend + s
		}), nil
	case "Replace":
		return replaceStep(c)
	case "Precompiled":
		data, err := base64.StdEncoding.DecodeString(c.CharsMap)
		if err != nil {
			return nil, err
		}
		chars, err := newCharsMap(data)
		if err != nil {
			return nil, err
		}
		return chars.replace, nil
	case "BertNormalizer":
		return bertStep(c), nil
	}
	return nil, fmt.Errorf("%s is not known", c.Type)
}

func without(s string, t *unicode.RangeTable) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(t, r) {
			return -1
		}
		return r
	}, s)
}

func replaceStep(c *component) (normalStep, error) {
	if p, err := c.pattern("String"); err == nil {
		return func(s string) (string, error) {
			n := strings.Count(s, p)
			if err := checkGrowth(int64(len(s))+int64(n)*int64(len(c.Content)-len(p)), len(s)); err != nil {
				return "", err
			}
			return strings.ReplaceAll(s, p, c.Content), nil
		}, nil
	}
	re, err := c.expression()
	if err != nil {
		return nil, err
	}
	return func(s string) (string, error) {
		var out strings.Builder
		var grown error
		err := matches(re, s, func(part string, match bool) {
			if match {
				part = c.Content
			}
			if grown = cmp.Or(grown, checkGrowth(int64(out.Len()+len(part)), len(s))); grown == nil {
				out.WriteString(part)
			}
		})
		return out.String(), cmp.Or(err, grown)
	}, nil
}

// bertStep is the four things that BERT's normalizer does, in their order.
func bertStep(c *component) normalStep {
	yes := func(b *bool) bool { return b == nil || *b }
	lower := yes(c.Lowercase)
	strip := lower
	if c.StripAccents != nil {
		strip = *c.StripAccents
	}
	return pure(func(s string) string {
		if yes(c.CleanText) {
			s = strings.Map(func(r rune) rune {
				switch {
				case unicode.IsSpace(r):
					return ' '
				case r == utf8.RuneError, unicode.Is(unicode.C, r):
					return -1
				}
				return r
			}, s)
		}
		if yes(c.ChineseChars) {
			var out strings.Builder
			for _, r := range s {
				if isIdeograph(r) {
					out.WriteString(" " + string(r) + " ")
				} else {
					out.WriteRune(r)
				}
			}
			s = out.String()
		}
		if strip {
			s = without(unjoined(norm.NFD.String(s), s), unicode.Mn)
		}
		if lower {
			s = strings.ToLower(strings.ReplaceAll(s, "İ", "i\u0307"))
		}
		return s
	})
}

// splitStep is one part of a pre-tokenizer. start is set at the start of the whole text.
type splitStep func(pieces []string, start bool) ([]string, error)

func splitterOf(c *component) (splitStep, error) {
	switch c.Type {
	case "Split":
		if p, err := c.pattern("String"); err == nil {
			return splitBy(regexp2.Escape(p), c.Behavior, c.Invert)
		}
		p, err := c.oniguruma()
		if err != nil {
			return nil, err
		}
		return splitBy(p, c.Behavior, c.Invert)
	case "Digits":
		if c.Individual {
			return splitBy(`\p{N}`, "Isolated", false)
		}
		return splitBy(`\p{N}+`, "Isolated", false)
	case "Punctuation":
		behavior := c.Behavior
		if behavior == "" {
			behavior = "Isolated"
		}
		return splitBy("[\\p{P}!-/:-@\\[-`{-~]", behavior, false)
	case "Whitespace":
		return splitBy(`\w+|[^\w\s]+`, "Removed", true)
	case "WhitespaceSplit":
		return splitBy(`\s`, "Removed", false)
	case "BertPreTokenizer":
		spaces, err := splitBy(`\s`, "Removed", false)
		if err != nil {
			return nil, err
		}
		marks, err := splitBy("[\\p{P}!-/:-@\\[-`{-~]", "Isolated", false)
		if err != nil {
			return nil, err
		}
		return func(pieces []string, start bool) ([]string, error) {
			pieces, err := spaces(pieces, start)
			if err != nil {
				return nil, err
			}
			return marks(pieces, start)
		}, nil
	case "ByteLevel":
		return byteStep(c)
	case "Metaspace":
		return metaspaceStep(c)
	}
	return nil, fmt.Errorf("%s is not known", c.Type)
}

// byteStep puts a space before the text if it should, cuts by GPT-2's expression, and spells bytes.
func byteStep(c *component) (splitStep, error) {
	gpt2, err := splitBy(`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`, "Isolated", false)
	if err != nil {
		return nil, err
	}
	return func(pieces []string, start bool) ([]string, error) {
		var err error
		if c.AddPrefix == nil || *c.AddPrefix {
			for i, p := range pieces {
				if p != "" && p[0] != ' ' {
					pieces[i] = " " + p
				}
			}
		}
		if c.UseRegex == nil || *c.UseRegex {
			if pieces, err = gpt2(pieces, start); err != nil {
				return nil, err
			}
		}
		for i, p := range pieces {
			spelled := make([]byte, 0, 2*len(p))
			for k := range len(p) {
				spelled = utf8.AppendRune(spelled, byteRunes[p[k]])
			}
			pieces[i] = string(spelled)
		}
		return pieces, nil
	}, nil
}

// metaspaceStep writes spaces as another sign, puts one before the text if it should, and cuts before each.
func metaspaceStep(c *component) (splitStep, error) {
	sign := c.Replacement
	scheme := c.Scheme
	if scheme == "" {
		if scheme = prependAlways; c.AddPrefix != nil && !*c.AddPrefix {
			scheme = "never"
		}
	}
	if utf8.RuneCountInString(sign) != 1 {
		return nil, fmt.Errorf("a replacement of %d characters of Metaspace is not known, it takes one", utf8.RuneCountInString(sign))
	}
	cut, err := splitBy(regexp2.Escape(sign), "MergedWithNext", false)
	if err != nil {
		return nil, err
	}
	return func(pieces []string, start bool) ([]string, error) {
		for i, p := range pieces {
			p = strings.ReplaceAll(p, " ", sign)
			if !strings.HasPrefix(p, sign) && (scheme == prependAlways || scheme == prependFirst && start && i == 0) {
				p = sign + p
			}
			pieces[i] = p
		}
		if c.Split != nil && !*c.Split {
			return pieces, nil
		}
		return cut(pieces, start)
	}, nil
}

// expression is the compiled pattern of a part.
func (c *component) expression() (*regexp2.Regexp, error) {
	p, err := c.oniguruma()
	if err != nil {
		return nil, err
	}
	return compile(p)
}

// oniguruma is the expression of a part as this engine writes it.
func (c *component) oniguruma() (string, error) {
	p, err := c.pattern("Regex")
	if err == nil && len(p) > mostPattern {
		err = fmt.Errorf("an expression of %d bytes, at most %d", len(p), mostPattern)
	}
	if err != nil {
		return "", err
	}
	return fromOniguruma(p), nil
}

func compile(pattern string) (*regexp2.Regexp, error) {
	if len(pattern) > mostPattern {
		return nil, fmt.Errorf("an expression of %d bytes, at most %d", len(pattern), mostPattern)
	}
	re, err := regexp2.Compile(pattern, regexp2.None)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = matchTimeout
	return re, nil
}

// errSlow is an expression that takes far longer than those of known tokenizers, which read some megabytes a second.
var errSlow = errors.New("it takes too long")

// matches calls f with every match in s, and with what is between them. An empty match that touches the one before is none.
func matches(re *regexp2.Regexp, s string, f func(part string, match bool)) error {
	deadline := time.Now().Add(matchTimeout + time.Duration(len(s))*timePerByte)
	end, rest := 0, 0    // where the match before ends, and the next one is looked for, in bytes
	runes, last := 0, -1 // rest, and end, in runes
	found, slow := 0, false
	err := re.FindRunesMatches([]rune(s), 0, func(m regexp2.MatchView) bool {
		first, n, _ := m.GroupRange(0)
		if found++; found%matchesPerLook == 0 && time.Now().After(deadline) {
			slow = true
			return false
		}
		if n == 0 && first == last {
			return true
		}
		start := rest + bytesOf(s[rest:], first-runes)
		if start > end {
			f(s[end:start], false)
		}
		rest = start + bytesOf(s[start:], n)
		runes = first + n
		end, last = rest, runes
		f(s[start:end], true)
		return true
	})
	if slow {
		err = errSlow
	}
	if err != nil {
		// The engine quotes the whole text.
		why, _, _ := strings.Cut(err.Error(), " on input")
		const shown = 100
		return fmt.Errorf("the expression %.*q gives up on %d bytes of text: %s\nhint: the file's tokenizer is broken, or made to take all time; shorter lines may help", shown, re.String(), len(s), why)
	}
	if end < len(s) {
		f(s[end:], false)
	}
	return nil
}

// bytesOf is the length of the first n runes of a text in bytes.
func bytesOf(s string, n int) int {
	at := 0
	for range n {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return at
}

// splitBy cuts at the matches of a pattern, or at what is between them if inverted, and does with them what behavior says.
func splitBy(pattern, behavior string, invert bool) (splitStep, error) {
	re, err := compile(pattern)
	if err != nil {
		return nil, err
	}
	switch behavior {
	case "Removed", "Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext":
	default:
		return nil, fmt.Errorf("the behavior %q is not known", behavior)
	}
	return func(pieces []string, _ bool) ([]string, error) {
		var out []string
		for _, p := range pieces {
			var last bool     // the piece before was a cut
			open := false     // the piece before may be continued
			start, at := 0, 0 // where the piece before starts, and where the part at hand ends: all parts together are p
			err := matches(re, p, func(part string, match bool) {
				at += len(part)
				match = match != invert
				joined := open && (behavior == "Contiguous" && match == last || behavior == "MergedWithPrevious" && match && !last || behavior == "MergedWithNext" && last)
				switch {
				case behavior == "Removed" && match:
				case joined:
					out[len(out)-1] = p[start:at]
				default:
					out = append(out, part)
					start = at - len(part)
				}
				open = behavior != "Removed"
				last = match
				if behavior == "MergedWithNext" && joined && !match {
					last = false
				}
			})
			if err != nil {
				return nil, err
			}
		}
		return out, nil
	}, nil
}
