package tokenizer

import (
	"unicode/utf8"
)

// wordCache remembers the ids of short words, each in the one place that its hash names, so its size is fixed.
type wordCache struct {
	words [1 << cacheBits]cachedWord
}

const (
	cacheBits = 14
	cacheWord = 16 // bytes of the longest word
	cacheIDs  = 4  // that fit
	// cacheText is the length of a text from which on a cache is worth its memory.
	cacheText = 1 << 10
)

// cachedWord is a word of size bytes, which the two numbers hold. Size 0 is an empty place.
type cachedWord struct {
	low, high   uint64
	ids         [cacheIDs]int32
	size, count uint8
}

// place is where a word of 1 to cacheWord bytes belongs, and its bytes as numbers.
func (c *wordCache) place(word string) (w *cachedWord, low, high uint64) {
	n := len(word)
	b := word[:n]
	switch {
	case n >= 8:
		low, high = load64(b), load64(b[n-8:])
	case n >= 4:
		low = uint64(load32(b)) | uint64(load32(b[n-4:]))<<32
	default:
		low = uint64(b[0]) | uint64(b[n/2])<<8 | uint64(b[n-1])<<16
	}
	h := (low ^ (high<<29 | high>>35) ^ uint64(n)) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return &c.words[h>>(64-cacheBits)], low, high
}

func load64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func load32(s string) uint32 {
	_ = s[3]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// holds tells whether the place holds the word.
func (w *cachedWord) holds(word string, low, high uint64) bool {
	return w.low == low && w.high == high && int(w.size) == len(word)
}

// set fills the place.
func (w *cachedWord) set(word string, low, high uint64, ids []int32) {
	if len(ids) > cacheIDs {
		return
	}
	w.low, w.high, w.size, w.count = low, high, uint8(len(word)), uint8(len(ids))
	copy(w.ids[:], ids)
}

// mergeTable finds what two symbols become: a hash table with open addressing.
type mergeTable struct {
	rules []mergeRule
	shift uint
}

// mergeRule is a merge: of two symbols, with a rank, to a symbol. pair 0 is an empty place.
type mergeRule struct {
	pair     uint64
	rank, id int32
}

// pairOf numbers a pair of symbols, from 1.
func pairOf(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) + 1 }

func newMergeTable(n int) *mergeTable {
	t := &mergeTable{shift: 64 - 3}
	for ; 1<<(64-t.shift) < 2*n; t.shift-- {
	}
	t.rules = make([]mergeRule, 1<<(64-t.shift))
	return t
}

// slot is the place of a pair, or the empty one where it belongs.
func (t *mergeTable) slot(pair uint64) *mergeRule {
	i := pair * 0x9e3779b97f4a7c15 >> t.shift
	for t.rules[i].pair != pair && t.rules[i].pair != 0 {
		i = (i + 1) & uint64(len(t.rules)-1)
	}
	return &t.rules[i]
}

// find is the rule for two symbols; ok is false if they do not merge.
func (t *mergeTable) find(left, right int32) (r *mergeRule, ok bool) {
	if left < 0 || right < 0 {
		return nil, false
	}
	r = t.slot(pairOf(left, right))
	return r, r.pair != 0
}

// neighbours tells of pairs of characters that stand side by side in some token. It may say so of pairs that do not, never the reverse: between
// characters that it does not know, a text can be cut without changing its tokens.
type neighbours struct {
	bits [1 << (neighbourBits - 6)]uint64
}

const neighbourBits = 21

func neighbourHash(a, b rune) uint64 {
	return (uint64(a)<<21 | uint64(b)) * 0x9e3779b97f4a7c15 >> (64 - neighbourBits)
}

// add takes down the pairs in a text.
func (n *neighbours) add(text string) {
	before := rune(-1)
	for _, r := range text {
		if before >= 0 {
			h := neighbourHash(before, r)
			n.bits[h>>6] |= 1 << (h & 63)
		}
		before = r
	}
}

// first is the length of the first piece of text that can be encoded alone.
func (n *neighbours) first(text string) int {
	before, i := utf8.DecodeRuneInString(text)
	for i < len(text) {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		h := neighbourHash(before, r)
		if n.bits[h>>6]&(1<<(h&63)) == 0 {
			return i
		}
		before = r
		i += size
	}
	return len(text)
}
