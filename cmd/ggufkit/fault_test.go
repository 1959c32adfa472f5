package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program is a command that runs the real program in a process of its own: this test binary under the program's name.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &exec.Cmd{Path: self, Args: append([]string{"ggufkit"}, args...)}
}

// demoF32 converts the demo checkpoint into a fresh folder.
func demoF32(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "demo-F32.gguf")
	var stderr bytes.Buffer
	args := []string{"ggufkit", "convert", filepath.Join("..", "..", "testdata", "demo"), "--type", "F32", "-o", path}
	if status := run(args, strings.NewReader(""), io.Discard, &stderr); status != 0 {
		t.Fatalf("convert: status %d: %s", status, &stderr)
	}
	return path
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// killAt starts the program and kills it after d. It reports whether the program had ended by itself.
func killAt(t *testing.T, d time.Duration, args ...string) (finished bool) {
	t.Helper()
	cmd := program(t, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(d, func() { _ = cmd.Process.Kill() })
	return cmd.Wait() == nil
}

// elapsed is how long the program takes when nobody kills it.
func elapsed(t *testing.T, args ...string) time.Duration {
	t.Helper()
	start := time.Now()
	if out, err := program(t, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return time.Since(start)
}

// TestKilledWriters: a process that is killed while it writes leaves its input as it was and nothing, or all of it, under
// the final name; the next run clears away what the killed one left.
func TestKilledWriters(t *testing.T) {
	in := demoF32(t)
	before := readFile(t, in)
	const kills = 6
	for name, args := range map[string][]string{
		"convert":  {"convert", filepath.Join("..", "..", "testdata", "demo"), "--type", "F32", "-o"},
		"quantize": {"quantize", in, "Q8_0", "-o"},
		"meta":     {"meta", "set", in, "general.description:str=" + strings.Repeat("long ", 10_000), "-o"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			whole, out := filepath.Join(dir, "whole.gguf"), filepath.Join(dir, "out.gguf")
			takes := elapsed(t, append(args, whole)...)
			want := readFile(t, whole)
			for i := range kills {
				finished := killAt(t, takes*time.Duration(2*i+1)/(2*kills), append(args, out)...)
				if got, err := os.ReadFile(out); err == nil && !bytes.Equal(got, want) {
					t.Fatalf("kill %d: a part of the output is under the final name: %d of %d bytes", i, len(got), len(want))
				} else if err != nil && finished {
					t.Fatalf("kill %d: the program ended well and there is no output", i)
				}
				if !bytes.Equal(readFile(t, in), before) {
					t.Fatalf("kill %d: the input has changed", i)
				}
				_ = os.Remove(out)
			}
			elapsed(t, append(args, out)...)
			if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
				t.Errorf("killed runs left files that the next one did not remove: %v", left)
			}
		})
	}
}

