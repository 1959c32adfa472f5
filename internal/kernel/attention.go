package kernel

import (
	"math"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// Attention computes softmax(scale * Q K^T) V over pages of keys and values, for queries that share a key head. It goes through the
// positions block by block and keeps for each query the sum of the values so far, relative to the largest score so far; so memory is
// bounded whatever the number of positions. Blocks start at multiples of a fixed number of positions and every query is on its own,
// so what else is in a batch changes no bit in exact precision; otherwise it may choose another order of additions.
type Attention struct {
	Keys, Values Cache
	Page         int     // positions in a page: a multiple of 16 that divides 256
	Scale        float32 // of the products of queries and keys
	Softcap      float32 // limit of the scaled products (see Softcap); 0: none
	Exact        bool
	Ahead        []byte // what is read after these keys and values: it is asked for in time; or nil
}

// Cache is how the keys or values of one head lie in a page: position p starts at byte p*Stride and has Width elements of type Type, which is
// F32, F16, BF16 or, where Width is a multiple of 32, Q8_0.
type Cache struct {
	Type   gguf.Type
	Width  int
	Stride int
}

// bytes is the size of one position's elements.
func (c Cache) bytes() int {
	switch c.Type {
	case gguf.F32:
		return 4 * c.Width
	case gguf.F16, gguf.BF16:
		return 2 * c.Width
	}
	return c.Width / blockK * 34
}

// Query is one query vector and what it sees: positions First to End-1, at least one.
type Query struct {
	Q          []float32 // Keys.Width elements
	Out        []float32 // Values.Width elements, written
	First, End int
}

// attentionBlock is how many positions have their scores computed before their values are added.
const attentionBlock = 256

// AttentionScratch is what one thread computes in. The zero value is ready for use.
type AttentionScratch struct {
	set    *set
	q      []float32   // queries, times the scale
	acts   activations // queries in 8 bits, for keys of Q8_0
	scores []float32   // attentionBlock for each query
	out    []float32   // sums of values
	states []queryState
	rows   []float32 // decoded keys or values
	panel  []float32 // keys, [k][16 positions]
	// What kernels are called with is here, as otherwise each call would allocate; and the set's routines for the types of the caches as they are stored, or nil.
	dot       dotJob
	weigh     weighJob
	tile      tileF32
	types     [2]gguf.Type
	dotKeys   func(d *dotJob)
	weighRows func(w *weighJob)
}

// queryState is a query's largest score so far and the sum of exp(score - top).
type queryState struct {
	top float32
	sum float64
}

// fewQueries is up to how many queries keys and values are read as they are stored. Above, floats are decoded once for all.
const fewQueries = 32

// Run computes the results of all queries. pages gives the keys and values of page i; those that no query sees are not asked for.
// Positions of a page that no query sees may hold any finite numbers.
func (s *AttentionScratch) Run(a *Attention, queries []Query, pages func(i int) (keys, values []byte)) {
	if s.set == nil {
		s.set = current()
	}
	if a.Page < panelRows || a.Page%panelRows != 0 || attentionBlock%a.Page != 0 {
		panic("kernel: a page has an impossible number of positions")
	}
	first, end := s.begin(a, queries)
	keyBytes, valueBytes := (a.Page-1)*a.Keys.Stride+a.Keys.bytes(), (a.Page-1)*a.Values.Stride+a.Values.bytes()
	few := !a.Exact && s.dotKeys != nil && s.weighRows != nil && (len(queries) <= fewQueries || a.Keys.Type == gguf.Q8_0)
	for from := first / attentionBlock * attentionBlock; from < end; from += attentionBlock {
		// The positions of this block that some query sees, and with those that are computed.
		lo, hi := max(from, first/a.Page*a.Page), min(from+attentionBlock, end)
		whole := lo + (hi-lo+panelRows-1)/panelRows*panelRows
		if few {
			for p := lo; p < hi; p += a.Page {
				keys, values := pages(p / a.Page)
				s.dot.ahead, s.dot.later = a.Ahead, values[:valueBytes]
				switch {
				case p+a.Page < end:
					next, _ := pages(p/a.Page + 1)
					s.dot.ahead = next[:keyBytes]
				case len(a.Ahead) == 0: // nothing but the values
					s.dot.ahead, s.dot.later = values[:valueBytes/2], values[valueBytes/2:valueBytes]
				}
				s.multiplyKeys(a, keys[:keyBytes], p-from, min(a.Page, whole-p))
			}
		} else {
			s.tileKeys(a, pages, from, lo, whole)
		}
		for i := range queries {
			s.block(a, i, s.scores[i*attentionBlock:][lo-from:whole-from], lo, &queries[i])
		}
		if few {
			for p := lo; p < hi; p += a.Page {
				_, values := pages(p / a.Page)
				s.weighValues(a, values[:valueBytes], p-from, min(a.Page, hi-p))
			}
		} else {
			s.tileValues(a, pages, from, lo, whole)
		}
	}
	width := s.outWidth(a)
	for i := range queries {
		s.set.scale(queries[i].Out[:a.Values.Width], s.out[i*width:][:a.Values.Width], float32(1/s.states[i].sum))
	}
}

// outWidth is the length of a row of sums: whole panels.
func (s *AttentionScratch) outWidth(a *Attention) int {
	return (a.Values.Width + panelRows - 1) / panelRows * panelRows
}

// begin takes the queries over and gives the first position that any of them sees and the end of the last.
func (s *AttentionScratch) begin(a *Attention, queries []Query) (first, end int) {
	n, k := len(queries), a.Keys.Width
	s.q = grow(s.q, n*k)
	s.scores = grow(s.scores, n*attentionBlock)
	s.out = grow(s.out, n*s.outWidth(a))
	clear(s.out)
	s.states = grow(s.states, n)
	first = math.MaxInt
	for i, q := range queries {
		s.set.scale(s.q[i*k:][:k], q.Q[:k], a.Scale)
		s.states[i] = queryState{top: minusInfinity}
		first, end = min(first, q.First), max(end, q.End)
	}
	s.find([2]gguf.Type{a.Keys.Type, a.Values.Type})
	if a.Keys.Type == gguf.Q8_0 {
		s.acts.reshape(n, k, false)
		for i := range n {
			r := s.acts.row(i)
			s.set.quantize(r, s.q[i*k:][:k])
			if s.dotKeys == nil && !a.Exact { // the portable set multiplies floats: the same rounded ones
				for j, q := range r.q {
					s.q[i*k+j] = float32(q) * r.d[j/blockK]
				}
			}
		}
	}
	return first, end
}

// find sets the routines for the types of keys and values, mostly those of the last time.
func (s *AttentionScratch) find(types [2]gguf.Type) {
	if s.types == types && s.weighRows != nil {
		return
	}
	s.types, s.dotKeys, s.weighRows = types, s.set.wideDot(types[0]), s.set.weigh(types[1])
	if types[0] == gguf.Q8_0 {
		s.dotKeys = s.set.dot(gguf.Q8_0)
	}
}

// multiplyKeys computes the scores of the first rows positions of a page, from column at of the block on. Pages lie far apart; so while a page is multiplied
// memory is asked for the next one's keys and for the page's values, which come after the block's keys. It is asked all the time, as many requests at once hold
// up what the page itself reads.
func (s *AttentionScratch) multiplyKeys(a *Attention, keys []byte, at, rows int) {
	n, k := len(s.states), a.Keys.Width
	d := &s.dot
	*d = dotJob{data: keys, hop: a.Keys.Stride, stride: 4 * a.Keys.Stride, rows: rows / 4, blocks: k, ldx: k, ldy: attentionBlock, yhop: 1, ystep: 4,
		ahead: d.ahead, later: d.later}
	most := maxWideDotColumns
	if a.Keys.Type == gguf.Q8_0 {
		d.blocks, most = k/blockK, maxDotColumns
	}
	count := (n + most - 1) / most
	ahead, later := d.ahead, d.later
	shares := min(count, d.rows/2) // each asks for at least a line with every row
	for i := range count {
		c, columns := tileAt(n, count, i)
		d.columns, d.wide = columns, s.q[c*k:][:columns*k]
		if a.Keys.Type == gguf.Q8_0 {
			d.x = s.acts.rows(c, d.columns)
		}
		d.y = s.scores[c*attentionBlock+at:]
		d.ahead, d.later = nil, nil
		if i < shares {
			d.ahead, d.later = part(ahead, i, shares), part(later, i, shares)
		}
		s.dotKeys(d)
	}
}

// part is the share i of count of b.
func part(b []byte, i, count int) []byte { return b[len(b)*i/count : len(b)*(i+1)/count] }

// stretch is how many positions are decoded at a time: with 64 elements they fit the first-level cache.
const stretch = 64

// tileKeys does the same with panels of 16 positions, for all positions from lo to hi of the block.
func (s *AttentionScratch) tileKeys(a *Attention, pages func(i int) (keys, values []byte), from, lo, hi int) {
	n, k := len(s.states), a.Keys.Width
	if len(s.panel) < k*stretch {
		s.panel = alignedFloats(k * stretch)
	}
	count := tileCount(n)
	for p := lo; p < hi; p += stretch {
		panels := min(stretch, hi-p) / panelRows
		for i := range panels {
			at := p + i*panelRows
			keys, _ := pages(at / a.Page)
			s.keyPanel(a, s.panel[i*k*panelRows:], keys[at%a.Page*a.Keys.Stride:])
		}
		for i := range count {
			first, columns := tileAt(n, count, i)
			s.tile = tileF32{n: columns, k: k, panels: panels, w: s.panel, ldw: panelRows, wstep: k * panelRows, x: s.q[first*k:], ldx: k, step: 1,
				y: s.scores[first*attentionBlock+p-from:], ldy: attentionBlock, init: zeros}
			s.set.tileF32(&s.tile)
		}
	}
}

// keyPanel decodes 16 positions.
func (s *AttentionScratch) keyPanel(a *Attention, panel []float32, keys []byte) {
	k := a.Keys.Width
	if _, ok := floatCodecs[a.Keys.Type]; ok {
		s.set.widen(a.Keys.Type, panel, rowBlocks{data: keys, stride: a.Keys.Stride}, k)
		return
	}
	s.rows = grow(s.rows, stretch*max(s.outWidth(a), k))
	codec := mustCodec(a.Keys.Type)
	for p := range panelRows {
		codec.Decode(s.rows[p*k:][:k], keys[p*a.Keys.Stride:][:a.Keys.bytes()])
	}
	s.set.transpose(panel, s.rows, k)
}

// mustCodec is the codec of a type that a Cache may have.
func mustCodec(t gguf.Type) *block.Codec {
	codec, err := block.ForType(t)
	if err != nil {
		panic(err)
	}
	return codec
}

// block turns scores of query i, for positions from lo on, into weights of the values.
func (s *AttentionScratch) block(a *Attention, i int, scores []float32, lo int, q *Query) {
	first, end := max(q.First-lo, 0), min(q.End-lo, len(scores))
	if first >= end { // sees nothing here
		clear(scores)
		return
	}
	for p := range scores[:first] {
		scores[p] = minusInfinity
	}
	for p := end; p < len(scores); p++ {
		scores[p] = minusInfinity
	}
	if a.Softcap != 0 {
		s.set.softcap(scores[first:end], scores[first:end], a.Softcap)
	}
	state := &s.states[i]
	if top := s.set.max(scores); !(top <= state.top) {
		width := s.outWidth(a)
		if state.top != minusInfinity { // else there is nothing yet
			factor := expGeneric(state.top - top)
			s.set.scale(s.out[i*width:][:width], s.out[i*width:][:width], factor)
			state.sum *= float64(factor)
		}
		state.top = top
	}
	state.sum += s.set.expSum(scores, state.top)
}

// weighJob is rows of values, data[r*stride:], times the weights that they have for some queries.
type weighJob struct {
	data        []byte
	stride      int
	rows, width int
	columns     int
	p           []float32 // of column c from c*ldp on
	ldp         int
	y           []float32 // y[c*ldy+i] += sum over r of p[c*ldp+r] * row r's element i
	ldy         int
}

// maxWeighColumns is the largest number of columns of a weighJob.
const maxWeighColumns = 3

// check panics unless everything that a routine touches is inside the slices. Rows are whole units of elements.
func (w *weighJob) check(unit, unitBytes int) {
	if w.rows < 1 || w.width < unit || w.width%unit != 0 || w.columns < 1 || w.columns > maxWeighColumns || w.stride < 0 || w.ldp < 0 || w.ldy < 0 {
		panic("kernel: values of impossible shape")
	}
	_ = w.data[:(w.rows-1)*w.stride+w.width/unit*unitBytes]
	_ = w.p[:(w.columns-1)*w.ldp+w.rows]
	_ = w.y[:(w.columns-1)*w.ldy+w.width]
}

// weighValues adds the values of the first rows positions of a page.
func (s *AttentionScratch) weighValues(a *Attention, values []byte, at, rows int) {
	n, width := len(s.states), s.outWidth(a)
	whole := a.Values.Width &^ 7
	if a.Values.Type == gguf.Q8_0 {
		whole = a.Values.Width
	}
	w := &s.weigh
	*w = weighJob{data: values, stride: a.Values.Stride, rows: rows, width: whole, ldp: attentionBlock, ldy: width}
	count := (n + maxWeighColumns - 1) / maxWeighColumns
	for i := range count {
		var c int
		c, w.columns = tileAt(n, count, i)
		w.p, w.y = s.scores[c*attentionBlock+at:], s.out[c*width:]
		if whole > 0 {
			s.weighRows(w)
		}
		for i := whole; i < a.Values.Width; i++ { // what is left of each row
			codec := floatCodecs[a.Values.Type]
			for r := range rows {
				v := codec.at(values[r*a.Values.Stride+i*codec.bytes:])
				for cc := range w.columns {
					w.y[cc*width+i] += float32(w.p[cc*attentionBlock+r] * v)
				}
			}
		}
	}
}

// tileValues adds the values of the positions from lo to hi of the block, decoded a stretch at a time; those that a query does not see have
// the weight 0.
func (s *AttentionScratch) tileValues(a *Attention, pages func(i int) (keys, values []byte), from, lo, hi int) {
	n, width := len(s.states), s.outWidth(a)
	s.rows = grow(s.rows, stretch*max(width, a.Keys.Width))
	count := tileCount(n)
	for p := lo; p < hi; p += stretch {
		rows := min(stretch, hi-p)
		for r := 0; r < rows; {
			_, values := pages((p + r) / a.Page)
			inPage := (p + r) % a.Page
			some := min(a.Page-inPage, rows-r)
			s.decodeRows(a.Values, s.rows[r*width:], values[inPage*a.Values.Stride:], width, some)
			r += some
		}
		for i := range count {
			first, columns := tileAt(n, count, i)
			y := s.out[first*width:]
			s.tile = tileF32{n: columns, k: rows, panels: width / panelRows, w: s.rows, ldw: width, wstep: panelRows,
				x: s.scores[first*attentionBlock+p-from:], ldx: attentionBlock, step: 1, y: y, ldy: width, init: y, ldi: width, istep: panelRows}
			s.set.tileF32(&s.tile)
		}
	}
}

// decodeRows widens positions of a cache into rows of width elements, those that a position does not have being zeros.
func (s *AttentionScratch) decodeRows(c Cache, dst []float32, src []byte, width, positions int) {
	size := c.bytes()
	if size == c.Stride && c.Width == width { // one after the other
		s.decode(c.Type, dst[:positions*width], src[:positions*size])
		return
	}
	for i := range positions {
		row := dst[i*width:][:width]
		clear(row[c.Width:])
		s.decode(c.Type, row[:c.Width], src[i*c.Stride:][:size])
	}
}

// decode widens elements of a type that a Cache may have.
func (s *AttentionScratch) decode(t gguf.Type, dst []float32, src []byte) {
	switch t {
	case gguf.F16:
		s.set.decodeF16(dst, src)
	case gguf.BF16:
		s.set.decodeBF16(dst, src)
	default:
		mustCodec(t).Decode(dst, src)
	}
}
