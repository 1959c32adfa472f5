package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/inspect"
	"github.com/ggufkit/ggufkit/internal/par"
	"github.com/urfave/cli/v2"
)

func inspectCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "show what is in a file",
		UsageText: "ggufkit inspect FILE [--meta] [--tensors] [--tokens] [--check] [--memory [-c N]] [--json]",
		Description: `Works on files of any architecture, version and byte order, whole or damaged: faults are listed.
Without a flag it shows a summary, the metadata and the totals per type. --json holds every value in full. --check decodes all weights and ends with
status 3 if one of them, or the scale of a block, is NaN or infinite. --memory tells what running the model takes: its weights are pages of the file, which all processes share; keys and values of a full
context, and what batches are computed in, belong to each process.

Examples:
  ggufkit inspect model.gguf
  ggufkit inspect model.gguf --tensors --json
  ggufkit inspect model.gguf --check
  ggufkit inspect model.gguf --memory -c 8192`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "meta", Usage: "show the metadata"},
			&cli.BoolFlag{Name: "tensors", Usage: "list the tensors"},
			&cli.BoolFlag{Name: "tokens", Usage: "list the vocabulary"},
			&cli.BoolFlag{Name: "check", Usage: "decode all weights and look for NaN and infinities (status 3)"},
			&cli.BoolFlag{Name: "memory", Usage: "tell what running the model takes"},
			contextFlag("with --memory: a context of `N` tokens (0: as trained)"),
			&cli.IntFlag{Name: "batch", Aliases: []string{"b", "batch-size"}, Usage: "with --memory: at most `N` tokens at once (0: 512)"},
			threadsFlag(),
			jsonFlag(),
		},
		Action: u.action(1, 1, func(c *cli.Context) error { return inspectFile(c, u) }),
	}
}

func inspectFile(c *cli.Context, u *ui) error {
	for _, name := range []string{"context", "batch", "threads"} {
		if c.IsSet(name) && !c.Bool("memory") {
			return usagef("add --memory, or leave it out: nothing else depends on it", "--%s needs --memory", name)
		}
	}
	r, err := inspect.Read(c.Args().First())
	if err != nil {
		return err
	}
	if c.Bool("check") && r.Fatal() == nil {
		if r.Values, err = inspect.CheckValues(c.Args().First()); err != nil {
			return err
		}
	}
	if c.Bool("memory") && r.Fatal() == nil {
		if r.Memory, err = inspect.Memory(c.Args().First(), memoryOptions(c)); err != nil {
			return err
		}
	}
	meta, tensors, tokens := c.Bool("meta"), c.Bool("tensors"), c.Bool("tokens")
	if c.Bool("json") {
		if !meta && !tensors && !tokens && r.Memory == nil {
			meta, tensors = true, true
		}
		err = u.json(sections(*r, meta, tensors, tokens))
	} else {
		err = printReport(u, r, meta, tensors, tokens)
	}
	if err != nil {
		return err
	}
	if r.Values != nil && len(r.Values.Bad) > 0 {
		first, in := r.Values.Bad[0], ""
		if first.File != "" {
			in = " in " + first.File
		}
		return &verdictError{fmt.Errorf("%s: %s with NaN or infinite values, the first is %s%s\nhint: the file is damaged: make it again from a sound source",
			r.File, plural(len(r.Values.Bad), "tensor"), first.Tensor, in)}
	}
	return r.Fatal()
}

// memoryOptions reads the flags of --memory.
func memoryOptions(c *cli.Context) arch.MemoryOptions {
	o := arch.MemoryOptions{Context: c.Int("context"), Batch: c.Int("batch"), Threads: c.Int("threads")}
	if o.Batch == 0 {
		o.Batch = infer.DefaultBatch
	}
	if o.Threads == 0 {
		o.Threads = par.Threads()
	}
	return o
}

// sections drops what was not asked for.
func sections(r inspect.Report, meta, tensors, tokens bool) inspect.Report {
	if !meta {
		r.Meta = nil
	}
	if !tensors {
		r.Tensors = nil
	}
	if !tokens {
		r.Tokens = nil
	}
	return r
}

