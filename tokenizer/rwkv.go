package tokenizer

import "fmt"

// rwkv takes the longest token at each place. Its tokens are bytes, written as Python writes them.
type rwkv struct {
	v      *Vocab
	tokens *trie
	bytes  [][]byte // of each token
}

func newRWKV(v *Vocab) (*rwkv, error) {
	r := &rwkv{v: v, tokens: newTrie(), bytes: make([][]byte, len(v.Tokens))}
	for id, text := range v.Tokens {
		b, err := unescape(text)
		if err != nil {
			return nil, fmt.Errorf("%s: token %d: %w", keyTokens, id, err)
		}
		r.bytes[id] = b
		if len(b) > 0 {
			r.tokens.add(string(b), int32(id))
		}
	}
	r.tokens.freeze()
	return r, nil
}

func (r *rwkv) encode(dst []int32, text string) ([]int32, error) {
	for text != "" {
		id, n := r.tokens.longest(text)
		if n == 0 {
			if id, n = r.v.UNK, 1; id < 0 {
				return nil, fmt.Errorf("the vocabulary has no token for the byte 0x%02X and none for unknown text", text[0])
			}
		}
		dst = append(dst, id)
		text = text[n:]
	}
	return dst, nil
}

func (r *rwkv) piece(id int32) ([]byte, error) { return r.bytes[id], nil }

// unescape reads \t, \n, \r and \xNN; any other character behind a backslash stands for itself.
func unescape(s string) ([]byte, error) {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out = append(out, s[i])
			continue
		}
		i++
		switch s[i] {
		case 't':
			out = append(out, '\t')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 'x':
			var b byte
			if i+2 >= len(s) {
				return nil, fmt.Errorf("%q ends within \\x", s)
			}
			if _, err := fmt.Sscanf(s[i+1:i+3], "%02x", &b); err != nil {
				return nil, fmt.Errorf("%q: \\x is not followed by two digits", s)
			}
			out = append(out, b)
			i += 2
		default:
			out = append(out, s[i])
		}
	}
	return out, nil
}
