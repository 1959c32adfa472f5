package kernel

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
	y           []float32 // see at
	// The distances of columns', streams' and rows' results. If yhop is 0 all streams are the same row.
	ldy, yhop, ystep int
	// What is read next, and what after that, where it lies somewhere else: it is asked for row by row. nil: nothing.
	ahead, later []byte
}

// asked is where ahead and later start, and how many lines of both each row asks for. What is beyond the end of the shorter one is harmless.
func (d *dotJob) asked() (ahead, later *byte, lines int) {
	if len(d.ahead) == 0 || len(d.later) == 0 {
		return nil, nil, 0
	}
	return &d.ahead[0], &d.later[0], ((max(len(d.ahead), len(d.later))+63)/64 + d.rows - 1) / d.rows
}

// at is where in y the product of row r of a stream with column c is.
func (d *dotJob) at(r, stream, c int) int { return c*d.ldy + stream*d.yhop + r*d.ystep }

// check panics unless everything that a dot kernel touches is inside the slices.
func (d *dotJob) check(rowBytes, maxColumns int) {
	if d.rows < 1 || d.blocks < 1 || d.columns < 1 || d.columns > maxColumns || d.hop < 0 || d.stride < 0 || d.ldy < 0 || d.yhop < 0 || d.ystep < 0 || d.ldx < 0 {
		panic("kernel: dot product of impossible shape")
	}
	_ = d.data[:3*d.hop+(d.rows-1)*d.stride+rowBytes]
	_ = d.y[d.at(d.rows-1, 3, d.columns-1)]
}

// columnsOf is the activations, which must be rows of as many blocks of so many elements.
func (d *dotJob) columnsOf(elements int) *activations {
	if d.x.n < d.columns || d.x.k != d.blocks*elements {
		panic("kernel: activations do not fit the rows")
	}
	_ = d.x.q[:d.columns*d.x.k]
	return &d.x
}

// The largest numbers of columns that dot kernels take.
const (
	maxDotColumns     = 4
	maxWideDotColumns = 3
)

// callBytes bounds what one call of a kernel reads, since it cannot be interrupted: some 100 to 200 microseconds for one column. Between calls the processor
// has to get Go's code and data back from behind the weights that have run through its caches: 0.3 microseconds, 1.5 % of the time at a quarter of a megabyte.
const callBytes = 2 << 20

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
const streamStart = 512

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
	d.ldy, d.yhop, d.ystep = j.W.rows, stream, 1
	for c := 0; c < n; c += most {
		d.columns = min(most, n-c)
		if j.method == byDots {
			d.x = m.acts.rows(c, d.columns)
		} else {
			d.wide, d.ldx = x[c*j.W.k:][:d.columns*j.W.k], j.W.k
		}
		d.y = j.Y[c*j.W.rows+first:]
		j.dot(d)
	}
	if j.Bias == nil {
		return
	}
	for c := range n {
		for i := range streams {
			row := first + i*stream
			m.set.add(j.Y[c*j.W.rows+row:][:d.rows], j.Bias[row:][:d.rows])
		}
	}
}
