package main

import (
	"errors"
	"io"
	"strings"

	"github.com/ggufkit/ggufkit/infer/eval"
	"github.com/ggufkit/ggufkit/internal/atomicfile"
	"github.com/urfave/cli/v2"
)

// gateFlags are those of commands whose result can be held against limits.
func gateFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "limit", Category: "LIMITS:", Usage: "end with status 3 unless `FIGURE<=X` (or >=X), named as in the JSON (may be repeated)"},
		&cli.StringFlag{Name: "limits", Category: "LIMITS:", Usage: "the same for each line of `FILE`", TakesFile: true},
		&cli.StringFlag{Name: "baseline", Category: "LIMITS:", Usage: "end with status 3 if the result is worse than the earlier one in `FILE.json`", TakesFile: true},
		&cli.Float64Flag{Name: "tolerance", Category: "LIMITS:", Value: 0.01, Usage: "a result may be worse than the baseline by the share `X` of it"},
		&cli.StringFlag{Name: "junit", Category: "LIMITS:", Usage: "write the verdicts to `FILE.xml` for continuous integration", TakesFile: true},
		&cli.StringFlag{Name: "markdown", Category: "LIMITS:", Usage: "write the verdicts to `FILE.md`", TakesFile: true},
	}
}

// figuresHelp lists what --limit can bound, for --help. empty is a result of the kind that the limits are for.
func figuresHelp(empty any) string {
	const width = 140
	text, line := "", "The figures are"
	for i, name := range eval.Figures(empty) {
		if i > 0 {
			line += ","
		}
		if len(line)+1+len(name) > width {
			text, line = text+line+"\n", name
		} else {
			line += " " + name
		}
	}
	return text + line + "."
}

// limitsGiven is the first flag that bounds a result, "" for none.
func limitsGiven(c *cli.Context) string {
	for _, name := range []string{"limit", "limits", "baseline"} {
		if c.IsSet(name) {
			return name
		}
	}
	return ""
}

// gate is the limits that a command was given.
type gate struct {
	c       *cli.Context
	subject string // what is measured
	limits  []eval.Limit
}

// newGate reads gateFlags, before anything is measured. empty is a result of the kind that will be checked.
func newGate(c *cli.Context, subject string, empty any) (*gate, error) {
	g := &gate{c: c, subject: subject}
	for _, text := range c.StringSlice("limit") {
		l, err := eval.ParseLimit(text)
		if err != nil {
			return nil, usagef("write --limit '"+eval.LikelyLimit(text)+"'", "--limit %s: not a limit", text)
		}
		if _, err := eval.CheckLimits(empty, []eval.Limit{l}); err != nil {
			return nil, usageText(err)
		}
		g.limits = append(g.limits, l)
	}
	tolerance := c.Float64("tolerance")
	if !(tolerance >= 0) {
		return nil, usagef("", "--tolerance %v: expected 0 or more", tolerance)
	}
	for _, from := range []struct {
		flag  string
		parse func(text string) ([]eval.Limit, error)
	}{
		{"limits", eval.ParseLimits},
		{"baseline", func(text string) ([]eval.Limit, error) { return eval.BaselineLimits([]byte(text), tolerance) }},
	} {
		path := c.String(from.flag)
		if path == "" {
			continue
		}
		text, err := readText(c.Context, path)
		if err != nil {
			return nil, err
		}
		limits, err := from.parse(text)
		if err == nil {
			_, err = eval.CheckLimits(empty, limits) // it has the figures
		}
		if err != nil {
			return nil, inFile(path, err)
		}
		g.limits = append(g.limits, limits...)
	}
	if len(g.limits) == 0 && (c.IsSet("junit") || c.IsSet("markdown") || c.IsSet("limits")) {
		return nil, usagef("give limits by --limit, --limits or --baseline", "there is nothing to check")
	}
	if path := c.String("junit"); path != "" && path == c.String("markdown") {
		return nil, usagef("give each a name of its own", "--junit and --markdown name one file: %s", path)
	}
	return g, errors.Join(creatable(c.String("junit"), g.inputs()...), creatable(c.String("markdown"), g.inputs()...))
}

// check holds a result against the limits and writes the reports. err is the verdict: exit status 3. The checks are there unless the result cannot be
// held against the limits: what took long to measure is printed even if a report cannot be written.
func (g *gate) check(result any) (checks []eval.Check, err error) {
	if checks, err = eval.CheckLimits(result, g.limits); err != nil {
		return nil, err
	}
	if err := errors.Join(g.write("junit", checks, eval.WriteJUnit), g.write("markdown", checks, eval.WriteMarkdown)); err != nil {
		return checks, err
	}
	if err := eval.Failures(checks); err != nil {
		return checks, &verdictError{err}
	}
	return checks, nil
}

// inputs are the files that no report may replace.
func (g *gate) inputs() []string {
	var paths []string
	for _, flag := range []string{"model", "file", "limits", "baseline", "base", "base-file"} {
		paths = append(paths, g.c.String(flag))
	}
	return paths
}

// write writes the report that a flag asks for.
func (g *gate) write(flag string, checks []eval.Check, write func(io.Writer, string, []eval.Check) error) error {
	path := g.c.String(flag)
	if path == "" {
		return nil
	}
	return writeFile(path, func(out *atomicfile.File) error { return write(out, g.subject, checks) }, g.inputs()...)
}

// isVerdict tells a result that was not good enough from one that is not there.
func isVerdict(err error) bool {
	var v *verdictError
	return errors.As(err, &v)
}

// usageText makes wrong usage of an error that carries its hint on a line of its own.
func usageText(err error) error {
	text, hint, _ := strings.Cut(err.Error(), "\nhint: ")
	return usagef(hint, "%s", text)
}
