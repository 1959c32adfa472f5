package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ggufkit/ggufkit/infer/eval"
	"github.com/ggufkit/ggufkit/tokenizer"
	"github.com/urfave/cli/v2"
)

func perplexityCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "perplexity",
		Usage:     "measure how well a model predicts a text",
		UsageText: "ggufkit perplexity -m MODEL -f TEXT [-c 512] [--chunks N] [flags], or ggufkit perplexity --merge PART.json...",
		Description: `There are two conventions, which give different numbers. With llama, that of llama-perplexity, the text is cut into windows of the context,
a BOS takes the place of the first token of each if the vocabulary adds one, and the second half of each is scored. With sliding, that
of the guide of transformers, each window starts --stride tokens after the one before and scores what that one did not hold.
The running estimate goes to stderr about ten times.

With --hellaswag, --winogrande or --multiple-choice the text holds tasks with several answers in the form that llama-perplexity reads, and the share of those
is printed where the model finds the right answer the most likely: by the mean of its log-probabilities over the tokens that differ.

With --part I/N only that share of the windows is run; --merge adds up what all parts printed with --json.

With limits the exit status is 3 if one is not kept. Figures are named as in the JSON, which is a --baseline for later runs.
` + figuresHelp(eval.PerplexityResult{}) + `

Examples:
  ggufkit perplexity -m model.gguf -f heldout.txt --chunks 8
  ggufkit perplexity -m model.gguf -f heldout.txt --stride 256
  ggufkit perplexity -m model.gguf -f heldout.txt --part 1/2 --json > 1.json
  ggufkit perplexity --merge 1.json 2.json
  ggufkit perplexity -m model.gguf --hellaswag -f hellaswag_val_full.txt --tasks 400`,
		Flags: slices.Concat(optionalModel(modelFlags()), choiceFlags(), gateFlags(), []cli.Flag{
			textFlag(false),
			contextFlag("windows of `N` tokens (0: 512)"),
			&cli.IntFlag{Name: "chunks", Usage: "stop after `N` windows (0: the whole text)"},
			&cli.StringFlag{Name: "convention", Usage: "`NAME` is llama or sliding (default: sliding with --stride, else llama)"},
			&cli.IntFlag{Name: "stride", Usage: "slide the window by `N` tokens (0: by half of the context)"},
			&cli.Float64Flag{Name: "until-stderr", Usage: "stop as soon as the standard error is not above `X` (0: run all windows)"},
			&cli.StringFlag{Name: "part", Usage: "run part `I/N` of the windows"},
			&cli.BoolFlag{Name: "merge", Usage: "add up the JSON results of all parts, which are the arguments"},
			jsonFlag(), quietFlag(),
		}),
		Action: u.action(0, -1, func(c *cli.Context) error {
			if c.Bool("merge") {
				return mergePerplexity(c, u)
			}
			return perplexity(c, u)
		}),
	}
}

// textFlag names the text that a model is measured on.
func textFlag(required bool) cli.Flag {
	return &cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "the text `FILE` (-: stdin)", TakesFile: true, Required: required}
}

// optionalModel are flags of which --model need not be given.
func optionalModel(flags []cli.Flag) []cli.Flag {
	for _, f := range flags {
		if f, ok := f.(*cli.StringFlag); ok && f.Name == "model" {
			f.Required = false
		}
	}
	return flags
}

func perplexity(c *cli.Context, u *ui) error {
	if c.NArg() > 0 {
		return usagef(flagFor(c, 0)+"usage: "+c.Command.UsageText, "perplexity: too many arguments: %s", strings.Join(c.Args().Slice(), " "))
	}
	for _, flag := range []string{"model", "file"} {
		if !c.IsSet(flag) {
			return usagef("usage: "+c.Command.UsageText, "perplexity needs --%s", flag)
		}
	}
	if asked, err := choices(c, u); asked {
		return err
	}
	o, err := perplexityOptions(c)
	if err != nil {
		return err
	}
	g, err := newGate(c, "perplexity "+c.String("model"), eval.PerplexityResult{})
	if err != nil {
		return err
	}
	text, err := measuredText(c, u)
	if err != nil {
		return err
	}
	l, err := loadModel(c, u, o.Context)
	if err != nil {
		return err
	}
	defer l.close()
	tok, err := openTokenizer(u, l.file)
	if err != nil {
		return err
	}
	ids, err := text.ids(tok)
	if err != nil {
		return err
	}
	sum, err := eval.ModelSum(l.file)
	if err != nil {
		return err
	}
	o.BOS, o.Progress = startOf(tok), newTenths(u).perplexity
	o.Setting = eval.Setting{Model: sum, Precision: c.String("precision"), CacheType: strings.ToLower(l.model.Memory().CacheType)}
	noteWindows(u, "the text", o.Count(len(ids)), o.Chunks)
	start := time.Now()
	r, err := eval.Perplexity(c.Context, l.model, ids, o)
	if err != nil {
		return inFile(text.name, err)
	}
	out := perplexityOutput{PerplexityResult: r, Seconds: time.Since(start).Seconds()}
	out.Rate = float64(r.Held) / out.Seconds
	u.note("%d tokens in %.2f s: %.2f tokens/s", r.Held, out.Seconds, out.Rate)
	return printPerplexity(c, u, out, g)
}

// perplexityOutput is a result and what it took. Rate compares with the speed of a prompt that bench tells: it counts the tokens that the windows hold.
type perplexityOutput struct {
	eval.PerplexityResult
	Seconds float64      `json:"seconds,omitzero"`
	Rate    float64      `json:"tokens_per_second,omitzero"`
	Checks  []eval.Check `json:"checks,omitempty"`
}

