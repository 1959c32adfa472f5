package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// identify names what a file that is no safetensors file looks like, with a hint; "" if nothing is recognized.
func identify(b []byte) string {
	head := b[:min(len(b), 512)]
	text := strings.ToLower(strings.TrimLeft(string(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))), " \t\r\n"))
	has := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	switch {
	case len(head) > lengthSize && head[lengthSize] == '{' && binary.LittleEndian.Uint64(head) <= maxHeader:
		// A safetensors file, though a damaged one: the length of its header may look like any of the marks below.
		return ""
	case len(b) == 0:
		return "the file is empty\nhint: download it again"
	case has("version https://git-lfs.github.com/spec/"):
		return lfs(head)
	case strings.HasPrefix(text, "<!doctype html"), strings.HasPrefix(text, "<html"), strings.HasPrefix(text, "<!--"), strings.HasPrefix(text, "<?xml"):
		return "it is a web page\nhint: the download went to a page about the file; take the link that ends in the file itself"
	case has("GGUF"), has("FUGG"):
		return "it is a GGUF file\nhint: it needs no conversion; see the commands inspect and quantize"
	case has("lmgg"), has("fmgg"), has("tjgg"):
		return "it is a GGML file from before GGUF\nhint: convert from the original checkpoint"
	case has("PK\x03\x04"):
		return "it is a ZIP archive, as torch.save writes them\nhint: " + saveAsSafetensors
	case has("\x80\x02"), has("\x80\x03"), has("\x80\x04"):
		return "it is a Python pickle, as old versions of torch.save write them\nhint: " + saveAsSafetensors
	case has("\x1f\x8b"):
		return "it is a gzip archive\nhint: unpack it"
	case has("\x93NUMPY"):
		return "it is a NumPy array\nhint: " + saveAsSafetensors
	case len(bytes.Trim(head, "\x00")) == 0:
		return "it begins with zero bytes only\nhint: an interrupted download leaves such files; download it again"
	case strings.HasPrefix(text, "{"):
		return "it is JSON text, without the 8 bytes that start a safetensors file\nhint: download it again"
	}
	return ""
}

// saveAsSafetensors is the way from a torch checkpoint to one that can be read.
const saveAsSafetensors = "load the model with transformers and call save_pretrained(folder, safe_serialization=True), then convert that folder"

// lfs describes a git LFS pointer by the file it stands for.
func lfs(head []byte) string {
	var oid, size string
	for line := range strings.Lines(string(head)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "oid":
			oid = value
		case "size":
			size = value
		}
	}
	return fmt.Sprintf("it is a git LFS pointer to a file of %q bytes with hash %q, not the file\nhint: run git lfs pull in the folder", size, oid)
}
