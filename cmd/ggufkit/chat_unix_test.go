//go:build unix

package main

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// endless makes a model write until it is interrupted.
var endless = []string{"-c", "64", "--ignore-eos", "--context-shift", "--temp", "0"}

// watched collects what a program writes and waits for parts of it.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

// String is what was written since the last await.
func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// await waits until a part was written and forgets everything up to its end.
func (w *watched) await(t *testing.T, part string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		w.mu.Lock()
		i := strings.Index(w.text.String(), part)
		if i >= 0 {
			w.text.Next(i + len(part))
		}
		w.mu.Unlock()
		if i >= 0 {
			return
		}
	}
	t.Fatalf("no %q in %q", part, w)
}

// longer waits until more than n bytes stand there.
func (w *watched) longer(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); len(w.String()) <= n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("only %q", w)
		}
	}
}

// ends waits for the end of a program and checks its status.
func ends(t *testing.T, cmd *exec.Cmd, status int) {
	t.Helper()
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("status %d, want %d", got, status)
	}
}

// R083: a run without an end can be interrupted, between two shifts of the context too. It tells how fast it was.
func TestInterruptedRun(t *testing.T) {
	var stdout, stderr watched
	cmd := program(t, append([]string{"run", "-m", demoF32(t), "-p", "HAMLET."}, endless...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdout.longer(t, 400)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	ends(t, cmd, 1)
	for _, want := range []string{"text: ", "ggufkit: interrupted"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in %q", want, &stderr)
		}
	}
}

// Ctrl-C ends a reply and the talk goes on; while it waits for a line it ends the talk.
func TestInterruptedReply(t *testing.T) {
	var stdout, stderr watched
	cmd := program(t, append([]string{"chat", "-i", "-m", demoF32(t)}, endless...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := io.WriteString(stdin, "What news?\n"); err != nil {
			t.Fatal(err)
		}
		stdout.longer(t, 200)
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		stderr.await(t, "interrupted\n")
		stdout.await(t, stdout.String())
	}
	time.Sleep(100 * time.Millisecond) // it waits by now
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	ends(t, cmd, 0)
	stderr.await(t, "text: ")
	stdin.Close()
}