// perplexityOptions reads the flags of the windows.
func perplexityOptions(c *cli.Context) (o eval.PerplexityOptions, err error) {
	window, err := windowOf(c)
	if err != nil {
		return o, err
	}
	o.Windows = eval.Windows{Context: window, Chunks: c.Int("chunks")}
	stride := c.Int("stride")
	switch name := c.String("convention"); {
	case name != "" && name != "llama" && name != "sliding":
		return o, usagef("the conventions are llama and sliding", "no convention is called %q", name)
	case stride < 0 || stride > o.Context:
		return o, usagef("", "--stride %d: expected 1 to the context's %d", stride, o.Context)
	case stride > 0 && name == "llama":
		return o, usagef("leave one of them out", "--stride is for the sliding window, not for --convention llama")
	case stride > 0 || name == "sliding":
		o.Stride = cmp.Or(stride, o.Context/2)
	}
	if o.UntilStdErr = c.Float64("until-stderr"); !(o.UntilStdErr >= 0) {
		return o, usagef("", "--until-stderr %v: expected 0 or more", o.UntilStdErr)
	}
	if part := c.String("part"); part != "" {
		if o.UntilStdErr > 0 {
			return o, usagef("leave one of them out", "--until-stderr stops one part early, and the others do not know")
		}
		part, parts, _ := strings.Cut(part, "/")
		var errPart, errParts error
		o.Part, errPart = strconv.Atoi(part)
		o.Parts, errParts = strconv.Atoi(parts)
		if errPart != nil || errParts != nil || o.Part < 1 || o.Part > o.Parts {
			return o, usagef("write --part 1/4 for the first of four", "--part %s: not a part", c.String("part"))
		}
	}
	return o, nil
}

// windowOf is the length of windows that --context asks for.
func windowOf(c *cli.Context) (int, error) {
	n := cmp.Or(c.Int("context"), 512)
	if n < eval.LeastWindow {
		return 0, usagef("the second half of a shorter window has no token to score; 512 is usual", "--context %d: expected %d or more", n, eval.LeastWindow)
	}
	return n, nil
}

// noteWindows tells that there are fewer windows than --chunks asks for. Where there are none, nothing runs.
func noteWindows(u *ui, source string, have, asked int) {
	if asked > have && have > 0 {
		u.note("note: %s has %s, not %d", source, plural(have, "window"), asked)
	}
}

// mergePerplexity adds up the results of parts.
func mergePerplexity(c *cli.Context, u *ui) error {
	if c.NArg() == 0 {
		return usagef("usage: "+c.Command.UsageText, "--merge needs the results of all parts as arguments")
	}
	g, err := newGate(c, "perplexity", eval.PerplexityResult{})
	if err != nil {
		return err
	}
	var parts []eval.PerplexityResult
	for _, path := range c.Args().Slice() {
		text, err := readText(c.Context, path)
		if err != nil {
			return err
		}
		var r eval.PerplexityResult
		err = json.Unmarshal([]byte(text), &r)
		if err == nil && r.Parts < 1 {
			err = errors.New("it does not say of how many parts")
		}
		if err != nil {
			return fmt.Errorf("%s: no result of perplexity: %w\nhint: make it with perplexity --part I/N --json", path, err)
		}
		parts = append(parts, r)
	}
	r, err := eval.Merge(parts)
	if err != nil {
		return err
	}
	return printPerplexity(c, u, perplexityOutput{PerplexityResult: r}, g)
}

// printPerplexity prints a result and returns the verdict of a gate, unless that is nil.
func printPerplexity(c *cli.Context, u *ui, r perplexityOutput, g *gate) (err error) {
	if g != nil {
		if r.Checks, err = g.check(r.PerplexityResult); r.Checks == nil {
			return err
		}
	}
	if c.Bool("json") {
		return cmp.Or(u.json(r), err)
	}
	how := ", the second half of each scored"
	if r.Stride > 0 {
		how = fmt.Sprintf(", each %s on", plural(r.Stride, "token"))
	} else if r.BOS {
		how += " behind a BOS"
	}
	if r.Parts > 1 {
		how += fmt.Sprintf("; part %d of %d", r.Part, r.Parts)
	}
	u.printf("perplexity %.4f +/- %.4f over %d tokens in %s of %d%s\n", r.Perplexity, r.StdErr, r.Tokens, plural(r.Chunks, "window"), r.Context, how)
	return err
}

// tenths tells a running estimate about ten times.
type tenths struct {
	u    *ui
	told int
}

func newTenths(u *ui) *tenths { return &tenths{u: u} }

func (t *tenths) say(unit string, done, total int, format string, args ...any) {
	if now := done * 10 / total; now > t.told {
		t.told = now
		t.u.note("%s %d of %d: "+format, append([]any{unit, done, total}, args...)...)
	}
}

func (t *tenths) note(done, total int, format string, args ...any) {
	t.say("window", done, total, format, args...)
}

func (t *tenths) perplexity(done, total int, running eval.PerplexityResult) {
	t.note(done, total, "perplexity %.4f +/- %.4f", running.Perplexity, running.StdErr)
}

// startOf is the id that starts each window, -1 where the model has none.
func startOf(tok *tokenizer.Tokenizer) int32 {
	if bos, ok := tok.AddsBOS(); ok {
		return bos
	}
	return -1
}
