package tokenizer

// symbol is a run of bytes of a text that is merged with its neighbours. A symbol that was absorbed is empty.
type symbol struct {
	start, end int32 // bytes of the text
	prev, next int32 // neighbours, -1 at the ends
	id         int32 // of its text, in the numbering of the joiner
}

// joiner says what two neighbouring symbols become.
type joiner interface {
	// join is the id of the merged symbol and the cost of merging: the lowest is done first.
	join(text string, left, right *symbol) (id int32, cost float64, ok bool)
}

// candidate is a merge that was possible when it was noted.
type candidate struct {
	cost        float64
	left, right int32
	end         int32 // of the right symbol; it has grown if it is not so any more
	id          int32
}

func (c *candidate) before(o *candidate) bool {
	return c.cost < o.cost || c.cost == o.cost && c.left < o.left
}

// merger merges the symbols of one text after another. Its time is n log n in the symbols, its stack constant.
type merger struct {
	symbols []symbol
	heap    []candidate
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
	for i := 1; i < len(m.symbols); i++ {
		m.note(text, j, int32(i-1), int32(i))
	}
	for len(m.heap) > 0 {
		c := m.pop()
		l, r := &m.symbols[c.left], &m.symbols[c.right]
		if l.start == l.end || r.start == r.end || r.end != c.end {
			continue
		}
		l.end, l.id, l.next = r.end, c.id, r.next
		r.start = r.end
		if r.next >= 0 {
			m.symbols[r.next].prev = c.left
		}
		m.note(text, j, l.prev, c.left)
		m.note(text, j, c.left, l.next)
	}
}

func (m *merger) note(text string, j joiner, left, right int32) {
	if left < 0 || right < 0 {
		return
	}
	r := &m.symbols[right]
	if id, cost, ok := j.join(text, &m.symbols[left], r); ok {
		m.push(candidate{cost, left, right, r.end, id})
	}
}

// push and pop keep heap ordered with the best candidate first.
func (m *merger) push(c candidate) {
	m.heap = append(m.heap, c)
	i := len(m.heap) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !m.heap[i].before(&m.heap[parent]) {
			break
		}
		m.heap[i], m.heap[parent] = m.heap[parent], m.heap[i]
		i = parent
	}
}

func (m *merger) pop() candidate {
	top := m.heap[0]
	last := len(m.heap) - 1
	m.heap[0] = m.heap[last]
	m.heap = m.heap[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return top
		}
		if child+1 < last && m.heap[child+1].before(&m.heap[child]) {
			child++
		}
		if !m.heap[child].before(&m.heap[i]) {
			return top
		}
		m.heap[i], m.heap[child] = m.heap[child], m.heap[i]
		i = child
	}
}
