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
	x       []float32 // rows of the product being computed, and how many
	n       int
	units   bool // scales of the activations are whole units, see block.Activations
	// Methods as functions for the pool, made once: to make them allocates.
	quantizeItem, codecItem, packItem, pieceItem func(worker, i int)
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
	out     panelOut
}

// NewMultiplier makes a multiplier; exact chooses float32 activations instead of 8 bits.
func NewMultiplier(pool *par.Pool, exact bool) *Multiplier {
	return newMultiplier(current(), pool, exact)
}

func newMultiplier(s *set, pool *par.Pool, exact bool) *Multiplier {
	m := &Multiplier{set: s, pool: pool, exact: exact, workers: make([]workspace, pool.Threads())}
	m.quantizeItem = func(_, i int) { s.quantize(m.acts.row(i), m.x[i*m.acts.k:][:m.acts.k]) }
	m.codecItem = func(_, i int) {
		k := len(m.x) / m.n
		quantize := m.blocks[i].Quantize
		if m.units {
			quantize = m.blocks[i].QuantizeUnits
		}
		quantize(m.x[i*k:][:k])
	}
	m.packItem = func(_, i int) { s.packTile(&m.packed, &m.acts, i) }
	m.pieceItem = m.findPiece
	return m
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
	Product
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
	m.x, m.n = x[:n*k], n
	for _, p := range products {
		if p.W.k != k {
			panic("kernel: matrices of one product have rows of different length")
		}
		_ = p.Y[:n*p.W.rows]
	}
	for _, m.units = range [...]bool{false, true} {
		m.jobs = m.jobs[:0]
		for _, p := range products {
			if units := !m.exact && p.W.info.Block == superBlock; units == m.units {
				m.jobs = append(m.jobs, m.newJob(p, n))
			}
		}
		if len(m.jobs) > 0 {
			m.mul(k)
		}
		clear(m.jobs) // keeps nothing of the caller's
	}
	m.x = nil
}

// mul computes the jobs, which want the same activations.
func (m *Multiplier) mul(k int) {
	m.prepare(m.x, m.n, k)
	m.shareOut()
	total := 0
	for i := range m.jobs {
		total += m.jobs[i].count
	}
	m.pool.For(total, m.pieceItem)
}

// findPiece computes piece i of all jobs' pieces.
func (m *Multiplier) findPiece(worker, i int) {
	for j := range m.jobs {
		job := &m.jobs[j]
		if i < job.count {
			m.piece(&m.workers[worker], job, m.x, m.n, i*job.grain, min((i+1)*job.grain, job.W.rows))
			return
		}
		i -= job.count
	}
}

// Below these numbers of rows of x, stored rows are multiplied as they are; from there on unpacking panels pays.
const (
	maxDots      = 4
	maxWideDots  = 24
	maxCodecDots = 3
)

// newJob decides how a product is computed for n rows of x.
func (m *Multiplier) newJob(p Product, n int) job {
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
	for i := range m.jobs {
		j := &m.jobs[i]
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
		m.acts.reshape(n, k, m.units)
		m.pool.For(n, m.quantizeItem)
	}
	if bytes || words {
		m.packed.reshape(&m.acts, bytes, words)
		m.pool.For(tileCount(n), m.packItem)
	}
	if codec {
		m.blocks = append(m.blocks, make([]block.Activations, max(n-len(m.blocks), 0))...)
		m.pool.For(n, m.codecItem)
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
		stored := j.method == byDots || j.method == byWideDots || j.method == byCodec
		switch {
		case stored && m.pool.Threads() == 1: // nobody to share with: the longest streams
			j.grain = 4 * streamOf(j.W.stride, max(j.W.rows/4, 1))
		case stored:
			j.grain = 4 * streamOf(j.W.stride, min(max(j.W.rows/(4*pieces), 1), streamRows))
		default:
			j.grain = panelRows * min(max(j.W.rows/(panelRows*pieces), 1), maxPanels)
		}
		j.count = (j.W.rows + j.grain - 1) / j.grain
	}
}

// streamOf is the number of rows of a stream: the most, or up to an eighth less if the streams are then whole pages apart, nearly. They cross the borders
// of pages together then, which suits the processor's prefetching: of the rate of reading Q6_K reaches 77 %, at other distances 74, Q8_0 88 and 86;
// Q4_K and Q4_0 the same (Zen 3).
func streamOf(stride, most int) int {
	const page, near = 4096, 256
	for n := most; n > most-most/8; n-- {
		if (n*stride+near)%page <= 2*near {
			return n
		}
	}
	return most
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
