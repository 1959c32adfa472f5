package convert

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/atomicfile"
)

// Output is one file that a plan writes.
type Output struct {
	Path    string
	Bytes   uint64 // of the whole file
	Tensors int
}

// shard is a run of a plan's tensors that goes into one file.
type shard struct {
	meta   *gguf.Meta
	lo, hi int // Plan.Tensors[lo:hi]
	bytes  uint64
}

// split shares the tensors among files of up to limit bytes each, in order; 0 stands for one file. A tensor that does not fit gets a file of its own,
// which is larger then. The first file has all the metadata, the others only say which part they are.
func split(meta *gguf.Meta, tensors []gguf.Tensor, limit uint64) ([]shard, error) {
	whole := shard{meta: meta, hi: len(tensors)}
	var err error
	if _, whole.bytes, err = gguf.Layout(meta, tensors); err != nil {
		return nil, err
	}
	if limit == 0 || whole.bytes <= limit {
		return []shard{whole}, nil
	}
	var shards []shard
	for lo := 0; lo < len(tensors); {
		if len(shards) == gguf.MaxParts {
			return nil, fmt.Errorf("files of up to %d bytes would be more than %d\nhint: allow larger ones", limit, gguf.MaxParts)
		}
		s := shard{meta: gguf.NewMeta(), lo: lo, hi: lo + 1}
		if lo == 0 {
			s.meta = meta.Clone()
		} else if v, ok := meta.Get("general.alignment"); ok {
			s.meta.Set("general.alignment", v)
		}
		markShard(s.meta, len(shards), 0, len(tensors)) // the count is known in the end and takes the same space
		if s.hi, s.bytes, err = fill(s, tensors, limit); err != nil {
			return nil, err
		}
		shards, lo = append(shards, s), s.hi
	}
	if len(shards) < 2 {
		return []shard{whole}, nil
	}
	for i := range shards {
		s := &shards[i]
		markShard(s.meta, i, len(shards), len(tensors))
		if _, s.bytes, err = gguf.Layout(s.meta, tensors[s.lo:s.hi]); err != nil {
			return nil, err
		}
	}
	return shards, nil
}

// fill finds how many tensors a shard holds, at least one, and its size.
func fill(s shard, tensors []gguf.Tensor, limit uint64) (hi int, size uint64, err error) {
	sized := func(hi int) (uint64, error) {
		_, total, err := gguf.Layout(s.meta, slices.Clone(tensors[s.lo:hi]))
		return total, err
	}
	// The size grows with the number of tensors, so the last number that fits is found by halving.
	low, high := s.lo+1, len(tensors)
	for low < high {
		mid := low + (high-low+1)/2
		n, err := sized(mid)
		if err != nil {
			return 0, 0, err
		}
		if n <= limit {
			low = mid
		} else {
			high = mid - 1
		}
	}
	size, err = sized(low)
	return low, size, err
}

// markShard sets the keys that say which part of how many a file is.
func markShard(m *gguf.Meta, index, count, tensors int) {
	m.Set("split.no", gguf.New(uint16(index)))
	m.Set("split.count", gguf.New(uint16(count)))
	m.Set("split.tensors.count", gguf.New(int32(tensors)))
}

// Outputs are the files that Run writes for a path: the file itself, or parts that are named NAME-00001-of-00003.gguf and so on.
func (p *Plan) Outputs(path string) []Output {
	if len(p.shards) == 1 {
		return []Output{{path, p.shards[0].bytes, len(p.Tensors)}}
	}
	list := make([]Output, len(p.shards))
	for i, s := range p.shards {
		name := gguf.PartName(gguf.ModelName(path), i+1, len(p.shards))
		list[i] = Output{name, s.bytes, s.hi - s.lo}
	}
	return list
}

// Size is the size of all outputs together in bytes, exactly.
func (p *Plan) Size() (total uint64) {
	for _, s := range p.shards {
		total += s.bytes
	}
	return total
}

// Run writes the planned files, named after path as Outputs says. They appear when all are complete, the first one last, so that
// whoever opens that finds the others; after an error or a cancellation none is left. Memory stays bounded by encode.Stream, whatever
// the size of a tensor.
func (p *Plan) Run(ctx context.Context, path string, o Options) ([]TensorReport, error) {
	if st, err := os.Stat(path); len(p.shards) > 1 && (strings.HasSuffix(path, "/") || err == nil && st.IsDir()) {
		return nil, fmt.Errorf("%s: it is a folder\nhint: name the model in it, as %s", path, filepath.Join(path, "model.gguf"))
	}
	outputs := p.Outputs(path)
	files := make([]*atomicfile.File, len(outputs))
	inputs := p.inputs()
	for i, out := range outputs {
		f, err := atomicfile.Create(out.Path, inputs...)
		if err != nil {
			return nil, err
		}
		defer f.Abort()
		if err := f.Preallocate(out.Bytes); err != nil {
			return nil, err
		}
		files[i] = f
	}
	run := progress{report: o.Progress}
	for i := range p.Tensors {
		n, err := p.Tensors[i].Bytes()
		if err != nil {
			return nil, err
		}
		run.total += n // no overflow: the sizes of the files have been computed
	}
	var reports []TensorReport
	for i, s := range p.shards {
		r, err := p.writeShard(ctx, files[i], s, o, &run)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r...)
	}
	return reports, commit(files)
}

// commit gives all files their names, the first one last. If one cannot get it, the others lose theirs. Whoever is stopped in between leaves
// no first file, not even one of an earlier run: it would stand for parts of two models. The data is on the disk by then, so that the time
// in between is short.
func commit(files []*atomicfile.File) error {
	for _, f := range files {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if first := files[0].Path(); len(files) > 1 {
		if st, err := os.Lstat(first); err == nil && st.Mode().IsRegular() {
			if err := os.Remove(first); err != nil {
				return err
			}
			if err := atomicfile.SyncDir(filepath.Dir(first)); err != nil {
				return err
			}
		}
	}
	for i := len(files) - 1; i >= 0; i-- {
		if err := files[i].Commit(); err != nil {
			for _, done := range files[i+1:] {
				os.Remove(done.Path())
			}
			return err
		}
	}
	return nil
}

// progress counts bytes of tensor data over all files.
type progress struct {
	report      func(name string, done, total uint64)
	done, total uint64
}

func (r *progress) of(name string) func(int) {
	return func(n int) {
		r.done += uint64(n)
		if r.report != nil {
			r.report(name, r.done, r.total)
		}
	}
}

// writeShard writes the header and the tensors of one file.
func (p *Plan) writeShard(ctx context.Context, out io.Writer, s shard, o Options, run *progress) ([]TensorReport, error) {
	w, err := gguf.NewWriter(out, s.meta, p.list()[s.lo:s.hi])
	if err != nil {
		return nil, err
	}
	var reports []TensorReport
	for i := s.lo; i < s.hi; i++ {
		t := &p.Tensors[i]
		if err := w.Begin(t.Name); err != nil {
			return nil, err
		}
		report, err := p.write(ctx, w, t, o, run.of(t.Name))
		if err != nil {
			return nil, err
		}
		reports = append(reports, report)
	}
	return reports, w.Close()
}
