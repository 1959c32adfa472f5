package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ggufkit/ggufkit/infer/eval"
	"github.com/urfave/cli/v2"
)

func compareCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "compare",
		Usage:     "measure how far a model's predictions are from another's",
		UsageText: "ggufkit compare -m MODEL (--base MODEL|--base-file FILE|--checkpoint DIR) [-f TEXT] [-c 512] [--chunks N] [flags]",
		Description: `The statistics are those of llama-perplexity --kl-divergence: the Kullback-Leibler divergence from the base over the second half of each
window of the text, the change of the probability of the token that follows, and both perplexities.

The base runs side by side, or its predictions come from a file: the small one that --save-base writes, or one of llama-perplexity. Such a
file holds its text, and -f is not needed. A small file has the most likely tokens of each position and a sample of the others;
the error that this adds is told.

With limits the exit status is 3 if one is not kept. Figures are named as in the JSON, which is a --baseline for later runs.
` + figuresHelp(eval.Divergence{}) + `

` + checkpointHelp + `

Examples:
  ggufkit compare -m model-q4.gguf --base model-f16.gguf -f heldout.txt
  ggufkit compare -m model-f16.gguf --save-base f16.base -f heldout.txt
  ggufkit compare -m model-q4.gguf --base-file f16.base
  ggufkit compare -m model-q4.gguf --checkpoint ./SmolLM2-135M -f heldout.txt`,
		Flags: slices.Concat(modelFlags(), checkpointFlags(), gateFlags(), []cli.Flag{
			&cli.StringFlag{Name: "base", Usage: "the GGUF `FILE` to compare with", TakesFile: true},
			&cli.StringFlag{Name: "base-precision", Usage: "precision `P` of the base (default: that of the model)"},
			&cli.StringFlag{Name: "base-file", Aliases: []string{"kl-divergence-base"}, Usage: "a base `FILE` in place of a base model", TakesFile: true},
			&cli.StringFlag{Name: "save-base", Usage: "write the predictions of the base (without one: of the model) to `FILE`", TakesFile: true},
			&cli.StringFlag{Name: "base-form", Value: "small", Usage: "`FORM` of --save-base is small or llama (100 times as large, llama-perplexity reads it)"},
			textFlag(false),
			contextFlag("windows of `N` tokens (0: 512, or those of the base file)"),
			&cli.IntFlag{Name: "chunks", Usage: "stop after `N` windows (0: the whole text)"},
			jsonFlag(), quietFlag(),
		}),
		Action: u.action(0, 0, func(c *cli.Context) error { return compare(c, u) }),
	}
}

func compare(c *cli.Context, u *ui) error {
	if forProof(c) {
		if name := limitsGiven(c); name != "" {
			return usagef("the proof has a verdict of its own", "--checkpoint and --%s do not go together", name)
		}
		return compareCheckpoint(c, u)
	}
	form, err := checkCompare(c)
	if err != nil {
		return err
	}
	run := &comparison{c: c, u: u}
	defer run.close()
	if run.gate, err = newGate(c, "compare "+c.String("model"), eval.Divergence{}); err != nil {
		return err
	}
	if path := c.String("base-file"); path != "" {
		if run.file, err = eval.OpenBase(path); err != nil {
			return unread(path, err)
		}
	}
	if err := run.open(); err != nil {
		return err
	}
	if path := c.String("save-base"); path != "" {
		out, err := create(path, run.gate.inputs()...)
		if err != nil {
			return err
		}
		defer out.Abort()
		if run.save, err = eval.NewBaseWriter(out, form, run.ids, run.windows, run.model.model.Params.NVocab); err != nil {
			return run.text.ofText(err)
		}
		verdict := run.measure()
		if verdict != nil && !isVerdict(verdict) {
			return verdict
		}
		if err := run.save.Close(); err != nil {
			return err
		}
		if err := out.Commit(); err != nil {
			return err
		}
		u.note("%s: the predictions of %s", path, cmp.Or(c.String("base"), c.String("model")))
		return verdict
	}
	return run.measure()
}

