//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFailedWrites: a write that fails (here at a limit on file sizes, as it would on a full disk) ends the command with the
// system's reason, and leaves nothing behind.
func TestFailedWrites(t *testing.T) {
	in := demoF32(t)
	before := readFile(t, in)
	for name, args := range map[string][]string{
		"convert":  {"convert", filepath.Join("..", "..", "testdata", "demo"), "--type", "F32", "-o"},
		"quantize": {"quantize", in, "Q8_0", "-o"},
		"meta":     {"meta", "set", in, "general.description:str=new", "-o"},
		"split":    {"split", in, "--max-tensors", "20", "-o"},
		"logits":   {"logits", "-m", in, "--ids", strings.Repeat("5,", 500) + "5", "-o"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := program(t, append(args, filepath.Join(dir, "out"))...)
			// The limit is in units of 512 or 1024 bytes, as the shell has it: 1 or 2 MiB.
			cmd.Args = append([]string{"sh", "-c", `ulimit -f 2048; exec "$0" "$@"`, filepath.Join(dir, "ggufkit")}, cmd.Args[1:]...)
			if err := os.Symlink(cmd.Path, filepath.Join(dir, "ggufkit")); err != nil {
				t.Fatal(err)
			}
			cmd.Path = "/bin/sh"
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatal("the command ended well")
			}
			if !strings.HasPrefix(string(out), "ggufkit: "+filepath.Join(dir, "out")) || !strings.Contains(string(out), "file too large\nhint: the file system (FAT: 4 GB), or a limit of the session (ulimit -f), allows no larger file") {
				t.Errorf("the message does not begin with the file, or does not give the system's reason or a hint: %s", out)
			}
			if left, _ := os.ReadDir(dir); len(left) != 1 {
				t.Errorf("left behind: %v", left)
			}
			if !bytes.Equal(readFile(t, in), before) {
				t.Error("the input has changed")
			}
		})
	}
}

// TestOpenFiles: a session that may not open all parts of a model at a time is told how to change that, and nothing is left behind.
func TestOpenFiles(t *testing.T) {
	in := demoF32(t)
	dir := t.TempDir()
	one := filepath.Join(dir, "one")
	elapsed(t, "split", in, one, "--max-tensors", "1")
	self := filepath.Join(dir, "ggufkit")
	if err := os.Symlink(program(t).Path, self); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadDir(dir)
	for _, limit := range []int{20, 44, 50, 70, 100} {
		for _, args := range [][]string{
			{"split", in, filepath.Join(dir, "two"), "--max-tensors", "1"},
			{"quantize", one + "-00001-of-00038.gguf", filepath.Join(dir, "out.gguf"), "Q8_0"},
		} {
			cmd := &exec.Cmd{Path: "/bin/sh", Args: append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, limit), self}, args...)}
			out, err := cmd.CombinedOutput()
			if err == nil {
				for _, name := range []string{"two-*", "out.gguf"} {
					list, _ := filepath.Glob(filepath.Join(dir, name))
					for _, path := range list {
						_ = os.Remove(path)
					}
				}
			} else if limit == 100 || !strings.Contains(string(out), "too many open files\nhint: let the session open more files at a time (ulimit -n)\n") {
				t.Errorf("limit %d: %s: %s", limit, args[0], out)
			}
			if left, _ := os.ReadDir(dir); len(left) != len(before) {
				t.Errorf("limit %d: left behind: %v", limit, left)
			}
		}
	}
}

// TestLostResult: a result that cannot be printed is a failure.
func TestLostResult(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	var stderr bytes.Buffer
	args := []string{"ggufkit", "inspect", "../../testdata/golden/gguf/pair-le.gguf"}
	if status := run(args, strings.NewReader(""), full, &stderr); status != 1 || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("status %d: %s", status, &stderr)
	}
}
