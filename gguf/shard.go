package gguf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/ggufkit/ggufkit/internal/mmap"
)

// MaxParts is the largest number of files that a split model may have; the keys that count them are of 16 bits.
const MaxParts = math.MaxUint16

// PartName is the name of part no (from 1) of count that a split model of the given name has: "NAME-00001-of-00003.gguf".
func PartName(name string, no, count int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", name, no, count)
}

var partName = regexp.MustCompile(`^(?s)(.*)-([0-9]{5})-of-([0-9]{5})(\.(?i:gguf))$`)

// PartsOf lists how all parts of a split model are named, by the path of one of them: nil for a name that no part has. All end as that one does.
func PartsOf(path string) []string {
	m := partName.FindStringSubmatch(path)
	if m == nil {
		return nil
	}
	count, _ := strconv.Atoi(m[3]) // five digits
	list := make([]string, count)
	for i := range list {
		list[i] = partPath(m[1], i+1, count, m[4])
	}
	return list
}

// partPath is PartName with the ending of another part.
func partPath(name string, no, count int, ending string) string {
	return strings.TrimSuffix(PartName(name, no, count), fileEnding) + ending
}

// fileEnding is how names of files end, in any case.
const fileEnding = ".gguf"

// IsFileName reports whether a name ends as those of GGUF files do.
func IsFileName(path string) bool {
	return len(path) >= len(fileEnding) && strings.EqualFold(path[len(path)-len(fileEnding):], fileEnding)
}

// ModelName is the path of a model's file, or of one of its parts, without what marks it as such: "dir/m" of "dir/m.gguf" and of
// "dir/m-00001-of-00003.gguf".
func ModelName(path string) string {
	if m := partName.FindStringSubmatch(path); m != nil {
		return m[1]
	}
	if IsFileName(path) {
		return path[:len(path)-len(fileEnding)]
	}
	return path
}

// OpenModel opens a file as Open does and, where it is the first part of a split model, all others beside it: see Join.
func OpenModel(path string) (*File, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	whole, err := f.Join()
	if err != nil {
		f.Close()
		return nil, err
	}
	return whole, nil
}

// Join opens the other parts of a split model, whose first part f is, and gives all of them as one file: the metadata of the first
// without the keys split.*, and the tensors of all. A file that is not split is given back as it is. Closing the result closes f too; after an error f
// is still open. The parts must be named as PartName says, all be there, and agree about their number and that of their tensors. An error that is fs.ErrNotExist
// says that others are not where they should be; f may be sound.
func (f *File) Join() (*File, error) {
	count, err := f.Meta.UintOr(keySplitCount, 1)
	if err != nil {
		return nil, err
	}
	if count <= 1 {
		return f, nil
	}
	paths, err := f.partPaths(count)
	if err != nil {
		return nil, err
	}
	total, err := f.Meta.Uint(keySplitTensors)
	if err != nil {
		return nil, err
	}
	parts := []*File{f}
	fail := func(err error) (*File, error) {
		for _, p := range parts[1:] {
			p.Close()
		}
		return nil, err
	}
	for i, path := range paths[1:] {
		p, err := openPart(path, f, []splitKey{{keySplitNo, uint64(i + 1)}, {keySplitCount, count}, {keySplitTensors, total}})
		if err != nil {
			return fail(err)
		}
		parts = append(parts, p)
	}
	for _, p := range parts { // who replaces all parts meanwhile takes the first away before any other: see atomicfile.Set
		if err := p.unchanged(os.Stat(p.Path)); err != nil {
			return fail(err)
		}
	}
	whole, err := join(parts, total)
	if err != nil {
		return fail(err)
	}
	return whole, nil
}

