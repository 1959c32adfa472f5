package infer

import (
	"context"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// Trace watches the operations of a model that is loaded with it (Options.Trace). What a backend carries out late is charged to the
// operation that waits for it. A trace serves one model at a time, and is not safe for concurrent use; its settings may change between passes.
type Trace struct {
	Paused bool // take no notice
	Timed  bool // measure how long operations take
	Spans  int  // keep the times of this many operations for WriteEvents; those that come later are counted only. Needs Timed
	Labels bool // mark samples of a CPU profile with "layer" and "operation"

	ops   map[traceKey]*TraceOp
	order []*TraceOp
	last  *TraceOp // the operation before
	spans []traceSpan
	lost  int // operations that Spans had no room for
	pass  int // number of the pass at hand
	start time.Time
}

// TraceOp is the sum of an operation's calls in one block.
type TraceOp struct {
	Kind    string // "matmul", "attention", "norm", "rope" and so on
	Weights string // the tensors that take part, without "blk.N." and ".weight", joined by "+"; "" for none
	Types   string // of those tensors, each once, joined by "+"
	Layer   int    // number of the block, -1 outside of them
	Integer bool   // its multiplications are of 8-bit integers: fast precision with quantized weights
	Calls   int
	Time    time.Duration // 0 where the trace is not timed
	MACs    uint64        // multiplications with additions, of products and of attention; other operations have none
	Bytes   uint64        // stored weights and cached keys and values that were read, each once per call

	labels context.Context
	key    traceKey
	next   *TraceOp // what came behind it the last time
	macs   uint64   // for one row with the weights
	stored uint64   // bytes of the weights
}

// Name is what a table calls the operation: "matmul attn_q+attn_k+attn_v".
func (o *TraceOp) Name() string { return strings.TrimSuffix(o.Kind+" "+o.Weights, " ") }

// cost is the multiplications for one row with the weights, and the bytes of these.
func (o *TraceOp) cost() (macs, bytes uint64) {
	if o == nil { // the trace is paused
		return 0, 0
	}
	return o.macs, o.stored
}

// traceKey tells operations apart. Of several weights the first counts; where there is none, the layer.
type traceKey struct {
	kind   string
	weight Weight
	layer  int
}

// traceSpan is one call.
type traceSpan struct {
	op          *TraceOp
	pass, rows  int
	start, end  time.Duration // since Trace.start
	macs, bytes uint64
}

// Ops are the sums since the last Reset, in the order of the first calls.
func (t *Trace) Ops() []TraceOp {
	out := make([]TraceOp, len(t.order))
	for i, op := range t.order {
		out[i] = *op
	}
	return out
}

// Reset forgets the sums. Spans stay.
func (t *Trace) Reset() { t.ops, t.order, t.last = nil, nil, nil }

// traced is a backend under a trace's eyes. What it does not watch goes straight to the backend.
type traced struct {
	Backend
	trace   *Trace
	integer bool          // products with quantized weights are of integers
	cache   gguf.TypeInfo // of keys and values
	weights map[Weight]tracedWeight
	layer   int      // of the last operation that told
	list    []Weight // of the product at hand
}

// tracedWeight is what a trace knows of a weight.
type tracedWeight struct {
	name      string // without "blk.N." and ".weight"
	layer     int    // -1 outside of blocks
	typ       gguf.Type
	bytes     uint64
	quantized bool
}

// traced puts a backend under the eyes of the options' trace, if there is one.
func (o *Options) traced(be Backend) Backend {
	if o.Trace == nil {
		return be
	}
	cache, _ := o.cacheType().Info()
	return &traced{
		Backend: be, trace: o.Trace, integer: o.Precision == Fast, cache: cache, weights: map[Weight]tracedWeight{}, layer: -1,
	}
}

// Bind notes the tensor's name.
func (t *traced) Bind(tensor *gguf.Tensor, data []byte) (Weight, error) {
	w, err := t.Backend.Bind(tensor, data)
	if err != nil {
		return nil, err
	}
	info := tracedWeight{typ: tensor.Type, bytes: uint64(len(data))}
	info.layer, info.name = arch.SplitName(strings.TrimSuffix(tensor.Name, ".weight"))
	if row, ok := tensor.Type.Info(); ok {
		info.quantized = row.Block > 1
	}
	t.weights[w] = info
	return w, nil
}

// op finds the sums of an operation, nil while the trace is paused. The layer is that of the weights, or of the operation before.
func (t *traced) op(kind string, weights ...Weight) *TraceOp {
	if t.trace.Paused {
		return nil
	}
	key := traceKey{kind: kind}
	if len(weights) > 0 {
		key.weight = weights[0]
	} else {
		key.layer = t.layer
	}
	op := t.find(key, weights)
	t.layer, t.trace.last = op.Layer, op
	return op
}

// find finds the operation with a key. Mostly it is the one that came behind the last the time before.
func (t *traced) find(key traceKey, weights []Weight) *TraceOp {
	last := t.trace.last
	if last != nil && last.next != nil && last.next.key == key {
		return last.next
	}
	op, ok := t.trace.ops[key]
	if !ok {
		op = t.newOp(key, weights)
	}
	if last != nil {
		last.next = op
	}
	return op
}

// newOp starts the sums of an operation.
func (t *traced) newOp(key traceKey, weights []Weight) *TraceOp {
	op := &TraceOp{Kind: key.kind, Layer: key.layer, key: key}
	if len(weights) > 0 {
		op.Layer = t.weights[key.weight].layer
	}
	var names, types []string
	for _, w := range weights {
		info := t.weights[w]
		if !slices.Contains(names, info.name) {
			names = append(names, info.name)
		}
		if typ := info.typ.String(); !slices.Contains(types, typ) {
			types = append(types, typ)
		}
		op.Integer = key.kind == "matmul" && t.integer && info.quantized
		width, rows := w.Size()
		op.macs += uint64(width) * uint64(rows)
		op.stored += info.bytes
	}
	op.Weights, op.Types = strings.Join(names, "+"), strings.Join(types, "+")
	op.labels = pprof.WithLabels(context.Background(), pprof.Labels("operation", op.Name(), "layer", strconv.Itoa(op.Layer)))
	if t.trace.ops == nil {
		t.trace.ops = map[traceKey]*TraceOp{}
	}
	t.trace.ops[key] = op
	t.trace.order = append(t.trace.order, op)
	return op
}

// labeler is a backend whose threads can carry profiler labels.
type labeler interface {
	// label gives the labels to all threads but the caller's that work on the next operations.
	label(ctx context.Context)
}

// label gives the labels to the pool's threads; the caller's has them.
func (c *cpu) label(ctx context.Context) { c.pool.SetLabels(ctx) }

// begin starts an operation.
func (t *traced) begin(op *TraceOp) time.Time {
	if op == nil {
		return time.Time{}
	}
	if t.trace.Labels {
		t.label(op.labels)
	}
	if !t.trace.Timed {
		return time.Time{}
	}
	now := time.Now()
	if t.trace.start.IsZero() {
		t.trace.start = now
	}
	return now
}

func (t *traced) label(ctx context.Context) {
	pprof.SetGoroutineLabels(ctx)
	if be, ok := t.Backend.(labeler); ok {
		be.label(ctx)
	}
}

// end counts an operation on a number of rows.
func (t *traced) end(op *TraceOp, start time.Time, rows int, macs, bytes uint64) {
	if op == nil {
		return
	}
	op.Calls++
	op.MACs += macs
	op.Bytes += bytes
	if tr := t.trace; tr.Timed {
		now := time.Now()
		op.Time += now.Sub(start)
		if len(tr.spans) < tr.Spans {
			tr.spans = append(tr.spans, traceSpan{op, tr.pass, rows, start.Sub(tr.start), now.Sub(tr.start), macs, bytes})
		} else {
			tr.lost++
		}
	}
	if t.trace.Labels {
		t.label(context.Background())
	}
}
