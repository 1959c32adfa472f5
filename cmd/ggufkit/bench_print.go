package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ggufkit/ggufkit/infer/eval"
)

// benchPrinter prints results in one of benchFormats: a table and JSON when all are there, the others one by one.
type benchPrinter struct {
	u       *ui
	format  string
	ops     bool
	records []*eval.BenchRecord
}

func newBenchPrinter(u *ui, format string, ops bool) *benchPrinter {
	return &benchPrinter{u: u, format: format, ops: ops, records: []*eval.BenchRecord{}}
}

// record takes a result.
func (p *benchPrinter) record(r *eval.BenchRecord) error {
	p.records = append(p.records, r)
	switch p.format {
	case "jsonl":
		return p.u.jsonLine(r)
	case "md":
		p.markdown(r)
	case "csv":
		return p.csv(r)
	case "sql":
		return p.sql(r)
	}
	return p.u.out.err // nobody reads on: stop
}

// end prints what waited for the last result.
func (p *benchPrinter) end() error {
	switch p.format {
	case "json":
		return p.u.json(p.records)
	case "table":
		return p.table()
	}
	return nil
}

// optional are the columns that a table has where results differ in them.
var optional = []struct {
	name  string
	value func(*eval.BenchRecord) string
}{
	{"batch", func(r *eval.BenchRecord) string { return fmt.Sprint(r.Batch) }},
	{"precision", func(r *eval.BenchRecord) string { return r.Precision }},
	{"cache", func(r *eval.BenchRecord) string { return r.KeyType }},
}

func (p *benchPrinter) table() error {
	header, right := []string{"model", "size", "parameters", "threads"}, []string{"size", "parameters", "threads", "tokens/s", "of peak", "of reading"}
	var extra []int
	for i, o := range optional {
		for _, r := range p.records {
			if o.value(r) != o.value(p.records[0]) {
				header, extra = append(header, o.name), append(extra, i)
				break
			}
		}
	}
	header = append(header, "test", "tokens/s", "+/-", "of peak", "of reading")
	var rows [][]string
	for _, r := range p.records {
		row := []string{r.Type, size(r.Size), millions(r.NParams), fmt.Sprint(r.Threads)}
		for _, i := range extra {
			row = append(row, optional[i].value(r))
		}
		rows = append(rows, append(row, r.Test, fmt.Sprintf("%.2f", r.AvgTS), fmt.Sprintf("%.2f", r.StddevTS), share(r.ShareOfPeak), share(r.ShareOfReading)))
	}
	if err := p.u.table(header, rows, right...); err != nil {
		return err
	}
	p.peaks()
	if !p.ops {
		return nil
	}
	for _, r := range p.records {
		p.u.printf("\n")
		if err := p.opsTable(r); err != nil {
			return err
		}
	}
	return nil
}

// peaks tells what the shares refer to.
func (p *benchPrinter) peaks() {
	told := map[string]bool{}
	for _, r := range p.records {
		line := fmt.Sprintf("%s, %s: at most %s", r.Test, plural(r.Threads, "thread"), strings.Join(peakParts(r), ", "))
		if r.PeakInteger+r.PeakFloat+r.PeakRead > 0 && !told[line] {
			told[line] = true
			p.u.printf("%s\n", line)
		}
	}
}

func peakParts(r *eval.BenchRecord) []string {
	var parts []string
	for _, part := range []struct {
		value float64
		what  string
	}{{r.PeakInteger, "GMAC/s of 8-bit integers"}, {r.PeakFloat, "GMAC/s of float32"}, {r.PeakRead, "GB/s read meanwhile"}} {
		if part.value > 0 {
			parts = append(parts, fmt.Sprintf("%.1f %s", part.value, part.what))
		}
	}
	return parts
}

