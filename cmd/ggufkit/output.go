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
	return atomicfile.Create(path, withParts(inputs)...)
}

// withParts adds the other parts of split models. Each file is listed once, also where all parts of a model are given.
func withParts(inputs []string) (all []string) {
	seen := map[string]bool{}
	for _, name := range inputs {
		if seen[name] {
			continue
		}
		for _, p := range append(gguf.PartsOf(name), name) {
			if !seen[p] {
				seen[p] = true
				all = append(all, p)
			}
		}
	}
	slices.Sort(all)
	return all
}

// creatable fails at once for an output that could not be written when all is done; "" is none. Nothing is written.
func creatable(path string, inputs ...string) error {
	if path == "" {
		return nil
	}
	return atomicfile.Check([]string{path}, withParts(inputs)...)
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
