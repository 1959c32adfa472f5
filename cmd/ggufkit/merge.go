package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/atomicfile"
	"github.com/urfave/cli/v2"
)

func mergeCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "merge",
		Usage:     "make one file of the parts of a split model",
		UsageText: "ggufkit merge FIRST OUT [flags]",
		Description: `FIRST is the first part, such as model-00001-of-00003.gguf; the others must stand beside it. Tensors and metadata stay as they are, the keys
split.* go. Commands that run, quantize or show a model take the first part as well: merging is for programs that want one file.

Examples:
  ggufkit merge model-00001-of-00003.gguf model.gguf`,
		Flags:  []cli.Flag{outputFlag("write to `OUT` (as the second argument does)"), jsonFlag(), quietFlag()},
		Action: u.action(1, 2, func(c *cli.Context) error { return merge(c, u) }),
	}
}

// merged is what merge prints.
type merged struct {
	File    string   `json:"file"`
	Parts   []string `json:"parts"`
	Tensors int      `json:"tensors"`
	Bytes   uint64   `json:"bytes"`
}

func merge(c *cli.Context, u *ui) error {
	first, path := c.Args().First(), c.String("output")
	if (path != "") == (c.NArg() == 2) {
		return usagef("usage: "+c.Command.UsageText, "merge needs one output")
	}
	if path == "" {
		path = c.Args().Get(1)
	}
	f, err := gguf.OpenModel(first)
	if err != nil {
		return err
	}
	defer f.Close()
	r := merged{File: path, Parts: f.Paths(), Tensors: len(f.Tensors)}
	if len(r.Parts) == 1 {
		return fmt.Errorf("%s is one file already: there is nothing to merge", first)
	}
	_, total, err := gguf.Layout(f.Meta, slices.Clone(f.Tensors))
	if err != nil {
		return inFile(first, err)
	}
	bar := u.progress("merging")
	defer bar.finish()
	err = writeFile(path, func(out *atomicfile.File) error {
		if err := out.Preallocate(total); err != nil {
			return err
		}
		_, err := f.WriteTo(&counted{ctx: c.Context, w: out, report: func(done uint64) {
			r.Bytes = done
			bar.set(done, total)
		}})
		return err
	}, r.Parts...)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return u.json(r)
	}
	u.printf("%s: %s bytes, %d tensors of %d files\n", r.File, commas(r.Bytes), r.Tensors, len(r.Parts))
	return nil
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
