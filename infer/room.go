package infer

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// system is where the memory of the machine and of the process's control group is looked up: the root of the file system.
type system struct{ root fs.FS }

// room is how many bytes of memory the process can still take, and what bounds them; math.MaxUint64 where nothing is known.
func (s system) room() (n uint64, what string) {
	n = math.MaxUint64
	bound := func(v uint64, by string) {
		if v < n {
			n, what = v, by
		}
	}
	if kb, ok := s.field("proc/meminfo", "MemAvailable:"); ok && kb < math.MaxUint64/1024 {
		bound(kb*1024, "memory that the machine has available")
	}
	if limit, ok := s.addressSpace(); ok {
		kb, _ := s.field("proc/self/status", "VmSize:")
		bound(limit-min(kb*1024, limit), "addresses that the limit of the process (ulimit -v) leaves")
	}
	for _, g := range s.groups() {
		// A group's limit holds for all below it.
		for dir := g.path; ; dir = path.Dir(dir) {
			at := path.Join(g.mount, dir)
			if limit, ok := s.number(path.Join(at, g.limit)); ok && limit < math.MaxInt64/2 {
				used, _ := s.number(path.Join(at, g.usage))
				for _, reclaimable := range g.files {
					b, _ := s.field(path.Join(at, "memory.stat"), reclaimable)
					used -= min(b, used)
				}
				bound(limit-min(used, limit), fmt.Sprintf("memory that %s of the control group leaves", g.limit))
			}
			if dir == "/" || dir == "." {
				break
			}
		}
	}
	return n, what
}

// group is a control group that accounts for memory. files are what it counts that the system can drop.
type group struct {
	mount, path  string
	limit, usage string
	files        []string
}

// groups are the process's, of both versions.
func (s system) groups() []group {
	data, err := fs.ReadFile(s.root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	var out []group
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			out = append(out, group{"sys/fs/cgroup", path.Clean("/" + parts[2]), "memory.max", "memory.current", []string{"inactive_file", "active_file"}})
		case strings.Contains(","+parts[1]+",", ",memory,"):
			out = append(out, group{"sys/fs/cgroup/memory", path.Clean("/" + parts[2]), "memory.limit_in_bytes", "memory.usage_in_bytes",
				[]string{"total_inactive_file", "total_active_file"}})
		}
	}
	return out
}

// addressSpace is the soft limit on the addresses of the process.
func (s system) addressSpace() (uint64, bool) {
	data, err := fs.ReadFile(s.root, "proc/self/limits")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "Max address space"); ok {
			if words := strings.Fields(rest); len(words) > 0 {
				n, err := strconv.ParseUint(words[0], 10, 64)
				return n, err == nil
			}
		}
	}
	return 0, false
}

// number is what a file holds; "max" is none.
func (s system) number(name string) (uint64, bool) {
	data, err := fs.ReadFile(s.root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}

// field is the number behind a name at the start of a line.
func (s system) field(name, field string) (uint64, bool) {
	data, err := fs.ReadFile(s.root, name)
	if err != nil {
		return 0, false
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == field {
			n, err := strconv.ParseUint(words[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// checkRoom refuses a context whose cache does not fit.
func (s system) checkRoom(m *arch.Memory) error {
	room, what := s.room()
	if m.Scratch <= room && m.Cache <= room-m.Scratch {
		return nil
	}
	fits := (room - min(m.Scratch, room)) / max(m.CachePosition, 1) / arch.CachePage * arch.CachePage
	hint := "no context fits"
	if fits > 0 {
		hint = fmt.Sprintf("choose a context of %d at most (-c %d, of bench -p, -n and -d together)", fits, fits)
		if m.CacheType == gguf.F16.String() {
			hint += ", nearly twice that with a cache of q8_0 (--cache-type q8_0)"
		}
	}
	return fmt.Errorf("a context of %d tokens takes %s for keys and values in %s and %s to compute in, more than the %s of %s\nhint: %s",
		m.Context, sizeText(m.Cache), m.CacheType, sizeText(m.Scratch), sizeText(room), what, hint)
}

// checkPages refuses to make a sequence longer that has no room to grow.
func (s system) checkPages(bytes uint64) error {
	room, what := s.room()
	if bytes <= room {
		return nil
	}
	return fmt.Errorf("more keys and values take %s, more than the %s of %s\nhint: use a smaller context (-c), or a cache of q8_0 (--cache-type q8_0)",
		sizeText(bytes), sizeText(room), what)
}

// sizeText prints a number of bytes.
func sizeText(n uint64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20))
}
