package infer

import (
	"strings"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// Tap shows what the operations of a model compute that is loaded with it (Options.Tap), and may put other values in their place. It is meant for
// proofs: the model runs a whole batch operation by operation. A tap serves one model.
type Tap struct {
	// After is called when an operation is done, in the order of the computation, from within Step. An error ends the pass: the operations that
	// follow are left out, and Step returns it.
	After func(op *TapOp) error

	weights map[Weight]*TapWeight
	pieces  map[string][]*TapWeight // by the tensor's name
}

// TapWeight is a tensor that a model multiplies by, or some consecutive rows of one that holds several weights.
type TapWeight struct {
	Tensor    string // name in the file
	Row, Rows int
	Width     int // elements of a row
}

// TapOp is an operation that is done. Its slices are valid, and Replace may be called, until the model goes on.
type TapOp struct {
	Layer int // number of the block, -1 outside of them
	// Name is that of the weight without "blk.N." and ".weight" (attn_norm, attn_q, ffn_down, output ...), also where one tensor holds several weights;
	// of operations without weights it is rope_q, rope_k, attention, activation, residual_attention, residual_ffn, scale, softcap or add_positions.
	Name   string
	Weight *TapWeight // nil for none
	Rows   int        // batch elements
	Values []float32  // the result, row after row
	Input  []float32  // what a product has been multiplied by, row after row; nil for other operations
	IDs    []int32    // the rows that have been looked up; nil for other operations

	replace func(values []float32)
}

// Replace puts values, as many as there are, in place of the operation's result. The operations that follow work on them.
func (op *TapOp) Replace(values []float32) { op.replace(values) }

// Weights are the weights that the model has bound, in no order.
func (t *Tap) Weights() []TapWeight {
	var list []TapWeight
	for _, pieces := range t.pieces {
		for _, w := range pieces {
			list = append(list, *w)
		}
	}
	return list
}

// fused are the weights of tensors that hold several.
var fused = map[string][]string{"attn_qkv": {"attn_q", "attn_k", "attn_v"}, "ffn_up": {"ffn_gate", "ffn_up"}}

// split takes a weight's name apart. layer is -1 outside of blocks.
func (t *Tap) split(w *TapWeight) (layer int, name string) {
	layer, name = arch.SplitName(strings.TrimSuffix(w.Tensor, ".weight"))
	pieces := t.pieces[w.Tensor]
	if names := fused[name]; len(pieces) > 1 && len(pieces) == len(names) {
		for i, piece := range pieces {
			if piece == w {
				name = names[i]
				break
			}
		}
	}
	return layer, name
}

// tapped is a backend whose operations a tap shows.
type tapped struct {
	Backend
	tap   *Tap
	layer int            // of the last operation that told
	calls map[string]int // in this block, by kind of operation
	err   error          // what the tap has ended the pass with
}

// tapped puts a backend under the options' tap, if there is one.
func (o *Options) tapped(be Backend) Backend {
	if o.Tap == nil {
		return be
	}
	o.Tap.weights, o.Tap.pieces = map[Weight]*TapWeight{}, map[string][]*TapWeight{}
	return &tapped{Backend: be, tap: o.Tap, layer: -1, calls: map[string]int{}}
}

// Bind notes which rows of which tensor a weight is: pieces of one tensor are bound in order.
func (t *tapped) Bind(tensor *gguf.Tensor, data []byte) (Weight, error) {
	w, err := t.Backend.Bind(tensor, data)
	if err != nil {
		return nil, err
	}
	width, rows := w.Size()
	piece := &TapWeight{Tensor: tensor.Name, Rows: rows, Width: width}
	for _, before := range t.tap.pieces[tensor.Name] {
		piece.Row += before.Rows
	}
	t.tap.weights[w] = piece
	t.tap.pieces[tensor.Name] = append(t.tap.pieces[tensor.Name], piece)
	return w, nil
}

// enter notes the block of the operations that follow.
func (t *tapped) enter(layer int) {
	if layer != t.layer {
		t.layer = layer
		clear(t.calls)
	}
}

// weighted is an operation with a weight.
func (t *tapped) weighted(w Weight) *TapOp {
	op := &TapOp{Weight: t.tap.weights[w]}
	if op.Weight != nil {
		op.Layer, op.Name = t.tap.split(op.Weight)
		t.enter(op.Layer)
	}
	return op
}

// plain is an operation without weights. Of several names each call in a block takes the next.
func (t *tapped) plain(kind string, names ...string) *TapOp {
	op := &TapOp{Layer: t.layer, Name: kind}
	if len(names) > 0 {
		op.Name = names[t.calls[kind]%len(names)]
		t.calls[kind]++
	}
	return op
}

// show hands a result to the tap.
func (t *tapped) show(op *TapOp, dst Buffer) {
	if t.err != nil || t.tap.After == nil {
		return
	}
	var width int
	op.Rows, width = dst.Shape()
	if op.Values, t.err = t.Backend.Read(dst); t.err != nil {
		return
	}
	op.replace = func(values []float32) { t.Backend.Upload(dst, width, values) }
	t.err = t.tap.After(op)
}

func (t *tapped) Embed(dst Buffer, table Weight, ids []int32) {
	if w := t.tap.weights[table]; w != nil && w.Tensor == "token_embd.weight" {
		t.err = nil // a new pass
	}
	if t.err != nil {
		return
	}
	t.Backend.Embed(dst, table, ids)
	op := t.weighted(table)
	op.IDs = ids
	t.show(op, dst)
}

func (t *tapped) MatMul(x Buffer, out ...Product) {
	if t.err != nil {
		return
	}
	t.Backend.MatMul(x, out...)
	input, err := t.Backend.Read(x)
	if err != nil {
		t.err = err
		return
	}
	for _, p := range out {
		op := t.weighted(p.Weight)
		op.Input = input
		if op.Name == "token_embd" {
			op.Name = "output" // that are tied
		}
		t.show(op, p.Dst)
	}
}

func (t *tapped) Norm(dst, x Buffer, n *Norm) {
	if t.err != nil {
		return
	}
	t.Backend.Norm(dst, x, n)
	t.show(t.weighted(n.Weight), dst)
}

func (t *tapped) Rope(x, angles Buffer, headDim int, pairs Pairing) {
	if t.err != nil {
		return
	}
	t.Backend.Rope(x, angles, headDim, pairs)
	t.show(t.plain("rope", "rope_q", "rope_k"), x)
}

func (t *tapped) Attention(dst, q, k, v Buffer, a *Attention) {
	if t.err != nil {
		return
	}
	t.enter(a.Layer)
	t.Backend.Attention(dst, q, k, v, a)
	t.show(t.plain("attention"), dst)
}

func (t *tapped) Activate(x, up Buffer, f Activation) {
	if t.err != nil {
		return
	}
	t.Backend.Activate(x, up, f)
	t.show(t.plain("activation"), x)
}

func (t *tapped) Add(dst, x Buffer) {
	if t.err != nil {
		return
	}
	t.Backend.Add(dst, x)
	if t.layer < 0 {
		t.show(t.plain("add_positions"), dst)
		return
	}
	t.show(t.plain("add", "residual_attention", "residual_ffn"), dst)
}

func (t *tapped) Scale(x Buffer, factor float32) {
	if t.err != nil {
		return
	}
	t.Backend.Scale(x, factor)
	t.show(t.plain("scale"), x)
}

func (t *tapped) Softcap(x Buffer, limit float32) {
	if t.err != nil {
		return
	}
	t.Backend.Softcap(x, limit)
	t.show(t.plain("softcap"), x)
}

func (t *tapped) Gather(dst, x Buffer, rows []int) {
	if t.err != nil {
		return
	}
	t.enter(-1)
	t.Backend.Gather(dst, x, rows)
}

func (t *tapped) Read(x Buffer) ([]float32, error) {
	if t.err != nil {
		return nil, t.err
	}
	return t.Backend.Read(x)
}
