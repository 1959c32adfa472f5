// Package atomicfile writes files that appear whole under their final name or not at all.
package atomicfile

import (
	"errors"
	"os"
)

// File is an output in the making: a temporary file beside the final name.
type File struct{ *os.File }

// Create starts an output for path. It refuses a path that is one of the inputs, also through a link or another spelling.
// Leftovers of killed runs for the same path are removed.
func Create(path string, inputs ...string) (*File, error) { return nil, errors.New("todo") }

// Commit syncs, closes and renames to the final name.
func (f *File) Commit() error { return errors.New("todo") }

// Abort closes and removes the temporary file. After Commit it does nothing, so it can be deferred.
func (f *File) Abort() {}
