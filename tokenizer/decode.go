package tokenizer

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Piece is the bytes of one token as it appears within running text: a space that the vocabulary puts before the first word stays.
// Control and unknown tokens have no bytes unless special is set; unused tokens have none at all.
func (t *Tokenizer) Piece(id int32, special bool) ([]byte, error) {
	if id < 0 || int(id) >= len(t.types) {
		return nil, fmt.Errorf("token id %d is not in the vocabulary of %d tokens", id, len(t.types))
	}
	switch t.types[id] {
	case Control, Unknown:
		if !special {
			return nil, nil
		}
		return []byte(t.Vocab.Tokens[id]), nil
	case UserDefined:
		return []byte(t.Vocab.Tokens[id]), nil
	case Normal, Byte:
		return t.enc.piece(id)
	}
	return nil, nil
}

// Decode turns ids into text. special also writes control tokens out. The space that the vocabulary puts before a text is taken off again.
// The bytes are as the tokens spell them: they need not be valid UTF-8.
func (t *Tokenizer) Decode(ids []int32, special bool) (string, error) {
	if t.Vocab.BertNormalizer {
		return t.decodeWords(ids, special)
	}
	var out []byte
	start := t.prefix
	for i, id := range ids {
		p, err := t.Piece(id, special)
		if err != nil {
			return "", fmt.Errorf("position %d: %w", i, err)
		}
		if start && len(p) > 0 {
			if p[0] == ' ' {
				p = p[1:]
			}
			start = false
		}
		out = append(out, p...)
	}
	return string(out), nil
}

// decodeWords puts spaces between words as the models' own WordPiece tokenizers do: none before these signs and endings.
func (t *Tokenizer) decodeWords(ids []int32, special bool) (string, error) {
	var out []byte
	for i, id := range ids {
		p, err := t.Piece(id, special)
		if err != nil {
			return "", fmt.Errorf("position %d: %w", i, err)
		}
		word, starts := bytes.CutPrefix(p, []byte(" "))
		if starts = starts || t.types[id] != Normal; starts && len(out) > 0 && len(p) > 0 {
			switch string(word) {
			case ".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re":
			default:
				out = append(out, ' ')
			}
		}
		out = append(out, word...)
	}
	return string(out), nil
}

// Stream collects the bytes of tokens and hands out whole characters only.
type Stream struct {
	t    *Tokenizer
	tail []byte // the start of a character whose rest has not come yet
}

// NewStream starts decoding ids one by one, as a continuation: no leading space is taken off. Control tokens give no text.
func (t *Tokenizer) NewStream() *Stream { return &Stream{t: t} }

// Push adds a token and returns the text that is complete. Bytes that can be no part of a character come out as U+FFFD.
func (s *Stream) Push(id int32) (string, error) {
	p, err := s.t.Piece(id, false)
	if err != nil {
		return "", err
	}
	s.tail = append(s.tail, p...)
	whole := len(s.tail)
	// An incomplete character is at most 3 bytes long.
	for i := max(0, len(s.tail)-utf8.UTFMax+1); i < len(s.tail); i++ {
		if !utf8.FullRune(s.tail[i:]) {
			whole = i
			break
		}
	}
	text := validUTF8(string(s.tail[:whole]))
	s.tail = append(s.tail[:0], s.tail[whole:]...)
	return text, nil
}

// Flush returns what is left at the end (invalid bytes as U+FFFD).
func (s *Stream) Flush() string {
	text := validUTF8(string(s.tail))
	s.tail = s.tail[:0]
	return text
}

// CleanSpaces undoes the spaces that some old tokenizers put before punctuation and the endings of contractions, as llama.cpp does to whole
// texts when the pre-tokenizer is one for which it assumes so. Other vocabularies leave text as it is. It is lossy, so Decode does not do it.
func (t *Tokenizer) CleanSpaces(text string) string {
	if !t.clean {
		return text
	}
	text = dropSpaces(text, func(rest string) int { return btoi(strings.IndexByte("?!.,", rest[0]) >= 0) })
	// An apostrophe between two spaces loses both.
	text = dropSpaces(text, func(rest string) int { return 2 * btoi(strings.HasPrefix(rest, "' ")) })
	return dropSpaces(text, func(rest string) int {
		return btoi(strings.HasPrefix(rest, "'s") || strings.HasPrefix(rest, "'m") || strings.HasPrefix(rest, "'re") || strings.HasPrefix(rest, "'ve"))
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// dropSpaces asks drop about the text behind each space: 1 removes the space, 2 also the second byte behind it.
func dropSpaces(s string, drop func(rest string) int) string {
	out := make([]byte, 0, len(s))
	var before byte
	for i := 0; i < len(s); i++ {
		n := 0
		if before == ' ' {
			n = drop(s[i:])
		}
		if n > 0 {
			out = out[:len(out)-1]
		}
		before = s[i]
		out = append(out, before)
		if n == 2 {
			i++
			before = 0
		}
	}
	return string(out)
}
