package main

import (
	"slices"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/atomicfile"
	"github.com/urfave/cli/v2"
)

// checkOutput refuses names that nobody means for a file: none, as of a shell variable that is not set, and the one that stands for stdout elsewhere.
func checkOutput(c *cli.Context, path string) error {
	switch path {
	case "":
		return usagef("usage: "+c.Command.UsageText, "the output's name is empty")
	case "-":
		return usagef("name a file; one that is really called so is ./-", "what this command writes does not go to stdout: the output is named -")
	}
	return nil
}

// writtenFlags are those that name files that commands write.
var writtenFlags = []string{"output", "report", "junit", "markdown", "save-base", "trace", "cpuprofile"}

// create starts an output that may be none of the inputs. One that is a part of a split model stands for all parts.
func create(path string, inputs ...string) (*atomicfile.File, error) {
	all := slices.Clone(inputs)
	for _, name := range inputs {
		all = append(all, gguf.PartsOf(name)...)
	}
	slices.Sort(all) // each is looked up once, also where all parts of a model are given
	return atomicfile.Create(path, slices.Compact(all)...)
}

// creatable fails at once for an output that could not be written when all is done; "" is none.
func creatable(path string, inputs ...string) error {
	if path == "" {
		return nil
	}
	out, err := create(path, inputs...)
	if err == nil {
		out.Abort()
	}
	return err
}

// creatableParts is creatable for a model in so many files, named as gguf.PartPaths says. Room on the disk is not asked for: a plan may say how much it takes.
func creatableParts(path string, count int, inputs ...string) error {
	files, err := gguf.CreateParts(path, make([]gguf.Part, count), inputs...)
	if err == nil {
		files.Abort()
	}
	return err
}

// writeFile makes a file by what write writes, whole or not at all. It may be none of the inputs.
func writeFile(path string, write func(out *atomicfile.File) error, inputs ...string) error {
	out, err := create(path, inputs...)
	if err != nil {
		return err
	}
	defer out.Abort()
	if err := write(out); err != nil {
		return err
	}
	return out.Commit()
}
