//go:build e2e && linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk mounts a file system of so many KiB. It needs root.
func smallDisk(t *testing.T, kib string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+kib+"k"); err != nil {
		t.Fatalf("mount (this test needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// TestFullDisk: a disk that is full ends a command with an error that says so, and leaves nothing behind.
func TestFullDisk(t *testing.T) {
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
			dir := smallDisk(t, "2048")
			out, err := program(t, append(args, filepath.Join(dir, "out.gguf"))...).CombinedOutput()
			if err == nil {
				t.Fatal("the command ended well on a full disk")
			}
			if !strings.Contains(string(out), "disk full") {
				t.Errorf("the message does not say that the disk is full: %s", out)
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
			if !bytes.Equal(readFile(t, in), before) {
				t.Error("the input has changed")
			}
		})
	}
}

// TestFullDiskEdit: an edit that has no room leaves the file as it was.
func TestFullDiskEdit(t *testing.T) {
	before := readFile(t, demoF32(t))
	dir := smallDisk(t, "16384") // the file takes 14.4 MiB of it
	path := filepath.Join(dir, "model.gguf")
	if err := os.WriteFile(path, before, 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := program(t, "meta", "set", path, "general.description:str="+strings.Repeat("long ", 20_000)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "disk full") {
		t.Errorf("error %v: %s", err, out)
	}
	if !bytes.Equal(readFile(t, path), before) {
		t.Error("the file has changed")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}
