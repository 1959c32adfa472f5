package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
)

// Part tells which part of a split model a report is about.
type Part struct {
	No    uint64 `json:"no"` // from 1
	Count uint64 `json:"count"`
	// Why the others are not counted: "m-00003-of-00003.gguf is damaged". It is "" for a later part, which cannot stand for all.
	Why string `json:"why,omitempty"`
}

// partOf reads which part of several a file is: nil if it is whole, or its keys make no sense.
func partOf(m *gguf.Meta) *Part {
	no, err := m.Uint("split.no")
	count, err2 := m.Uint("split.count")
	if err != nil || err2 != nil || count < 2 || count > gguf.MaxParts || no >= count {
		return nil
	}
	return &Part{No: no + 1, Count: count}
}

// later reports whether a part is another than the first.
func (p *Part) later() bool { return p != nil && p.No > 1 }

// join gives all parts of the model that f begins as one file, or f where that cannot be, and adds the faults of the other parts. Parts that are
// not there are no fault of the first, and do no harm to a look into it.
func (r *Report) join(f *gguf.File) *gguf.File {
	part := partOf(f.Meta)
	if part.later() || r.fatal != nil {
		if r.Part = part; part != nil && !part.later() {
			part.Why = f.Path + " is damaged"
		}
		return f
	}
	whole, err := f.Join()
	if whole == f {
		return f
	}
	var damaged, missing []string
	for _, path := range gguf.PartsOf(f.Path) {
		if path == f.Path {
			continue
		}
		switch fatal, err := r.check(f.Path, path); {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, path)
		case err != nil || fatal:
			damaged = append(damaged, path)
		}
	}
	if err == nil {
		return whole
	}
	if !slices.Contains(r.Defects, newDefect(f.Path, err, true)) {
		r.add(f.Path, err, !errors.Is(err, fs.ErrNotExist))
	}
	if part == nil || gguf.StaleSplit(f.Meta, len(f.Tensors)) {
		return f
	}
	r.Part = part
	switch {
	case len(damaged)+len(missing) > 0:
		part.Why = strings.Join(slices.Concat(state(damaged, "damaged"), state(missing, "missing")), ", ")
	case errors.Is(err, fs.ErrNotExist):
		part.Why = "the others are not found"
	default:
		part.Why = "the parts do not fit each other"
	}
	return f
}

// check adds the faults of another part of the model that the file first begins. It fails for one that cannot be opened.
func (r *Report) check(first, path string) (fatal bool, err error) {
	f, defects, err := gguf.Check(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.add(first, err, true)
	}
	for _, d := range defects {
		r.add(first, d.Error(path), d.Fatal)
		fatal = fatal || d.Fatal
	}
	if f != nil {
		f.Close()
	}
	return fatal, err
}

// state says the same of all files, by the first of them.
func state(paths []string, what string) []string {
	switch len(paths) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("%s is %s", paths[0], what)}
	}
	return []string{fmt.Sprintf("%s and %d more are %s", paths[0], len(paths)-1, what)}
}