// TestKilledSplit: a process that is killed while its parts get their names leaves no first part that stands with parts of another run, and the
// next run makes the set whole.
func TestKilledSplit(t *testing.T) {
	dir := t.TempDir()
	args := func(kind, out string) []string {
		return []string{"convert", filepath.Join("..", "..", "testdata", "demo"), "--type", kind, "--split-max-size", "400K", "-o", filepath.Join(dir, out)}
	}
	parts := func(out string) (list []string) {
		list, err := filepath.Glob(filepath.Join(dir, out+"-0*.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	elapsed(t, args("f16", "old")...)
	elapsed(t, args("bf16", "new")...)
	all := len(parts("new"))
	// ours tells which of the two runs a part is from, "" where it is absent.
	ours := func(no int) string {
		name := fmt.Sprintf("-%05d-of-%05d.gguf", no, all)
		got, err := os.ReadFile(filepath.Join(dir, "out"+name))
		if err != nil {
			return ""
		}
		for _, run := range []string{"old", "new"} {
			if bytes.Equal(got, readFile(t, filepath.Join(dir, run+name))) {
				return run
			}
		}
		t.Fatalf("part %d is not whole", no)
		return ""
	}
	const kills = 8
	between := 0
	for range kills {
		elapsed(t, args("f16", "out")...)
		cmd := program(t, args("bf16", "out")...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		// The last part gets its name first.
		last := filepath.Join(dir, fmt.Sprintf("out-%05d-of-%05d.gguf", all, all))
		for before, _ := os.Stat(last); len(ended) == 0; {
			if now, err := os.Stat(last); err == nil && !os.SameFile(before, now) {
				break
			}
		}
		_ = cmd.Process.Kill()
		<-ended
		first := ours(1)
		if first == "" {
			between++
		}
		for no := 2; no <= all && first != ""; no++ {
			if got := ours(no); got != first {
				t.Fatalf("part 1 is of the %s run, part %d of the %s one", first, no, got)
			}
		}
	}
	t.Logf("%d of %d runs were killed between two names of %d parts", between, kills, all)
	elapsed(t, args("bf16", "out")...)
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 3*all || ours(1) != "new" || ours(all) != "new" {
		t.Errorf("the next run left %v", left)
	}
}

// TestSplitsAtOnce: of runs that write the same parts at the same time, those that begin while another writes are refused, and what stands in the end
// is all of one run.
func TestSplitsAtOnce(t *testing.T) {
	dir := t.TempDir()
	var models [2]string
	for i, kind := range []string{"f16", "bf16"} {
		models[i] = filepath.Join(dir, kind+".gguf")
		elapsed(t, "convert", filepath.Join("..", "..", "testdata", "demo"), "--type", kind, "-o", models[i])
		elapsed(t, "split", models[i], filepath.Join(dir, kind), "--max-tensors", "5")
	}
	const tries = 8
	refused := 0
	for range tries {
		var runs [2]*exec.Cmd
		var says [2]bytes.Buffer
		for i, model := range models {
			runs[i] = program(t, "split", model, filepath.Join(dir, "out"), "--max-tensors", "5")
			runs[i].Stderr = &says[i]
			if err := runs[i].Start(); err != nil {
				t.Fatal(err)
			}
		}
		written := 0
		for i, r := range runs {
			if r.Wait() == nil {
				written++
			} else if refused++; !strings.Contains(says[i].String(), "another run is writing these files\nhint: wait until it has ended") {
				t.Errorf("%s", &says[i])
			}
		}
		parts, _ := filepath.Glob(filepath.Join(dir, "out-*"))
		if written == 0 || len(parts) != 8 {
			t.Fatalf("%d of 2 runs ended well, %d files", written, len(parts))
		}
		first := readFile(t, parts[0])
		from := "f16"
		if !bytes.Equal(first, readFile(t, filepath.Join(dir, "f16-00001-of-00008.gguf"))) {
			from = "bf16"
		}
		for _, part := range parts {
			if !bytes.Equal(readFile(t, part), readFile(t, strings.Replace(part, "out", from, 1))) {
				t.Fatalf("part 1 is of the %s run, %s is not", from, part)
			}
		}
	}
	t.Logf("%d of %d runs were refused", refused, 2*tries)
}

// TestKilledEdit: a process that is killed while it edits in place leaves the old or the new bytes once the file is opened again.
func TestKilledEdit(t *testing.T) {
	in := demoF32(t)
	before := readFile(t, in)
	path := filepath.Join(filepath.Dir(in), "edited.gguf")
	put := func() {
		if err := os.WriteFile(path, before, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"meta", "set", path, "llama.rope.freq_base=500000"}
	put()
	takes := elapsed(t, args...)
	after := readFile(t, path)
	if bytes.Equal(before, after) {
		t.Fatal("the edit changed nothing")
	}
	const kills = 40
	seen := map[string]int{}
	for i := range kills {
		put()
		killAt(t, takes*time.Duration(i)/kills, args...)
		elapsed(t, "inspect", path)
		switch got := readFile(t, path); {
		case bytes.Equal(got, before):
			seen["old"]++
		case bytes.Equal(got, after):
			seen["new"]++
		default:
			t.Fatalf("kill %d: the file is neither the old nor the new one", i)
		}
	}
	t.Log(fmt.Sprint(seen))
}
