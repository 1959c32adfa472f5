package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// unigram is SentencePiece's Unigram model: of all ways to cut a text into tokens the one with the highest sum of scores.
type unigram struct {
	v        *Vocab
	tokens   *trie
	types    []TokenType
	chars    *charsMap // nil if no characters are replaced
	unkScore float64
	// extra says that runs of spaces count as one, and none at the end; prefix that a space is put before the text.
	extra, prefix bool
	pool          sync.Pool // of *lattice
}

// unkPenalty is how much worse than the worst token a character is that is no token.
const unkPenalty = 10

func newUnigram(v *Vocab, types []TokenType) (*unigram, error) {
	if len(v.Scores) == 0 {
		return nil, fmt.Errorf("%s: a Unigram tokenizer needs scores", keyScores)
	}
	if v.UNK < 0 {
		return nil, fmt.Errorf("tokenizer.ggml.unknown_token_id: a Unigram tokenizer needs a token for what it does not know")
	}
	u := &unigram{v: v, types: types, tokens: newTrie(), prefix: v.AddSpacePrefix == nil || *v.AddSpacePrefix, extra: v.RemoveExtraSpaces != nil && *v.RemoveExtraSpaces}
	u.pool.New = func() any { return new(lattice) }
	lowest := math.Inf(1)
	for id, text := range v.Tokens {
		if types[id] == Normal {
			lowest = min(lowest, float64(v.Scores[id]))
		}
		if typ := types[id]; text != "" && (typ == Normal || typ == UserDefined || typ == Unused) {
			u.tokens.add(text, int32(id))
		}
	}
	u.tokens.freeze()
	if math.IsInf(lowest, 1) {
		lowest = 0
	}
	u.unkScore = lowest - unkPenalty
	if len(v.CharsMap) > 0 {
		var err error
		if u.chars, err = newCharsMap(v.CharsMap); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// lattice holds, for each byte of a text, the best way to reach it.
type lattice struct {
	score []float64
	from  []int32 // where the last token starts
	id    []int32
}

func (u *unigram) encode(dst []int32, text string) ([]int32, error) {
	l := u.pool.Get().(*lattice)
	defer u.pool.Put(l)
	text = validUTF8(text)
	if u.chars != nil {
		var err error
		if text, err = u.chars.replace(text); err != nil {
			return nil, err
		}
	}
	if !u.extra {
		if text != "" && u.prefix {
			text = " " + text
		}
		return u.best(dst, strings.ReplaceAll(text, " ", metaspace), l), nil
	}
	// No token holds a space but at its start, so each word stands alone.
	var word []byte
	for part := range strings.FieldsSeq(text) {
		word = append(append(word[:0], metaspace...), part...)
		dst = u.best(dst, string(word), l)
	}
	return dst, nil
}

// best appends the tokens of text, found from its start to its end. Characters that no token covers, one after the other, are one unknown token.
func (u *unigram) best(dst []int32, text string, l *lattice) []int32 {
	n := len(text) + 1
	l.score, l.from, l.id = slices.Grow(l.score[:0], n)[:n], slices.Grow(l.from[:0], n)[:n], slices.Grow(l.id[:0], n)[:n]
	for i := range l.score {
		l.score[i] = math.Inf(-1)
	}
	l.score[0], l.from[0] = 0, 0
	for i := 0; i < len(text); {
		_, size := utf8.DecodeRuneInString(text[i:])
		single := false
		u.tokens.prefixes(text[i:], func(id int32, length int) {
			single = single || length == size
			score := l.score[i]
			if u.types[id] != UserDefined {
				score += float64(u.v.Scores[id])
			}
			l.reach(i, i+length, score, id)
		})
		if !single {
			l.reach(i, i+size, l.score[i]+u.unkScore, u.v.UNK)
		}
		i += size
	}
	start := len(dst)
	for i := len(text); i > 0; i = int(l.from[i]) {
		if id := l.id[i]; id != u.v.UNK || len(dst) == start || dst[len(dst)-1] != id {
			dst = append(dst, id)
		}
	}
	slices.Reverse(dst[start:])
	return dst
}

func (l *lattice) reach(from, to int, score float64, id int32) {
	if score > l.score[to] {
		l.score[to], l.from[to], l.id[to] = score, int32(from), id
	}
}

func (u *unigram) piece(id int32) ([]byte, error) {
	return []byte(strings.ReplaceAll(u.v.Tokens[id], metaspace, " ")), nil
}
