package infer

import (
	"bytes"
	"encoding/json"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ggufkit/ggufkit/gguf"
)

// sumOps adds up the calls that keep picks.
func sumOps(t *Trace, keep func(TraceOp) bool) (sum TraceOp) {
	for _, op := range t.Ops() {
		if keep(op) {
			sum.Calls += op.Calls
			sum.Time += op.Time
			sum.MACs += op.MACs
			sum.Bytes += op.Bytes
		}
	}
	return sum
}

// TestTraceCounts compares multiplications and bytes with those that follow from the shapes.
func TestTraceCounts(t *testing.T) {
	window := quantTiny(gguf.Q8_0)
	window.keys = map[string]gguf.Value{"attention.sliding_window": u32(10)}
	for name, c := range map[string]struct {
		m      tiny
		window int
	}{
		"llama": {m: llamaTiny(), window: 1000},
		"Q4_K":  {m: quantTiny(gguf.Q4_K), window: 1000},
		"phi3":  {m: families()["phi3"], window: 1000}, // fused matrices
		"swa":   {m: window, window: 10},
	} {
		t.Run(name, func(t *testing.T) {
			m, trace := c.m, &Trace{}
			model := m.load(t, Options{Trace: trace})
			s := newSession(t, model)
			if _, err := s.Append(m.ids(20)); err != nil {
				t.Fatal(err)
			}
			trace.Reset()
			const start, n = 20, 7
			if _, err := s.Append(m.ids(n)); err != nil {
				t.Fatal(err)
			}
			tail := m.heads*m.headV*m.embd + 3*m.embd*m.ff // behind attention, which in the last block the one row with logits alone goes through
			block := m.embd*m.heads*m.headK + m.embd*m.kvHeads*(m.headK+m.headV) + tail
			if got, want := sumOps(trace, func(op TraceOp) bool { return op.Kind == "matmul" }).MACs, n*m.layers*block-(n-1)*tail+m.embd*m.vocab; got != uint64(want) {
				t.Errorf("%d multiplications of weights, want %d", got, want)
			}
			pairs := 0
			for i := range n {
				pairs += min(start+i+1, c.window)
			}
			attention := sumOps(trace, func(op TraceOp) bool { return op.Kind == "attention" })
			if want := m.layers * pairs * m.heads * (m.headK + m.headV); attention.MACs != uint64(want) {
				t.Errorf("%d multiplications of attention, want %d", attention.MACs, want)
			}
			if want := m.layers * min(start+n, c.window+n-1) * m.kvHeads * (m.headK + m.headV) * 2; attention.Bytes != uint64(want) {
				t.Errorf("%d bytes of keys and values, want %d", attention.Bytes, want)
			}
			want, err := m.matrix.RowBytes(uint64(m.layers*block + m.embd*m.vocab))
			if err != nil {
				t.Fatal(err)
			}
			if got := sumOps(trace, func(op TraceOp) bool { return op.Kind == "matmul" }).Bytes; got != want {
				t.Errorf("%d bytes of weights, want %d", got, want)
			}
		})
	}
}

// TestTraceNames: operations are told apart by kind, weights and block.
func TestTraceNames(t *testing.T) {
	trace := &Trace{}
	m := quantTiny(gguf.Q4_K)
	model := m.load(t, Options{Trace: trace})
	if _, err := newSession(t, model).Append(m.ids(2)); err != nil {
		t.Fatal(err)
	}
	find := func(name string, layer int) *TraceOp {
		ops := trace.Ops()
		i := slices.IndexFunc(ops, func(op TraceOp) bool { return op.Name() == name && op.Layer == layer })
		if i < 0 {
			t.Fatalf("no operation %q in block %d", name, layer)
		}
		return &ops[i]
	}
	for _, c := range []struct {
		name    string
		layer   int
		calls   int
		integer bool
		types   string
	}{
		{"embed token_embd", -1, 1, false, "Q4_K"},
		{"norm attn_norm", 0, 1, false, "F32"},
		{"matmul attn_q+attn_k+attn_v", 1, 1, true, "Q4_K"},
		{"rope", 1, 2, false, ""},
		{"attention", 1, 1, false, ""},
		{"matmul attn_output", 0, 1, true, "Q4_K"},
		{"matmul ffn_gate+ffn_up", 1, 1, true, "Q4_K"},
		{"activate", 1, 1, false, ""},
		{"add", 0, 2, false, ""},
		{"norm output_norm", -1, 1, false, "F32"},
		{"matmul output", -1, 1, true, "Q4_K"},
	} {
		op := find(c.name, c.layer)
		if op.Calls != c.calls || op.Integer != c.integer || op.Types != c.types {
			t.Errorf("%s in block %d: %d calls, integer %v, types %q; want %d, %v, %q",
				c.name, c.layer, op.Calls, op.Integer, op.Types, c.calls, c.integer, c.types)
		}
	}
}

