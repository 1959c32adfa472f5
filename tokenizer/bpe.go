package tokenizer

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// byteRunes is GPT-2's spelling of bytes: printable Latin-1 characters stand for themselves, the other 68 bytes for U+0100 and on.
var byteRunes = func() (runes [256]rune) {
	next := rune(256)
	for b := range runes {
		switch {
		case b >= 0x21 && b <= 0x7e, b >= 0xa1 && b <= 0xac, b >= 0xae:
			runes[b] = rune(b)
		default:
			runes[b] = next
			next++
		}
	}
	return runes
}()

// runeBytes is the inverse; -1 for runes that stand for no byte.
var runeBytes = func() (bytes [256 + 68]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	for b, r := range byteRunes {
		bytes[r] = int16(b)
	}
	return bytes
}()

// bpe is byte pair encoding, over bytes in GPT-2's spelling or, if the pre-tokenizer says raw, over characters.
type bpe struct {
	v      *Vocab
	ids    map[string]int32
	pre    *preTokenizer
	extra  map[string]int32 // texts of merges that are no tokens
	bytes  [256]int32       // symbol of a single byte, -1 if the vocabulary lacks it
	merges *mergeTable
	pairs  *neighbours // of raw vocabularies
	pool   sync.Pool   // of *merger
}

// mergeLimit is a bound on the number of merges, whose ranks must be exact as float32; the largest known list has some 500,000.
const mergeLimit = 1 << 24

func newBPE(v *Vocab, ids map[string]int32, pre *preTokenizer) (*bpe, error) {
	if len(v.Merges) == 0 {
		return nil, fmt.Errorf("tokenizer.ggml.merges: a BPE tokenizer without merges cannot encode")
	}
	if len(v.Merges) > mergeLimit {
		return nil, fmt.Errorf("tokenizer.ggml.merges: %d merges are more than %d", len(v.Merges), mergeLimit)
	}
	b := &bpe{v: v, ids: ids, pre: pre, merges: newMergeTable(len(v.Merges))}
	if pre.raw {
		b.pairs = new(neighbours)
	}
	b.pool.New = func() any { return new(merger) }
	// Texts that appear in merges without being tokens are numbered after the tokens.
	extra := map[string]int32{}
	b.extra = extra
	symbolOf := func(text []byte) int32 {
		if id, ok := ids[string(text)]; ok {
			return id
		}
		id, ok := extra[string(text)]
		if !ok {
			id = int32(len(v.Tokens) + len(extra))
			extra[string(text)] = id
		}
		return id
	}
	var joined []byte
	for rank, m := range v.Merges {
		left, right, ok := cutMerge(m)
		if !ok {
			return nil, fmt.Errorf("tokenizer.ggml.merges: merge %d %q is not two texts with a space between", rank, m)
		}
		joined = append(append(joined[:0], left...), right...)
		l, r := symbolOf(joined[:len(left)]), symbolOf(joined[len(left):])
		if rule := b.merges.slot(pairOf(l, r)); rule.pair == 0 {
			*rule = mergeRule{pairOf(l, r), int32(rank), symbolOf(joined)}
		}
		if pre.raw {
			b.pairs.add(string(joined))
		}
	}
	for c, r := range byteRunes {
		b.bytes[c] = -1
		if pre.raw {
			if id, ok := ids[fmt.Sprintf("<0x%02X>", c)]; ok {
				b.bytes[c] = id
			}
		} else if id, ok := ids[string(r)]; ok {
			b.bytes[c] = id
		} else if id, ok := extra[string(r)]; ok {
			b.bytes[c] = id
		}
	}
	return b, nil
}

// cutMerge splits "left right". The left text may itself start with a space.
func cutMerge(m string) (left, right string, ok bool) {
	if len(m) < 3 {
		return "", "", false
	}
	i := strings.IndexByte(m[1:], ' ') + 1
	if i < 1 || i == len(m)-1 {
		return "", "", false
	}
	return m[:i], m[i+1:], true
}

