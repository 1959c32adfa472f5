package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// fileSet is the one consistent set of files that a checkpoint is read from.
type fileSet struct {
	dir   string
	files []string          // relative to dir, in reading order
	index map[string]string // tensor -> file, if an index chose the files
	notes []string
}

const (
	extension   = ".safetensors"
	indexSuffix = extension + ".index.json"
	indexName   = "model" + indexSuffix
)

// hintFolder is what to give in place of what is no checkpoint.
const hintFolder = "give the folder of a checkpoint, with config.json and " + extension + " files in it"

// choose decides which files a path stands for.
func choose(path string) (*fileSet, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, absent(path, err)
	}
	if !st.IsDir() && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: not a regular file\nhint: %s", path, ErrFormat, hintFolder)
	}
	if !st.IsDir() {
		dir, name := filepath.Split(filepath.Clean(path))
		set := &fileSet{dir: filepath.Clean(dir), files: []string{name}}
		if _, no, of, ok := numbered(name); ok && of > 1 {
			set.notes = append(set.notes, fmt.Sprintf("%s is part %d of %d: give the folder to read all parts", name, no, of))
		}
		return set, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		// Names with a dot in front are leftovers of downloads and of other systems.
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	set := &fileSet{dir: path}
	if index := chooseIndex(names); index != "" {
		err = set.fromIndex(index)
	} else {
		err = set.fromNames(names)
	}
	if err != nil {
		return nil, err
	}
	set.noteUnused(names)
	return set, nil
}

// absent is what is said of a path that leads nowhere.
func absent(path string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%s: %w\nhint: %s; nothing is downloaded by the name of a repository", path, err, hintFolder)
}

// chooseIndex is the index of the model, else the only index there is, else "".
func chooseIndex(names []string) string {
	if slices.Contains(names, indexName) {
		return indexName
	}
	all := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasSuffix(n, indexSuffix) })
	if len(all) != 1 {
		return ""
	}
	return all[0]
}

var numberedName = regexp.MustCompile(`^(.*)-([0-9]{1,9})-of-([0-9]{1,9})\.safetensors$`)

// numbered splits the name of a part: "model-00001-of-00002.safetensors" is part 1 of 2 of "model".
func numbered(name string) (prefix string, no, of int, ok bool) {
	m := numberedName.FindStringSubmatch(name)
	if m == nil {
		return "", 0, 0, false
	}
	// Nine digits cannot fail.
	no, _ = strconv.Atoi(m[2])
	of, _ = strconv.Atoi(m[3])
	return m[1], no, of, true
}

// unit is what holds a whole model by itself: one file, or a numbered set of them.
type unit struct {
	prefix string
	of     int // parts it should have; 0 for a single file
	files  []string
}

// units groups the safetensors files of a folder.
func units(names []string) []unit {
	var list []unit
	for _, name := range names {
		if !strings.HasSuffix(name, extension) {
			continue
		}
		prefix, _, of, ok := numbered(name)
		if !ok {
			list = append(list, unit{prefix: strings.TrimSuffix(name, extension), files: []string{name}})
			continue
		}
		i := slices.IndexFunc(list, func(u unit) bool { return u.prefix == prefix && u.of == of })
		if i < 0 {
			i = len(list)
			list = append(list, unit{prefix: prefix, of: of})
		}
		list[i].files = append(list[i].files, name)
	}
	return list
}

// fromNames chooses among the files of a folder without an index: model.safetensors, else the numbered set of that name, else the
// only file or set; what a vendor's own programs read ("consolidated") comes last.
func (s *fileSet) fromNames(names []string) error {
	all := units(names)
	if len(all) == 0 {
		return s.noWeights(names)
	}
	ranks := []func(unit) bool{
		func(u unit) bool { return u.prefix == "model" && u.of == 0 },
		func(u unit) bool { return u.prefix == "model" },
		func(u unit) bool { return !strings.HasPrefix(u.prefix, "consolidated") },
		func(unit) bool { return true },
	}
	for _, rank := range ranks {
		fit := slices.DeleteFunc(slices.Clone(all), func(u unit) bool { return !rank(u) })
		switch len(fit) {
		case 0:
			continue
		case 1:
			s.files = fit[0].files
			return s.checkParts(fit[0])
		}
		var files []string
		for _, u := range fit {
			files = append(files, u.files...)
		}
		return fmt.Errorf("%s: %w: %d sets of files and no %s says which belong together: %s\nhint: give one file, or move the others away",
			s.dir, ErrNoWeights, len(fit), indexName, some(files))
	}
	return nil
}