func printReport(u *ui, r *inspect.Report, meta, tensors, tokens bool) error {
	all := !meta && !tensors && !tokens && r.Values == nil && r.Memory == nil
	var parts []func() error
	if all {
		parts = append(parts, func() error { return printSummary(u, r) })
	}
	if all || meta {
		parts = append(parts, func() error { return printMeta(u, r.Meta) })
	}
	if all && r.TensorCount > 0 {
		parts = append(parts, func() error { return printTypes(u, r) })
	}
	if tensors {
		parts = append(parts, func() error { return printTensors(u, r.Tensors) })
	}
	if tokens {
		parts = append(parts, func() error { return printTokens(u, r.Tokens) })
	}
	if r.Values != nil {
		parts = append(parts, func() error { return printValues(u, r) })
	}
	if r.Memory != nil {
		parts = append(parts, func() error { return printMemory(u, r.Memory) })
	}
	if len(r.Defects) > 0 {
		parts = append(parts, func() error { return printDefects(u, r.Defects) })
	}
	for i, part := range parts {
		if i > 0 {
			u.printf("\n")
		}
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func printSummary(u *ui, r *inspect.Report) error {
	context, weights, part, parts, aligned := "", "none", "", "", ""
	if n := len(r.Files); n > 0 {
		parts = fmt.Sprintf("%d, up to %s", n, r.Files[n-1])
	}
	if p := r.Part; p != nil && p.No > 1 {
		part = fmt.Sprintf("%d of %d", p.No, p.Count)
	} else if p != nil {
		parts = fmt.Sprintf("%d; only this one is counted: %s", p.Count, p.Why)
	}
	if r.TensorCount > 0 {
		weights = fmt.Sprintf("%s in %d tensors, %.2f bits per weight", commas(r.Parameters), r.TensorCount, r.BitsPerWeight)
	}
	if r.Alignment > 0 { // else the file ends before
		aligned = fmt.Sprintf(", tensors aligned to %d bytes", r.Alignment)
	}
	if r.Context > 0 {
		context = fmt.Sprintf("%s tokens", commas(r.Context))
	}
	for _, line := range [][2]string{
		{"file", r.File},
		{"part", part},
		{"parts", parts},
		{"format", fmt.Sprintf("GGUF v%d, %s-endian%s", r.Version, r.ByteOrder, aligned)},
		{"size", fmt.Sprintf("%s (%s bytes)", size(r.Size), commas(r.Size))},
		{"architecture", r.Architecture},
		{"name", r.Name},
		{"parameters", weights},
		{"context", context},
		{"tokenizer", vocabularyLine(r)},
	} {
		if line[1] != "" {
			u.printf("%-14s%s\n", line[0], visible(line[1]))
		}
	}
	return nil
}

func vocabularyLine(r *inspect.Report) string {
	if r.Tokenizer == "" {
		return "none"
	}
	s := fmt.Sprintf("%s, %s tokens", r.Tokenizer, commas(uint64(r.TokenCount)))
	if r.DuplicateTokens > 0 {
		s += fmt.Sprintf(" (%d with the text of another)", r.DuplicateTokens)
	}
	if r.ChatTemplate {
		return s + ", with a chat template"
	}
	return s + ", no chat template"
}

func printMeta(u *ui, meta []inspect.KV) error {
	rows := make([][]string, len(meta))
	for i, kv := range meta {
		rows[i] = []string{kv.Key, kv.Type, kv.Short(60)}
	}
	return u.table([]string{"key", "type", "value"}, rows)
}

func printTypes(u *ui, r *inspect.Report) error {
	rows := make([][]string, len(r.Types))
	for i, t := range r.Types {
		share := "-"
		if r.TensorBytes > 0 {
			share = fmt.Sprintf("%.1f %%", 100*float64(t.Bytes)/float64(r.TensorBytes))
		}
		rows[i] = []string{t.Type, strconv.Itoa(t.Tensors), commas(t.Parameters), commas(t.Bytes), share}
	}
	return u.table([]string{"type", "tensors", "parameters", "bytes", "share"}, rows, "tensors", "parameters", "bytes", "share")
}

func printTensors(u *ui, tensors []inspect.Tensor) error {
	header, rows := []string{"tensor", "type", "shape", "offset", "bytes"}, make([][]string, len(tensors))
	split := len(tensors) > 0 && tensors[0].File != ""
	if split {
		header = append(header, "file")
	}
	for i, t := range tensors {
		bytes := "?"
		if t.Bytes != nil {
			bytes = commas(*t.Bytes)
		}
		rows[i] = []string{t.Name, t.Type, shapeText(t.Shape), strconv.FormatUint(t.Offset, 10), bytes}
		if split {
			rows[i] = append(rows[i], t.File)
		}
	}
	return u.list(header, rows, "offset", "bytes")
}

func shapeText(shape []uint64) string {
	s := make([]string, len(shape))
	for i, n := range shape {
		s[i] = strconv.FormatUint(n, 10)
	}
	return strings.Join(s, " x ")
}

func printTokens(u *ui, tokens []inspect.Token) error {
	rows := make([][]string, len(tokens))
	for i, t := range tokens {
		rows[i] = []string{strconv.Itoa(t.ID), strconv.Quote(t.Text), t.Type, strconv.FormatFloat(t.Score, 'g', -1, 32)}
	}
	return u.list([]string{"id", "text", "type", "score"}, rows, "id", "score")
}

func printDefects(u *ui, defects []inspect.Defect) error {
	rows := make([][]string, len(defects))
	for i, d := range defects {
		kind := "warning"
		if d.Fatal {
			kind = "fault"
		}
		what := d.Message
		if d.Hint != "" {
			what += " (" + d.Hint + ")"
		}
		where := d.Where
		if d.File != "" {
			where = strings.TrimSuffix(d.File+": "+where, ": ")
		}
		rows[i] = []string{kind, strconv.FormatUint(d.Offset, 10), where, what}
	}
	return u.table([]string{"defect", "offset", "where", "what"}, rows, "offset")
}

func printValues(u *ui, r *inspect.Report) error {
	v, of := r.Values, ""
	if p := r.Part; p != nil {
		of = fmt.Sprintf(" of part %d of %d alone", p.No, p.Count)
	}
	u.printf("values checked in %s%s, %d with NaN or infinite values\n", plural(v.Checked, "tensor"), of, len(v.Bad))
	for _, name := range v.Unchecked {
		u.printf("not checked, since the type cannot be decoded: %s\n", visible(name))
	}
	if len(v.Bad) == 0 {
		return nil
	}
	rows := make([][]string, len(v.Bad))
	for i, b := range v.Bad {
		rows[i] = []string{b.Tensor, b.Type, strconv.FormatUint(b.Row, 10), strconv.FormatUint(b.Col, 10), b.Value, commas(b.Count)}
	}
	u.printf("\n")
	return u.table([]string{"tensor", "type", "row", "column", "first", "count"}, rows, "row", "column", "count")
}

func printMemory(u *ui, plans []arch.Memory) error {
	m := &plans[0]
	u.printf("weights       %s, pages of the file that all processes share\n", size(m.Weights))
	u.printf("context       %s tokens in batches of %d, %s\n\n", commas(uint64(m.Context)), m.Batch, plural(m.Threads, "thread"))
	rows := make([][]string, len(plans))
	for i := range plans {
		m := &plans[i]
		rows[i] = []string{m.CacheType, size(m.CachePosition), size(m.Cache), size(m.Windowed), size(m.Scratch), size(m.Fixed), size(m.Anonymous())}
	}
	columns := []string{"per token", "keys and values", "of it windowed", "scratch", "program", "together"}
	return u.table(append([]string{"cache"}, columns...), rows, columns...)
}
