package kernel

import (
	"github.com/ggufkit/ggufkit/internal/par"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// Product is one result of Multiplier.Mul: y = W x + bias.
type Product struct {
	W    *Matrix
	Bias []float32 // one value for each row of W, or nil
	// Y is written: for each row of x the rows of W, one after the other.
	Y []float32
}

// Multiplier multiplies activations with matrices on a pool of threads. It owns what that needs besides the operands: the activations
// in 8 bits and a panel for each thread. One goroutine may use it at a time.
//
// Every element of a result is computed by one thread in an order that does not depend on the number of threads. In exact precision
// nor does it depend on the number of rows of x. Otherwise it does, by rounding errors of float32 alone: the activations
// are the same 8-bit integers with any number of rows (see block.Activations).
type Multiplier struct {
	set     *set
	pool    *par.Pool
	exact   bool
	acts    activations
	packed  packed
	blocks  []block.Activations // for types whose dot product is portable
	wide    []float32           // activations in float32, packed for tiles: [k][columns of the tile]
	rounded []float32           // the same in 8 bits and widened again, for types that tile kernels cannot take
	workers []workspace
	jobs    []job
}

// workspace is what one worker computes in.
type workspace struct {
	panel []byte    // int formats
	wide  []float32 // float32 panel
	rows  []float32 // decoded rows
	y     []float32 // results on their way to where they belong
	short []byte    // stored rows of a matrix with fewer than a panel has
	// What the kernels are called with is here, as otherwise each call would allocate.
	tile    tile
	tileF32 tileF32
	dots    dotJob
}

// NewMultiplier makes a multiplier; exact chooses float32 activations instead of 8 bits.
func NewMultiplier(pool *par.Pool, exact bool) *Multiplier {
	return newMultiplier(current(), pool, exact)
}

func newMultiplier(s *set, pool *par.Pool, exact bool) *Multiplier {
	return &Multiplier{set: s, pool: pool, exact: exact, workers: make([]workspace, pool.Threads())}
}

// method is how a product is computed.
type method int

const (
	byTiles     method = iota // panels of integers times packed activations in 8 bits
	byDots                    // stored rows times activations in 8 bits
	byCodec                   // the same with the portable dot products of block.Codec
	byWideTiles               // decoded panels times activations in float32
	byWideDots                // rows of floats times activations in float32
	byRounded                 // decoded panels times activations in 8 bits that are widened again
)

// job is a product and how its rows are shared out: count pieces of grain rows.
type job struct {
	*Product
	method       method
	grain, count int
	// The set's routines for the type, where the method has need of them.
	dot    func(d *dotJob)
	unpack func(dst []byte, src rowBlocks)
	panel  panelFormat
}

// Mul multiplies n rows of x, each as long as the matrices' rows, with all matrices. Y may not overlap x.
func (m *Multiplier) Mul(x []float32, n int, products ...Product) {
	if n == 0 || len(products) == 0 {
		return
	}
	k := products[0].W.k
	x = x[:n*k]
	m.jobs = m.jobs[:0]
	for i := range products {
		p := &products[i]
		if p.W.k != k {
			panic("kernel: matrices of one product have rows of different length")
		}
		_ = p.Y[:n*p.W.rows]
		m.jobs = append(m.jobs, m.newJob(p, n))
	}
	m.prepare(x, n, k)
	m.shareOut()
	total := 0
	for _, j := range m.jobs {
		total += j.count
	}
	m.pool.For(total, func(worker, i int) {
		for j := range m.jobs {
			job := &m.jobs[j]
			if i < job.count {
				m.piece(&m.workers[worker], job, x, n, i*job.grain, min((i+1)*job.grain, job.W.rows))
				return
			}
			i -= job.count
		}
	})
}

// Below these numbers of rows of x, stored rows are multiplied as they are; from there on unpacking panels pays.
const (
	maxDots      = 4
	maxWideDots  = 24
	maxCodecDots = 3
)

// newJob decides how a product is computed for n rows of x.
func (m *Multiplier) newJob(p *Product, n int) job {
	j := job{Product: p, method: byRounded}
	typ := p.W.typ
	switch {
	case m.exact:
		j.method = byWideTiles
	case p.W.floats():
		j.method = byWideTiles
		if j.dot = m.set.wideDot(typ); j.dot != nil && n <= maxWideDots {
			j.method = byWideDots
		}
	default:
		u, tiles := unpackings[typ]
		j.dot = m.set.dot(typ)
		switch {
		case j.dot != nil && n <= maxDots:
			j.method = byDots
		case p.W.codec.Dot != nil && n <= maxCodecDots:
			j.method = byCodec
		case tiles:
			j.method, j.panel, j.unpack = byTiles, u.panel, m.set.unpack(typ)
		}
	}
	return j
}

// prepare brings the activations into the forms that the jobs need.
func (m *Multiplier) prepare(x []float32, n, k int) {
	var quantized, bytes, words, codec, wide, rounded bool
	for _, j := range m.jobs {
		switch j.method {
		case byDots:
			quantized = true
		case byTiles:
			quantized = true
			if j.panel == panelI16 {
				words = true
			} else {
				bytes = true
			}
		case byRounded:
			quantized, rounded = true, true
		case byCodec:
			codec = true
		case byWideTiles:
			wide = true
		}
	}
	if quantized {
		m.set.quantizeRows(m.pool, &m.acts, x, n, k)
	}
	if bytes || words {
		m.set.pack(m.pool, &m.packed, &m.acts, bytes, words)
	}
	if codec {
		m.blocks = append(m.blocks, make([]block.Activations, max(n-len(m.blocks), 0))...)
		m.pool.For(n, func(_, i int) { m.blocks[i].Quantize(x[i*k:][:k]) })
	}
	if wide {
		m.wide = m.packWide(m.wide, n, k, func(c int) []float32 { return x[c*k:][:k] })
	}
	if rounded {
		m.rounded = m.packWide(m.rounded, n, k, func(c int) []float32 {
			a, row := m.acts.row(c), make([]float32, k)
			for i, q := range a.q {
				row[i] = float32(q) * a.d[i/blockK]
			}
			return row
		})
	}
}

// packWide lays out columns of k elements for tiles: element i of column c of a tile is at i*columns+c, from first*k on.
func (m *Multiplier) packWide(dst []float32, n, k int, column func(c int) []float32) []float32 {
	dst = grow(dst, n*k)
	count := tileCount(n)
	m.pool.For(count, func(_, i int) {
		first, columns := tileAt(n, count, i)
		for c := range columns {
			at := first*k + c
			for _, v := range column(first + c) {
				dst[at] = v
				at += columns
			}
		}
	})
	return dst
}

const (
	// piecesPerThread is about how many pieces of work each thread gets, so that they end together.
	piecesPerThread = 8
	// streamRows is the largest number of consecutive rows of each of the four streams that are read together.
	streamRows = 64
	// maxPanels is the largest number of panels in a piece.
	maxPanels = 4
)

// shareOut splits the rows of every job into pieces. No result depends on it.
func (m *Multiplier) shareOut() {
	pieces := piecesPerThread * m.pool.Threads()
	for i := range m.jobs {
		j := &m.jobs[i]
		if j.method == byDots || j.method == byWideDots || j.method == byCodec {
			j.grain = 4 * min(max(j.W.rows/(4*pieces), 1), streamRows)
		} else {
			j.grain = panelRows * min(max(j.W.rows/(panelRows*pieces), 1), maxPanels)
		}
		j.count = (j.W.rows + j.grain - 1) / j.grain
	}
}

// piece computes rows [lo, hi) of a job.
func (m *Multiplier) piece(w *workspace, j *job, x []float32, n, lo, hi int) {
	switch j.method {
	case byDots, byWideDots:
		m.dotRows(w, j, x, n, lo, hi)
	case byCodec:
		for r := lo; r < hi; r++ {
			row := j.W.stored(r, 1)
			for c := range n {
				y := j.W.codec.Dot(row, &m.blocks[c])
				if j.Bias != nil {
					y += j.Bias[r]
				}
				j.Y[c*j.W.rows+r] = y
			}
		}
	default:
		for ; lo < hi; lo += panelRows {
			m.panel(w, j, x, n, lo)
		}
	}
}

// dotJob is four streams of rows times at most maxDotColumns columns, or maxWideDotColumns of float32: row r of stream i starts at data[i*hop+r*stride].
type dotJob struct {
	data        []byte
	hop, stride int
	rows        int // of each stream
	blocks      int // of a row; elements where these are floats
	x           activations
	wide        []float32 // for floats: columns of blocks elements, ldx apart
	ldx         int
	columns     int
	y           []float32 // the product with column c is y[c*ldy+4*r+i]
	ldy         int
}

// check panics unless everything that a dot kernel touches is inside the slices.
func (d *dotJob) check(rowBytes, maxColumns int) {
	if d.rows < 1 || d.blocks < 1 || d.columns < 1 || d.columns > maxColumns || d.hop < 0 || d.stride < 0 || d.ldy < 0 || d.ldx < 0 {
		panic("kernel: dot product of impossible shape")
	}
	_ = d.data[:3*d.hop+(d.rows-1)*d.stride+rowBytes]
	_ = d.y[:(d.columns-1)*d.ldy+4*d.rows]
}

// The largest numbers of columns that dot kernels take.
const (
	maxDotColumns     = 4
	maxWideDotColumns = 3
)

// callBytes bounds what one call of a kernel reads, since it cannot be interrupted: about 20 microseconds.
const callBytes = 256 << 10

// dotRows multiplies rows [lo, hi) as four streams, and what is left of them one by one.
func (m *Multiplier) dotRows(w *workspace, j *job, x []float32, n, lo, hi int) {
	d := &w.dots
	*d = dotJob{stride: j.W.stride, blocks: j.W.blocks}
	m.prefetchStreams(j, hi)
	stream := (hi - lo) / 4
	for r, step := 0, max(callBytes/(4*j.W.stride), 1); r < stream; r += step {
		d.rows = min(step, stream-r)
		d.hop = stream * j.W.stride
		d.data = j.W.data[(lo+r)*j.W.stride : (lo+3*stream+r+d.rows)*j.W.stride]
		m.dotColumns(w, j, x, n, lo+r, stream)
	}
	for r := lo + 4*stream; r < hi; r++ { // all streams are the same row
		d.rows, d.hop, d.data = 1, 0, j.W.stored(r, 1)
		m.dotColumns(w, j, x, n, r, 0)
	}
}

// streamStart is how much of each stream is asked for before it is read. From there on the dot kernels look ahead themselves.
const streamStart = 1 << 10

// prefetchStreams asks for the starts of the streams that this worker will probably read after a piece that ends at row hi.
func (m *Multiplier) prefetchStreams(j *job, hi int) {
	next := hi + (m.pool.Threads()-1)*j.grain
	rows := (min(next+j.grain, j.W.rows) - next) / 4
	if rows < 1 {
		return
	}
	for i := range 4 {
		b := j.W.stored(next+i*rows, rows)
		m.set.prefetch(b[:min(streamStart, len(b))])
	}
}

// dotColumns multiplies the rows of w.dots with all columns, a few at a time. Row r of stream i is row first+i*stream+r of the matrix.
func (m *Multiplier) dotColumns(w *workspace, j *job, x []float32, n, first, stream int) {
	d := &w.dots
	streams := 4
	if stream == 0 {
		streams = 1
	}
	most := maxDotColumns
	if j.method == byWideDots {
		most = maxWideDotColumns
	}
	d.ldy = 4 * d.rows
	w.y = grow(w.y, d.ldy*most)
	d.y = w.y
	for c := 0; c < n; c += most {
		d.columns = min(most, n-c)
		if j.method == byDots {
			d.x = m.acts.rows(c, d.columns)
		} else {
			d.wide, d.ldx = x[c*j.W.k:][:d.columns*j.W.k], j.W.k
		}
		j.dot(d)
		for i := range streams {
			for cc := range d.columns {
				row := first + i*stream
				out := j.Y[(c+cc)*j.W.rows+row:][:d.rows]
				y := d.y[cc*d.ldy+i:]
				for r := range out {
					out[r] = y[4*r]
				}
				if j.Bias != nil {
					m.set.add(out, j.Bias[row:][:d.rows])
				}
			}
		}
	}
}

// panel computes the rows of one panel, from row lo on, for all columns.
func (m *Multiplier) panel(w *workspace, j *job, x []float32, n, lo int) {
	src := rowBlocks{data: j.W.data[lo*j.W.stride:], stride: j.W.stride, blocks: j.W.blocks}
	out := panelOut{y: j.Y[lo:], ldy: j.W.rows, bias: j.Bias, rows: min(panelRows, j.W.rows-lo)}
	if out.bias != nil {
		out.bias = out.bias[lo:]
	}
	if out.rows < panelRows {
		src = m.lastRows(w, j.W, lo)
		w.y = grow(w.y, n*panelRows)
		out.toScratch(w.y)
	}
	switch j.method {
	case byTiles:
		m.tiles(w, j, src, &out, n, lo)
	case byRounded:
		m.wideTiles(w, j.W, src, &out, m.rounded, n)
	default:
		m.wideTiles(w, j.W, src, &out, m.wide, n)
	}
	out.finish(n)
}

// lastRows is a panel's worth of rows from row lo on, of which the matrix has fewer: the others are zeros.
func (m *Multiplier) lastRows(w *workspace, mat *Matrix, lo int) rowBlocks {
	w.short = grow(w.short, panelRows*mat.stride)
	clear(w.short[copy(w.short, mat.data[lo*mat.stride:]):])
	return rowBlocks{data: w.short, stride: mat.stride, blocks: mat.blocks}
}

// panelOut is where the results of a panel go.
type panelOut struct {
	y    []float32
	ldy  int
	bias []float32
	rows int
	// Of a panel with fewer rows the kernels write to scratch.
	scratch []float32
	padded  [panelRows]float32 // bias
}

func (o *panelOut) toScratch(scratch []float32) {
	o.scratch = scratch
	if o.bias != nil {
		copy(o.padded[:], o.bias[:o.rows])
		o.bias = o.padded[:]
	}
}

// target is where the tile of columns from c on is written.
func (o *panelOut) target(c int) (y []float32, ldy int) {
	if o.scratch != nil {
		return o.scratch[c*panelRows:], panelRows
	}
	return o.y[c*o.ldy:], o.ldy
}

// initial is what sums start with: the bias for every column, or nothing.
func (o *panelOut) initial() []float32 {
	if o.bias != nil {
		return o.bias
	}
	return zeros
}

// finish copies what went to the scratch.
func (o *panelOut) finish(n int) {
	if o.scratch == nil {
		return
	}
	for c := range n {
		copy(o.y[c*o.ldy:][:o.rows], o.scratch[c*panelRows:])
	}
}

// tiles unpacks the panel and multiplies it with all tiles of the packed activations.
func (m *Multiplier) tiles(w *workspace, j *job, src rowBlocks, out *panelOut, n, lo int) {
	format, groups := j.panel, j.W.k/blockK
	if size := groups * format.blockBytes(); len(w.panel) < size {
		w.panel = alignedBytes(size)
	}
	j.unpackPieces(w.panel, src)
	q := m.packed.q
	if format == panelI16 {
		q = m.packed.w
	}
	count := tileCount(n)
	next := m.nextPanel(j, lo)
	for i := range count {
		m.set.prefetch(next[len(next)*i/count : len(next)*(i+1)/count])
		first, columns := tileAt(n, count, i)
		t := &w.tile
		*t = tile{n: columns, blocks: groups, w: w.panel, q: q[first*j.W.k*format.activationBytes():],
			s: m.packed.s[2*first*groups:], h: m.packed.h[2*first*groups:], init: out.initial()}
		t.y, t.ldy = out.target(first)
		m.set.tile(format, t)
	}
}

// unpackPieces unpacks a panel, in pieces so that no call takes long.
func (j *job) unpackPieces(panel []byte, src rowBlocks) {
	size, elements := int(j.W.info.Bytes), int(j.W.info.Block)
	step := max(callBytes/(panelRows*size), 1)
	for b := 0; b < j.W.blocks; b += step {
		piece := rowBlocks{data: src.data[b*size:], stride: src.stride, blocks: min(step, j.W.blocks-b)}
		j.unpack(panel[b*elements/blockK*j.panel.blockBytes():], piece)
	}
}

// nextPanel is the stored rows that this worker will probably unpack after those from lo on: the next ones of its piece, or those of
// the piece after the ones that the other workers are at.
func (m *Multiplier) nextPanel(j *job, lo int) []byte {
	next := lo + panelRows
	if next%j.grain == 0 {
		next += (m.pool.Threads() - 1) * j.grain
	}
	if next+panelRows > j.W.rows {
		return nil
	}
	return j.W.stored(next, panelRows)
}

// wideBlock is how many elements of 16 rows are decoded at a time: 64 KB.
var wideBlock = 1024

// wideTiles decodes the panel, block by block, and multiplies it with all columns of x. The sum of an element goes on from block
// to block as if there were none.
func (m *Multiplier) wideTiles(w *workspace, mat *Matrix, src rowBlocks, out *panelOut, x []float32, n int) {
	if w.wide == nil {
		w.wide = alignedFloats(wideBlock * panelRows)
	}
	count := tileCount(n)
	for k0 := 0; k0 < mat.k; k0 += wideBlock {
		k := min(wideBlock, mat.k-k0)
		m.decodePanel(w, mat, src, k0, k)
		for i := range count {
			first, columns := tileAt(n, count, i)
			t := &w.tileF32
			*t = tileF32{n: columns, k: k, panels: 1, w: w.wide, ldw: panelRows, x: x[first*mat.k+k0*columns:], ldx: 1, step: columns, init: out.initial()}
			t.y, t.ldy = out.target(first)
			if k0 > 0 {
				t.init, t.ldi = t.y, t.ldy
			}
			m.set.tileF32(t)
		}
	}
}

// decodePanel widens k elements from k0 on of 16 rows into w.wide.
func (m *Multiplier) decodePanel(w *workspace, mat *Matrix, src rowBlocks, k0, k int) {
	at := k0 / int(mat.info.Block) * int(mat.info.Bytes)
	if mat.floats() {
		m.set.widen(mat.typ, w.wide, rowBlocks{data: src.data[at:], stride: src.stride}, k)
		return
	}
	if u, ok := unpackings[mat.typ]; ok && m.set.widenPanel != nil {
		if size := wideBlock / blockK * u.panel.blockBytes(); len(w.panel) < size {
			w.panel = alignedBytes(size)
		}
		m.set.unpack(mat.typ)(w.panel, rowBlocks{data: src.data[at:], stride: src.stride, blocks: k / int(mat.info.Block)})
		m.set.widenPanel(u.panel, w.wide, w.panel, u.offset, k/blockK)
		return
	}
	size := k / int(mat.info.Block) * int(mat.info.Bytes)
	w.rows = grow(w.rows, wideBlock*panelRows)
	for r := range panelRows {
		mat.codec.Decode(w.rows[r*k:][:k], src.data[r*src.stride+at:][:size])
	}
	m.set.transpose(w.wide, w.rows, k)
}