// checkParts fails unless every part of a numbered set is there.
func (s *fileSet) checkParts(u unit) error {
	if u.of == 0 {
		return nil
	}
	have := make(map[int]bool)
	for _, name := range u.files {
		_, no, _, _ := numbered(name)
		if no < 1 || no > u.of || have[no] {
			return fmt.Errorf("%s: %w: the number of the part is wrong or there twice", filepath.Join(s.dir, name), ErrFormat)
		}
		have[no] = true
	}
	if len(have) == u.of {
		return nil
	}
	m := numberedName.FindStringSubmatch(u.files[0])
	var absent []string
	// Stops after a few names, since the count comes from a file name.
	for no := 1; no <= u.of && len(absent) <= someNames; no++ {
		if !have[no] {
			absent = append(absent, fmt.Sprintf("%s-%0*d-of-%s%s", m[1], len(m[2]), no, m[3], extension))
		}
	}
	return fmt.Errorf("%s: %w: %d of %d files are absent: %s\nhint: download the missing files",
		s.dir, ErrMissing, u.of-len(have), u.of, someOf(absent, u.of-len(have)))
}

// foreign are weights in formats that are not read, by how their names begin and end.
var foreign = []struct{ prefix, suffix, what string }{
	{"pytorch_model", ".bin", "torch"},
	{"consolidated", ".pth", "torch"},
	{"", "model.bin", "torch"},
	{"", ".pth", "torch"},
	{"", ".pt", "torch"},
	{"", ".gguf", "GGUF"},
	{"tf_model", ".h5", "TensorFlow"},
	{"flax_model", ".msgpack", "Flax"},
	{"", ".onnx", "ONNX"},
}

// noWeights says what a folder without safetensors files has instead.
func (s *fileSet) noWeights(names []string) error {
	for _, f := range foreign {
		var found []string
		for _, name := range names {
			if strings.HasPrefix(name, f.prefix) && strings.HasSuffix(strings.ToLower(name), f.suffix) {
				found = append(found, name)
			}
		}
		if len(found) == 0 {
			continue
		}
		hint := saveAsSafetensors
		if f.what == "GGUF" {
			hint = "a GGUF file needs no conversion; see the commands inspect and quantize"
		}
		return fmt.Errorf("%s: %w: the weights are %s files, which are not read: %s\nhint: %s", s.dir, ErrNoWeights, f.what, some(found), hint)
	}
	switch {
	case len(names) == 0:
		return fmt.Errorf("%s: %w: the folder is empty\nhint: %s", s.dir, ErrNoWeights, hintFolder)
	case slices.Contains(names, "snapshots"):
		return fmt.Errorf("%s: %w: it is a folder of the Hugging Face cache\nhint: give a folder inside its snapshots", s.dir, ErrNoWeights)
	}
	return fmt.Errorf("%s: %w: no %s file among %s\nhint: %s", s.dir, ErrNoWeights, extension, some(names), hintFolder)
}

// noteUnused notes other weights of the folder.
func (s *fileSet) noteUnused(names []string) {
	var unused []string
	for _, name := range names {
		weights := strings.HasSuffix(name, extension) || strings.HasSuffix(name, ".pth") ||
			strings.HasPrefix(name, "pytorch_model") && strings.HasSuffix(name, ".bin")
		if weights && !slices.Contains(s.files, name) {
			unused = append(unused, name)
		}
	}
	if len(unused) == 0 {
		return
	}
	why := "the model is in " + some(s.files)
	if s.index != nil {
		why = "the index does not name them"
	}
	s.notes = append(s.notes, fmt.Sprintf("not used, since %s: %s", why, some(unused)))
}

// someNames is how many names a message lists at most.
const someNames = 5

// some lists the first few names of many.
func some(names []string) string { return someOf(names, len(names)) }

// someOf lists the first few names of total ones.
func someOf(names []string, total int) string {
	text := strings.Join(names[:min(len(names), someNames)], ", ")
	if total > someNames {
		text += fmt.Sprintf(" and %d more", total-someNames)
	}
	return text
}
