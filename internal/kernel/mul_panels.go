package kernel

// panel computes the rows of one panel, from row lo on, for all columns.
func (m *Multiplier) panel(w *workspace, j *job, x []float32, n, lo int) {
	src := rowBlocks{data: j.W.data[lo*j.W.stride:], stride: j.W.stride, blocks: j.W.blocks}
	out := &w.out
	*out = panelOut{y: j.Y[lo:], ldy: j.W.rows, bias: j.Bias, rows: min(panelRows, j.W.rows-lo)}
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
		m.tiles(w, j, src, n, lo)
	case byRounded:
		m.wideTiles(w, j.W, src, m.rounded, n)
	default:
		m.wideTiles(w, j.W, src, m.wide, n)
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
func (m *Multiplier) tiles(w *workspace, j *job, src rowBlocks, n, lo int) {
	out := &w.out
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
	for i, run := 0, 0; i < count; i += run {
		first, columns := tileAt(n, count, i)
		run = min(tilesLike(n, count, i), max(callBlocks/groups, 1))
		t := &w.tile
		*t = tile{n: columns, blocks: groups, tiles: run, w: w.panel, q: q[first*j.W.k*format.activationBytes():],
			s: m.packed.s[2*first*groups:], h: m.packed.h[2*first*groups:], init: out.initial(),
			ahead: next[len(next)*i/count : len(next)*(i+run)/count]}
		t.y, t.ldy = out.target(first)
		m.set.tile(format, t)
	}
}

// callBlocks is about how many panel blocks a call of a tile kernel multiplies: what takes some 100 microseconds. The garbage collector
// cannot stop a thread in between.
const callBlocks = 2048

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
const wideBlock = 1024

// wideTiles decodes the panel, block by block, and multiplies it with all columns of x. The sum of an element goes on from block
// to block as if there were none.
func (m *Multiplier) wideTiles(w *workspace, mat *Matrix, src rowBlocks, x []float32, n int) {
	out := &w.out
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
