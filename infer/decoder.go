package infer

// decoder is a stack of transformer blocks between an embedding and an output, all as weights of one backend.
type decoder struct {
	be         Backend
	embed      Weight
	embedScale float32 // of the embeddings of tokens
	positions  Weight  // a row for each position, added to its embedding; or nil
	rotations  []*rotation
	pairs      Pairing
	blocks     []layer
	activation Activation
	outputNorm *Norm
	output     Linear
	softcap    float32 // of the logits; 0: none

	// Buffers, reused by every pass. Rows are batch elements.
	x, h           Buffer // residual stream; what branches off it
	stream, kept   Buffer // x is the former, from where on it has fewer rows the latter
	q, k, v, heads Buffer
	hidden, up     Buffer
	logits         Buffer

	ids, pos []int32 // of the batch at hand
	last     []Product
	whole    bool // every operation is done for all rows
}

// layer is attention, then a feed-forward network, each on a normed copy of the stream that it adds to. Norms may be nil: there is none.
type layer struct {
	attnNorm      *Norm
	q, k, v, attn Linear
	qNorm, kNorm  *Norm     // per head
	rotation      *rotation // nil: positions are not rotated
	attention     Attention // with the runs of the batch at hand
	attnPost      *Norm     // of what attention computes

	ffnNorm  *Norm
	gate     Linear // Weight nil: not gated
	up, down Linear
	ffnPost  *Norm

	// The products of the linear parts, with where their results go.
	toHeads, fromHeads, toHidden, fromHidden []Product
}

// rotation is a rotary embedding and its angles for the batch at hand.
type rotation struct {
	*rope
	angles Buffer
}

// newBuffers makes the buffers; they grow with the batches.
func (d *decoder) newBuffers() {
	for _, b := range []*Buffer{&d.stream, &d.kept, &d.h, &d.q, &d.k, &d.v, &d.heads, &d.hidden, &d.up, &d.logits} {
		*b = d.be.NewBuffer()
	}
	for _, r := range d.rotations {
		r.angles = d.be.NewBuffer()
	}
	for il := range d.blocks {
		b := &d.blocks[il]
		b.toHeads = []Product{{b.q, d.q}, {b.k, d.k}, {b.v, d.v}}
		b.fromHeads = []Product{{b.attn, d.h}}
		b.toHidden = []Product{{b.up, d.hidden}}
		if b.gate.Weight != nil {
			b.toHidden = []Product{{b.gate, d.hidden}, {b.up, d.up}}
		}
		b.fromHidden = []Product{{b.down, d.h}}
	}
	d.last = []Product{{d.output, d.logits}}
}

// start fills the residual stream: one row per element of the batch.
func (d *decoder) start(batch []Token) {
	d.ids, d.pos = grow(d.ids, len(batch)), grow(d.pos, len(batch))
	ids, positions := d.ids, d.pos
	clear(ids)
	for i, t := range batch {
		positions[i] = t.Pos[0]
		if t.Embed == nil {
			ids[i] = t.ID
		}
	}
	d.x = d.stream
	d.be.Embed(d.x, d.embed, ids)
	if d.embedScale != 1 {
		d.be.Scale(d.x, d.embedScale)
	}
	for i, t := range batch {
		if t.Embed != nil {
			d.be.SetRow(d.x, i, t.Embed)
		}
	}
	if d.positions != nil {
		d.be.Embed(d.h, d.positions, positions)
		d.be.Add(d.x, d.h)
	}
	for _, r := range d.rotations {
		d.be.Upload(r.angles, 2*len(r.freq), r.table(positions))
	}
}

// forward takes the residual stream through all blocks. Of its rows it leaves those that are wanted: behind the last attention nothing needs the others.
func (d *decoder) forward(runs []Run, wanted []int) {
	for il := range d.blocks {
		b := &d.blocks[il]

		d.be.Norm(d.h, d.x, b.attnNorm)
		d.be.MatMul(d.h, b.toHeads...)
		if b.qNorm != nil {
			d.be.Norm(d.q, d.q, b.qNorm)
			d.be.Norm(d.k, d.k, b.kNorm)
		}
		if b.rotation != nil {
			d.be.Rope(d.q, b.rotation.angles, b.attention.HeadK, d.pairs)
			d.be.Rope(d.k, b.rotation.angles, b.attention.HeadK, d.pairs)
		}
		b.attention.Runs = runs
		d.be.Attention(d.heads, d.q, d.k, d.v, &b.attention)
		heads := d.heads
		if il == len(d.blocks)-1 && len(wanted) < len(d.ids) && !d.whole {
			if len(wanted) == 0 {
				return
			}
			d.be.Gather(d.q, heads, wanted)
			heads = d.q
			d.keep(wanted)
		}
		d.be.MatMul(heads, b.fromHeads...)
		d.add(b.attnPost)

		d.be.Norm(d.h, d.x, b.ffnNorm)
		d.be.MatMul(d.h, b.toHidden...)
		if b.gate.Weight != nil {
			d.be.Activate(d.hidden, d.up, d.activation)
		} else {
			d.be.Activate(d.hidden, nil, d.activation)
		}
		d.be.MatMul(d.hidden, b.fromHidden...)
		d.add(b.ffnPost)
	}
	if d.whole {
		d.keep(wanted)
	}
}

// keep leaves some rows of the residual stream.
func (d *decoder) keep(rows []int) {
	d.be.Gather(d.kept, d.x, rows)
	d.x = d.kept
}

// add ends a branch: it joins the stream.
func (d *decoder) add(post *Norm) {
	if post != nil {
		d.be.Norm(d.h, d.h, post)
	}
	d.be.Add(d.x, d.h)
}

// project turns rows of the residual stream into logits, one row of the vocabulary's size each, valid until the next operation.
func (d *decoder) project(rows []int) ([]float32, error) {
	d.be.Gather(d.h, d.x, rows)
	d.be.Norm(d.h, d.h, d.outputNorm)
	d.be.MatMul(d.h, d.last...)
	if d.softcap > 0 {
		d.be.Softcap(d.logits, d.softcap)
	}
	return d.be.Read(d.logits)
}

// caches are the shapes of what each block remembers.
func (d *decoder) caches() []CacheShape {
	shapes := make([]CacheShape, len(d.blocks))
	for il := range d.blocks {
		a := &d.blocks[il].attention
		shapes[il] = CacheShape{KVHeads: a.KVHeads, HeadK: a.HeadK, HeadV: a.HeadV}
	}
	return shapes
}