// partPaths are the paths of all parts, by that of the first. It fails unless every one names something.
func (f *File) partPaths(count uint64) ([]string, error) {
	no, err := f.Meta.Uint(keySplitNo)
	if err != nil {
		return nil, err
	}
	if count > MaxParts || no >= count {
		return nil, f.splitFault(keySplitCount, fmt.Sprintf("part %d of %d; parts are counted from 0, and are at most %d", no, count, MaxParts), "")
	}
	ending := fileEnding
	if IsFileName(f.Path) {
		ending = f.Path[len(f.Path)-len(fileEnding):]
	}
	hint := func(usual string) string {
		if StaleSplit(f.Meta, len(f.Tensors)) {
			return fmt.Sprintf("the file has all tensors: 'ggufkit meta rm %s %s %s %s' makes it whole", f.Path, keySplitNo, keySplitCount, keySplitTensors)
		}
		return usual
	}
	suffix := partPath("", int(no)+1, int(count), ending)
	name, ok := strings.CutSuffix(f.Path, suffix)
	switch {
	case !ok:
		return nil, lost{f.incomplete(keySplitNo, fmt.Sprintf("part %d of %d is not named *%s, so that the others cannot be found", no+1, count, suffix), hint("give the parts their names back"))}
	case no != 0:
		return nil, f.incomplete(keySplitNo, fmt.Sprintf("it is part %d of %d", no+1, count), "give the first part: "+partPath(name, 1, int(count), ending))
	}
	paths := make([]string, count)
	var missing []string
	for i := range paths {
		paths[i] = partPath(name, i+1, len(paths), ending)
		if _, err := os.Stat(paths[i]); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, paths[i])
		}
	}
	if len(missing) > 0 {
		const some = 3
		list := strings.Join(missing[:min(len(missing), some)], ", ")
		if len(missing) > some {
			list += " ..."
		}
		return nil, lost{f.incomplete(keySplitCount, fmt.Sprintf("%d of %d parts are missing: %s", len(missing), count, list), hint("put all parts into one folder"))}
	}
	return paths, nil
}

// lost is an error about parts that are not found.
type lost struct{ error }

func (l lost) Unwrap() error        { return l.error }
func (l lost) Is(target error) bool { return target == fs.ErrNotExist }

// splitFault is an error about a key of a split file that contradicts others.
func (f *File) splitFault(key, text, hint string) error {
	return f.splitError(key, fmt.Errorf("%w: %s", ErrSplit, text), hint)
}

// incomplete is an error about a sound part that is not all of the model.
func (f *File) incomplete(key, text, hint string) error { return f.splitError(key, alone(text), hint) }

func (f *File) splitError(key string, err error, hint string) error {
	err = f.Meta.fault(key, err)
	err.(*Error).Hint = hint
	return err
}

// alone is ErrSplit without its text, for files whose keys are consistent.
type alone string

func (a alone) Error() string        { return string(a) }
func (a alone) Is(target error) bool { return target == ErrSplit }

// splitKey is a key of a part and its value.
type splitKey struct {
	key   string
	value uint64
}

