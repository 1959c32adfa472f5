package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer/eval"
	"github.com/ggufkit/ggufkit/internal/atomicfile"
	"github.com/ggufkit/ggufkit/tokenizer/chat"
	"github.com/urfave/cli/v2"
)

func reportCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "put what quantizations of a model lose on one page",
		UsageText: "ggufkit report -o REPORT.html --base BASE.gguf -f TEXT MODEL.gguf... [--prompts FILE] [flags]",
		Description: `Runs a text through the base and each model, and writes a page with the size of each file against its divergence from the base and its perplexity.
With prompts it shows where the models' greedy answers part from the base's, and the divergence token by token. The page is one file that loads nothing from
elsewhere. --json prints the same figures.

The models run one after the other. What the base predicts is kept in a temporary file in the form of compare's small base files; the error
that this adds to a mean divergence is part of the +/- beside it, and told under the table. compare --base has none.

Examples:
  ggufkit report -o report.html --base model-f16.gguf -f heldout.txt model-q8_0.gguf model-q4_k_m.gguf
  ggufkit report -o report.html --base model-f16.gguf -f heldout.txt --prompts questions.txt --chat model-q4_k_m.gguf`,
		Flags: slices.Concat(reportModelFlags(), []cli.Flag{
			&cli.StringFlag{Name: "base", Usage: "the GGUF `FILE` to compare with", TakesFile: true, Required: true},
			textFlag(true),
			contextFlag("windows of `N` tokens (0: 512)"),
			&cli.IntFlag{Name: "chunks", Usage: "stop after `N` windows (0: the whole text)"},
			&cli.StringFlag{Name: "prompts", Usage: "let the models answer the lines of `FILE`", TakesFile: true},
			&cli.BoolFlag{Name: "chat", Usage: "put each prompt into the chat template of the base"},
			&cli.IntFlag{Name: "predict", Aliases: []string{"n", "n-predict"}, Value: 48, Usage: "answers of at most `N` tokens"},
			outputFlag("write the page to `FILE`"),
			jsonFlag(), quietFlag(),
		}),
		Action: u.action(1, -1, func(c *cli.Context) error { return report(c, u) }),
	}
}

// reportModelFlags are modelFlags without the model.
func reportModelFlags() []cli.Flag {
	return slices.DeleteFunc(modelFlags(), func(f cli.Flag) bool { return f.Names()[0] == "model" })
}

// Bounds of what people read on one page.
const (
	maxPrompts = 1000
	maxAnswer  = 1 << 14
)

func report(c *cli.Context, u *ui) error {
	if c.String("output") == "" && !c.Bool("json") {
		return usagef("usage: "+c.Command.UsageText, "report needs --output, --json or both")
	}
	if n := c.Int("predict"); n < 1 || n > maxAnswer {
		return usagef("", "--predict %d: expected 1 to %d", n, maxAnswer)
	}
	for _, name := range []string{"chat", "predict"} {
		if c.IsSet(name) && !c.IsSet("prompts") {
			return usagef("name a file of prompts", "--%s needs --prompts", name)
		}
	}
	run, err := newReportRun(c, u)
	if err != nil {
		return err
	}
	var page *atomicfile.File
	if path := c.String("output"); path != "" {
		inputs := append(c.Args().Slice(), c.String("base"), c.String("file"), c.String("prompts"))
		if page, err = create(path, inputs...); err != nil {
			return err
		}
		defer page.Abort()
	}
	r, err := run.measure()
	if err != nil {
		return err
	}
	if page != nil {
		if err := writeReport(page, r); err != nil {
			return err
		}
		if err := page.Commit(); err != nil {
			return err
		}
		u.note("%s: the report", c.String("output"))
	}
	if c.Bool("json") {
		return u.json(r)
	}
	if err := u.table(reportHeader, reportRows(r), reportHeader[2:]...); err != nil {
		return err
	}
	var sampling eval.Number
	for _, m := range r.Models {
		sampling = max(sampling, m.KLDSampling)
	}
	u.printf("\n+/- of the divergence holds the error of the sample that is kept of the base's predictions, up to %.6f; compare --base has none\n", sampling)
	return nil
}

// reportRun is a run of report: what is asked of every model.
type reportRun struct {
	c       *cli.Context
	u       *ui
	text    source
	ids     []int32 // of the text
	options eval.ReportOptions
	context int // that text and prompts need
	title   string
	tenths  *tenths
}

// newReportRun reads text and prompts, and makes sure that all files cut them into the same tokens before any of them runs.
func newReportRun(c *cli.Context, u *ui) (*reportRun, error) {
	window, err := windowOf(c)
	if err != nil {
		return nil, err
	}
	run := &reportRun{c: c, u: u, context: window}
	run.options = eval.ReportOptions{Windows: eval.Windows{Context: window, Chunks: c.Int("chunks")}, Answer: c.Int("predict"), Progress: run.progress}
	lines, err := promptLines(c.Context, c.String("prompts"))
	if err != nil {
		return nil, err
	}
	if run.text, err = measuredText(c, u); err != nil {
		return nil, err
	}
	for i, path := range append([]string{c.String("base")}, c.Args().Slice()...) {
		f, err := gguf.OpenModel(path)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			err = run.tokenize(f, lines)
		} else {
			err = run.sameTokens(f)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return run, nil
}

// promptLines are the lines of a file that are not blank; without a file there are none.
func promptLines(ctx context.Context, path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	text, err := readText(ctx, path)
	if err != nil {
		return nil, err
	}
	var prompts []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
			prompts = append(prompts, line)
		}
	}
	if n := len(prompts); n == 0 || n > maxPrompts {
		return nil, fmt.Errorf("%s: %d prompts, expected 1 to %d\nhint: write one on each line", path, n, maxPrompts)
	}
	return prompts, nil
}

