package tokenizer

import "math/bits"

// trie finds the tokens that a text starts with. Its nodes have their children in order of their bytes, counted out by a bit set.
type trie struct {
	building []builder
	nodes    []trieNode
	children []int32
}

type trieNode struct {
	bytes [4]uint64 // which bytes lead on
	first int32     // of the children
	id    int32     // of the token that ends here, -1 if none does
}

type builder struct {
	next map[byte]int32
	id   int32
}

func newTrie() *trie { return &trie{building: []builder{{id: -1}}} }

// add gives a text an id; of several the first counts.
func (t *trie) add(text string, id int32) {
	node := int32(0)
	for i := range len(text) {
		next, ok := t.building[node].next[text[i]]
		if !ok {
			next = int32(len(t.building))
			t.building = append(t.building, builder{id: -1})
			if t.building[node].next == nil {
				t.building[node].next = map[byte]int32{}
			}
			t.building[node].next[text[i]] = next
		}
		node = next
	}
	if t.building[node].id < 0 {
		t.building[node].id = id
	}
}

// freeze ends the adding.
func (t *trie) freeze() {
	t.nodes = make([]trieNode, len(t.building))
	for i, b := range t.building {
		n := &t.nodes[i]
		n.id, n.first = b.id, int32(len(t.children))
		for c := range b.next {
			n.bytes[c>>6] |= 1 << (c & 63)
		}
		for c := range 256 {
			if next, ok := b.next[byte(c)]; ok {
				t.children = append(t.children, next)
			}
		}
	}
	t.building = nil
}

// child is the node that a byte leads to, -1 if there is none.
func (t *trie) child(node int32, c byte) int32 {
	n := &t.nodes[node]
	if n.bytes[c>>6]&(1<<(c&63)) == 0 {
		return -1
	}
	k := bits.OnesCount64(n.bytes[c>>6] & (1<<(c&63) - 1))
	for w := range c >> 6 {
		k += bits.OnesCount64(n.bytes[w])
	}
	return t.children[int(n.first)+k]
}

// prefixes calls f with every token that s starts with, shorter ones first.
func (t *trie) prefixes(s string, f func(id int32, length int)) {
	node := int32(0)
	for i := range len(s) {
		if node = t.child(node, s[i]); node < 0 {
			return
		}
		if id := t.nodes[node].id; id >= 0 {
			f(id, i+1)
		}
	}
}

// longest is the longest token that s starts with; length 0 if there is none.
func (t *trie) longest(s string) (id int32, length int) {
	t.prefixes(s, func(i int32, n int) { id, length = i, n })
	return id, length
}
