package infer

import "math"

// decoder is a stack of transformer blocks between an embedding and an output, all as weights of one backend.
type decoder struct {
	be         Backend
	embed      Weight
	blocks     []layer
	outputNorm *Norm
	output     Linear
	rope       *rope // nil: positions are not rotated
	pairs      Pairing
	headK      int
	headV      int
	activation Activation

	// Buffers, reused by every pass. Rows are batch elements.
	x, h, angles   Buffer // residual stream; what branches off it; rotations
	q, k, v, heads Buffer
	gate, up       Buffer
	logits         Buffer
}

// layer is attention, then a feed-forward network, each on a normed copy of the stream that it adds to.
type layer struct {
	heads, kvHeads int
	attnNorm       *Norm
	q, k, v, attn  Linear
	qNorm, kNorm   *Norm // per head, or nil
	ffnNorm        *Norm
	gate           Linear // Weight nil: not gated
	up, down       Linear
}

// newBuffers makes the buffers; they grow with the batches.
func (d *decoder) newBuffers() {
	for _, b := range []*Buffer{&d.x, &d.h, &d.angles, &d.q, &d.k, &d.v, &d.heads, &d.gate, &d.up, &d.logits} {
		*b = d.be.NewBuffer()
	}
}

// start fills the residual stream: one row per element of the batch.
func (d *decoder) start(batch []Token) {
	ids := make([]int32, len(batch))
	for i, t := range batch {
		if t.Embed == nil {
			ids[i] = t.ID
		}
	}
	d.be.Embed(d.x, d.embed, ids)
	for i, t := range batch {
		if t.Embed != nil {
			d.be.SetRow(d.x, i, t.Embed)
		}
	}
	if d.rope != nil {
		var angles []float32
		for _, t := range batch {
			angles = d.rope.appendAngles(angles, t.Pos[0])
		}
		d.be.Upload(d.angles, 2*len(d.rope.freq), angles)
	}
}

// forward takes the residual stream through all blocks.
func (d *decoder) forward(runs []Run) {
	for il := range d.blocks {
		b := &d.blocks[il]

		d.be.Norm(d.h, d.x, b.attnNorm)
		d.be.MatMul(d.h, Product{b.q, d.q}, Product{b.k, d.k}, Product{b.v, d.v})
		if b.qNorm != nil {
			d.be.Norm(d.q, d.q, b.qNorm)
			d.be.Norm(d.k, d.k, b.kNorm)
		}
		if d.rope != nil {
			d.be.Rope(d.q, d.angles, d.headK, d.pairs)
			d.be.Rope(d.k, d.angles, d.headK, d.pairs)
		}
		d.be.Attention(d.heads, d.q, d.k, d.v, &Attention{
			Layer: il, Heads: b.heads, KVHeads: b.kvHeads, HeadK: d.headK, HeadV: d.headV,
			Scale: float32(1 / math.Sqrt(float64(d.headK))), Runs: runs,
		})
		d.be.MatMul(d.heads, Product{b.attn, d.h})
		d.be.Add(d.x, d.h)

		d.be.Norm(d.h, d.x, b.ffnNorm)
		if b.gate.Weight != nil {
			d.be.MatMul(d.h, Product{b.gate, d.gate}, Product{b.up, d.up})
			d.be.Activate(d.up, d.gate, d.up, d.activation)
		} else {
			d.be.MatMul(d.h, Product{b.up, d.up})
			d.be.Activate(d.up, nil, d.up, d.activation)
		}
		d.be.MatMul(d.up, Product{b.down, d.h})
		d.be.Add(d.x, d.h)
	}
}

// project turns rows of the residual stream into logits, one row of the vocabulary's size each, valid until the next operation.
func (d *decoder) project(rows []int) ([]float32, error) {
	d.be.Gather(d.h, d.x, rows)
	d.be.Norm(d.h, d.h, d.outputNorm)
	d.be.MatMul(d.h, Product{d.output, d.logits})
	return d.be.Read(d.logits)
}

// caches are the shapes of what each block remembers.
func (d *decoder) caches() []CacheShape {
	shapes := make([]CacheShape, len(d.blocks))
	for il, b := range d.blocks {
		shapes[il] = CacheShape{KVHeads: b.kvHeads, HeadK: d.headK, HeadV: d.headV}
	}
	return shapes
}
