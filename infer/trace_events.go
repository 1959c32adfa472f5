package infer

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// traceEvent is an entry of the Trace Event Format, which the trace viewers of browsers read: a complete event ("X") or a name ("M").
// Times are in microseconds. Events of a thread that lie within each other are drawn so.
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Start    float64        `json:"ts"`
	Duration *float64       `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Args     map[string]any `json:"args,omitempty"`
}

// WriteEvents writes the spans that the trace has kept as JSON in the Trace Event Format, for chrome://tracing or ui.perfetto.dev:
// passes, in them blocks, in them operations.
func (t *Trace) WriteEvents(w io.Writer) error {
	out := bufio.NewWriter(w)
	if _, err := out.WriteString(`{"displayTimeUnit":"ms","traceEvents":[`); err != nil {
		return err
	}
	separator := "\n"
	emit := func(e traceEvent) error {
		e.Process, e.Thread = 1, 1
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s%s", separator, data)
		separator = ",\n"
		return err
	}
	for _, name := range [][2]string{{"process_name", "ggufkit"}, {"thread_name", "forward pass"}} {
		if err := emit(traceEvent{Name: name[0], Phase: "M", Args: map[string]any{"name": name[1]}}); err != nil {
			return err
		}
	}
	for i, s := range t.spans {
		if i == 0 || s.pass != t.spans[i-1].pass {
			if err := emit(complete(passName(s.rows), "pass", s.start, t.until(i, samePass), nil)); err != nil {
				return err
			}
		}
		if s.op.Layer >= 0 && (i == 0 || !sameLayer(s, t.spans[i-1])) {
			if err := emit(complete(fmt.Sprintf("block %d", s.op.Layer), "block", s.start, t.until(i, sameLayer), nil)); err != nil {
				return err
			}
		}
		if err := emit(complete(s.op.Name(), "operation", s.start, s.end, s.args())); err != nil {
			return err
		}
	}
	if _, err := out.WriteString("\n]}\n"); err != nil {
		return err
	}
	return out.Flush()
}

// Lost is the number of operations that the trace had no room for.
func (t *Trace) Lost() int { return t.lost }

func passName(rows int) string {
	if rows == 1 {
		return "1 token"
	}
	return fmt.Sprintf("%d tokens", rows)
}

func samePass(a, b traceSpan) bool  { return a.pass == b.pass }
func sameLayer(a, b traceSpan) bool { return a.pass == b.pass && a.op.Layer == b.op.Layer }

// until is the end of the last span in a row that belongs with span i.
func (t *Trace) until(i int, same func(a, b traceSpan) bool) time.Duration {
	first := t.spans[i]
	for i+1 < len(t.spans) && same(first, t.spans[i+1]) {
		i++
	}
	return t.spans[i].end
}

// complete is an event with a beginning and an end.
func complete(name, category string, start, end time.Duration, args map[string]any) traceEvent {
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	d := micros(end) - micros(start)
	return traceEvent{Name: name, Category: category, Phase: "X", Start: micros(start), Duration: &d, Args: args}
}

// args are what a viewer shows of an operation that is clicked on.
func (s *traceSpan) args() map[string]any {
	args := map[string]any{"rows": s.rows}
	if s.op.Types != "" {
		args["types"] = s.op.Types
	}
	nanoseconds := float64(max(s.end-s.start, 1))
	if s.macs > 0 {
		args["GMAC/s"] = float64(s.macs) / nanoseconds
	}
	if s.bytes > 0 {
		args["GB/s"] = float64(s.bytes) / nanoseconds
	}
	return args
}
