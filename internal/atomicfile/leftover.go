package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// tempName is a temporary name: base, process, a random number, and what it is: an output in the making, or a file that a Set has kept.
var tempName = regexp.MustCompile(`^(?s)(.*)\.(\d+)-[0-9a-f]{8}\.(tmp|old)$`)

// leftover is a file with a temporary name.
type leftover struct {
	path            string
	base, pid, kind string // see tempName; base is what the output's name was cut to
}

// leftovers lists those in a folder, none if it cannot be read: they cost space, not correctness.
func leftovers(dir string) (list []leftover) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if m := tempName.FindStringSubmatch(e.Name()); m != nil && e.Type().IsRegular() {
			list = append(list, leftover{filepath.Join(dir, e.Name()), m[1], m[2], m[3]})
		}
	}
	return list
}

// removeLeftovers deletes what killed runs have left of an output.
func removeLeftovers(final string) {
	for _, l := range leftovers(filepath.Dir(final)) {
		if l.kind == "tmp" && l.base == tempBase(final) {
			removeAbandoned(l.path, l.pid)
		}
	}
}

// removeSetLeftovers is removeLeftovers for the outputs of a Set, and those in dir that related reports. It gives the older files of these outputs that Sets
// have kept which were killed during Commit, but for those that are inputs. A name that was cut could be another file's.
func removeSetLeftovers(dir string, finals []string, related func(base string) bool, inputs []input) (kept []string) {
	bases := map[string]map[string]bool{dir: {}}
	for _, final := range finals {
		d := filepath.Dir(final)
		if bases[d] == nil {
			bases[d] = map[string]bool{}
		}
		bases[d][tempBase(final)] = true
	}
	for d, own := range bases {
		for _, l := range leftovers(d) {
			switch {
			case l.kind == "old":
				if own[l.base] && len(l.base) < maxBase && !isInput(l.path, inputs) {
					kept = append(kept, l.path)
				}
			case own[l.base] || d == dir && related != nil && related(l.base):
				removeAbandoned(l.path, l.pid)
			}
		}
	}
	return kept
}

// isInput reports whether a file is one of the inputs.
func isInput(path string, inputs []input) bool {
	st, err := os.Lstat(path)
	return err == nil && slices.ContainsFunc(inputs, func(in input) bool { return os.SameFile(in.info, st) })
}

// undecided is the age up to which a file may be one whose writer cannot be seen.
const undecided = 10 * time.Second

// removeAbandoned deletes a temporary file whose writer is gone. The lock decides, and is held until the file is away: a writer that has made the file, but
// not locked it yet, finds it locked and makes another. Where the file system has no locks, the process number in the name does, and the file's age, since
// the process may be one of another machine.
func removeAbandoned(path, pid string) {
	f, err := openToLock(path)
	if err != nil {
		return
	}
	defer f.Close()
	switch err := TryLock(f); {
	case errors.Is(err, ErrLocked):
		return
	case err != nil:
		if st, e := f.Stat(); e != nil || alive(pid) || time.Since(st.ModTime()) < undecided {
			return
		}
	}
	remove(f, path)
}

// openToLock opens a file so that it can be locked: for writing where that is allowed, since network file systems lock no others.
func openToLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrPermission) {
		return os.Open(path)
	}
	return f, err
}
