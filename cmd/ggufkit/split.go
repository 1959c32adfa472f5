package main

import (
	"fmt"
	"slices"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/urfave/cli/v2"
)

func splitCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "split",
		Usage:     "make several files of a model",
		UsageText: "ggufkit split IN OUT_PREFIX [--max-size SIZE] [--max-tensors N] [flags]",
		Description: `The parts are named OUT_PREFIX-00001-of-00003.gguf and so on; whoever opens the first finds the others beside it. Tensors stay as they are and in
their order, all metadata is in the first part. IN may be the first part of a model that is to be split anew. The command merge makes one file of the parts.

Examples:
  ggufkit split model.gguf model
  ggufkit split model.gguf parts/model --max-size 500M --dry-run`,
		Flags: []cli.Flag{
			outputFlag("name the parts after `OUT_PREFIX` (as the second argument does)"),
			&cli.StringFlag{Name: "max-size", Aliases: []string{"split-max-size"}, Value: "4G",
				Usage: "at most `SIZE` bytes in a part (500M, 4G: powers of 1000); a tensor that is larger has a part of its own"},
			&cli.IntFlag{Name: "max-tensors", Aliases: []string{"split-max-tensors"}, Usage: "at most `N` tensors in a part; then the size has no limit unless it is given too"},
			dryRunFlag(), jsonFlag(), quietFlag(),
		},
		Action: u.action(1, 2, func(c *cli.Context) error { return split(c, u) }),
	}
}

// divided is what split prints.
type divided struct {
	Files   []convertedFile `json:"files"`
	Tensors int             `json:"tensors"`
	Bytes   uint64          `json:"bytes"`
	DryRun  bool            `json:"dry_run,omitempty"`
}

func split(c *cli.Context, u *ui) error {
	in, prefix := c.Args().First(), c.String("output")
	if (prefix != "") == (c.NArg() == 2) {
		return usagef("usage: "+c.Command.UsageText, "split needs one name for its parts")
	}
	if prefix == "" {
		prefix = c.Args().Get(1)
	}
	if err := checkOutput(c, prefix); err != nil {
		return err
	}
	limits, err := splitLimits(c)
	if err != nil {
		return err
	}
	f, err := gguf.OpenModel(in)
	if err != nil {
		return err
	}
	defer f.Close()
	parts, err := gguf.Split(f.Meta, slices.Clone(f.Tensors), limits)
	if err != nil {
		return inFile(in, err)
	}
	if len(parts) == 1 {
		return fmt.Errorf("%s fits one file: there is nothing to split\nhint: --max-size and --max-tensors say how much a part may hold", in)
	}
	noteDropped(u, f)
	r := divided{Tensors: len(f.Tensors), DryRun: c.Bool("dry-run")}
	for i, path := range gguf.PartPaths(prefix, len(parts)) {
		r.Files = append(r.Files, convertedFile{path, parts[i].Bytes, parts[i].Hi - parts[i].Lo})
		r.Bytes += parts[i].Bytes
	}
	if r.DryRun {
		err = gguf.CheckParts(prefix, len(parts), f.Paths()...)
	} else {
		err = writeParts(c, u, f, prefix, parts, r.Bytes)
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return u.json(r)
	}
	printFiles(u, r.Files, r.DryRun)
	return nil
}

// splitLimits reads the flags. The default size goes where the number of tensors is what matters.
func splitLimits(c *cli.Context) (limits gguf.PartLimits, err error) {
	if c.IsSet("max-tensors") {
		if limits.Tensors = c.Int("max-tensors"); limits.Tensors < 1 {
			return limits, usagef("", "--max-tensors %d: expected 1 or more", limits.Tensors)
		}
		if !c.IsSet("max-size") {
			return limits, nil
		}
	}
	limits.Bytes, err = parseSize(c.String("max-size"))
	return limits, err
}

// writeParts writes the parts of f, of total bytes together: all or none.
func writeParts(c *cli.Context, u *ui, f *gguf.File, prefix string, parts []gguf.Part, total uint64) error {
	files, err := gguf.CreateParts(prefix, parts, f.Paths()...)
	if err != nil {
		return err
	}
	defer files.Abort()
	bar := u.progress("splitting")
	defer bar.finish()
	before := uint64(0)
	for i, p := range parts {
		out := &counted{ctx: c.Context, w: files.Files[i], report: func(done uint64) { bar.set(before+done, total) }}
		if err := f.WritePart(out, p); err != nil {
			return err
		}
		before += p.Bytes
	}
	return files.Commit()
}
