package main

import "github.com/ggufkit/ggufkit/internal/atomicfile"

// creatable fails at once for an output that could not be written when all is done; "" is none.
func creatable(path string, inputs ...string) error {
	if path == "" {
		return nil
	}
	out, err := atomicfile.Create(path, inputs...)
	if err == nil {
		out.Abort()
	}
	return err
}

// writeFile makes a file by what write writes, whole or not at all. It may be none of the inputs.
func writeFile(path string, write func(out *atomicfile.File) error, inputs ...string) error {
	out, err := atomicfile.Create(path, inputs...)
	if err != nil {
		return err
	}
	defer out.Abort()
	if err := write(out); err != nil {
		return err
	}
	return out.Commit()
}