// TestTraceTimes: operations do not overlap and lie within the time that the passes took; they change no bit.
func TestTraceTimes(t *testing.T) {
	m := quantTiny(gguf.Q8_0)
	want := all(t, newSession(t, m.load(t, Options{})), m.ids(40), 40)
	trace := &Trace{Timed: true}
	s := newSession(t, m.load(t, Options{Trace: trace}))
	start := time.Now()
	got := all(t, s, m.ids(40), 40)
	elapsed := time.Since(start)
	sameBits(t, "under a trace", got, want)
	sum := sumOps(trace, func(TraceOp) bool { return true })
	if sum.Time <= 0 || sum.Time > elapsed {
		t.Errorf("operations took %v of %v", sum.Time, elapsed)
	}
	trace.Paused = true
	calls := sum.Calls
	all(t, s, m.ids(3), 3)
	if n := sumOps(trace, func(TraceOp) bool { return true }).Calls; n != calls {
		t.Errorf("%d calls were counted during a pause", n-calls)
	}
}

// TestTraceEvents holds the output against the Trace Event Format: an object with traceEvents, whose complete events lie within each other.
func TestTraceEvents(t *testing.T) {
	m := llamaTiny()
	trace := &Trace{Timed: true, Spans: 1000}
	s := newSession(t, m.load(t, Options{Trace: trace}))
	for _, n := range []int{5, 1} {
		if _, err := s.Append(m.ids(n)); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := trace.WriteEvents(&out); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Unit   string `json:"displayTimeUnit"`
		Events []struct {
			Name, Cat, Ph string
			TS, Dur       *float64
			PID, TID      *int
			Args          map[string]any
		} `json:"traceEvents"`
	}
	dec := json.NewDecoder(&out)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if file.Unit != "ms" && file.Unit != "ns" {
		t.Errorf("displayTimeUnit %q", file.Unit)
	}
	counts := map[string]int{}
	type interval struct{ start, end float64 }
	var open []interval // that hold the next event, the innermost last
	for _, e := range file.Events {
		if e.Name == "" || e.PID == nil || e.TID == nil || e.TS == nil {
			t.Fatalf("event %+v lacks a field", e)
		}
		if e.Ph == "M" {
			continue
		}
		if e.Ph != "X" || e.Dur == nil || *e.Dur < 0 || *e.TS < 0 {
			t.Fatalf("event %+v is no complete event", e)
		}
		counts[e.Cat]++
		counts[e.Name]++
		this := interval{*e.TS, *e.TS + *e.Dur}
		for len(open) > 0 && open[len(open)-1].end <= this.start {
			open = open[:len(open)-1]
		}
		const rounding = 1e-3 // microseconds: below a nanosecond
		if len(open) > 0 && this.end > open[len(open)-1].end+rounding {
			t.Errorf("%s overlaps the end of the event before", e.Name)
		}
		open = append(open, this)
	}
	for name, want := range map[string]int{"pass": 2, "5 tokens": 1, "1 token": 1, "block": 4, "block 1": 2, "matmul ffn_down": 4, "attention": 4} {
		if counts[name] != want {
			t.Errorf("%d events %q, want %d", counts[name], name, want)
		}
	}
	if n := counts["operation"]; n != sumOps(trace, func(TraceOp) bool { return true }).Calls || trace.Lost() != 0 {
		t.Errorf("%d events of operations, %d lost", n, trace.Lost())
	}

	*trace = Trace{Timed: true, Spans: 3}
	if _, err := s.Append(m.ids(1)); err != nil {
		t.Fatal(err)
	}
	if n := sumOps(trace, func(TraceOp) bool { return true }).Calls; trace.Lost() != n-3 {
		t.Errorf("with room for 3 of %d operations %d are lost", n, trace.Lost())
	}
}

// labelSpy is a backend that looks at the profiler labels during a product.
type labelSpy struct {
	Backend
	seen bytes.Buffer
}

func (l *labelSpy) MatMul(x Buffer, out ...Product) {
	if l.seen.Len() == 0 {
		pprof.Lookup("goroutine").WriteTo(&l.seen, 1)
	}
	l.Backend.MatMul(x, out...)
}

// TestTraceLabels: while an operation runs, the profiler sees which.
func TestTraceLabels(t *testing.T) {
	m := llamaTiny()
	trace := &Trace{Labels: true}
	model := m.load(t, Options{Trace: trace})
	spy := &labelSpy{Backend: model.decoder.be.(*traced).Backend}
	model.decoder.be.(*traced).Backend = spy
	if _, err := newSession(t, model).Append(m.ids(2)); err != nil {
		t.Fatal(err)
	}
	if want := `"operation":"matmul attn_q+attn_k+attn_v"`; !strings.Contains(spy.seen.String(), want) || !strings.Contains(spy.seen.String(), `"layer":"0"`) {
		t.Errorf("the profiler saw no %s:\n%s", want, spy.seen.String())
	}
	var after bytes.Buffer
	pprof.Lookup("goroutine").WriteTo(&after, 1)
	if strings.Contains(after.String(), `"operation"`) {
		t.Error("labels are left afterwards")
	}
}
