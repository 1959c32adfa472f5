package main

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/convert"
	"github.com/ggufkit/ggufkit/convert/checkpoint"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/inspect"
	"github.com/urfave/cli/v2"
)

func convertCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "convert",
		Usage:     "turn a Hugging Face checkpoint into a GGUF file",
		UsageText: "ggufkit convert SRC [-o OUT] [--type TYPE] [flags]",
		Description: `SRC is a folder with config.json, tokenizer files and safetensors weights. Without -o the output stands in the current folder
and is named by the convention for GGUF files, after the name of SRC and its model card:
BaseName-SizeLabel-FineTune-Version-TYPE.gguf. A quantized type is written in one pass, with the same bytes as by way of F32.

Examples:
  ggufkit convert ./SmolLM2-135M
  ggufkit convert ./SmolLM2-135M --type Q4_K_M -o small.gguf
  ggufkit convert ./SmolLM2-135M --set general.url:str=http://example.org/ --dry-run
  ggufkit convert ./Mistral-7B --split-max-size 4G
  ggufkit convert --list`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o", "outfile"}, Usage: "write to `OUT`", TakesFile: true},
			&cli.StringFlag{Name: "type", Aliases: []string{"outtype"}, Value: "auto", Usage: "`TYPE` of the weights: auto (as the checkpoint has them), f32, f16, bf16, q8_0, Q4_K_M ..."},
			&cli.StringFlag{Name: "pre", Usage: "`NAME` of the pre-tokenizer, where it is not recognized"},
			&cli.BoolFlag{Name: "vocab-only", Usage: "write metadata and vocabulary, no weights"},
			&cli.StringSliceFlag{Name: "set", Usage: "set a key of the metadata: `KEY=VALUE`, or KEY:TYPE=VALUE for a new one (may be repeated)"},
			&cli.StringFlag{Name: "split-max-size", Usage: "write several files of up to `SIZE` bytes (500M, 4G: powers of 1000), named OUT-00001-of-00003.gguf"},
			&cli.BoolFlag{Name: "list", Usage: "list the architectures and model classes that can be converted"},
			dryRunFlag(), threadsFlag(), jsonFlag(), quietFlag(),
		},
		Action: u.action(0, 1, func(c *cli.Context) error {
			if c.Bool("list") && c.NArg() > 0 {
				return usagef("leave one of them out", "--list and a checkpoint, %s", c.Args().First())
			}
			if c.Bool("list") {
				return listArchitectures(c, u)
			}
			if c.NArg() == 0 {
				return usagef("usage: "+c.Command.UsageText, "convert needs a checkpoint folder")
			}
			return convertCheckpoint(c, u)
		}),
	}
}

// listArchitectures prints which model classes there are declarations for.
func listArchitectures(c *cli.Context, u *ui) error {
	type listed struct {
		Architecture string   `json:"architecture"`
		Classes      []string `json:"classes"`
	}
	var list []listed
	var rows [][]string
	for _, s := range arch.All {
		list = append(list, listed{s.Name, s.Classes})
		rows = append(rows, []string{s.Name, strings.Join(s.Classes, ", ")})
	}
	if c.Bool("json") {
		return u.json(list)
	}
	return u.table([]string{"architecture", "model classes"}, rows)
}

// conversion is what convert prints.
type conversion struct {
	File    string            `json:"file"`
	Files   []convertedFile   `json:"files,omitempty"` // where there are several
	Bytes   uint64            `json:"bytes"`
	DryRun  bool              `json:"dry_run,omitempty"`
	Notes   []string          `json:"notes,omitempty"`
	Details []string          `json:"details,omitempty"`
	Meta    []inspect.KV      `json:"meta,omitempty"` // of a dry run
	Tensors []convertedTensor `json:"tensors"`
}

type convertedFile struct {
	File    string `json:"file"`
	Bytes   uint64 `json:"bytes"`
	Tensors int    `json:"tensors"`
}

type convertedTensor struct {
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Shape     []uint64 `json:"shape"`
	Rule      string   `json:"rule"`
	Sources   []string `json:"sources"`
	Transform string   `json:"transform,omitempty"` // of the source's values or their order
}

func convertCheckpoint(c *cli.Context, u *ui) error {
	o, err := convertOptions(c)
	if err != nil {
		return err
	}
	src := c.Args().First()
	ckpt, err := checkpoint.Open(src)
	if o.VocabOnly && (errors.Is(err, checkpoint.ErrNoWeights) || errors.Is(err, checkpoint.ErrMissing)) {
		ckpt, err = &checkpoint.Checkpoint{Dir: src}, nil // the vocabulary stands in other files
	}
	if err != nil {
		return err
	}
	defer ckpt.Close()
	plan, err := convert.NewPlan(ckpt, o)
	if err != nil {
		return err
	}
	path := c.String("output")
	if path == "" {
		path = plan.DefaultName()
	}
	r := describePlan(plan, path)
	if c.Bool("dry-run") {
		if err := gguf.CheckParts(path, max(len(r.Files), 1), plan.Inputs()...); err != nil {
			return err
		}
		r.DryRun = true
		for key, v := range plan.Meta.All() {
			r.Meta = append(r.Meta, inspect.NewKV(key, v))
		}
		for _, d := range plan.Details {
			u.note("%s", d)
		}
	}
	for _, n := range plan.Notes {
		u.note("note: %s", n)
	}
	if !r.DryRun {
		bar := u.progress("converting")
		o.Progress = func(_ string, done, total uint64) { bar.set(done, total) }
		_, err = plan.Run(c.Context, path, o)
		bar.finish()
		if err != nil {
			return err
		}
	}
	return printConversion(c, u, r)
}

