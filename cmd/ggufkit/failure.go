package main

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/atomicfile"
)

// failure is what is said of an error: an error of the system names its file first, as all others do, and has a hint if none of the packages gave it one.
func failure(err error) string {
	text := err.Error()
	var file *fs.PathError
	if errors.As(err, &file) {
		text = strings.Replace(text, file.Error(), file.Path+": "+file.Err.Error(), 1)
	}
	if hint := systemHint(err); hint != "" && !strings.Contains(text, "\nhint: ") {
		text += "\nhint: " + hint
	}
	return text
}

// systemHint is what to do about what the system says of a file, "" where nothing is known.
func systemHint(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return gguf.HintMissing
	case errors.Is(err, fs.ErrPermission):
		return "this user has no right to it: 'ls -l' shows the rights of the file, 'ls -ld' those of the folders on the way to it"
	case errors.Is(err, syscall.ENOTDIR):
		return "what should be a folder in this path is a file: check the name"
	case errors.Is(err, syscall.EISDIR):
		return "name a file in it"
	case errors.Is(err, syscall.ENAMETOOLONG):
		return "choose a shorter name"
	case atomicfile.TooManyOpen(err):
		return atomicfile.HintOpenFiles
	}
	return ""
}
