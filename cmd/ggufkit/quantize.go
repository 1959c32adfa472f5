package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/atomicfile"
	"github.com/ggufkit/ggufkit/quantize"
	"github.com/ggufkit/ggufkit/quantize/block"
	"github.com/ggufkit/ggufkit/quantize/mix"
	"github.com/urfave/cli/v2"
)

func quantizeCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "quantize",
		Usage:     "make a smaller file and tell what each tensor lost",
		UsageText: "ggufkit quantize IN [OUT] (TYPE | --target-bpw X | --target-size SIZE) [flags]",
		Description: `TYPE is the name of a mix, in any case; Q3_K, Q4_K and Q5_K mean the _M form. Without OUT the name follows from IN: model-F32.gguf gives model-Q4_K_M.gguf.
The table names for each tensor the rule that chose its type, and the error against IN: root mean square, the same relative to
the values themselves, the largest single error, and the cosine.

With --target-bpw or --target-size there is no TYPE: the error of each tensor is measured for Q2_K to Q6_K and Q8_0, and the types are chosen
that do least damage within the target, which is never exceeded. --dry-run shows the choice.

Types: ` + strings.Join(recipeNames(), " ") + `

Examples:
  ggufkit quantize model-F32.gguf Q4_K_M
  ggufkit quantize model-F32.gguf small.gguf Q4_K_M --tensor-type 'attn_v=Q8_0' --report report.json
  ggufkit quantize model-F32.gguf Q4_0 --dry-run
  ggufkit quantize model-F32.gguf small.gguf --target-size 4.2G
  ggufkit quantize model-F32-00001-of-00003.gguf Q4_K_M --keep-split`,
		Flags: []cli.Flag{
			outputFlag("write to `OUT` (as the second argument does)"),
			&cli.Float64Flag{Name: "target-bpw", Usage: "choose the types for at most `X` bits per weight"},
			&cli.StringFlag{Name: "target-size", Usage: "choose the types for at most `SIZE` bytes in all (500M, 4.2G: powers of 1000)"},
			&cli.StringSliceFlag{Name: "tensor-type", Usage: "give tensors whose name matches a type of their own: `REGEX=TYPE` (may be repeated)"},
			&cli.StringFlag{Name: "output-type", Aliases: []string{"output-tensor-type"}, Usage: "`TYPE` of the output matrix"},
			&cli.StringFlag{Name: "embedding-type", Aliases: []string{"token-embedding-type"}, Usage: "`TYPE` of the token embeddings"},
			&cli.BoolFlag{Name: "pure", Usage: "give all tensors the base type: no rules of the mix"},
			&cli.BoolFlag{Name: "leave-output", Aliases: []string{"leave-output-tensor"}, Usage: "leave the output matrix as it is"},
			&cli.BoolFlag{Name: "allow-requantize", Usage: "accept tensors that are quantized already"},
			&cli.BoolFlag{Name: "keep-split", Usage: "write as many parts as IN has, with the same tensors each"},
			&cli.BoolFlag{Name: "strict", Usage: "refuse if a tensor does not fit the type that its rule gives"},
			&cli.Float64Flag{Name: "max-rmse", Usage: "refuse, with status 3, if the relative error of a tensor exceeds `X` (0: no limit)"},
			&cli.StringFlag{Name: "report", Usage: "write the table as JSON to `F.json`", TakesFile: true},
			dryRunFlag(), threadsFlag(), jsonFlag(), quietFlag(),
		},
		Action: func(c *cli.Context) error {
			types := 1
			if targeted(c) {
				types = 0
			}
			return u.action(1+types, 2+types, func(c *cli.Context) error { return quantizeFile(c, u) })(c)
		},
	}
}

// recipeNames lists the mixes that can be written.
func recipeNames() []string {
	var names []string
	for _, r := range mix.Recipes() {
		if slices.Contains(block.Types(), r.Base) {
			names = append(names, r.Name)
		}
	}
	return names
}

