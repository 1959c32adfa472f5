package main

// Rules of the terminal: results go to stdout, progress and notes to stderr, so that output can be piped.
// Messages start in lower case and end without a full stop; a failure says what happened, where, and on a line of its own
// that starts with "hint:" what to do. Bars and colour appear on a terminal only.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fatih/color"
	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/internal/mmap"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// ui is where a command reads and prints.
type ui struct {
	in       io.Reader
	out      *checkedWriter
	err      io.Writer
	terminal bool // err is one
	quiet    bool // no progress, no notes
}

func newUI(in io.Reader, out, err io.Writer) *ui {
	return &ui{in: in, out: &checkedWriter{w: out}, err: err, terminal: isTerminal(err)}
}

// checkedWriter remembers that a write failed, so that a result that got lost is not taken for a success.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// fail prints an error and its hint. Errors of the packages carry theirs on lines after the first.
func (u *ui) fail(err error) {
	paint := color.New(color.FgRed)
	if !u.terminal || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		paint.DisableColor()
	} else {
		paint.EnableColor()
	}
	fmt.Fprintf(u.err, "%s %s\n", paint.Sprint("ggufkit:"), message(failure(err)))
	var usage *usageError
	if errors.As(err, &usage) && usage.hint != "" {
		fmt.Fprintf(u.err, "hint: %s\n", message(usage.hint))
	}
}

// note prints a line that is no result.
func (u *ui) note(format string, args ...any) {
	if !u.quiet {
		fmt.Fprintln(u.err, message(fmt.Sprintf(format, args...)))
	}
}

// printf prints a part of the result.
func (u *ui) printf(format string, args ...any) {
	fmt.Fprintf(u.out, format, args...)
}

// json prints a report as indented JSON.
func (u *ui) json(v any) error {
	enc := jsonEncoder(u.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// jsonLine prints a short value as JSON on one line.
func (u *ui) jsonLine(v any) error { return jsonEncoder(u.out).Encode(v) }

func jsonEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// table prints rows in columns without lines. Columns named in right are aligned to the right. Cells may come from untrusted files.
func (u *ui) table(header []string, rows [][]string, right ...string) error {
	align := make([]tw.Align, len(header))
	for i, name := range header {
		align[i] = tw.AlignLeft
		for _, r := range right {
			if r == name {
				align[i] = tw.AlignRight
			}
		}
	}
	plain := tw.Rendition{
		Borders: tw.BorderNone,
		Symbols: tw.NewSymbols(tw.StyleNone),
		Settings: tw.Settings{
			Separators: tw.SeparatorsNone,
			Lines:      tw.LinesNone,
		},
	}
	var lines bytes.Buffer
	t := tablewriter.NewTable(&lines,
		tablewriter.WithRenderer(renderer.NewBlueprint(plain)),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithAlignment(align),
		tablewriter.WithPadding(tw.Padding{Right: "  ", Overwrite: true}),
	)
	t.Header(header)
	for _, row := range rows {
		for i := range row {
			row[i] = visible(row[i])
		}
	}
	if err := t.Bulk(rows); err != nil {
		return err
	}
	if err := t.Render(); err != nil {
		return err
	}
	var trimmed strings.Builder
	for line := range strings.Lines(lines.String()) { // cells are padded on the right
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	u.printf("%s", trimmed.String())
	return nil
}

// soon is how long a job may take before anybody wants to know how far it is.
const soon = time.Second

// progress shows how far a long job is: a bar on a terminal, else a line for about every tenth.
type progress struct {
	u     *ui
	title string
	bar   *progressbar.ProgressBar
	next  uint64 // tenths already told, plus one
	start time.Time
}

// progress starts a job. total is only a first guess; set may correct it.
func (u *ui) progress(title string) *progress {
	return &progress{u: u, title: title, next: 1, start: time.Now()}
}

// set reports that done of total units are finished.
func (p *progress) set(done, total uint64) {
	if p.u.quiet || total == 0 || time.Since(p.start) < soon {
		return
	}
	if p.u.terminal {
		if p.bar == nil {
			p.bar = progressbar.NewOptions64(int64(total), progressbar.OptionSetWriter(p.u.err), progressbar.OptionSetDescription(p.title),
				progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		}
		_ = p.bar.Set64(int64(done)) // a bar that cannot be drawn is no reason to stop
		return
	}
	if tenths := done * 10 / total; tenths >= p.next {
		p.u.note("%s %d%%", p.title, done*100/total)
		p.next = tenths + 1
	}
}

// finish removes the bar.
func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

// action wraps the body of a command: common flags are read, the number of arguments is checked (most < 0: any), a mapped file that someone cuts is
// an error.
func (u *ui) action(least, most int, body func(*cli.Context) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		u.quiet = c.Bool("quiet")
		if n := c.NArg(); n < least || most >= 0 && n > most {
			return usagef(flagFor(c, most)+"usage: "+c.Command.UsageText, "%s: %s", commandPath(c), wrongCount(n, least, c.Args().Slice()))
		}
		if err := checkFlags(c); err != nil {
			return err
		}
		return mmap.Guard(func() error { return body(c) })
	}
}

// commandPath is the command as the user names it: "meta set".
func commandPath(c *cli.Context) string {
	return strings.TrimPrefix(c.Command.HelpName, c.App.Name+" ")
}

func wrongCount(n, least int, args []string) string {
	if n < least {
		return fmt.Sprintf("%d argument(s) given, %d needed", n, least)
	}
	return fmt.Sprintf("too many arguments: %s", strings.Join(args, " "))
}

// counts are the flags that take a number from 0 on, and the most that each may ask for.
var counts = map[string]int{
	"threads": 1 << 12,
	"batch":   1 << 20,
	"context": arch.MaxContext,
	"chunks":  math.MaxInt,
	"top":     math.MaxInt,
}

// checkFlags makes numbers out of range wrong usage, and empty names of files: those come from shell variables that are not set.
func checkFlags(c *cli.Context) error {
	if c.NArg() > 0 && c.Args().First() == "" {
		return usagef("usage: "+c.Command.UsageText, "the first argument is empty")
	}
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		switch f := f.(type) {
		case *cli.IntFlag:
			most, ok := counts[name]
			switch n := c.Int(name); {
			case ok && n < 0:
				return usagef("", "--%s %d: expected 0 or more", name, n)
			case ok && n > most:
				return usagef("", "--%s %d: at most %d", name, n, most)
			}
		case *cli.StringFlag:
			if f.TakesFile && c.IsSet(name) && c.String(name) == "" {
				return usagef("usage: "+c.Command.UsageText, "--%s names no file: the value is empty", name)
			}
			if f.TakesFile && c.IsSet(name) && slices.Contains(writtenFlags, name) {
				if err := checkOutput(c, c.String(name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Flags that several commands share.

func quietFlag() cli.Flag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "no progress and no notes"}
}

func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print the result as JSON"}
}

func threadsFlag() cli.Flag {
	return &cli.IntFlag{Name: "threads", Aliases: []string{"t"}, Usage: "use `N` threads (0: all cores that the process may use)"}
}

func outputFlag(what string) cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: what, TakesFile: true}
}

func dryRunFlag() cli.Flag {
	return &cli.BoolFlag{Name: "dry-run", Usage: "print what would be done and write nothing"}
}

// size prints a number of bytes for people.
func size(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/1024, 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	return fmt.Sprintf("%.2f %ciB", f, units[i])
}

// commas prints an integer with thousands separated.
func commas(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural counts things: "1 window", "2 windows".
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
