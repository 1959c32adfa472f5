package gguf

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/ggufkit/ggufkit/internal/atomicfile"
)

// EditResult says how an edit was carried out.
type EditResult struct {
	InPlace bool  // the header was overwritten where it stood; tensor bytes were not moved
	Size    int64 // of the file afterwards
}

// Edit changes the metadata of the file at path. Tensor bytes stay as they are. Where the new header fits into the
// space of the old one (padding included) the file is changed in place under a journal, so that a crash leaves the old or the new header;
// else a new file is written beside it and renamed over it. out, if not "", receives the result instead and path is not touched.
//
// A path that is a symbolic link stays one; the file behind it is edited and keeps its mode. A file that another process has
// open is not changed under it: then too a new one is written. Two edits of one file wait for each other. Byte order is kept;
// a file of version 1, or one that must be written anew, becomes version 3. Files whose tensors are of types unknown
// here can be edited; all other fatal defects are refused, and changes of the keys split.* of a part.
func Edit(path, out string, change func(*Meta) error) (EditResult, error) {
	if out != "" {
		return editInto(path, out, change)
	}
	target, err := atomicfile.Resolve(path)
	if err != nil {
		return EditResult{}, err
	}
	if st, err := os.Stat(path); err != nil {
		return EditResult{}, unopened(path, err)
	} else if err := checkRegular(path, st); err != nil {
		return EditResult{}, err
	}
	// A file that may not be written is not to be replaced either.
	rw, err := os.OpenFile(target, os.O_RDWR, 0)
	if err != nil {
		return EditResult{}, unwritable(path, err)
	}
	rw.Close()
	lock, err := lockEditor(target)
	if err != nil {
		return EditResult{}, err
	}
	defer lock.release()
	e := edit{target: target, lock: lock}
	return e.run(change)
}

// unwritable is what is said of a file that cannot be opened for an edit.
func unwritable(path string, err error) error {
	e := unopened(path, err)
	if atomicfile.ReadOnly(err) {
		e.Hint = hintCopy
	}
	return e
}

// hintCopy is the way out where a file cannot be edited in its place.
const hintCopy = "-o OUT writes a changed copy elsewhere"

// editInto writes the changed file to out.
func editInto(path, out string, change func(*Meta) error) (EditResult, error) {
	f, err := openChanged(path, change)
	if err != nil {
		return EditResult{}, err
	}
	defer f.Close()
	size, err := f.replace(out, append(PartsOf(path), path)...)
	return EditResult{Size: size}, err
}