func quantizeFile(c *cli.Context, u *ui) error {
	target, label, err := sizeTarget(c)
	if err != nil {
		return err
	}
	o, err := quantizeOptions(c)
	if err != nil {
		return err
	}
	in, args := c.Args().First(), c.Args().Slice()
	if target == nil {
		label, args = o.Recipe.Name, args[:len(args)-1]
	}
	out, err := quantizeOutput(c, args, label)
	if err != nil {
		return err
	}
	f, err := gguf.OpenModel(in)
	if err != nil {
		return err
	}
	defer f.Close()
	outputs := []string{out}
	if o.KeepSplit {
		outputs = gguf.PartPaths(out, len(f.Paths()))
	}
	if err := checkReport(c, in, outputs); err != nil {
		return err
	}
	if err := gguf.CheckParts(out, len(outputs), f.Paths()...); err != nil { // before types are measured, and for a dry run
		return err
	}
	noteDropped(u, f)
	plan, err := quantizePlan(c, u, f, o, target)
	if err != nil {
		return err
	}
	report := plan.Report()
	if !c.Bool("dry-run") {
		bar := u.progress("quantizing")
		report, err = plan.Run(c.Context, out, quantize.RunOptions{
			Threads:    c.Int("threads"),
			MaxRelRMSE: c.Float64("max-rmse"),
			Progress:   func(p quantize.Progress) { bar.set(p.Done, p.Total) },
		})
		bar.finish()
	}
	// A result that a limit refused is worth a report too.
	if path := c.String("report"); path != "" && report != nil {
		if err := writeJSON(path, report, in, outputs[0]); err != nil {
			return err
		}
	}
	var limit *quantize.LimitError
	if errors.As(err, &limit) {
		return &verdictError{err}
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return u.json(report)
	}
	return printQuantized(c, u, outputs, report)
}

// quantizeOptions reads the type, which is the last argument, and the flags that choose types.
func quantizeOptions(c *cli.Context) (quantize.Options, error) {
	o := quantize.Options{AllowRequantize: c.Bool("allow-requantize"), KeepSplit: c.Bool("keep-split"), Mix: mix.Options{
		Pure:            c.Bool("pure"),
		LeaveOutput:     c.Bool("leave-output"),
		RefuseFallbacks: c.Bool("strict"),
	}}
	// A limit that no error exceeds would let everything pass.
	if limit := c.Float64("max-rmse"); math.IsNaN(limit) || limit < 0 {
		return o, usagef("", "--max-rmse %v: expected 0 or more", limit)
	}
	var err error
	args := c.Args().Slice()
	if !targeted(c) {
		o.Recipe, err = parseRecipe(args[len(args)-1])
	}
	if err != nil {
		if i := slices.IndexFunc(args[:len(args)-1], isRecipe); i >= 0 {
			files := slices.Delete(slices.Clone(args), i, i+1)
			return o, usagef(didYouMean("ggufkit quantize "+strings.Join(append(files, args[i]), " "))+"usage: "+c.Command.UsageText,
				"the type comes last, not %s", args[len(args)-1])
		}
		return o, err
	}
	if o.Mix.OutputType, err = typeFlag(c, "output-type"); err != nil {
		return o, err
	}
	if o.Mix.EmbeddingType, err = typeFlag(c, "embedding-type"); err != nil {
		return o, err
	}
	for _, s := range c.StringSlice("tensor-type") {
		i := strings.LastIndexByte(s, '=')
		if i < 1 {
			return o, usagef("write --tensor-type REGEX=TYPE", "--tensor-type %q has no type", s)
		}
		t, err := parseType("tensor-type", s[i+1:])
		if err != nil {
			return o, err
		}
		if _, err := regexp.Compile(s[:i]); err != nil {
			return o, usagef("write --tensor-type REGEX=TYPE", "--tensor-type %q: %v", s, err)
		}
		o.Mix.Overrides = append(o.Mix.Overrides, mix.Override{Pattern: s[:i], Type: t})
	}
	return o, nil
}

