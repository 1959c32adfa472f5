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
)

// cutter is a stderr that cuts a file as soon as a text is written to it.
type cutter struct {
	bytes.Buffer
	t    *testing.T
	at   string // "": cut
	path string
}

func (c *cutter) Write(p []byte) (int, error) {
	n, err := c.Buffer.Write(p)
	if c.at != "" && strings.Contains(c.String(), c.at) {
		c.at = ""
		if err := os.Truncate(c.path, 4096); err != nil {
			c.t.Error(err)
		}
	}
	return n, err
}

// TestCutModel: a model that is cut while a command reads it ends the command with an error that names the file and says what to do.
func TestCutModel(t *testing.T) {
	demo := filepath.Join("..", "..", "testdata", "demo")
	text := filepath.Join(demo, "heldout.txt")
	whole := readFile(t, demoF32(t))
	dir := t.TempDir()
	model, base := filepath.Join(dir, "model.gguf"), filepath.Join(dir, "base.gguf")
	questions := filepath.Join(dir, "questions")
	if err := os.WriteFile(questions, []byte(strings.Repeat("To be, or\n0\nnot to be\nto go\nto see\nto do\n", 200)), 0o666); err != nil {
		t.Fatal(err)
	}
	perplexity := []string{"perplexity", "-m", model, "-f", text, "-c", "64", "--chunks", "20"}
	compare := []string{"compare", "-m", model, "--base", base, "-f", text, "-c", "64", "--chunks", "20"}
	for _, c := range []struct {
		name, cut, at string
		args          []string
	}{
		{"perplexity", model, "window 2 of 20", perplexity},
		{"perplexity in exact precision", model, "window 2 of 20", append(perplexity, "--precision", "exact", "-t", "1")},
		{"tasks", model, "task 36 of 200", []string{"perplexity", "-m", model, "-f", questions, "--hellaswag", "-c", "64"}},
		{"compare", model, "window 2 of 20", compare},
		{"compare, its base", base, "window 2 of 20", compare},
		{"run", model, "seed: ", []string{"run", "-m", model, "-p", "To be", "-n", "5", "--verbose"}},
		{"chat", model, "seed: ", []string{"run", "-m", model, "-i", "-n", "5", "--verbose"}},
		{"bench, a prompt", model, "warm-up", []string{"bench", "-m", model, "-p", "32", "-n", "0", "-r", "2"}},
		{"bench, tokens", model, "warm-up", []string{"bench", "-m", model, "-p", "0", "-n", "8", "-r", "2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, path := range []string{model, base} {
				if err := os.WriteFile(path, whole, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			stderr := &cutter{t: t, at: c.at, path: c.cut}
			status := run(append([]string{"ggufkit"}, c.args...), strings.NewReader("To be\n"), io.Discard, stderr)
			if stderr.at != "" {
				t.Errorf("the file was not cut: %s", stderr)
			}
			saysCut(t, c.cut, status, stderr.String())
		})
	}
}

// TestCutModelOfProof cuts the file while the proof waits for its text. It reads weights before it runs them.
func TestCutModelOfProof(t *testing.T) {
	demo := filepath.Join("..", "..", "testdata", "demo")
	model := demoF32(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // as soon as the command has opened it too
		if err != nil {
			t.Error(err)
			return
		}
		if err := os.Truncate(model, 4096); err != nil {
			t.Error(err)
		}
		_, err = w.WriteString("To be, or not to be")
		if err := errors.Join(err, w.Close()); err != nil {
			t.Error(err)
		}
	}()
	var stderr bytes.Buffer
	status := run([]string{"ggufkit", "compare", "-m", model, "--checkpoint", demo, "-f", pipe}, strings.NewReader(""), io.Discard, &stderr)
	saysCut(t, model, status, stderr.String())
}

// saysCut fails unless a command ended with a message that a file was cut to 4096 bytes.
func saysCut(t *testing.T, path string, status int, stderr string) {
	t.Helper()
	_, last, _ := strings.Cut("\n"+stderr, "\nggufkit: ")
	want := path + ": the file changed while it was read: it has 4096 bytes, it had "
	if status != 1 || !strings.Contains(last, want) || strings.Contains(last, "heldout") || strings.Count(last, "hint: ") != 1 {
		t.Errorf("status %d: %s", status, stderr)
	}
}
