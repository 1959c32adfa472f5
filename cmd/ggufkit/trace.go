package main

import (
	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/internal/atomicfile"
	"github.com/urfave/cli/v2"
)

// maxSpans bounds the operations that --trace keeps (some 100 MB of memory; a token of a large model has about a thousand).
const maxSpans = 1 << 20

func traceFlag() cli.Flag {
	return &cli.StringFlag{Name: "trace", Usage: "write when each operation ran to `FILE`, for a browser's trace viewer (ui.perfetto.dev)", TakesFile: true}
}

// newTrace is the trace that --trace asks for, nil if it does not.
func newTrace(c *cli.Context) *infer.Trace {
	if c.String("trace") == "" {
		return nil
	}
	return &infer.Trace{Timed: true, Spans: maxSpans}
}

// writeTrace writes a trace to the file that --trace names, if it does.
func writeTrace(u *ui, path string, t *infer.Trace, inputs ...string) error {
	if path == "" {
		return nil
	}
	if err := writeFile(path, func(out *atomicfile.File) error { return t.WriteEvents(out) }, inputs...); err != nil {
		return err
	}
	if n := t.Lost(); n > 0 {
		u.note("%s: the trace is full, %d later operations are not in it", path, n)
	}
	return nil
}
