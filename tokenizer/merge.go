package tokenizer

import "math"

// symbol is a run of bytes of a text that is merged with its neighbours. A symbol that was absorbed is empty.
type symbol struct {
	start, end int32 // bytes of the text
	prev, next int32 // neighbours, -1 at the ends
	id         int32 // of its text, in the numbering of the joiner
}

// joiner says what two neighbouring symbols become.
type joiner interface {
	// join is the id of the merged symbol and the cost of merging: the lowest is done first.
	join(text string, left, right *symbol) (id int32, cost float32, ok bool)
}

// candidate is a merge that was possible when it was noted: of the symbol left and the one behind it.
type candidate struct {
	cost float32
	left int32
	end  int32 // of the symbol behind; one of the two has grown if it is not so any more
	id   int32
}

func (c *candidate) before(o *candidate) bool {
	return c.cost < o.cost || c.cost == o.cost && c.left < o.left
}

// wordEncoder encodes words that stand alone.
type wordEncoder interface {
	appendWord(dst []int32, word string, m *merger) []int32
}

// merger merges the symbols of one text after another. Its time is n log n in the symbols, its stack constant.
type merger struct {
	symbols []symbol
	heap    []candidate
	cache   *wordCache // nil until a text is long enough
}

// begin prepares for a text.
func (m *merger) begin(text string) {
	if m.cache == nil && len(text) >= cacheText {
		m.cache = new(wordCache)
	}
}

// cached appends the ids of a word, which it may know.
func (m *merger) cached(dst []int32, word string, e wordEncoder) []int32 {
	if m.cache == nil || len(word) > cacheWord || word == "" {
		return e.appendWord(dst, word, m)
	}
	w, low, high := m.cache.place(word)
	if w.holds(word, low, high) {
		return append(dst, w.ids[:w.count]...)
	}
	start := len(dst)
	dst = e.appendWord(dst, word, m)
	w.set(word, low, high, dst[start:])
	return dst
}

// reset starts a text.
func (m *merger) reset() { m.symbols, m.heap = m.symbols[:0], m.heap[:0] }

// add appends a symbol that ends at byte end of the text.
func (m *merger) add(end int, id int32) {
	n := int32(len(m.symbols))
	start := int32(0)
	if n > 0 {
		start = m.symbols[n-1].end
		m.symbols[n-1].next = n
	}
	m.symbols = append(m.symbols, symbol{start, int32(end), n - 1, -1, id})
}

// merge does the cheapest merge, the leftmost of equals, until none is left.
func (m *merger) merge(text string, j joiner) {
	if len(m.symbols) <= fewSymbols {
		m.mergeFew(text, j)
		return
	}
	for i := 1; i < len(m.symbols); i++ {
		m.note(text, j, int32(i-1), int32(i))
	}
	for len(m.heap) > 0 {
		c := m.pop()
		l := &m.symbols[c.left]
		if l.start == l.end || l.next < 0 || m.symbols[l.next].end != c.end {
			continue
		}
		r := &m.symbols[l.next]
		l.end, l.id, l.next = r.end, c.id, r.next
		r.start = r.end
		if r.next >= 0 {
			m.symbols[r.next].prev = c.left
		}
		m.note(text, j, l.prev, c.left)
		m.note(text, j, c.left, l.next)
	}
}

// fewSymbols is up to how many of them looking at every pair is faster than keeping them in order.
const fewSymbols = 24

// mergeFew does as merge does, by looking for the cheapest of all pairs each time. The candidate of a pair is kept at its left symbol.
func (m *merger) mergeFew(text string, j joiner) {
	n := len(m.symbols)
	if n < 2 {
		return
	}
	var costs [fewSymbols]float32
	var ids [fewSymbols]int32
	ask := func(left int32) {
		costs[left] = none
		if l := &m.symbols[left]; l.next >= 0 {
			if id, cost, ok := j.join(text, l, &m.symbols[l.next]); ok {
				costs[left], ids[left] = cost, id
			}
		}
	}
	for i := range n {
		ask(int32(i))
	}
	for {
		best := 0
		for i := 1; i < n; i++ {
			if costs[i] < costs[best] {
				best = i
			}
		}
		if costs[best] == none {
			return
		}
		l := &m.symbols[best]
		right := l.next
		r := &m.symbols[right]
		l.end, l.id, l.next = r.end, ids[best], r.next
		r.start = r.end
		costs[right] = none
		if r.next >= 0 {
			m.symbols[r.next].prev = int32(best)
		}
		ask(int32(best))
		if l.prev >= 0 {
			ask(l.prev)
		}
	}
}

// none is the cost of a pair that does not merge.
var none = float32(math.Inf(1))

func (m *merger) note(text string, j joiner, left, right int32) {
	if left < 0 || right < 0 {
		return
	}
	r := &m.symbols[right]
	if id, cost, ok := j.join(text, &m.symbols[left], r); ok {
		m.push(candidate{cost, left, r.end, id})
	}
}

// push and pop keep heap ordered, with the best candidate first and four children to a node: fewer levels, and children that share
// a cache line.
func (m *merger) push(c candidate) {
	m.heap = append(m.heap, c)
	i := len(m.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !c.before(&m.heap[parent]) {
			break
		}
		m.heap[i] = m.heap[parent]
		i = parent
	}
	m.heap[i] = c
}

func (m *merger) pop() candidate {
	top := m.heap[0]
	last := len(m.heap) - 1
	c := m.heap[last]
	h := m.heap[:last]
	m.heap = h
	if last == 0 {
		return top
	}
	i := 0
	for {
		best := 4*i + 1
		if best >= last {
			break
		}
		for child := best + 1; child < min(4*i+5, last); child++ {
			if h[child].before(&h[best]) {
				best = child
			}
		}
		if !h[best].before(&c) {
			break
		}
		h[i] = h[best]
		i = best
	}
	h[i] = c
	return top
}