func (b *bpe) join(_ string, l, r *symbol) (int32, float32, bool) {
	m, ok := b.merges.find(l.id, r.id)
	if !ok {
		return 0, 0, false
	}
	return m.id, float32(m.rank), true
}

func (b *bpe) encode(dst []int32, text string) ([]int32, error) {
	m := b.pool.Get().(*merger)
	defer b.pool.Put(m)
	text = validUTF8(text)
	if b.pre.escapeSpaces {
		text = strings.ReplaceAll(text, " ", metaspace)
	}
	m.begin(text)
	b.pre.split(text, func(word string) bool {
		dst = b.word(dst, word, m)
		return true
	})
	return dst, nil
}

// word encodes a word, in parts where that makes no difference.
func (b *bpe) word(dst []int32, word string, m *merger) []int32 {
	if b.pre.raw {
		if b.pre.ignoreMerges || b.pre.wholeNewlines && word[0] == '\n' {
			if id, ok := b.ids[word]; ok {
				return append(dst, id)
			}
		}
		for n := b.pairs.first(word); n < len(word); n = b.pairs.first(word) {
			dst = m.cached(dst, word[:n], b)
			word = word[n:]
		}
	}
	return m.cached(dst, word, b)
}

func (b *bpe) appendWord(dst []int32, word string, m *merger) []int32 {
	if b.pre.ignoreMerges && !b.pre.raw {
		var buf [64]byte
		spelled := buf[:0]
		for i := range len(word) {
			spelled = utf8.AppendRune(spelled, byteRunes[word[i]])
		}
		if id, ok := b.ids[string(spelled)]; ok {
			return append(dst, id)
		}
	}
	m.reset()
	if b.pre.raw {
		b.addCharacters(word, m)
	} else {
		for i := range len(word) {
			m.add(i+1, b.bytes[word[i]])
		}
	}
	m.merge(word, b)
	for i := int32(0); i >= 0; i = m.symbols[i].next {
		s := &m.symbols[i]
		if s.id >= 0 && int(s.id) < len(b.v.Tokens) {
			dst = append(dst, s.id)
			continue
		}
		// The merges made a text that is no token (or there is no token for a byte): spell it byte by byte.
		for _, c := range []byte(word[s.start:s.end]) {
			id := b.bytes[c]
			if id < 0 || int(id) >= len(b.v.Tokens) {
				id = b.v.UNK
			}
			if id >= 0 {
				dst = append(dst, id)
			}
		}
	}
	return dst
}

// addCharacters starts with a symbol for each character.
func (b *bpe) addCharacters(word string, m *merger) {
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		id, ok := b.ids[word[i:i+n]]
		if !ok {
			if id, ok = b.extra[word[i:i+n]]; !ok {
				id = -1
			}
		}
		i += n
		m.add(i, id)
	}
}

// piece spells a token in bytes. A token that holds a character outside the byte alphabet is taken as text.
func (b *bpe) piece(id int32) ([]byte, error) {
	text := b.v.Tokens[id]
	if b.pre.raw {
		return b.rawPiece(id)
	}
	out := make([]byte, 0, len(text))
	for _, r := range text {
		if int(r) >= len(runeBytes) || runeBytes[r] < 0 {
			return []byte(text), nil
		}
		out = append(out, byte(runeBytes[r]))
	}
	return out, nil
}

func (b *bpe) rawPiece(id int32) ([]byte, error) {
	text := b.v.Tokens[id]
	if b.v.typeOf(int(id)) == Byte {
		c, err := byteOf(text)
		if err != nil {
			return nil, fmt.Errorf("token %d: %w", id, err)
		}
		return []byte{c}, nil
	}
	if b.pre.escapeSpaces {
		text = strings.ReplaceAll(text, metaspace, " ")
	}
	return []byte(text), nil
}

// validUTF8 replaces every byte that is not part of a valid UTF-8 sequence by U+FFFD.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
