package tokenizer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// charsMap is SentencePiece's precompiled_charsmap: a double array trie of the texts that are replaced, and behind it what replaces them, each
// closed by a zero byte.
type charsMap struct {
	units []uint32
	texts []byte
}

func newCharsMap(data []byte) (*charsMap, error) {
	const key = "tokenizer.ggml.precompiled_charsmap"
	if len(data) < 4 {
		return nil, fmt.Errorf("%s: %d bytes are too few", key, len(data))
	}
	size := binary.LittleEndian.Uint32(data)
	data = data[4:]
	if uint64(size) > uint64(len(data)) || size%4 != 0 {
		return nil, fmt.Errorf("%s: a trie of %d bytes does not fit into %d", key, size, len(data))
	}
	c := &charsMap{units: make([]uint32, size/4), texts: data[size:]}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return c, nil
}

// The fields of a unit: the offset to its children, whether one of these is a value, and the byte that leads to it. Values have bit 31 set.
func unitOffset(u uint32) uint32 { return u >> 10 << (u & (1 << 9) >> 6) }
func unitHasValue(u uint32) bool { return u&(1<<8) != 0 }
func unitLabel(u uint32) uint32  { return u & (1<<31 | 0xff) }

// longest is the longest text at the start of s that is replaced, and by what. n is 0 if there is none.
func (c *charsMap) longest(s string) (n int, by []byte) {
	if len(c.units) == 0 {
		return 0, nil
	}
	node := unitOffset(c.units[0])
	for i := 0; i < len(s) && s[i] != 0; i++ {
		node ^= uint32(s[i])
		if int64(node) >= int64(len(c.units)) || unitLabel(c.units[node]) != uint32(s[i]) {
			break
		}
		unit := c.units[node]
		node ^= unitOffset(unit)
		if !unitHasValue(unit) || int64(node) >= int64(len(c.units)) {
			continue
		}
		at := c.units[node] &^ (1 << 31)
		if int64(at) >= int64(len(c.texts)) {
			continue
		}
		if end := bytes.IndexByte(c.texts[at:], 0); end >= 0 {
			n, by = i+1, c.texts[at:at+uint32(end)]
		}
	}
	return n, by
}

// replace applies the map from the start of s to its end. It fails for maps that make too much of it.
func (c *charsMap) replace(s string) (string, error) {
	size := len(s)
	out := make([]byte, 0, len(s)+len(s)/8)
	for s != "" {
		n, by := c.longest(s)
		if n == 0 {
			_, n = utf8.DecodeRuneInString(s)
			by = []byte(s[:n])
		}
		out = append(out, by...)
		if err := checkGrowth(int64(len(out)), size); err != nil {
			return "", err
		}
		s = s[n:]
	}
	return string(out), nil
}

// checkGrowth refuses what a normalizer makes of a text of size bytes if that is far longer than any known one makes it: 11 bytes of one, by NFKC.
func checkGrowth(n int64, size int) error {
	const most, start = 32, 1 << 16
	if limit := most*int64(size) + start; n > limit {
		return fmt.Errorf("the normalizer makes more than %d bytes of %d\nhint: the file's normalizer is broken, or made to take all memory", limit, size)
	}
	return nil
}
