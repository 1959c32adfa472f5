//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ggufkit/ggufkit/gguf"
)

// TestPipesForFiles: a named pipe where a file is expected is refused, or passed over, at once: opening it would wait for a writer.
func TestPipesForFiles(t *testing.T) {
	demo := filepath.Join("..", "..", "testdata", "demo")
	names := []string{"config.json", "model.safetensors", "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json",
		"special_tokens_map.json", "generation_config.json", "added_tokens.json", "chat_template.jinja", "README.md"}
	for _, name := range names {
		dir := t.TempDir()
		for _, n := range []string{"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} {
			if err := os.WriteFile(filepath.Join(dir, n), readFile(t, filepath.Join(demo, n)), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		_ = os.Remove(filepath.Join(dir, name))
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		want := 1
		if name == "README.md" {
			want = 0 // a model card is no part of the model
		}
		text := inTime(t, want, "convert", dir, "--dry-run")
		if !strings.Contains(text, name) || !strings.Contains(text, "not a regular file") {
			t.Errorf("%s: %s", name, text)
		}
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"convert", pipe}, {"inspect", pipe}, {"quantize", pipe, "Q8_0"}, {"meta", "get", pipe, "a"}, {"meta", "set", pipe, "a:u8=1"},
		{"run", "-m", pipe, "-p", "a"}, {"tokenize", "-m", pipe, "-p", "a"}, {"logits", "-m", pipe, "--ids", "1"},
	} {
		if text := inTime(t, 1, args...); !strings.Contains(text, "not a regular file") {
			t.Errorf("%v: %s", args, text)
		}
	}
}

// TestOddNames: whatever stands where a command expects a file, or may write one, its error names it first and says what to do. @ marks the name in question.
func TestOddNames(t *testing.T) {
	model := demoF32(t)
	dir := t.TempDir()
	empty, pipe, folder := filepath.Join(dir, "empty"), filepath.Join(dir, "pipe"), filepath.Join(dir, "folder")
	text := filepath.Join("..", "..", "testdata", "demo", "heldout.txt")
	if err := errors.Join(os.WriteFile(empty, nil, 0o666), syscall.Mkfifo(pipe, 0o600), os.Mkdir(folder, 0o777)); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "no such file \xff")
	inside, long := filepath.Join(empty, "x"), filepath.Join(dir, strings.Repeat("n", 300))
	files := []string{none, inside, long, folder, empty, pipe, "/dev/zero"}
	for _, c := range []struct {
		args string
		odd  []string
	}{
		{"convert @", files},
		{"inspect @", files},
		{"inspect @ --check", files},
		{"quantize @ Q8_0", files},
		{"split @ x", files},
		{"merge @ x", files},
		{"meta get @ a", files},
		{"meta set @ a:u8=1", files},
		{"run -m @ -p a", files},
		{"tokenize -m @ -p a", files},
		{"logits -m @ --ids 1", files},
		{"bench -m @", files},
		{"perplexity -m @ -f TEXT", files},
		{"compare -m MODEL --base @ -f TEXT", files},
		{"compare -m MODEL --base-file @ -f TEXT", files},
		{"compare -m MODEL --checkpoint @ -f TEXT", files},
		{"chat-template show @", files},
		{"chat-template render MODEL -f @", files[:5]}, // a pipe waits for what is written to it
		{"perplexity -m MODEL -f @", files[:5]},
		{"meta set MODEL --from-file a:str=@", files[:4]},
		{"convert ../../testdata/demo -o @", []string{inside, long, folder, pipe, "/dev/zero"}},
		{"convert ../../testdata/demo --split-max-size 1M -o @", []string{inside, long, folder}},
		{"quantize MODEL @ Q8_0", []string{inside, long, folder, pipe, "/dev/zero"}},
		{"split MODEL @ --max-size 1M", []string{inside, long, folder}},
		{"meta set MODEL a:u8=1 -o @", []string{inside, long, folder, pipe, "/dev/zero"}},
		{"report --base MODEL -f TEXT MODEL -o @", []string{inside, long, folder, pipe, "/dev/zero"}},
		{"run -m MODEL -p a -n 1 --trace @", []string{inside, long, folder, pipe, "/dev/zero"}},
	} {
		for _, odd := range c.odd {
			args := strings.Fields(c.args)
			for i, word := range args {
				args[i] = strings.NewReplacer("@", odd, "MODEL", model, "TEXT", text).Replace(word)
			}
			name := message(odd)
			said := inTime(t, 1, args...)
			_, last, _ := strings.Cut("\n"+said, "\nggufkit: ")
			if !strings.HasPrefix(last, name) || strings.Count(last, "\nhint: ") != 1 {
				t.Errorf("%q: %s", args, said)
			}
		}
	}
}

// TestOddNamesThatWork: a name that is no text is a name like any other.
func TestOddNamesThatWork(t *testing.T) {
	model := demoF32(t)
	odd := filepath.Join(t.TempDir(), "sp ace \xff\xfe.gguf")
	if err := os.Rename(model, odd); err != nil {
		t.Fatal(err)
	}
	inTime(t, 0, "inspect", odd)
	inTime(t, 0, "bench", "-m", odd, "-p", "1", "-n", "0", "-r", "1")
	inTime(t, 0, "quantize", odd, "Q8_0", "-q")
	inTime(t, 0, "split", odd, strings.TrimSuffix(odd, ".gguf"), "--max-tensors", "20")
	inTime(t, 0, "merge", gguf.PartPaths(odd, 2)[0], "-o", odd+"2")
}

// inTime runs a command that must end soon, with the given status, and returns what it says on stderr.
func inTime(t *testing.T, status int, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	done := make(chan int)
	go func() { done <- run(append([]string{"ggufkit"}, args...), strings.NewReader(""), io.Discard, &stderr) }()
	select {
	case got := <-done:
		if got != status {
			t.Errorf("%v: status %d, want %d: %s", args, got, status, &stderr)
		}
		return stderr.String()
	case <-time.After(time.Minute):
		t.Fatalf("%v: hangs", args)
	}
	return ""
}

// TestInterruptedWait: a command that waits for its text can be interrupted.
func TestInterruptedWait(t *testing.T) {
	model := demoF32(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"tokenize", "-m", model}, {"tokenize", "-m", model, "-f", pipe}, {"perplexity", "-m", model, "-f", pipe}} {
		cmd := program(t, args...)
		stdin, err := cmd.StdinPipe() // nothing comes, and it stays open
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		time.Sleep(300 * time.Millisecond) // the signals are caught by now
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Errorf("%v: waits on", args)
			_ = cmd.Process.Kill()
			<-ended
		}
		stdin.Close()
	}
}

// TestAskedToEnd: a signal that asks a writer to end leaves no temporary file.
func TestAskedToEnd(t *testing.T) {
	in := demoF32(t)
	for _, sig := range interrupts() {
		dir := t.TempDir()
		cmd := program(t, "quantize", in, filepath.Join(dir, "out.gguf"), "Q4_K_M", "-t", "1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for range 10_000 { // until it writes
			if list, _ := os.ReadDir(dir); len(list) > 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if status := cmd.ProcessState.ExitCode(); status != 1 || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf("%v: status %d: %s", sig, status, &stderr)
		}
		if list, _ := os.ReadDir(dir); len(list) > 0 {
			t.Errorf("%v: left behind: %v", sig, list)
		}
	}
}
