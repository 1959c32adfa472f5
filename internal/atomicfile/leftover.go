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

// keptFiles lists the older files of these names that Sets have kept which were killed during Commit, but for those that are inputs. A name that was cut could
// be another file's.
func keptFiles(finals []string, inputs []input) []string {
	own, seen := map[string]bool{}, map[string]bool{}
	for _, final := range finals {
		own[filepath.Clean(final)] = len(filepath.Base(final)) < maxBase
	}
	var kept []string
	for _, final := range finals {
		dir := filepath.Dir(final)
		if seen[dir] {
			continue
		}
		seen[dir] = true
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			m := tempName.FindStringSubmatch(e.Name())
			if m == nil || m[3] != "old" || !own[filepath.Join(dir, m[1])] || !e.Type().IsRegular() {
				continue
			}
			path := filepath.Join(dir, e.Name())
			if st, err := os.Lstat(path); err == nil && !slices.ContainsFunc(inputs, func(in input) bool { return os.SameFile(in.info, st) }) {
				kept = append(kept, path)
			}
		}
	}
	return kept
}

// removeSetLeftovers is removeLeftovers for the outputs of a Set, and those in dir that related reports.
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
		removeLeftovers(d, func(base string) bool { return own[base] || d == dir && related != nil && related(base) })
	}
}

// removeLeftovers deletes the outputs in the making in a folder that no living process holds, those that of reports by their base name, of which it sees the
// first 200 bytes. Failures are ignored: a leftover costs space, not correctness.
func removeLeftovers(dir string, of func(base string) bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if m := tempName.FindStringSubmatch(e.Name()); m != nil && m[3] == "tmp" && e.Type().IsRegular() && of(m[1]) {
			removeAbandoned(filepath.Join(dir, e.Name()), m[2])
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
