package main

import (
	"path/filepath"
	"strings"

	"github.com/ggufkit/ggufkit/convert"
	"github.com/ggufkit/ggufkit/convert/checkpoint"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/mix"
	"github.com/urfave/cli/v2"
)

func convertCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "convert",
		Usage:     "turn a Hugging Face checkpoint into a GGUF file",
		UsageText: "ggufkit convert SRC [-o OUT] [--type TYPE] [flags]",
		Description: `SRC is a folder with config.json, tokenizer files and safetensors weights. Without -o the output is NAME-TYPE.gguf in the
current folder, NAME being that of SRC. A quantized type is written in one pass, with the same bytes as by way of F32.

Examples:
  ggufkit convert ./SmolLM2-135M
  ggufkit convert ./SmolLM2-135M --type Q4_K_M -o small.gguf
  ggufkit convert ./SmolLM2-135M --dry-run`,
		Flags: []cli.Flag{
			outputFlag("write to `OUT`"),
			&cli.StringFlag{Name: "type", Aliases: []string{"outtype"}, Value: "auto", Usage: "`TYPE` of the weights: auto (as the checkpoint has them), f32, f16, bf16, q8_0, Q4_K_M ..."},
			&cli.StringFlag{Name: "pre", Usage: "`NAME` of the pre-tokenizer, where it is not recognized"},
			&cli.BoolFlag{Name: "vocab-only", Usage: "write metadata and vocabulary, no weights"},
			dryRunFlag(), threadsFlag(), jsonFlag(), quietFlag(),
		},
		Action: u.action(1, 1, func(c *cli.Context) error { return convertCheckpoint(c, u) }),
	}
}

// conversion is what convert prints.
type conversion struct {
	File    string            `json:"file"`
	Bytes   uint64            `json:"bytes"`
	DryRun  bool              `json:"dry_run,omitempty"`
	Notes   []string          `json:"notes,omitempty"`
	Tensors []convertedTensor `json:"tensors"`
}

type convertedTensor struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Shape   []uint64 `json:"shape"`
	Rule    string   `json:"rule"`
	Sources []string `json:"sources"`
}

func convertCheckpoint(c *cli.Context, u *ui) error {
	src, typ := c.Args().First(), c.String("type")
	if !strings.EqualFold(typ, "auto") {
		if _, err := parseRecipe(typ); err != nil {
			return err
		}
	}
	ckpt, err := checkpoint.Open(src)
	if err != nil {
		return err
	}
	defer ckpt.Close()
	o := convert.Options{Type: typ, Pre: c.String("pre"), VocabOnly: c.Bool("vocab-only"), Threads: c.Int("threads")}
	plan, err := convert.NewPlan(ckpt, o)
	if err != nil {
		return err
	}
	r, err := describePlan(plan)
	if err != nil {
		return err
	}
	r.DryRun = c.Bool("dry-run")
	if r.File = c.String("output"); r.File == "" {
		r.File = defaultOutput(src, typeLabel(plan.Meta, typ))
	}
	for _, n := range plan.Notes {
		u.note("note: %s", n)
	}
	if !r.DryRun {
		bar := u.progress("converting")
		o.Progress = func(_ string, done, total uint64) { bar.set(done, total) }
		_, err = plan.Run(c.Context, r.File, o)
		bar.finish()
		if err != nil {
			return err
		}
	}
	return printConversion(c, u, r)
}

// describePlan lists the tensors of a plan and computes the size of the file.
func describePlan(p *convert.Plan) (*conversion, error) {
	r := &conversion{Notes: p.Notes}
	tensors := make([]gguf.Tensor, len(p.Tensors))
	for i, t := range p.Tensors {
		tensors[i] = t.Tensor
		row := convertedTensor{Name: t.Name, Type: t.Type.String(), Shape: t.Shape, Rule: t.Rule}
		for _, s := range t.Sources {
			row.Sources = append(row.Sources, s.Name)
		}
		r.Tensors = append(r.Tensors, row)
	}
	_, total, err := gguf.Layout(p.Meta, tensors)
	r.Bytes = total
	return r, err
}

// defaultOutput names the output after the source folder.
func defaultOutput(src, label string) string {
	name := filepath.Base(src)
	if abs, err := filepath.Abs(src); err == nil {
		name = filepath.Base(abs)
	}
	return strings.TrimSuffix(name, ".safetensors") + "-" + label + ".gguf"
}

// typeLabel names the file type that a plan came to, for "auto" too.
func typeLabel(m *gguf.Meta, asked string) string {
	if n, err := m.Uint("general.file_type"); err == nil {
		for _, r := range mix.Recipes() {
			if uint64(r.FileType) == n {
				return r.Name
			}
		}
	}
	return strings.ToUpper(asked)
}

func printConversion(c *cli.Context, u *ui, r *conversion) error {
	if c.Bool("json") {
		return u.json(r)
	}
	if r.DryRun {
		rows := make([][]string, len(r.Tensors))
		for i, t := range r.Tensors {
			rows[i] = []string{t.Name, t.Type, shapeText(t.Shape), t.Rule, strings.Join(t.Sources, " + ")}
		}
		if err := u.table([]string{"tensor", "type", "shape", "rule", "from"}, rows); err != nil {
			return err
		}
		u.printf("\n%s would be %s bytes, %d tensors\n", r.File, commas(r.Bytes), len(r.Tensors))
		return nil
	}
	u.printf("%s: %s bytes, %d tensors\n", r.File, commas(r.Bytes), len(r.Tensors))
	return nil
}