// tokenize cuts text and prompts with the base's tokenizer.
func (r *reportRun) tokenize(f *gguf.File, prompts []string) (err error) {
	tok, err := openTokenizer(r.u, f)
	if err != nil {
		return err
	}
	r.options.BOS = startOf(tok)
	if r.ids, err = r.text.ids(tok); err != nil {
		return err
	}
	noteWindows(r.u, "the text", r.options.Windows.Count(len(r.ids)), r.options.Windows.Chunks)
	for i, text := range prompts {
		var ids []int32
		if r.c.Bool("chat") {
			var asked string
			if asked, err = renderChat(tok.Vocab, []chat.Message{{Role: "user", Content: text}}); err != nil {
				return inFile(f.Path, err)
			}
			ids, err = tok.EncodeChat(asked)
		} else {
			ids, err = tok.EncodePrompt(text, true)
		}
		if err != nil {
			return fmt.Errorf("%s: prompt %d: %w", r.c.String("prompts"), i+1, err)
		}
		r.options.Prompts = append(r.options.Prompts, eval.PromptTokens{Text: text, IDs: ids})
		r.context = max(r.context, len(ids)+r.options.Answer)
	}
	return nil
}

// sameTokens fails unless a file cuts the text as the base does.
func (r *reportRun) sameTokens(f *gguf.File) error {
	tok, err := openTokenizer(&ui{quiet: true}, f)
	if err != nil {
		return err
	}
	ids, err := r.text.ids(tok)
	if err != nil {
		return err
	}
	if !slices.Equal(ids, r.ids) || startOf(tok) != r.options.BOS {
		return fmt.Errorf("%s and %s cut the text into different tokens\nhint: compare files of the same model", f.Path, r.c.String("base"))
	}
	return nil
}

// measure runs the base and the models, one after the other.
func (r *reportRun) measure() (*eval.Report, error) {
	var reporter *eval.Reporter
	err := r.with(r.c.String("base"), func(s eval.ReportSubject) (err error) {
		reporter, err = eval.NewReport(r.c.Context, s, r.ids, "", r.options)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, path := range r.c.Args().Slice() {
		err := r.with(path, func(s eval.ReportSubject) error { return reporter.Add(r.c.Context, s) })
		if err != nil {
			return nil, errors.Join(err, reporter.Close())
		}
	}
	return reporter.Report(), reporter.Close()
}

// with loads a model for f.
func (r *reportRun) with(path string, f func(eval.ReportSubject) error) error {
	r.title, r.tenths = filepath.Base(path), newTenths(r.u)
	l, err := openModel(r.c, r.u, path, r.c.String("precision"), r.context)
	if err != nil {
		return err
	}
	defer l.close()
	tok, err := openTokenizer(&ui{quiet: true}, l.file) // what is odd has been told
	if err != nil {
		return err
	}
	err = f(eval.ReportSubject{File: l.file, Model: l.model, Tokenizer: tok})
	if err == nil || errors.Is(err, eval.ErrTooShort) {
		return r.text.ofText(err)
	}
	return inFile(path, err)
}

// progress tells how far a model is.
func (r *reportRun) progress(what string, done, total int) {
	if done == 1 {
		r.tenths = newTenths(r.u)
	}
	r.tenths.say(r.title+": "+what, done, total, "done")
}

// reportHeader names the columns of reportRows.
var reportHeader = []string{"model", "file", "bytes", "bpw", "divergence", "+/-", "perplexity", "+/-", "same top", "flips"}

// reportRows are the figures for people, the base first.
func reportRows(r *eval.Report) [][]string {
	b := r.Base
	rows := [][]string{{b.Label, b.File, commas(b.Bytes), fmt.Sprintf("%.2f", b.BPW), "-", "-",
		fmt.Sprintf("%.4f", b.Perplexity), fmt.Sprintf("%.4f", b.StdErr), "-", "-"}}
	for _, m := range r.Models {
		flips := "-"
		if n := len(r.Prompts); n > 0 {
			flips = fmt.Sprintf("%d of %d", m.Flips, n)
		}
		rows = append(rows, []string{m.Label, m.File, commas(m.Bytes), fmt.Sprintf("%.2f", m.BPW),
			fmt.Sprintf("%.6f", m.KLD), fmt.Sprintf("%.6f", divergenceError(m.Divergence)),
			fmt.Sprintf("%.4f", m.PPL), fmt.Sprintf("%.4f", m.PPLStdErr), fmt.Sprintf("%.2f%%", 100*m.SameTop), flips})
	}
	return rows
}