// isRecipe reports whether a word is the name of a mix.
func isRecipe(word string) bool {
	_, err := mix.Parse(word)
	return err == nil
}

// parseRecipe finds a mix by its name; an unknown one is wrong usage.
func parseRecipe(name string) (*mix.Recipe, error) {
	r, err := mix.Parse(name)
	if err != nil {
		return nil, usagef(didYouMean(nearest(name, recipeNames()))+"the types are "+strings.Join(recipeNames(), " "), "there is no quantization type %q", name)
	}
	if !slices.Contains(block.Types(), r.Base) {
		return nil, usagef("the types are "+strings.Join(recipeNames(), " "), "weights cannot be written as %s", r.Name)
	}
	return r, nil
}

// typeFlag is the tensor type that a flag names, nil if it is not given.
func typeFlag(c *cli.Context, name string) (*gguf.Type, error) {
	if !c.IsSet(name) {
		return nil, nil
	}
	t, err := parseType(name, c.String(name))
	return &t, err
}

func parseType(flag, name string) (gguf.Type, error) {
	types := block.Types()
	hint := "the types of single tensors are " + strings.Trim(strings.ReplaceAll(fmt.Sprint(types), " ", ", "), "[]")
	t, err := gguf.ParseType(name)
	if err != nil {
		return t, usagef(hint, "--%s: %v", flag, err)
	}
	if !slices.Contains(types, t) {
		return t, usagef(hint, "--%s: weights cannot be written as %s", flag, t)
	}
	return t, nil
}

// targeted reports whether a target takes the place of the type.
func targeted(c *cli.Context) bool { return c.IsSet("target-bpw") || c.IsSet("target-size") }

// sizeTarget reads the target, nil if there is none, and the label that stands for it in a file name.
func sizeTarget(c *cli.Context) (target *quantize.Target, label string, err error) {
	if !targeted(c) {
		return nil, "", nil
	}
	if c.IsSet("target-bpw") && c.IsSet("target-size") {
		return nil, "", usagef("give one of them", "two targets: --target-bpw and --target-size")
	}
	for _, name := range []string{"pure", "strict"} {
		if c.Bool(name) {
			return nil, "", usagef("a target chooses among types that fit, for each tensor", "--%s does not go with a target", name)
		}
	}
	if i := slices.IndexFunc(c.Args().Slice(), isRecipe); i >= 0 && c.NArg() > 1 {
		return nil, "", usagef("leave out the type: the target chooses types", "there are a target and a type, %s", c.Args().Get(i))
	}
	if c.IsSet("target-size") {
		n, err := parseSize(c.String("target-size"))
		return &quantize.Target{Bytes: n}, c.String("target-size"), err
	}
	bpw := c.Float64("target-bpw")
	if !(bpw > 0 && bpw <= 64) {
		return nil, "", usagef("write bits per weight: --target-bpw 4.5", "--target-bpw %g is out of range", bpw)
	}
	return &quantize.Target{BPW: bpw}, fmt.Sprintf("%gbpw", bpw), nil
}

// quantizePlan makes the plan; with a target it measures first.
func quantizePlan(c *cli.Context, u *ui, f *gguf.File, o quantize.Options, target *quantize.Target) (*quantize.Plan, error) {
	if target == nil {
		return quantize.NewPlan(f, o)
	}
	bar := u.progress("measuring")
	defer bar.finish()
	return quantize.NewTargetPlan(c.Context, f, o, *target, quantize.RunOptions{
		Threads:  c.Int("threads"),
		Progress: func(p quantize.Progress) { bar.set(p.Done, p.Total) },
	})
}

