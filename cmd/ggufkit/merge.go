package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/atomicfile"
	"github.com/urfave/cli/v2"
)

func mergeCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "merge",
		Usage:     "make one file of the parts of a split model",
		UsageText: "ggufkit merge (FIRST OUT | PART... -o OUT) [flags]",
		Description: `FIRST is the first part, such as model-00001-of-00003.gguf; the others must stand beside it, and may be named too. Tensors and the metadata of FIRST stay
as they are, the keys split.* go. Commands that run, quantize or show a model take the first part as well: merging is for programs that want one file. The command split makes
parts again.

Examples:
  ggufkit merge model-00001-of-00003.gguf model.gguf
  ggufkit merge model-*-of-00003.gguf -o model.gguf`,
		Flags:  []cli.Flag{outputFlag("write to `OUT` (as the second argument does)"), dryRunFlag(), jsonFlag(), quietFlag()},
		Action: u.action(0, -1, func(c *cli.Context) error { return merge(c, u) }),
	}
}

// mergeArgs are the first part and the output. A wildcard names all parts, in any order: then none of them is taken for the output.
func mergeArgs(c *cli.Context) (first, out string, err error) {
	args, out, usage := c.Args().Slice(), c.String("output"), "usage: "+c.Command.UsageText
	switch {
	case len(args) == 0:
		return "", "", usagef(usage, "merge needs a part of a model, and an output")
	case out == "" && len(args) == 1:
		return "", "", usagef(usage, "merge needs one output")
	case out == "" && len(args) == 2:
		return args[0], args[1], checkOutput(c, args[1])
	case out == "":
		return "", "", usagef(usage, "merge needs one output: -o names it where there are several parts")
	case len(args) == 1:
		return args[0], out, nil
	}
	parts := gguf.PartsOf(filepath.Clean(args[0]))
	for _, arg := range args[1:] {
		if !slices.Contains(parts, filepath.Clean(arg)) {
			return "", "", usagef(usage, "%s is no part of the model of %s", arg, args[0])
		}
	}
	return parts[0], out, nil
}

// merged is what merge prints.
type merged struct {
	File    string   `json:"file"`
	Parts   []string `json:"parts"`
	Tensors int      `json:"tensors"`
	Bytes   uint64   `json:"bytes"`
	DryRun  bool     `json:"dry_run,omitempty"`
}

func merge(c *cli.Context, u *ui) error {
	first, path, err := mergeArgs(c)
	if err != nil {
		return err
	}
	f, err := gguf.OpenModel(first)
	if err != nil {
		return err
	}
	defer f.Close()
	r := merged{File: path, Parts: f.Paths(), Tensors: len(f.Tensors), DryRun: c.Bool("dry-run")}
	if len(r.Parts) == 1 {
		return fmt.Errorf("%s is one file already: there is nothing to merge\nhint: give the first of several parts, such as model-00001-of-00003.gguf", first)
	}
	// Laid out anew: what parts have between and behind their tensors, loaders would not take in one file.
	whole, err := gguf.Split(f.Meta, slices.Clone(f.Tensors), gguf.PartLimits{})
	if err != nil {
		return inFile(first, err)
	}
	r.Bytes = whole[0].Bytes
	noteDropped(u, f)
	if r.DryRun {
		err = creatable(path, r.Parts...)
	} else {
		err = writeMerged(c, u, f, path, whole[0])
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return u.json(r)
	}
	u.printf("%s%s %s bytes, %d tensors of %d files\n", r.File, writtenVerb(r.DryRun), commas(r.Bytes), r.Tensors, len(r.Parts))
	return nil
}

// writeMerged writes all parts as one file.
func writeMerged(c *cli.Context, u *ui, f *gguf.File, path string, whole gguf.Part) error {
	bar := u.progress("merging")
	defer bar.finish()
	return writeFile(path, func(out *atomicfile.File) error {
		if err := out.Preallocate(whole.Bytes); err != nil {
			return err
		}
		return f.WritePart(&counted{ctx: c.Context, w: out, report: func(done uint64) { bar.set(done, whole.Bytes) }}, whole)
	}, f.Paths()...)
}

// noteDropped tells of the metadata that a file made of all parts of a model does not have.
func noteDropped(u *ui, f *gguf.File) {
	for _, k := range f.Dropped() {
		u.note("note: %s: key %q is left out: the metadata of a model is that of its first part", k.Path, k.Key)
	}
}

// counted tells how much is written, and writes no more when its context is done.
type counted struct {
	ctx    context.Context
	w      io.Writer
	done   uint64
	report func(done uint64)
}

func (w *counted) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.w.Write(p)
	w.done += uint64(n)
	w.report(w.done)
	return n, err
}
