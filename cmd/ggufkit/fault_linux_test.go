//go:build linux

package main

import (
	"bytes"
	"os"
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
			if !strings.Contains(string(out), "file too large\nhint: the file system (FAT: 4 GB), or a limit of the session (ulimit -f), allows no larger file") {
				t.Errorf("the message does not give the system's reason, or no hint: %s", out)
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
