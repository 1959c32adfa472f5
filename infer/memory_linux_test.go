package infer

import (
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// memoryChild marks the process that the memory of a model is measured in.
const memoryChild = "GGUFKIT_TEST_MEMORY"

// measured runs a test by itself in another process, where it calls report.
func measured(t *testing.T) (before, after, told uint64) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v")
	child.Env = append(os.Environ(), memoryChild+"=1")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, line, _ := strings.Cut(string(out), "measured ")
	if _, err := fmt.Sscan(line, &before, &after, &told); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return before, after, told
}

// report fills the context of a model, the last tokens one by one, and tells the anonymous memory of the process before and after, and what
// the model said of it.
func report(t *testing.T, load func() *Model, told func(*arch.Memory) uint64) {
	t.Helper()
	debug.FreeOSMemory()
	before := anonymous(t)
	m := load()
	s := newSession(t, m)
	const single = 48
	ids := make([]int32, m.Context-single)
	for i := range ids {
		ids[i] = int32((i*i*7 + 3*i) % m.Params.NVocab)
	}
	if _, err := s.Append(ids); err != nil {
		t.Fatal(err)
	}
	for i := range single {
		if _, err := s.Append(ids[i:][:1]); err != nil {
			t.Fatal(err)
		}
	}
	memory := m.Memory()
	fmt.Println("measured", before, anonymous(t), told(&memory))
}

// anonymous is the memory of this process that belongs to no file, in bytes.
func anonymous(t *testing.T) uint64 {
	n, ok := system{os.DirFS("/")}.field("proc/self/status", "RssAnon:")
	if !ok {
		t.Fatal("the system does not tell the anonymous memory of a process")
	}
	return n << 10
}

// closeTo fails unless the memory is what was told, within 2 % or 16 MB.
func closeTo(t *testing.T, got, told uint64) {
	t.Helper()
	t.Logf("%s, told %s", sizeText(got), sizeText(told))
	if d := max(got, told) - min(got, told); d > max(told/50, 16<<20) {
		t.Errorf("the process takes %s, told were %s", sizeText(got), sizeText(told))
	}
}

// A model takes the memory that it tells.
func TestMemory(t *testing.T) {
	for name, o := range map[string]Options{"f16": {Batch: 64}, "q8_0": {Cache: CacheQ8_0}, "exact": {Precision: Exact}} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(memoryChild) == "" {
				before, after, told := measured(t)
				closeTo(t, after-before, told)
				return
			}
			m := quantTiny(gguf.Q8_0)
			m.heads, m.kvHeads, m.context, m.matrix = 32, 32, 4096, gguf.Q8_0
			m.keys = map[string]gguf.Value{"attention.sliding_window": u32(64)} // so that a long context takes no time
			report(t, func() *Model { return m.load(t, o) }, func(m *arch.Memory) uint64 { return m.Cache + m.Scratch })
		})
	}
}