// opsTable is the time of a run by operation.
func (p *benchPrinter) opsTable(r *eval.BenchRecord) error {
	var rows [][]string
	for _, op := range r.Ops {
		rows = append(rows, []string{
			op.Op, op.Weights, op.Types, count(op.Calls), fmt.Sprintf("%.3f", op.NS/1e6), fmt.Sprintf("%.1f%%", 100*op.ShareOfTime),
			rate(op.GMACs), rate(op.GBs), share(op.ShareOfPeak), share(op.ShareOfReading),
		})
	}
	p.u.printf("%s, %s, %s: a run of %.3f ms\n", r.Type, r.Test, plural(r.Threads, "thread"), float64(r.AvgNS)/1e6)
	return p.u.table([]string{"operation", "weights", "types", "calls", "ms", "share", "GMAC/s", "GB/s", "of peak", "of reading"}, rows,
		"calls", "ms", "share", "GMAC/s", "GB/s", "of peak", "of reading")
}

// count prints a number of calls per run, which is whole.
func count(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", x)
}

// rate prints 1e9 of something a second, nothing for none.
func rate(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", x)
}

// share prints a part of a whole, nothing where it is not known.
func share(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100*x)
}

// millions prints a number of parameters as llama-bench does.
func millions(n uint64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.2f B", float64(n)/1e9)
	}
	return fmt.Sprintf("%.2f M", float64(n)/1e6)
}

// markdown prints a row of the table that llama-bench prints.
func (p *benchPrinter) markdown(r *eval.BenchRecord) {
	const header = "| model | size | params | backend | threads | n_batch | cache | precision | test | t/s | of peak | of reading |"
	if len(p.records) == 1 {
		p.u.printf("%s\n|%s\n", header, strings.Repeat(" --- |", strings.Count(header, "|")-1))
	}
	p.u.printf("| %s | %s | %s | %s | %d | %d | %s | %s | %s | %.2f ± %.2f | %s | %s |\n", strings.ReplaceAll(visible(r.Type), "|", `\|`), size(r.Size),
		millions(r.NParams), r.Backend, r.Threads, r.Batch, r.KeyType, r.Precision, r.Test, r.AvgTS, r.StddevTS, share(r.ShareOfPeak), share(r.ShareOfReading))
}

// benchColumn is a field of a result in a list without nesting.
type benchColumn struct {
	name  string
	value json.RawMessage
}

// columns are the fields of a result by their names in JSON, but for lists.
func columns(r *eval.BenchRecord) ([]benchColumn, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(string(data)))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var list []benchColumn
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		if value[0] != '[' {
			list = append(list, benchColumn{name.(string), value})
		}
	}
	return list, nil
}

// text is the value without quotes.
func (c *benchColumn) text() string {
	var s string
	if json.Unmarshal(c.value, &s) == nil {
		return s
	}
	return string(c.value)
}

func (p *benchPrinter) csv(r *eval.BenchRecord) error {
	list, err := columns(r)
	if err != nil {
		return err
	}
	var names, values []string
	for _, c := range list {
		names, values = append(names, c.name), append(values, c.text())
	}
	w := csv.NewWriter(p.u.out)
	if len(p.records) == 1 {
		if err := w.Write(names); err != nil {
			return err
		}
	}
	if err := w.Write(values); err != nil {
		return err
	}
	w.Flush()
	return w.Error()
}

func (p *benchPrinter) sql(r *eval.BenchRecord) error {
	list, err := columns(r)
	if err != nil {
		return err
	}
	var fields, names, values []string
	for _, c := range list {
		kind, value := "REAL", string(c.value)
		switch {
		case c.value[0] == '"':
			kind, value = "TEXT", "'"+strings.ReplaceAll(c.text(), "'", "''")+"'"
		case strings.HasPrefix(c.name, "n_") || strings.HasSuffix(c.name, "_ns") || strings.HasPrefix(c.name, "model_") || c.name == "threads":
			kind = "INTEGER"
		}
		fields, names, values = append(fields, "  "+c.name+" "+kind), append(names, c.name), append(values, value)
	}
	if len(p.records) == 1 {
		p.u.printf("CREATE TABLE IF NOT EXISTS llama_bench (\n%s\n);\n\n", strings.Join(fields, ",\n"))
	}
	p.u.printf("INSERT INTO llama_bench (%s) VALUES (%s);\n", strings.Join(names, ", "), strings.Join(values, ", "))
	return p.u.out.err // nobody reads on: stop
}