// convertOptions reads the flags.
func convertOptions(c *cli.Context) (convert.Options, error) {
	o := convert.Options{Type: c.String("type"), Pre: c.String("pre"), VocabOnly: c.Bool("vocab-only"), Threads: c.Int("threads")}
	if !strings.EqualFold(o.Type, "auto") {
		if _, err := parseRecipe(o.Type); err != nil {
			return o, err
		}
	}
	if s := c.String("split-max-size"); s != "" {
		n, err := parseSize(s)
		if err != nil {
			return o, err
		}
		o.SplitMaxSize = n
	}
	words := c.StringSlice("set")
	if len(words) == 0 {
		return o, nil
	}
	list, err := assignments(c.Context, words, nil)
	if err != nil {
		return o, err
	}
	for _, a := range list {
		if strings.HasPrefix(a.key, "split.") {
			return o, usagef("--split-max-size makes several files, and sets their keys", "%s cannot be set: it says which part of a model a file is", a.key)
		}
	}
	o.Edit = func(m *gguf.Meta) error {
		for _, a := range list {
			v, err := a.parse(m)
			if err != nil {
				return err
			}
			m.Set(a.key, v)
		}
		return nil
	}
	return o, nil
}

// parseSize reads a number of bytes such as 500M or 4G; the letters stand for powers of 1000, as in llama.cpp.
func parseSize(s string) (uint64, error) {
	const letters = "KMGT"
	digits, factor := s, uint64(1)
	if n := len(s) - 1; n > 0 {
		if i := strings.IndexByte(letters, strings.ToUpper(s)[n]); i >= 0 {
			digits = s[:n]
			for range i + 1 {
				factor *= 1000
			}
		}
	}
	whole, fraction, point := strings.Cut(digits, ".")
	for range fraction { // 4.2G is 42 times 100M
		factor /= 10
	}
	n, err := strconv.ParseUint(whole+fraction, 10, 64)
	if err != nil || n == 0 || factor == 0 || n > math.MaxInt64/factor || point && fraction == "" {
		return 0, usagef("write a whole number of bytes, or one with K, M, G or T: 4G, 4.2G", "%q is no size of a file", s)
	}
	return n * factor, nil
}

// describePlan lists the tensors and files of a plan.
func describePlan(p *convert.Plan, path string) *conversion {
	r := &conversion{File: path, Bytes: p.Size(), Notes: p.Notes, Details: p.Details, Tensors: make([]convertedTensor, 0, len(p.Tensors))}
	if outputs := p.Outputs(path); len(outputs) > 1 {
		r.File = outputs[0].Path
		for _, out := range outputs {
			r.Files = append(r.Files, convertedFile{out.Path, out.Bytes, out.Tensors})
		}
	}
	for _, t := range p.Tensors {
		row := convertedTensor{Name: t.Name, Type: t.Type.String(), Shape: t.Shape, Rule: t.Rule, Transform: t.Transform, Sources: []string{}}
		for _, s := range t.Sources {
			row.Sources = append(row.Sources, s.Name)
		}
		r.Tensors = append(r.Tensors, row)
	}
	return r
}

func printConversion(c *cli.Context, u *ui, r *conversion) error {
	if c.Bool("json") {
		return u.json(r)
	}
	if r.DryRun {
		if err := printMeta(u, r.Meta); err != nil {
			return err
		}
		u.printf("\n")
		rows := make([][]string, len(r.Tensors))
		for i, t := range r.Tensors {
			from := strings.Join(t.Sources, " + ")
			if t.Transform != "" {
				from = strings.TrimSpace(from + " (" + t.Transform + ")")
			}
			rows[i] = []string{t.Name, t.Type, shapeText(t.Shape), t.Rule, from}
		}
		if err := u.table([]string{"tensor", "type", "shape", "rule", "from"}, rows); err != nil {
			return err
		}
		u.printf("\n")
	}
	files := r.Files
	if files == nil {
		files = []convertedFile{{r.File, r.Bytes, len(r.Tensors)}}
	}
	printFiles(u, files, r.DryRun)
	return nil
}

// printFiles tells what was written, or would be.
func printFiles(u *ui, files []convertedFile, dryRun bool) {
	for _, f := range files {
		u.printf("%s%s %s bytes, %s\n", f.File, writtenVerb(dryRun), commas(f.Bytes), plural(f.Tensors, "tensor"))
	}
}

// writtenVerb stands between a file and its size.
func writtenVerb(dryRun bool) string {
	if dryRun {
		return " would be"
	}
	return ":"
}