// checkCompare refuses flags that contradict each other.
func checkCompare(c *cli.Context) (form eval.BaseForm, err error) {
	switch {
	case c.IsSet("base") && c.IsSet("base-file"):
		return 0, usagef("compare with one of the two", "--base and --base-file were both given")
	case !c.IsSet("base") && !c.IsSet("base-file") && !c.IsSet("save-base"):
		return 0, usagef("name a model by --base or its predictions by --base-file; --save-base makes such a file", "nothing to compare with")
	case c.IsSet("save-base") && c.IsSet("base-file"):
		return 0, usagef("the file is there already", "--save-base needs a model that runs, not --base-file")
	case !c.IsSet("base") && !c.IsSet("base-file") && limitsGiven(c) != "":
		return 0, usagef("name a base, or use perplexity", "--%s needs something to compare with", limitsGiven(c))
	case !c.IsSet("file") && !c.IsSet("base-file"):
		return 0, usagef("usage: "+c.Command.UsageText, "compare needs --file")
	}
	switch f := c.String("base-form"); f {
	case "small":
		return eval.Small, nil
	case "llama":
		return eval.Llama, nil
	default:
		return 0, usagef("the forms are small and llama", "no form of base files is called %q", f)
	}
}

// comparison is what a run of compare has open.
type comparison struct {
	c       *cli.Context
	u       *ui
	model   *loaded
	base    *loaded        // or nil
	file    *eval.BaseFile // or nil
	save    *eval.BaseWriter
	gate    *gate
	text    source // its name is "" where the file has the text
	ids     []int32
	windows eval.Windows
}

func (r *comparison) close() {
	for _, l := range []*loaded{r.model, r.base} {
		if l != nil {
			l.close()
		}
	}
	if r.file != nil {
		r.file.Close()
	}
}

// open loads the models and cuts the text.
func (r *comparison) open() (err error) {
	c, u := r.c, r.u
	window, err := windowOf(c)
	if err != nil {
		return err
	}
	if r.file != nil {
		if window = r.file.Windows.Context; c.IsSet("context") && c.Int("context") != window {
			return usagef("leave -c out", "%s has windows of %d tokens, not %d", c.String("base-file"), window, c.Int("context"))
		}
	}
	if c.IsSet("file") {
		if r.text, err = measuredText(c, u); err != nil {
			return err
		}
	}
	if r.model, err = loadModel(c, u, window); err != nil {
		return err
	}
	tok, err := openTokenizer(u, r.model.file)
	if err != nil {
		return err
	}
	r.windows = eval.Windows{Context: window, Chunks: c.Int("chunks"), BOS: startOf(tok)}
	if r.text.name == "" {
		r.ids = r.file.IDs
	} else if r.ids, err = r.text.ids(tok); err != nil {
		return err
	}
	if r.file != nil {
		if err := r.checkFile(); err != nil {
			return err
		}
	}
	if path := c.String("base"); path != "" {
		return r.openBase(path, window)
	}
	return nil
}

// checkFile holds the text and the windows that were asked for against those of the base file.
func (r *comparison) checkFile() error {
	if r.file.Form == eval.Small {
		r.windows.BOS = r.file.Windows.BOS
	}
	if err := r.file.CheckText(cmp.Or(r.text.name, "its own"), r.ids); err != nil {
		return err
	}
	path, have := r.c.String("base-file"), r.file.Windows.Chunks
	noteWindows(r.u, path, have, r.windows.Chunks)
	if n := len(r.ids) / r.windows.Context; n > have && r.windows.Chunks == 0 {
		r.u.note("note: %s has the first %d of the %s of %s", path, have, plural(n, "window"), r.text.name)
	}
	return nil
}

