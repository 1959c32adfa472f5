package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// metaspace stands for a space in SentencePiece vocabularies.
const metaspace = "\u2581"

// spm is SentencePiece's BPE: the pair of neighbours whose joined text is the token of the highest score is merged first.
// What is no token in the end is spelled in byte tokens.
type spm struct {
	v      *Vocab
	ids    map[string]int32
	types  []TokenType
	bytes  [256]int32 // token of a byte, -1 if there is none
	maxLen int        // of a token, in bytes
	pairs  *neighbours
	// incomplete says that there is a byte without a token.
	incomplete bool
	pool       sync.Pool // of *merger
}

func newSPM(v *Vocab, ids map[string]int32, types []TokenType) *spm {
	s := &spm{v: v, ids: ids, types: types, pairs: new(neighbours)}
	s.pool.New = func() any { return new(merger) }
	for _, text := range v.Tokens {
		s.maxLen = max(s.maxLen, len(text))
		s.pairs.add(text)
	}
	for b := range s.bytes {
		s.bytes[b] = v.UNK
		if id, ok := ids[fmt.Sprintf("<0x%02X>", b)]; ok {
			s.bytes[b] = id
		} else if id, ok := ids[string([]byte{byte(b)})]; ok {
			s.bytes[b] = id
		}
		s.incomplete = s.incomplete || s.bytes[b] < 0
	}
	return s
}

func (s *spm) join(text string, l, r *symbol) (int32, float32, bool) {
	if int(r.end-l.start) > s.maxLen {
		return 0, 0, false
	}
	id, ok := s.ids[text[l.start:r.end]]
	if !ok {
		return 0, 0, false
	}
	if len(s.v.Scores) == 0 {
		return id, 0, true
	}
	return id, -s.v.Scores[id], true
}

func (s *spm) encode(dst []int32, text string) ([]int32, error) {
	m := s.pool.Get().(*merger)
	defer s.pool.Put(m)
	text = strings.ReplaceAll(text, " ", metaspace)
	m.begin(text)
	for text != "" {
		n := s.pairs.first(text)
		dst = m.cached(dst, text[:n], s)
		text = text[n:]
	}
	if s.incomplete && slices.Contains(dst, -1) {
		return nil, errors.New("the vocabulary has no token for a character of the text, none for its bytes and none for unknown text")
	}
	return dst, nil
}

// appendWord encodes a part of a text whose ends no token crosses.
func (s *spm) appendWord(dst []int32, word string, m *merger) []int32 {
	m.reset()
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:]) // a byte that is no character stands alone
		end := i + n
		id, ok := s.ids[word[i:end]]
		if !ok {
			id = -1
		}
		m.add(end, id)
		i = end
	}
	m.merge(word, s)
	for i := int32(0); i >= 0; i = m.symbols[i].next {
		y := &m.symbols[i]
		if y.id >= 0 {
			dst = append(dst, y.id)
			continue
		}
		for _, c := range []byte(word[y.start:y.end]) {
			dst = append(dst, s.bytes[c])
		}
	}
	return dst
}

func (s *spm) piece(id int32) ([]byte, error) {
	text := s.v.Tokens[id]
	if s.types[id] == Byte {
		b, err := byteOf(text)
		if err != nil {
			return nil, fmt.Errorf("token %d: %w", id, err)
		}
		return []byte{b}, nil
	}
	return []byte(strings.ReplaceAll(text, metaspace, " ")), nil
}

// byteOf reads "<0xNN>", or a text of a single byte as old files have it.
func byteOf(text string) (byte, error) {
	if len(text) == 1 {
		return text[0], nil
	}
	if len(text) == 6 && strings.HasPrefix(text, "<0x") && text[5] == '>' {
		if n, err := strconv.ParseUint(text[3:5], 16, 8); err == nil {
			return byte(n), nil
		}
	}
	return 0, fmt.Errorf("%q is typed as a byte but is not of the form <0xNN>", text)
}
