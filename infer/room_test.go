package infer

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ggufkit/ggufkit/gguf"
)

// files makes a file system of some contents.
func files(contents map[string]string) fs.FS {
	out := fstest.MapFS{}
	for name, text := range contents {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func TestRoom(t *testing.T) {
	const meminfo = "MemTotal:       4000 kB\nMemFree:         100 kB\nMemAvailable:   2000 kB\n"
	v2 := map[string]string{
		"proc/meminfo": meminfo, "proc/self/cgroup": "0::/outer/inner\n",
		"sys/fs/cgroup/outer/inner/memory.max": "max\n", "sys/fs/cgroup/outer/inner/memory.current": "500\n",
		"sys/fs/cgroup/outer/memory.max": "10000\n", "sys/fs/cgroup/outer/memory.current": "7000\n",
		"sys/fs/cgroup/outer/memory.stat": "anon 1000\ninactive_file 2000\nactive_file 3000\n",
	}
	v1 := map[string]string{
		"proc/meminfo": meminfo, "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/job\n0::/\n",
		"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9000\n", "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "2000\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  uint64
		what  string
	}{
		"nothing known": {nil, 1<<64 - 1, ""},
		"machine":       {map[string]string{"proc/meminfo": meminfo}, 2000 << 10, "machine"},
		"version 2":     {v2, 10000 - (7000 - 5000), "memory.max of the control group"},
		"version 1":     {v1, 7000, "memory.limit_in_bytes of the control group"},
		"full": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "10", "sys/fs/cgroup/memory.current": "11"},
			0, "memory.max"},
		"addresses": {map[string]string{"proc/meminfo": meminfo, "proc/self/status": "Name:\tx\nVmSize:\t    1500 kB\n",
			"proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units     \nMax address space         2048000              unlimited            bytes     \n"},
			2048000 - 1500<<10, "ulimit -v"},
		"no limit of addresses": {map[string]string{"proc/meminfo": meminfo, "proc/self/limits": "Max address space         unlimited            unlimited            bytes     \n"},
			2000 << 10, "machine"},
		"nonsense": {map[string]string{"proc/meminfo": "MemAvailable: many kB\nMemAvailable:", "proc/self/cgroup": "0:\nx\n::::\n0::/../..\n"}, 1<<64 - 1, ""},
	} {
		n, what := system{files(c.files)}.room()
		if n != c.want || !strings.Contains(what, c.what) {
			t.Errorf("%s: %d, %q; want %d, %q", name, n, what, c.want, c.what)
		}
	}
}

// A context that does not fit is refused before its memory is taken, with what would fit; one that nobody asked for is not, until it grows.
func TestContextThatDoesNotFit(t *testing.T) {
	m := quantTiny(gguf.Q4_K)
	m.context = 1 << 20
	none := func(*source, *gguf.Meta) {}
	small := &system{files(map[string]string{"proc/meminfo": "MemAvailable: 65536 kB\n"})}
	// 2 blocks of 2 heads of 64 keys and values in 2 bytes are 1 KiB for a position.
	err := loadError(t, m, Options{Context: 1 << 20, Batch: 64, Threads: 1, system: small}, none)
	wantError(t, "too long", err, "a context of 1048576 tokens takes 1.00 GiB", "F16", "64.00 MiB", "the machine has available", "-c 64", "--cache-type q8_0")

	if _, err := m.load(t, Options{Context: 32 << 10, Batch: 64, Threads: 1, system: small}).NewSession(); err != nil {
		t.Errorf("a context that fits: %v", err)
	}
	full := system{files(map[string]string{"proc/meminfo": "MemAvailable: 65 kB\n"})}
	s := newSession(t, m.load(t, Options{Threads: 1, system: &full}))
	if _, err := s.Append(m.ids(pagePositions)); err != nil {
		t.Fatal(err)
	}
	before := s.Len()
	full.root = files(map[string]string{"proc/meminfo": "MemAvailable: 63 kB\n"})
	s.state.(*paged).layout.room = full.checkPages
	_, err = s.Append(m.ids(1))
	wantError(t, "no room to grow", err, "0.06 MiB", "smaller context", "q8_0")
	if s.Len() != before {
		t.Errorf("%d positions afterwards, want %d", s.Len(), before)
	}
	s.state.(*paged).layout.room = func(uint64) error { return errors.New("unasked") }
	if err := s.Truncate(10); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(m.ids(5)); err != nil {
		t.Errorf("within the page: %v", err)
	}
}