// openPart opens another part of the model that first begins; its keys must have these values. llama.cpp's gguf-split writes all three
// into every part, its loader looks at split.no alone in those after the first and demands that one. So here, too, the others may be missing: the
// first part has them, and what they say is checked against the files. A wrong one tells of a part from another set.
func openPart(path string, first *File, keys []splitKey) (*File, error) {
	p, err := Open(path)
	if err != nil {
		return nil, err
	}
	for _, want := range keys {
		if want.key != keySplitNo && !p.Meta.Has(want.key) {
			continue
		}
		got, e := p.Meta.Uint(want.key)
		if err = e; err == nil && got != want.value {
			err = p.splitFault(want.key, fmt.Sprintf("it is %d, expected %d beside %s", got, want.value, first.Path), "get the parts from one place")
		}
		if err != nil {
			break
		}
	}
	if err == nil && p.Order != first.Order {
		err = &Error{Path: path, Offset: noOffset, Err: fmt.Errorf("%w: the byte order is not that of %s", ErrSplit, first.Path)}
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// join makes one file of parts that hold total tensors together.
func join(parts []*File, total uint64) (*File, error) {
	first := parts[0]
	whole := *first
	whole.Meta = first.Meta.Clone()
	for _, key := range []string{keySplitNo, keySplitCount, keySplitTensors} {
		whole.Meta.Remove(key)
	}
	whole.parts, whole.Tensors, whole.index = parts, nil, map[string]int{}
	src := &joined{parts: parts}
	end := uint64(0)
	for i, p := range parts {
		s := span{first: end, end: end + p.Size}
		base := uint64(0)
		if i > 0 {
			s.from = min(p.DataOffset, p.Size)
			s.end -= s.from
			base = s.first - first.DataOffset
		}
		for _, t := range p.Tensors {
			if _, ok := whole.index[t.Name]; ok {
				return nil, &Error{Path: p.Path, Where: tensorPlace(t.Name), Offset: noOffset,
					Err:  fmt.Errorf("%w: another part has the tensor too", ErrDuplicate),
					Hint: "parts of two models, or of two splits of one, lie together: take those of one"}
			}
			whole.index[t.Name] = len(whole.Tensors)
			t.Offset += base
			whole.Tensors = append(whole.Tensors, t)
		}
		if s.end > math.MaxInt64-MaxAlignment {
			return nil, &Error{Path: p.Path, Offset: noOffset, Err: fmt.Errorf("%w: of all parts", ErrOverflow)}
		}
		src.spans = append(src.spans, s)
		end, _ = alignUp(max(s.end, first.DataOffset), first.Alignment) // no overflow: checked just now
	}
	if n := uint64(len(whole.Tensors)); n != total || n > MaxTensors {
		return nil, first.splitFault(keySplitTensors, fmt.Sprintf("it is %d, but all parts have %d tensors together (at most %d)", total, n, MaxTensors), "get the parts from one place")
	}
	whole.src, whole.file, whole.Size = src, src, src.Size()
	return &whole, nil
}

// PartKey is a key of one file of a split model.
type PartKey struct{ Path, Key string }

// Dropped lists what only later parts of a split model say, in their order: keys that f.Meta does not have, or not with this type and value. Those that tell of
// the part alone, split.* and the alignment, are none of them. Loaders read the metadata of the first part and no other.
func (f *File) Dropped() (list []PartKey) {
	own := []string{keySplitNo, keySplitCount, keySplitTensors, KeyAlignment}
	for _, p := range f.parts[min(1, len(f.parts)):] {
		for key, v := range p.Meta.All() {
			if w, _ := f.Meta.Get(key); !slices.Contains(own, key) && !v.Equal(w) {
				list = append(list, PartKey{p.Path, key})
			}
		}
	}
	return list
}

// Paths are the files that f was opened from: one, or all parts of a split model.
func (f *File) Paths() []string {
	if f.parts == nil {
		return []string{f.Path}
	}
	paths := make([]string, len(f.parts))
	for i, p := range f.parts {
		paths[i] = p.Path
	}
	return paths
}

// Counts are the numbers of tensors in the files of Paths.
func (f *File) Counts() []int {
	if f.parts == nil {
		return []int{len(f.Tensors)}
	}
	counts := make([]int, len(f.parts))
	for i, p := range f.parts {
		counts[i] = len(p.Tensors)
	}
	return counts
}

// Stored is the size of all files that f was opened from together, in bytes.
func (f *File) Stored() (total uint64) {
	if f.parts == nil {
		return f.Size
	}
	for _, p := range f.parts {
		total += p.Size
	}
	return total
}

// Place tells which of the files a tensor of f is in, and its offset from the start of that file's tensor data, in bytes.
func (f *File) Place(t *Tensor) (path string, offset uint64) {
	src, ok := f.src.(*joined)
	if !ok {
		return f.Path, t.Offset
	}
	i := src.at(f.DataOffset + t.Offset)
	p := src.parts[i]
	return p.Path, f.DataOffset + t.Offset - src.spans[i].first + src.spans[i].from - p.DataOffset
}

// span is where the bytes of a part stand: in the joined file from first to end, in its own from from on.
type span struct{ first, end, from uint64 }

// spans are those of all parts, in order.
type spans []span

// at is the part that holds a byte, or the one behind which it is padding.
func (s spans) at(off uint64) int {
	return max(sort.Search(len(s), func(i int) bool { return s[i].first > off })-1, 0)
}

// readAt reads from the parts as from one file; what pads them is zero.
func (s spans) readAt(part func(i int) io.ReaderAt, p []byte, off int64) (n int, err error) {
	for size := s[len(s)-1].end; n < len(p); {
		pos := uint64(off) + uint64(n)
		if pos >= size {
			return n, io.EOF
		}
		i := s.at(pos)
		rest := p[n:]
		if pos >= s[i].end {
			rest = rest[:min(uint64(len(rest)), s[i+1].first-pos)]
			clear(rest)
			n += len(rest)
			continue
		}
		rest = rest[:min(uint64(len(rest)), s[i].end-pos)]
		m, err := part(i).ReadAt(rest, int64(pos-s[i].first+s[i].from))
		if n += m; m < len(rest) {
			return n, err
		}
	}
	return n, nil
}

// joined is a Source of several files: the first whole, then the tensor data of the others, each from an aligned place on.
type joined struct {
	parts []*File
	spans
}

func (j *joined) Size() uint64 { return j.spans[len(j.spans)-1].end }

func (j *joined) ReadAt(p []byte, off int64) (int, error) {
	return j.readAt(func(i int) io.ReaderAt { return j.parts[i].src }, p, off)
}

// View gives bytes of one part; no tensor lies in two.
func (j *joined) View(off, n uint64) ([]byte, error) {
	i, at, err := j.within(off, n)
	if err != nil {
		return nil, err
	}
	return j.parts[i].src.View(at, n)
}

// within finds the part that holds n bytes, and where they stand in it.
func (j *joined) within(off, n uint64) (i int, at uint64, err error) {
	i = j.at(off)
	s := j.spans[i]
	if off > s.end || n > s.end-off {
		return 0, 0, fmt.Errorf("%s: %w: %d bytes at offset %d of all parts", j.parts[i].Path, ErrTruncated, n, off)
	}
	return i, off - s.first + s.from, nil
}

func (j *joined) advise(off, n uint64, a mmap.Advice) error {
	i, at, err := j.within(off, n)
	if err != nil || j.parts[i].file == nil {
		return err
	}
	return j.parts[i].file.advise(at, n, a)
}

func (j *joined) Close() error {
	var errs []error
	for _, p := range j.parts {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// Reader reads the bytes of a File in pieces, without its mapping: they do not count as memory of the process, and a file that becomes
// shorter meanwhile is an error.
type Reader struct {
	files []wholeFile
	spans
}

// Reopen opens the files that f was opened from once more. Offsets are those of f: DataOffset and those of the tensors. It fails if another file is in
// the place of one by now, or it has another size.
func (f *File) Reopen() (*Reader, error) {
	r := &Reader{spans: spans{{end: f.Size}}}
	parts := []*File{f}
	if src, ok := f.src.(*joined); ok {
		r.spans, parts = src.spans, src.parts
	}
	for _, p := range parts {
		file, err := os.Open(p.Path)
		if err != nil {
			return nil, errors.Join(unopened(p.Path, err), r.Close())
		}
		r.files = append(r.files, wholeFile{file, p.Size})
		if err := p.unchanged(file.Stat()); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

// unchanged compares what is at the file's path with the file that was opened.
func (f *File) unchanged(st fs.FileInfo, err error) error {
	m, isMapped := f.file.(*mapped)
	switch {
	case err != nil:
		return unopened(f.Path, err)
	case uint64(st.Size()) != f.Size:
		err = fmt.Errorf("the file has changed: it has %d bytes and had %d", st.Size(), f.Size)
	case isMapped && !os.SameFile(m.opened, st):
		err = errors.New("the file has changed: another one has taken its place")
	default:
		return nil
	}
	return &Error{Path: f.Path, Offset: noOffset, Err: err, Hint: "run again when no other program writes it"}
}

// ReadAt reads bytes at an offset of the File.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	return r.readAt(func(i int) io.ReaderAt { return r.files[i] }, p, off)
}

// Close closes the files.
func (r *Reader) Close() error {
	var errs []error
	for _, f := range slices.Backward(r.files) {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
