package gguf

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/internal/atomicfile"
)

// Part is one file of a model: a run of its tensors.
type Part struct {
	Meta   *Meta
	Lo, Hi int    // the tensors [Lo, Hi) of the model's list
	Bytes  uint64 // of the file
}

// PartLimits bound the files that a model is split into. 0 is no bound.
type PartLimits struct {
	Bytes   uint64 // of a file, its header included; a tensor that does not fit gets a file of its own, which is larger then
	Tensors int    // in a file
}

// Split shares tensors among files, in order; one that holds all comes back as it is, with the offsets of Layout. Else the offsets of tensors are set to those in
// the files. The first file has all the metadata, the others only say which part they are, by the keys and types of llama.cpp's gguf-split.
func Split(meta *Meta, tensors []Tensor, limits PartLimits) ([]Part, error) {
	whole, err := SplitAt(meta, tensors, nil)
	if err != nil {
		return nil, err
	}
	if (limits.Bytes == 0 || whole[0].Bytes <= limits.Bytes) && (limits.Tensors == 0 || len(tensors) <= limits.Tensors) {
		return whole, nil
	}
	var counts []int
	for lo := 0; lo < len(tensors); {
		if len(counts) == MaxParts {
			return nil, fmt.Errorf("there would be more than %d files\nhint: allow larger ones", MaxParts)
		}
		hi, err := fill(Part{Meta: partMeta(meta, len(counts), 0, len(tensors)), Lo: lo}, tensors, limits) // the count is known in the end and takes the same space
		if err != nil {
			return nil, err
		}
		counts, lo = append(counts, hi-lo), hi
	}
	return SplitAt(meta, tensors, counts)
}

// SplitAt is Split into files that hold so many tensors each, which may be none; the counts add up to the number of tensors.
func SplitAt(meta *Meta, tensors []Tensor, counts []int) ([]Part, error) {
	parts := make([]Part, max(1, len(counts)))
	if len(parts) > MaxParts {
		return nil, fmt.Errorf("%d files, at most %d", len(parts), MaxParts)
	}
	lo := 0
	for i := range parts {
		p := Part{Meta: meta, Hi: len(tensors)}
		if len(parts) > 1 {
			p = Part{Meta: partMeta(meta, i, len(parts), len(tensors)), Lo: lo, Hi: lo + counts[i]}
		}
		var err error
		if _, p.Bytes, err = Layout(p.Meta, tensors[p.Lo:p.Hi]); err != nil {
			return nil, err
		}
		parts[i], lo = p, p.Hi
	}
	return parts, nil
}

// fill finds where a part ends that holds as many tensors as the limits allow, at least one.
func fill(p Part, tensors []Tensor, limits PartLimits) (hi int, err error) {
	low, high := p.Lo+1, len(tensors)
	if limits.Tensors > 0 {
		high = min(high, p.Lo+limits.Tensors)
	}
	if limits.Bytes == 0 {
		return high, nil
	}
	// The size grows with the number of tensors. Steps that double find a number that does not fit, halving the last that does: so what is laid out is in
	// proportion to the part, not to the model.
	bounded := false
	for step := 1; low < high; {
		mid := min(low+step, high)
		_, size, err := Layout(p.Meta, slices.Clone(tensors[p.Lo:mid]))
		if err != nil {
			return 0, err
		}
		if size <= limits.Bytes {
			low = mid
		} else {
			high, bounded = mid-1, true
		}
		if step *= 2; bounded {
			step = (high - low + 1) / 2
		}
	}
	return low, nil
}

// partMeta is the metadata of part no (from 0) of count: all in the first, else only the alignment; and the keys that say which part it is.
func partMeta(meta *Meta, no, count, tensors int) *Meta {
	m := NewMeta()
	if no == 0 {
		m = meta.Clone()
	} else if v, ok := meta.Get(KeyAlignment); ok {
		m.Set(KeyAlignment, v)
	}
	m.Set(keySplitNo, New(uint16(no)))
	m.Set(keySplitCount, New(uint16(count)))
	m.Set(keySplitTensors, New(int32(tensors)))
	return m
}

// PartPaths are the paths of a model's files, named after the given one: that itself if there is one file, else those of PartName.
func PartPaths(path string, count int) []string {
	if count == 1 {
		return []string{path}
	}
	paths := make([]string, count)
	for i := range paths {
		paths[i] = PartName(ModelName(path), i+1, count)
	}
	return paths
}

// CreateParts starts the files of a model, named as PartPaths says, with room for all their bytes. They may be none of the inputs. What killed runs have left
// of the same model is removed, also where it had another number of parts.
func CreateParts(path string, parts []Part, inputs ...string) (*atomicfile.Set, error) {
	if err := noFolder(path, len(parts)); err != nil {
		return nil, err
	}
	name := ModelName(path)
	outputs := make([]atomicfile.Output, len(parts))
	for i, p := range PartPaths(path, len(parts)) {
		outputs[i] = atomicfile.Output{Path: p, Bytes: parts[i].Bytes}
	}
	related := func(base string) bool { return partName.MatchString(base) && ModelName(base) == filepath.Base(name) }
	return atomicfile.CreateSet(name, outputs, related, inputs...)
}

// CheckParts fails as CreateParts does for a model in so many files, as far as can be told when nothing is written or locked. Room on the disk is not asked for.
func CheckParts(path string, count int, inputs ...string) error {
	if err := noFolder(path, count); err != nil {
		return err
	}
	return atomicfile.Check(PartPaths(path, count), inputs...)
}

// noFolder refuses a folder as the name of several files.
func noFolder(path string, count int) error {
	if st, err := os.Stat(path); count > 1 && (strings.HasSuffix(path, "/") || err == nil && st.IsDir()) {
		return fmt.Errorf("%s: it is a folder\nhint: name the model in it, as %s", path, filepath.Join(path, "model.gguf"))
	}
	return nil
}

// WritePart writes a part that Split made of f's tensors, as version 3, little-endian.
func (f *File) WritePart(w io.Writer, p Part) error {
	out, err := NewWriter(w, p.Meta, f.Tensors[p.Lo:p.Hi])
	if err != nil {
		return err
	}
	r := rewrite{f: f, swap: f.enc.order != current.order}
	for i := p.Lo; i < p.Hi; i++ {
		t := &f.Tensors[i]
		_, n, err := f.locate(t)
		if err == nil {
			err = out.Begin(t.Name)
		}
		if err == nil {
			_, err = r.copyPart(out, extent{i, 0, n}, t.Offset)
		}
		if err != nil {
			return err
		}
	}
	return out.Close()
}