// quantizeOutput is the name that was given, as the second of args (IN [OUT]) or as a flag, or one that follows from the input's.
func quantizeOutput(c *cli.Context, args []string, label string) (string, error) {
	flag := c.String("output")
	switch {
	case flag != "" && len(args) == 2:
		return "", usagef("give OUT or -o OUT, not both", "two outputs: %s and %s", args[1], flag)
	case flag != "":
		return flag, nil
	case len(args) == 2:
		return args[1], checkOutput(c, args[1])
	}
	return renamed(args[0], label), nil
}

// renamed puts a type into the place of the one at the end of a model's name: "dir/model-F32.gguf" gives "dir/model-Q4_K_M.gguf", and so does
// "dir/model-F32-00001-of-00003.gguf".
func renamed(path, label string) string {
	dir, base := filepath.Split(gguf.ModelName(path))
	if i := strings.LastIndexAny(base, "-."); i > 0 {
		if isRecipe(base[i+1:]) {
			base = base[:i]
		}
	}
	return filepath.Join(dir, base+"-"+label+".gguf")
}

// checkReport makes sure that the report can be written before an hour of work is spent on what it tells of.
func checkReport(c *cli.Context, in string, outputs []string) error {
	path := c.String("report")
	if path == "" {
		return nil
	}
	if c.Bool("dry-run") {
		return usagef("--json prints what the report of a dry run would hold", "--dry-run writes nothing, no --report either")
	}
	if slices.ContainsFunc(outputs, func(out string) bool { return filepath.Clean(path) == filepath.Clean(out) }) {
		return usagef("give --report another name", "%s is the output", path)
	}
	return creatable(path, in, outputs[0])
}

// writeJSON writes v to a file of its own, which must not be one of those in use.
func writeJSON(path string, v any, inUse ...string) error {
	return writeFile(path, func(out *atomicfile.File) error {
		enc := jsonEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}, inUse...)
}

func printQuantized(c *cli.Context, u *ui, outputs []string, r *quantize.Report) error {
	rows := make([][]string, len(r.Tensors))
	for i, t := range r.Tensors {
		rows[i] = append([]string{t.Name, t.From, t.To, fmt.Sprintf("%.2f", t.BPW)}, append(errorCells(t.Errors), t.Rule)...)
	}
	header := []string{"tensor", "from", "to", "bpw", "rel rmse", "rmse", "max error", "cosine", "rule"}
	if err := u.table(header, rows, header[3:8]...); err != nil {
		return err
	}
	u.printf("\n")
	if f := r.Fallbacks; f.Tensors > 0 {
		u.printf("%d tensors (%.1f %% of the weights) do not fit the type of their rule: %.2f bits per weight instead of %.2f\n",
			f.Tensors, 100*f.Share, r.BPW, f.NominalBPW)
	}
	if r.Errors != nil {
		u.printf("all weights: relative rmse %.5f, rmse %.3g, max error %.3g, cosine %.6f\n", r.RelRMSE, r.RMSE, r.MaxError, r.Cosine)
	}
	out, verb := outputs[0], "is"
	if n := len(outputs); n > 1 {
		out, verb = outputs[0]+" to "+outputs[n-1], "are"
	}
	if c.Bool("dry-run") {
		verb = "would be"
	}
	u.printf("%s %s %s bytes, %.2f bits per weight, %.1f %% of the source\n",
		out, verb, commas(r.Bytes), r.BPW, 100*float64(r.Bytes)/float64(max(r.SourceBytes, 1)))
	return nil
}

// errorCells prints the errors of a tensor, dashes where none were measured or made.
func errorCells(e *quantize.Errors) []string {
	if e == nil {
		return []string{"-", "-", "-", "-"}
	}
	return []string{fmt.Sprintf("%.5f", e.RelRMSE), fmt.Sprintf("%.3g", e.RMSE), fmt.Sprintf("%.3g", e.MaxError), fmt.Sprintf("%.6f", e.Cosine)}
}