// openBase loads the base, which must cut the text into the same tokens.
func (r *comparison) openBase(path string, window int) (err error) {
	c, u := r.c, r.u
	if r.base, err = openModel(c, u, path, cmp.Or(c.String("base-precision"), c.String("precision")), window); err != nil {
		return err
	}
	tok, err := openTokenizer(u, r.base.file)
	if err != nil {
		return err
	}
	ids, err := r.text.ids(tok)
	if err != nil {
		return err
	}
	if !slices.Equal(ids, r.ids) || startOf(tok) != r.windows.BOS {
		return fmt.Errorf("%s and %s cut the text into different tokens\nhint: compare files of the same model", path, r.model.file.Path)
	}
	return nil
}

// measure runs the text and prints the result.
func (r *comparison) measure() error {
	c, u := r.c, r.u
	tenths := newTenths(u)
	if r.file == nil {
		noteWindows(u, "the text", r.windows.Count(len(r.ids)), r.windows.Chunks)
	}
	var base eval.Base
	switch {
	case r.base != nil:
		base = &eval.ModelBase{Model: r.base.model, Save: r.save}
	case r.file != nil:
		base = r.file
	default:
		result, err := eval.SaveBase(c.Context, r.model.model, r.ids, eval.PerplexityOptions{Windows: r.windows, Progress: tenths.perplexity}, r.save)
		if err != nil {
			return r.text.ofText(err)
		}
		return printPerplexity(c, u, perplexityOutput{PerplexityResult: result}, nil)
	}
	d, err := eval.Compare(c.Context, r.model.model, base, r.ids, eval.CompareOptions{
		Windows: r.windows,
		Progress: func(done, total int, running eval.Divergence) {
			tenths.note(done, total, "divergence %.6f, perplexity %.4f", running.KLD, running.PPL)
		},
	})
	if err != nil {
		return r.text.ofText(err)
	}
	checks, verdict := r.gate.check(d)
	if checks == nil {
		return verdict
	}
	if c.Bool("json") {
		err = u.json(struct {
			eval.Divergence
			Checks []eval.Check `json:"checks,omitempty"`
		}{d, checks})
	} else {
		err = u.table([]string{"statistic", "value", "+/-"}, compareRows(d), "value", "+/-")
	}
	return cmp.Or(err, verdict)
}

// compareRows are the statistics for people.
func compareRows(d eval.Divergence) [][]string {
	row := func(title, format string, values ...any) []string {
		cells := []string{title, "", ""}
		for i, v := range values {
			cells[i+1] = fmt.Sprintf(format, v)
		}
		return cells
	}
	rows := [][]string{
		row("tokens", "%d", d.Tokens),
		row("perplexity", "%.6f", d.PPL, d.PPLStdErr),
		row("perplexity of the base", "%.6f", d.PPLBase, d.PPLBaseErr),
		row("ratio of perplexities", "%.6f", d.Ratio, d.RatioErr),
		row("correlation", "%.2f%%", 100*d.Correlation),
		row("divergence, mean", "%.6f", d.KLD, d.KLDStdErr),
	}
	if d.KLDSampling > 0 {
		rows = append(rows, []string{"divergence, error of the sample", "", fmt.Sprintf("%.6f", d.KLDSampling)})
	}
	return append(rows,
		row("divergence, median", "%.6f", d.KLDMedian),
		row("divergence, 90%", "%.6f", d.KLDP90),
		row("divergence, 99%", "%.6f", d.KLDP99),
		row("divergence, 99.9%", "%.6f", d.KLDP999),
		row("divergence, maximum", "%.6f", d.KLDMax),
		row("change of probability", "%.3f%%", 100*d.PDiff, 100*d.PDiffStdErr),
		row("change, root mean square", "%.3f%%", 100*d.PDiffRMS, 100*d.PDiffRMSErr),
		row("same most likely token", "%.3f%%", 100*d.SameTop, 100*d.SameTopErr),
	)
}
