package infer

// The operations of a traced backend: each is told to the trace and carried out.

// rows is the number of rows of a buffer.
func rows(b Buffer) int {
	n, _ := b.Shape()
	return n
}

func (t *traced) Upload(dst Buffer, width int, values []float32) {
	t.layer = -1
	op := t.op("upload")
	start := t.begin(op)
	t.Backend.Upload(dst, width, values)
	t.end(op, start, rows(dst), 0, 0)
}

func (t *traced) Embed(dst Buffer, table Weight, ids []int32) {
	op := t.op("embed", table)
	if op != nil && op.Weights == "token_embd" {
		t.trace.pass++
	}
	start := t.begin(op)
	t.Backend.Embed(dst, table, ids)
	_, all := table.Size()
	_, bytes := op.cost()
	t.end(op, start, len(ids), 0, bytes/uint64(max(all, 1))*uint64(len(ids)))
}

func (t *traced) MatMul(x Buffer, out ...Product) {
	t.list = t.list[:0]
	for _, p := range out {
		t.list = append(t.list, p.Weight)
	}
	op := t.op("matmul", t.list...)
	start := t.begin(op)
	t.Backend.MatMul(x, out...)
	n := rows(x)
	macs, bytes := op.cost()
	t.end(op, start, n, uint64(n)*macs, bytes)
}

func (t *traced) Norm(dst, x Buffer, n *Norm) {
	op := t.op("norm", n.Weight)
	start := t.begin(op)
	t.Backend.Norm(dst, x, n)
	_, bytes := op.cost()
	t.end(op, start, rows(x), 0, bytes)
}

func (t *traced) Rope(x, angles Buffer, headDim int, pairs Pairing) {
	op := t.op("rope")
	start := t.begin(op)
	t.Backend.Rope(x, angles, headDim, pairs)
	t.end(op, start, rows(x), 0, 0)
}

func (t *traced) Attention(dst, q, k, v Buffer, a *Attention) {
	t.layer = a.Layer
	op := t.op("attention")
	macs, bytes := t.attended(a)
	start := t.begin(op)
	t.Backend.Attention(dst, q, k, v, a)
	t.end(op, start, rows(q), macs, bytes)
}

// attended counts the multiplications of queries with keys and of weights with values, and the bytes of keys and values that any query of a run sees.
func (t *traced) attended(a *Attention) (macs, bytes uint64) {
	position := uint64(a.KVHeads) * uint64(a.HeadK+a.HeadV) / t.cache.Block * t.cache.Bytes // heads are whole blocks
	for _, run := range a.Runs {
		var pairs uint64
		for i := range run.N {
			pairs += uint64(a.sees(run.Start + i))
		}
		macs += pairs * uint64(a.Heads) * uint64(a.HeadK+a.HeadV)
		seen := run.Start + run.N
		if a.Window > 0 {
			seen = min(seen, a.Window+run.N-1)
		}
		bytes += uint64(seen) * position
	}
	return macs, bytes
}

// sees is the number of positions that the query at a position attends to.
func (a *Attention) sees(position int) int {
	if a.Window > 0 {
		return min(position+1, a.Window)
	}
	return position + 1
}

func (t *traced) Activate(x, up Buffer, f Activation) {
	op := t.op("activate")
	start := t.begin(op)
	t.Backend.Activate(x, up, f)
	t.end(op, start, rows(x), 0, 0)
}

func (t *traced) Add(dst, x Buffer) {
	op := t.op("add")
	start := t.begin(op)
	t.Backend.Add(dst, x)
	t.end(op, start, rows(x), 0, 0)
}

func (t *traced) Scale(x Buffer, factor float32) {
	op := t.op("scale")
	start := t.begin(op)
	t.Backend.Scale(x, factor)
	t.end(op, start, rows(x), 0, 0)
}

func (t *traced) Softcap(x Buffer, limit float32) {
	op := t.op("softcap")
	start := t.begin(op)
	t.Backend.Softcap(x, limit)
	t.end(op, start, rows(x), 0, 0)
}

func (t *traced) Gather(dst, x Buffer, list []int) {
	op := t.op("gather")
	start := t.begin(op)
	t.Backend.Gather(dst, x, list)
	t.end(op, start, len(list), 0, 0)
}

func (t *traced) Read(x Buffer) ([]float32, error) {
	op := t.op("read")
	start := t.begin(op)
	values, err := t.Backend.Read(x)
	t.end(op, start, rows(x), 0, 0)
	return values, err
}