// openChanged opens a file to read and changes its metadata in memory.
func openChanged(path string, change func(*Meta) error) (*File, error) {
	m, err := openMapped(path)
	if err != nil {
		return nil, err
	}
	f, err := openEditable(path, m)
	if err != nil {
		return nil, err
	}
	if err := applyChange(f, change); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openEditable reads the header of a mapped file and refuses defects that an edit must not carry on. It closes m on errors.
func openEditable(path string, m *mapped) (*File, error) {
	f, defects, err := ReadHeader(path, m)
	for _, d := range defects {
		if err == nil && d.Fatal && !errors.Is(d.Err, ErrType) {
			err = d.Error(path)
		}
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	f.file = m
	return f, nil
}

// applyChange changes f.Meta and checks what other keys and the tensors depend on.
func applyChange(f *File, change func(*Meta) error) error {
	before := f.Meta.Clone()
	if err := change(f.Meta); err != nil {
		return err
	}
	return checkSplit(before, f.Meta, len(f.Tensors))
}

// replace writes f with its metadata as they are now to path, whole or not at all.
func (f *File) replace(path string, inputs ...string) (int64, error) {
	r, err := f.rewriteAs(encoding{f.enc.order, true})
	if err != nil {
		return 0, err
	}
	out, err := atomicfile.Create(path, inputs...)
	if err != nil {
		return 0, err
	}
	defer out.Abort()
	if err := out.Preallocate(r.size()); err != nil {
		return 0, err
	}
	n, err := r.run(out)
	if err != nil {
		return 0, err
	}
	// Windows cannot rename over a file that is still mapped.
	if err := f.Close(); err != nil {
		return 0, err
	}
	return n, out.Commit()
}

// edit is a change of the file itself.
type edit struct {
	target string
	lock   *editLock
}

func (e *edit) run(change func(*Meta) error) (EditResult, error) {
	rw, err := os.OpenFile(e.target, os.O_RDWR, 0)
	if err != nil {
		return EditResult{}, err
	}
	m, err := mapFile(rw, largeAddressSpace)
	if err != nil {
		rw.Close()
		return EditResult{}, err
	}
	f, err := openEditable(e.target, m)
	if err != nil {
		return EditResult{}, err
	}
	defer f.Close()
	if err := applyChange(f, change); err != nil {
		return EditResult{}, err
	}
	region, err := f.inPlace()
	if err != nil {
		return EditResult{}, err
	}
	// A reader holds the lock: it must not see the file change.
	if region != nil && atomicfile.TryLock(rw) == nil {
		return EditResult{InPlace: true, Size: int64(f.Size)}, e.overwrite(f, rw, region)
	}
	size, err := f.replace(e.target)
	return EditResult{Size: size}, err
}

// inPlace gives the new bytes of the region before the tensor data, or nil when the new header needs another one.
func (f *File) inPlace() ([]byte, error) {
	if err := checkHeader(f.Meta, f.Tensors); err != nil {
		return nil, err
	}
	alignment, err := f.Meta.Alignment()
	if err != nil {
		return nil, err
	}
	for i := range f.Tensors {
		if f.Tensors[i].Offset%alignment != 0 {
			return nil, nil
		}
	}
	if !f.enc.wide {
		return nil, nil // version 1 is not written
	}
	header := f.enc.appendHeader(nil, f.Version, f.Meta, f.Tensors)
	n := uint64(len(header))
	if data, _ := alignUp(n, alignment); data != f.DataOffset || n > f.Size {
		return nil, nil
	}
	old, err := f.src.View(0, min(f.DataOffset, f.Size))
	if err != nil {
		return nil, err
	}
	copy(header, old[:len(magic)]) // a reversed magic stays one
	// The padding stays as it is; where the header was longer it grows by zeros.
	region := append(header, old[n:]...)
	if n < f.headerSize {
		clear(region[n:f.headerSize])
	}
	return region, nil
}

// overwrite changes the file where it stands.
func (e *edit) overwrite(f *File, rw *os.File, region []byte) error {
	old, err := f.src.View(0, uint64(len(region)))
	if err != nil {
		return err
	}
	// The old bytes are a view of the mapping, which is about to change.
	old = append([]byte(nil), old...)
	patches := diff(old, region)
	if len(patches) == 0 {
		return nil
	}
	j := &journal{size: f.Size, guarded: uint64(len(region)), guard: guardOf(old, patches), patches: patches}
	if err := e.lock.write(j); err != nil {
		return err
	}
	for _, p := range patches {
		if _, err = rw.WriteAt(p.after, int64(p.at)); err != nil {
			break
		}
	}
	if err == nil {
		err = rw.Sync()
	}
	if err != nil {
		if undo := j.undo(rw); undo != nil {
			return errors.Join(err, undo) // the journal stays for the next who opens the file
		}
		return errors.Join(err, e.lock.clear())
	}
	return e.lock.clear()
}

// TryEdit tells what Edit would refuse, and leaves the file as it is.
func TryEdit(path string, change func(*Meta) error) error {
	f, err := openChanged(path, change)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.rewriteAs(encoding{f.enc.order, true})
	return err
}

// checkSplit refuses changes that would tear a split model apart, and such as would make a part of a whole file: its keys must agree with each other, and
// a part must go on saying which it is.
func checkSplit(before, after *Meta, tensors int) error {
	keys := []string{keySplitNo, keySplitCount, keySplitTensors}
	changed := ""
	for _, key := range keys {
		old, _ := before.Get(key)
		if now, _ := after.Get(key); changed == "" && !old.Equal(now) {
			changed = key
		}
	}
	if changed == "" {
		return nil
	}
	refuse := func(key, hint, format string, args ...any) error {
		err := after.fault(key, fmt.Errorf("%w: %s", ErrSplit, fmt.Sprintf(format, args...)))
		err.(*Error).Hint = hint
		return err
	}
	gone := !slices.ContainsFunc(keys, after.Has)
	if n, err := before.UintOr(keySplitCount, 0); err == nil && n > 1 && !(gone && StaleSplit(before, tensors)) {
		return refuse(changed, "'ggufkit merge' makes one file of all parts", "the file is one of %d parts, and would not fit the others any more", n)
	}
	if gone {
		return nil
	}
	for _, want := range []struct {
		key   string
		value uint64
	}{{keySplitNo, 0}, {keySplitCount, 1}, {keySplitTensors, uint64(tensors)}} {
		n, err := after.Uint(want.key)
		if err != nil {
			return refuse(want.key, hintSplit, "%v", bare(err))
		}
		if n != want.value {
			return refuse(want.key, hintSplit, "it would be %d; the file is whole, so it can only be %d", n, want.value)
		}
	}
	return nil
}

// hintSplit is what makes parts of a whole file.
const hintSplit = "'ggufkit split' makes several files, and sets the keys split.* of each"

// StaleSplit reports whether a file says that it is the first of several parts, but has the tensors of all: quantizers that read all parts and
// wrote one file kept the keys of the first.
func StaleSplit(m *Meta, tensors int) bool {
	no, err := m.Uint(keySplitNo)
	total, err2 := m.Uint(keySplitTensors)
	return err == nil && err2 == nil && no == 0 && total == uint64(tensors)
}
