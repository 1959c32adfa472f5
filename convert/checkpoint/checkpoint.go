// Package checkpoint opens a Hugging Face checkpoint folder and hands out rows of its tensors.
//
// Files are mapped, never read whole: opening costs the headers alone, and reading rows touches just their bytes.
package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ggufkit/ggufkit/internal/mmap"
)

// Sentinel errors; errors returned by this package wrap one of them and name file, tensor and offset.
var (
	ErrFormat    = errors.New("malformed")
	ErrForeign   = errors.New("not a safetensors file")
	ErrTruncated = errors.New("file ends too early")
	ErrDType     = errors.New("unsupported element type")
	ErrMissing   = errors.New("checkpoint is not complete")
	ErrNoWeights = errors.New("no weights to read")
	ErrConflict  = errors.New("tensor is stored twice with different values")
	ErrRange     = errors.New("rows out of range")
)

// Tensor is one tensor of a checkpoint. Shape is in the checkpoint's order (rows first); it is empty for a scalar.
type Tensor struct {
	Name  string
	DType DType
	Shape []uint64
	File  string // name of the file it is in, relative to the folder

	file   *file
	offset uint64 // of its bytes in the file
	data   []byte // a view of the mapping, exactly its bytes
}

// Checkpoint is an open folder (or a single .safetensors file). All methods but Close may be called concurrently.
type Checkpoint struct {
	Dir     string
	Tensors []Tensor // in order of files, then of offsets
	Notes   []string // for the user: ignored duplicates, tensors the index does not name ...

	files  []*file
	byName map[string]int
}

// Open finds the weights of a folder: the index's files, else model.safetensors, and checks every header.
// The path may also be that of one .safetensors file.
func Open(path string) (*Checkpoint, error) {
	set, err := choose(path)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Dir: set.dir, Notes: set.notes, byName: make(map[string]int)}
	if err := c.load(set); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// load opens all files of the set and gathers their tensors.
func (c *Checkpoint) load(set *fileSet) error {
	for _, name := range set.files {
		f, err := openFile(set.dir, name)
		if err != nil {
			return err
		}
		c.files = append(c.files, f)
	}
	if err := set.checkIndex(c.files); err != nil {
		return err
	}
	for _, f := range c.files {
		for _, t := range f.tensors {
			if err := c.add(t, set.index); err != nil {
				return err
			}
		}
	}
	c.Notes = append(c.Notes, set.unnamed(c.Tensors)...)
	return nil
}

// Close releases the mappings. No view of ReadRaw may be used afterwards.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.m.Close())
	}
	c.files = nil
	return errors.Join(errs...)
}

// Tensor finds a tensor by name.
func (c *Checkpoint) Tensor(name string) (*Tensor, bool) {
	i, ok := c.byName[name]
	if !ok {
		return nil, false
	}
	return &c.Tensors[i], true
}

// file is one mapped safetensors file.
type file struct {
	name    string // relative to the folder
	m       *mmap.Mapping
	tensors []Tensor // in order of offsets
}

// openFile maps a file and checks its header.
func openFile(dir, name string) (*file, error) {
	path := filepath.Join(dir, name)
	if st, err := os.Stat(path); err != nil {
		return nil, err
	} else if st.IsDir() {
		return nil, fmt.Errorf("%s: %w: it is a folder", path, ErrFormat)
	}
	m, err := mmap.Open(path)
	if err != nil {
		return nil, err
	}
	f := &file{name: name, m: m}
	if err := f.view(); err != nil {
		if kind := identify(m.Bytes()); kind != "" {
			err = fmt.Errorf("%w: %s", ErrForeign, kind)
		} else if errors.Is(err, ErrTruncated) || errors.Is(err, ErrFormat) {
			err = fmt.Errorf("%w\nhint: the file was cut short or is damaged: download it again", err)
		}
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), m.Close())
	}
	return f, nil
}
