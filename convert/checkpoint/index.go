package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// maxIndex is the largest index that is read, in bytes. Those of models with 100,000 tensors have about 10 MB.
const maxIndex = 100_000_000

// fromIndex takes the files that an index names. Each of them must be there.
func (s *fileSet) fromIndex(name string) error {
	path := filepath.Join(s.dir, name)
	index, err := readIndex(path)
	if err != nil {
		return err
	}
	s.index = index
	count := make(map[string][]string)
	for _, tensor := range slices.Sorted(maps.Keys(index)) {
		count[index[tensor]] = append(count[index[tensor]], tensor)
	}
	s.files = slices.Sorted(maps.Keys(count))
	var absent []string
	for _, file := range s.files {
		// A path that only looks local would read, and with a note even show, files outside the folder.
		if !filepath.IsLocal(file) || strings.Contains(file, `\`) {
			return fmt.Errorf("%s: %w: file name %q leads out of the folder", path, ErrFormat, file)
		}
		if _, err := os.Stat(filepath.Join(s.dir, file)); errors.Is(err, fs.ErrNotExist) {
			absent = append(absent, fmt.Sprintf("%s, which should hold %d tensors (%s)", file, len(count[file]), some(count[file])))
		} else if err != nil {
			return err
		}
	}
	if absent != nil {
		return fmt.Errorf("%s: %w: %d of %d files are absent: %s\nhint: download the missing files",
			path, ErrMissing, len(absent), len(s.files), strings.Join(absent, "; "))
	}
	return nil
}

// readIndex reads the weight_map of an index: tensor -> file.
func readIndex(path string) (map[string]string, error) {
	// Opening a pipe would wait for someone to write to it.
	if st, err := os.Stat(path); err != nil {
		return nil, err
	} else if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: not a regular file", path, ErrFormat)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxIndex+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxIndex {
		return nil, fmt.Errorf("%s: %w: more than %d bytes", path, ErrFormat, maxIndex)
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(b, &index); err != nil {
		if kind := identify(b); kind != "" && !bytes.HasPrefix(b, []byte("{")) {
			return nil, fmt.Errorf("%s: %w and no index: %s", path, ErrForeign, kind)
		}
		if se, ok := errors.AsType[*json.SemanticError](err); ok {
			return nil, fmt.Errorf("%s: %w: %q is not an object of strings (byte %d)", path, ErrFormat, se.JSONPointer, se.ByteOffset)
		}
		return nil, fmt.Errorf("%s: %w", path, syntax(err, 0))
	}
	if len(index.WeightMap) == 0 {
		return nil, fmt.Errorf("%s: %w: weight_map is absent or empty", path, ErrFormat)
	}
	return index.WeightMap, nil
}

// checkIndex fails if a file lacks a tensor that the index places there.
func (s *fileSet) checkIndex(files []*file) error {
	if s.index == nil {
		return nil
	}
	holders := make(map[string][]string)
	for _, f := range files {
		for i := range f.tensors {
			holders[f.tensors[i].Name] = append(holders[f.tensors[i].Name], f.name)
		}
	}
	var lacking []string
	for _, name := range slices.Sorted(maps.Keys(s.index)) {
		in := holders[name]
		if slices.Contains(in, s.index[name]) {
			continue
		}
		text := fmt.Sprintf("%q in %s", name, s.index[name])
		if len(in) != 0 {
			text += " (it is in " + in[0] + ")"
		}
		lacking = append(lacking, text)
	}
	if lacking == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %d tensors that the index names are not where it says: %s\nhint: index and files are of different versions of the model; download both again",
		s.dir, ErrMissing, len(lacking), some(lacking))
}

// unnamed notes, for each file, the tensors that the index does not mention. They are part of the checkpoint all the same.
func (s *fileSet) unnamed(tensors []Tensor) []string {
	if s.index == nil {
		return nil
	}
	found := make(map[string][]string)
	for i := range tensors {
		if _, ok := s.index[tensors[i].Name]; !ok {
			found[tensors[i].File] = append(found[tensors[i].File], tensors[i].Name)
		}
	}
	var notes []string
	for _, file := range slices.Sorted(maps.Keys(found)) {
		notes = append(notes, fmt.Sprintf("%s holds %d tensors that the index does not name: %s", file, len(found[file]), some(found[file])))
	}
	return notes
}
