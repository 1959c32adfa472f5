package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// tempName is a temporary name: base, process, a random number, and what it is: an output in the making, or a file that a Set has kept.
var tempName = regexp.MustCompile(`^(?s)(.*)\.(\d+)-[0-9a-f]{8}\.(tmp|old)$`)

// takeBack gives older files their names back, the first one last, if a run was killed while it gave its outputs theirs: then the first one is away. The
// caller holds the Set's lock.
func takeBack(finals []string) error {
	if _, err := os.Lstat(finals[0]); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	kept := keptFiles(finals)
	for i := len(finals) - 1; i >= 0; i-- {
		final, path := finals[i], kept[filepath.Clean(finals[i])]
		if path == "" {
			continue
		}
		if err := os.Rename(path, final); err != nil {
			return fmt.Errorf("%s: cannot be written: what was there before a run was killed could not be put back: %w\nhint: rename %s to %s, or delete it, and run again",
				final, err, path, final)
		}
		os.Remove(path) // where both are names of one file the renaming leaves both
	}
	return nil
}

// keptFiles gives, by their final names, the names under which a Set has kept files.
func keptFiles(finals []string) map[string]string {
	kept, seen := map[string]string{}, map[string]bool{}
	for _, final := range finals {
		dir := filepath.Dir(final)
		if seen[dir] {
			continue
		}
		seen[dir] = true
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if m := tempName.FindStringSubmatch(e.Name()); m != nil && m[3] == "old" && e.Type().IsRegular() {
				kept[filepath.Join(dir, m[1])] = filepath.Join(dir, e.Name())
			}
		}
	}
	return kept
}

// removeSetLeftovers is removeLeftovers for the outputs of a Set, whose lock the caller holds, and those in dir that related reports.
func removeSetLeftovers(dir string, finals []string, related func(base string) bool) {
	bases := map[string]map[string]bool{dir: {}}
	for _, final := range finals {
		d := filepath.Dir(final)
		if bases[d] == nil {
			bases[d] = map[string]bool{}
		}
		bases[d][tempBase(final)] = true
	}
	for d, own := range bases {
		removeLeftovers(d, func(base string) bool { return own[base] || d == dir && related != nil && related(base) }, true)
	}
}

// removeLeftovers deletes the temporary files in a folder that no living process holds, for those outputs that of reports by their base name, of which
// it sees the first 200 bytes. Files that a Set has kept are removed by who holds its lock: nobody else could tell whether they are in use. Failures are
// ignored: a leftover costs space, not correctness.
func removeLeftovers(dir string, of func(base string) bool, locked bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		m := tempName.FindStringSubmatch(e.Name())
		if m == nil || !e.Type().IsRegular() || !of(m[1]) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		switch {
		case m[3] == "tmp":
			removeAbandoned(path, m[2])
		case locked:
			os.Remove(path)
		}
	}
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
