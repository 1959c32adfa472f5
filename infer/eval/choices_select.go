package eval

// mersenne is the generator MT19937 of Matsumoto and Nishimura, which llama-perplexity chooses tasks with.
type mersenne struct {
	state [624]uint32
	next  int
}

func newMersenne(seed uint32) *mersenne {
	m := &mersenne{next: 624}
	m.state[0] = seed
	for i := 1; i < len(m.state); i++ {
		x := m.state[i-1]
		m.state[i] = 1812433253*(x^x>>30) + uint32(i)
	}
	return m
}

// draw is the next number of 32 bits.
func (m *mersenne) draw() uint32 {
	n := len(m.state)
	if m.next == n {
		for i := range n {
			x := m.state[i]&(1<<31) | m.state[(i+1)%n]&(1<<31-1)
			m.state[i] = m.state[(i+397)%n] ^ x>>1 ^ x&1*0x9908b0df
		}
		m.next = 0
	}
	x := m.state[m.next]
	m.next++
	x ^= x >> 11
	x ^= x << 7 & 0x9d2c5680
	x ^= x << 15 & 0xefc60000
	return x ^ x>>18
}

// below is a number in [0, n), as std::uniform_int_distribution of the GNU library draws it (Lemire's method).
func (m *mersenne) below(n uint32) uint32 {
	product := uint64(m.draw()) * uint64(n)
	for least := -n % n; uint32(product) < least; {
		product = uint64(m.draw()) * uint64(n)
	}
	return uint32(product >> 32)
}

// SelectHellaSwag takes n tasks (0: all) in the order of llama-perplexity --hellaswag-tasks.
func SelectHellaSwag(list []Question, n int) []Question {
	rng := newMersenne(1)
	return choose(list, n, func(left int) int { return int(rng.below(uint32(left))) }, true)
}

// SelectTasks takes n tasks in the order of llama-perplexity --winogrande-tasks and --multiple-choice-tasks; 0, or as many as there are, leaves the list as it is.
func SelectTasks(list []Question, n int) []Question {
	if n <= 0 || n >= len(list) {
		return list
	}
	rng := newMersenne(1)
	return choose(list, n, func(left int) int {
		const scale = 1.0 / (1 << 32) // in float32, where the product may round up to left
		return min(int(float32(float32(scale)*float32(rng.draw()))*float32(left)), left-1)
	}, false)
}

// choose takes n questions, each at the index among those left that pick tells. In its place comes the last one, or, in order, the next.
func choose(list []Question, n int, pick func(left int) int, order bool) []Question {
	if n <= 0 || n > len(list) {
		n = len(list)
	}
	rest := make([]int, len(list))
	for i := range rest {
		rest[i] = i
	}
	chosen := make([]Question, 0, n)
	for range n {
		i := pick(len(rest))
		chosen = append(chosen, list[rest[i]])
		last := len(rest) - 1
		if order {
			copy(rest[i:], rest[i+1:])
		} else {
			rest[i] = rest[last]
		}
		rest = rest[:last]
	}
	return chosen
}
