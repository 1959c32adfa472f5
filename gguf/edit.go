package gguf

import "errors"

// EditResult says how an edit was carried out.
type EditResult struct {
	InPlace bool  // the header was overwritten where it stood; tensor bytes were not moved
	Size    int64 // of the file afterwards
}

// Edit changes the metadata of the file at path. Tensor bytes stay as they are. Where the new header fits into the
// space of the old one (padding included) the file is changed in place under a journal, so that a crash leaves the old or the new header;
// else a new file is written beside it and renamed over it. out, if not "", receives the result instead and path is not touched.
func Edit(path, out string, change func(*Meta) error) (EditResult, error) {
	return EditResult{}, errors.New("not implemented")
}
