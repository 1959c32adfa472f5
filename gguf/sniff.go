package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// Hints that several defects share.
const (
	hintDownload = "the file was cut short: download or copy it again"
	hintDamage   = "the file is damaged, or was written by a faulty program: download or convert it again"
	hintCount    = "the count is damaged, or the file was cut short: download it again"
	hintConvert  = "make a GGUF file from the checkpoint with: ggufkit convert"
	hintAddress  = "download it again, from an address that gives the file itself (on Hugging Face: .../resolve/..., not .../blob/...)"
	hintOld      = "it is older than GGUF (August 2023): convert the original checkpoint again"
	hintZeros    = "the file is damaged, or a download that was not finished: download or copy it again"
	hintUnpack   = "unpack it first"
)

// kinds lists what else begins with these bytes.
var kinds = []struct{ prefix, what, hint string }{
	{"tjgg", "a GGJT model", hintOld},
	{"fmgg", "a GGMF model", hintOld},
	{"lmgg", "a GGML model", hintOld},
	{"algg", "a GGLA adapter", hintOld},
	{"PK\x03\x04", "a ZIP archive, perhaps a PyTorch checkpoint", hintConvert},
	{"\x80\x02", "a Python pickle, perhaps a PyTorch checkpoint", hintConvert},
	{"\x80\x03", "a Python pickle, perhaps a PyTorch checkpoint", hintConvert},
	{"\x80\x04", "a Python pickle, perhaps a PyTorch checkpoint", hintConvert},
	{"\x80\x05", "a Python pickle, perhaps a PyTorch checkpoint", hintConvert},
	{"\x1f\x8b", "gzip-compressed data", hintUnpack},
	{"\x28\xb5\x2f\xfd", "zstd-compressed data", hintUnpack},
	{"\xfd7zXZ\x00", "xz-compressed data", hintUnpack},
	{"BZh", "bzip2-compressed data", hintUnpack},
}

// lfsMagic begins a pointer that git LFS leaves in place of a large file.
const lfsMagic = "version https://git-lfs.github.com/spec/"

// sniffLen is how much of a file is looked at.
const sniffLen = 1024

// sniff tells what a file is that is not GGUF, and what to do about it.
func sniff(head []byte, size uint64) (what, hint string) {
	if size == 0 {
		return "the file is empty", hintDownload
	}
	head = head[:min(len(head), sniffLen)]
	if strings.HasPrefix(magic, string(head)) {
		return fmt.Sprintf("the file has only %d bytes", size), hintDownload
	}
	for _, k := range kinds {
		if bytes.HasPrefix(head, []byte(k.prefix)) {
			return "it is " + k.what, k.hint
		}
	}
	if bytes.HasPrefix(head, make([]byte, 8)) {
		return "it begins with zero bytes", hintZeros
	}
	if bytes.HasPrefix(head, []byte(lfsMagic)) {
		return lfsPointer(head)
	}
	if isSafetensors(head, size) {
		return "it is a safetensors file", hintConvert
	}
	text := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(string(head), "\ufeff")))
	for _, p := range []string{"<!doctype html", "<html", "<head", "<?xml", "<body"} {
		if strings.HasPrefix(text, p) {
			return "it is a web page (HTML)", hintAddress
		}
	}
	if strings.HasPrefix(text, "{") {
		return "it is JSON text, perhaps the error message of a server", hintAddress
	}
	return fmt.Sprintf("it begins with %q", head[:min(len(head), 8)]), "check that this is the file you meant"
}

// isSafetensors recognizes a length that fits into the file, followed by a JSON object.
func isSafetensors(head []byte, size uint64) bool {
	return len(head) > 8 && head[8] == '{' && binary.LittleEndian.Uint64(head) <= size-8
}

// lfsPointer reads the size and hash of the file that a git LFS pointer stands for.
func lfsPointer(head []byte) (what, hint string) {
	var size, hash string
	for line := range strings.Lines(string(head)) {
		if v, ok := strings.CutPrefix(line, "size "); ok {
			size = strings.TrimSpace(v)
		}
		if v, ok := strings.CutPrefix(line, "oid "); ok {
			hash = strings.TrimSpace(v)
		}
	}
	return fmt.Sprintf("it is a git LFS pointer to a file of %q bytes with hash %q", size, hash), "fetch the file itself with: git lfs pull"
}
