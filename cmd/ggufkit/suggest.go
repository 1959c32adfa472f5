package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/internal/spelling"
	"github.com/urfave/cli/v2"
)

// nearest is the name that a misspelled word most likely means, "" if none is close: at most one slip in three letters. Case,
// hyphens and underscores do not count.
func nearest(word string, names []string) string {
	plain := func(s string) string { return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s)) }
	best, least := "", max(1, len(word)/3)+1
	for _, name := range names {
		if d := spelling.Distance(plain(word), plain(name)); d < least && d < len(name) {
			best, least = name, d
		}
	}
	return best
}

// didYouMean is the start of a hint, "" if there is no name to offer.
func didYouMean(name string) string {
	if name == "" {
		return ""
	}
	return "did you mean " + name + "? "
}

// commandNames lists a command table.
func commandNames(table []*cli.Command) []string {
	names := make([]string, len(table))
	for i, c := range table {
		names[i] = c.Name
	}
	return names
}

// nearestFlag is the flag of a command that a misspelled one such as "--jsn" most likely means, as it is written; "" if none is close.
func nearestFlag(cmd *cli.Command, word string) string {
	var names []string
	for _, f := range cmd.Flags {
		names = append(names, f.Names()...)
	}
	switch name := nearest(strings.TrimLeft(word, "-"), names); len(name) {
	case 0:
		return ""
	case 1:
		return "-" + name
	default:
		return "--" + name
	}
}

// flagFor is the start of a hint to the flag that a text or a file needs in front, "" unless the command has one that was not given, and takes
// no arguments. With a target of quantize it is the type that is one argument too many.
func flagFor(c *cli.Context, most int) string {
	if c.NArg() > most && targeted(c) {
		return "leave out the type, the target chooses types; "
	}
	if most == 1 && c.NArg() == 2 && findFlag(c.Command, "-o") != nil && !c.IsSet("output") {
		return didYouMean("-o " + c.Args().Get(1))
	}
	if most != 0 || c.NArg() == 0 {
		return ""
	}
	words := strings.Join(c.Args().Slice(), " ")
	for _, f := range []struct{ name, short, value string }{{"prompt", "-p", "'" + words + "'"}, {"file", "-f", words}} {
		if findFlag(c.Command, f.short) == nil {
			continue
		}
		if c.IsSet(f.name) || f.name == "file" && c.NArg() > 1 {
			return ""
		}
		return didYouMean(f.short + " " + f.value)
	}
	return ""
}

// programs are those of llama.cpp whose names differ from the command that does their work, and other words for it.
var programs = map[string]string{
	"main": "run, or chat", "cli": "run, or chat", "simple": "run", "simple-chat": "chat", "completion": "run",
	"convert-hf-to-gguf": "convert", "convert-legacy-llama": "convert", "gguf-dump": "inspect", "gguf-split": "split, or merge",
	"gguf-set-metadata": "meta set", "gguf-new-metadata": "meta set",
	"info": "inspect", "show": "inspect", "get": "meta get", "set": "meta set", "rm": "meta rm",
}

// commandOf is the command of the table that does the work of a program of llama.cpp, "" if there is none.
func commandOf(program string, table []*cli.Command) string {
	name := strings.ToLower(filepath.Base(program))
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".py"), ".exe")
	name = strings.TrimPrefix(strings.ReplaceAll(name, "_", "-"), "llama-")
	if slices.Contains(commandNames(table), name) {
		return name
	}
	return programs[name]
}

// standIn is the start of a hint for users of llama.cpp: what does the work of a flag of theirs that a command does not have, "" if
// nothing is known of it.
func standIn(cmd *cli.Command, word string) string {
	texts := findFlag(cmd, "--stop") != nil // run and chat
	switch strings.ReplaceAll(strings.TrimLeft(word, "-"), "_", "-") {
	case "ngl", "gpu-layers", "n-gpu-layers":
		return "leave it out, all layers run on the processor; "
	case "fa", "flash-attn", "mlock", "no-mmap", "mmap", "mmp":
		return "leave it out, there is nothing to choose; "
	case "ub", "ubatch-size":
		return "-b bounds what is computed at once; "
	case "f", "file":
		if texts {
			return "-p \"$(cat FILE)\" takes the text of a file; "
		}
	case "cnv", "conversation", "no-cnv", "no-conversation":
		return "'ggufkit run' takes a text as it is, 'ggufkit chat' talks; "
	case "kl-divergence", "kl-divergence-base":
		return "'ggufkit compare' has it, with --base or --base-file; "
	case "split":
		if cmd.Name == "split" {
			return "leave it out, 'ggufkit split' divides a file; "
		}
	case "merge":
		return "'ggufkit merge' has it; "
	case "no-tensor-first-split":
		return "leave it out, the first part has tensors too; "
	case "sys", "system", "system-prompt", "system-prompt-file":
		if findFlag(cmd, "--system") != nil {
			return didYouMean("--system")
		}
		return "'ggufkit chat' takes a system message, by --system; "
	case "imatrix":
		return "importance matrices are not read yet; "
	}
	return ""
}
