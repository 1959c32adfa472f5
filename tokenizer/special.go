package tokenizer

import (
	"slices"
	"strings"
	"unicode"
)

// Texts of tokens that end a turn or a text whatever their type says; GGUF files name at most three of them by id.
var eogTexts = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>", "</s>",
	"<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
	"<｜end▁of▁sentence｜>", "[e~[",
	// Fill-in-the-middle: a model that starts the next file or pads has finished this one.
	"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]",
	"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>",
}

// Texts of other markers that must never be split.
var markerTexts = []string{
	"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>",
	"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>",
	"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>",
}

// typesByText is the vocabulary's list of types with the well-known markers made Control: many files leave them Normal.
func (v *Vocab) typesByText() []TokenType {
	types := make([]TokenType, len(v.Tokens))
	for i := range types {
		types[i] = v.typeOf(i)
		if slices.Contains(eogTexts, v.Tokens[i]) || slices.Contains(markerTexts, v.Tokens[i]) {
			types[i] = Control
		}
	}
	return types
}

// eogIDs is every id that ends a generation: those that the file names, and those whose text says so.
func (v *Vocab) eogIDs() []int32 {
	ids := slices.Clone(v.EOG)
	for _, id := range []int32{v.EOS, v.EOT, v.EOM} {
		if id >= 0 {
			ids = append(ids, id)
		}
	}
	for i, s := range v.Tokens {
		if slices.Contains(eogTexts, s) {
			ids = append(ids, int32(i))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// specials finds special tokens in text.
type specials struct {
	types  []TokenType
	tokens *trie
	// starts tells which bytes begin a token: of any kind, and of those that are atomic always.
	starts, atomic [256]bool
	// Tokens that swallow the white space on one side.
	lstrip, rstrip map[int32]bool
}

func newSpecials(v *Vocab, types []TokenType) *specials {
	s := &specials{types: types, tokens: newTrie(), lstrip: setOf(v.LStrip), rstrip: setOf(v.RStrip)}
	for i, text := range v.Tokens {
		if text == "" || types[i] != Control && types[i] != UserDefined && types[i] != Unknown {
			continue
		}
		s.tokens.add(text, int32(i))
		s.starts[text[0]] = true
		s.atomic[text[0]] = s.atomic[text[0]] || types[i] == UserDefined
	}
	s.tokens.freeze()
	return s
}

func setOf(ids []int32) map[int32]bool {
	set := make(map[int32]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// fragment is a special token, or text between special tokens (id -1).
type fragment struct {
	text string
	id   int32
}

type match struct{ start, end, id int32 }

// split cuts text at its special tokens. Without control only user-defined tokens count, which are atomic always.
// Longer tokens are taken first wherever they stand, equally long ones from the left. White space that a token swallows is in no fragment.
func (s *specials) split(text string, control bool) []fragment {
	if text == "" {
		return nil
	}
	found := s.find(text, control)
	if len(found) == 0 {
		return []fragment{{text, -1}}
	}
	slices.SortFunc(found, func(a, b match) int {
		if d := (b.end - b.start) - (a.end - a.start); d != 0 {
			return int(d)
		}
		return int(a.start - b.start)
	})
	taken := make([]bool, len(text))
	kept := found[:0]
	for _, m := range found {
		// No match that was taken before is shorter than this one, so an overlap shows at one of its ends.
		if taken[m.start] || taken[m.end-1] {
			continue
		}
		for i := m.start; i < m.end; i++ {
			taken[i] = true
		}
		kept = append(kept, m)
	}
	slices.SortFunc(kept, func(a, b match) int { return int(a.start - b.start) })
	var out []fragment
	pos := 0
	for i, m := range kept {
		before, behind := text[pos:m.start], text[m.end:]
		if i+1 < len(kept) {
			behind = text[m.end:kept[i+1].start]
		}
		pos = int(m.end)
		if s.lstrip[m.id] {
			before = strings.TrimRightFunc(before, unicode.IsSpace)
		}
		if s.rstrip[m.id] {
			pos += len(behind) - len(strings.TrimLeftFunc(behind, unicode.IsSpace))
		}
		if before != "" {
			out = append(out, fragment{before, -1})
		}
		out = append(out, fragment{text[m.start:m.end], m.id})
	}
	if pos < len(text) {
		out = append(out, fragment{text[pos:], -1})
	}
	return out
}

// find lists every occurrence of a special token, overlapping ones too.
func (s *specials) find(text string, control bool) []match {
	starts := &s.atomic
	if control {
		starts = &s.starts
	}
	var found []match
	for start := range len(text) {
		if !starts[text[start]] {
			continue
		}
		s.tokens.prefixes(text[start:], func(id int32, n int) {
			if control || s.types[id] == UserDefined {
				found = append(found, match{int32(start), int32(start + n), id})
			}
		})
	}
	return found
}
