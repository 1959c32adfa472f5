package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/urfave/cli/v2"
)

// permute rewrites a command line so that cli sees what the user meant: flags may stand before or after the arguments,
// a value may look like a flag ("--seed -1"), and llama.cpp's underscores ("--top_p") are taken for hyphens.
// Flags come out as --name=value before a "--", the arguments after it. Unknown commands and flags are usage errors.
func permute(app *cli.App, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	out, rest := args[:1:1], args[1:]
	switch rest[0] {
	case "help": // "help CMD" is "CMD --help"
		rest = append(rest[1:len(rest):len(rest)], "--help")
	case "version":
		rest = []string{"--version"}
	}
	if strings.HasPrefix(rest[0], "-") {
		if slices.Contains([]string{"-h", "-help", "--help", "-v", "-version", "--version"}, rest[0]) {
			return append(out, rest[0]), nil
		}
		return nil, usagef("put the command first: ggufkit COMMAND "+strings.Join(rest, " "), "no command before %s", rest[0])
	}
	cmd, path, rest, err := findCommand(app.Commands, rest)
	if err != nil {
		return nil, err
	}
	name := strings.Join(path, " ")
	flags, positional, err := splitFlags(cmd, name, rest)
	if err != nil {
		return nil, err
	}
	if slices.Contains(flags, "--help") {
		return append(append(out, path...), "--help"), nil // cli would take an argument for a topic
	}
	if err := checkValues(cmd, name, flags); err != nil {
		return nil, err
	}
	if err := checkRequired(cmd, name, flags, positional); err != nil {
		return nil, err
	}
	out = append(append(out, path...), flags...)
	return append(append(out, "--"), positional...), nil
}

// findCommand descends from the table to the command that the leading words of args name.
func findCommand(table []*cli.Command, args []string) (cmd *cli.Command, path, rest []string, err error) {
	for rest = args; ; rest = rest[1:] {
		if len(rest) == 0 || cmd != nil && strings.HasPrefix(rest[0], "-") {
			return cmd, path, rest, nil
		}
		i := slices.IndexFunc(table, func(c *cli.Command) bool { return c.HasName(rest[0]) })
		if i < 0 {
			likely := nearest(rest[0], commandNames(table))
			if cmd == nil {
				likely = cmp.Or(commandOf(rest[0], table), likely)
			}
			return nil, nil, nil, usagef(didYouMean(likely)+"the commands are "+strings.Join(commandNames(table), ", "),
				"there is no command %q", strings.Join(append(path, rest[0]), " "))
		}
		cmd, table = table[i], table[i].Subcommands
		path = append(path, cmd.Name)
		if len(table) == 0 {
			return cmd, path, rest[1:], nil
		}
	}
}

// alone is what flags mean that may stand without a value, as llama.cpp's do.
var alone = map[string]string{"color": "always"}

// splitFlags sorts the words after a command into flags, each as one --name=value, and arguments.
func splitFlags(cmd *cli.Command, path string, args []string) (flags, positional []string, err error) {
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" {
			return flags, append(positional, args[i+1:]...), nil
		}
		if word == "-" || !strings.HasPrefix(word, "-") {
			positional = append(positional, word)
			continue
		}
		name, value, hasValue := strings.Cut(word, "=")
		flag := findFlag(cmd, name)
		if flag == nil {
			hint := fmt.Sprintf("%s'ggufkit %s --help' lists the flags; an argument that starts with '-' goes after '--'",
				cmp.Or(standIn(cmd, name), didYouMean(nearestFlag(cmd, name))), path)
			return nil, nil, usagef(hint, "%s has no flag %s", path, name)
		}
		name = flag.Names()[0]
		if df, ok := flag.(cli.DocGenerationFlag); ok && df.TakesValue() && !hasValue {
			value, hasValue = alone[name]
			if i+1 < len(args) && findFlag(cmd, args[i+1]) == nil {
				i++
				value, hasValue = args[i], true
			}
			if !hasValue {
				return nil, nil, usagef("write --"+name+"=VALUE if the value itself looks like a flag", "%s needs a value", word)
			}
		}
		if hasValue {
			flags = append(flags, "--"+name+"="+value)
		} else {
			flags = append(flags, "--"+name)
		}
	}
	return flags, positional, nil
}

// findFlag finds the flag of a command that a word such as "-n", "--top-p" or "--top_p" names.
func findFlag(cmd *cli.Command, word string) cli.Flag {
	name, ok := strings.CutPrefix(word, "-")
	if !ok {
		return nil
	}
	name = strings.ReplaceAll(strings.TrimPrefix(name, "-"), "_", "-")
	for _, f := range append([]cli.Flag{cli.HelpFlag}, cmd.Flags...) {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

// listFlag is a flag that may be given several times. The library does not see its other names, which permute replaces: to copy the values from one name
// to the next it makes JSON of them, and names of files that are no UTF-8 do not survive that.
type listFlag struct {
	*cli.StringSliceFlag
	names []string
}

// newListFlag takes the other names away from a flag.
func newListFlag(f *cli.StringSliceFlag) listFlag {
	l := listFlag{f, f.Names()}
	f.Aliases = nil
	return l
}

// Names are all names, the main one first.
func (l listFlag) Names() []string { return l.names }

// String is the flag's line in --help.
func (l listFlag) String() string { return flagLine(l) }

// checkValues looks for values that are not of their flag's kind: the library's messages do not tell what is expected.
func checkValues(cmd *cli.Command, path string, flags []string) error {
	for _, f := range flags {
		name, value, ok := strings.Cut(f, "=")
		if !ok {
			continue
		}
		var err error
		var expected string
		switch findFlag(cmd, name).(type) {
		case *cli.BoolFlag:
			expected = "true or false"
			_, err = strconv.ParseBool(value)
		case *cli.IntFlag:
			expected = "a whole number"
			_, err = strconv.ParseInt(value, 0, strconv.IntSize)
		case *cli.Int64Flag:
			expected = "a whole number"
			_, err = strconv.ParseInt(value, 0, 64)
		case *cli.Uint64Flag:
			expected = "a whole number, not below 0"
			_, err = strconv.ParseUint(value, 0, 64)
		case *cli.Float64Flag:
			expected = "a number"
			_, err = strconv.ParseFloat(value, 64)
		}
		hint := "see 'ggufkit " + path + " --help'"
		if errors.Is(err, strconv.ErrRange) {
			return usagef(hint, "%s %s: the number is too large", name, value)
		}
		if err != nil {
			return usagef(hint, "%s %s: expected %s", name, value, expected)
		}
	}
	return nil
}

// checkRequired looks for the flags that a command cannot do without. cli would find them too, but prints its whole help then.
// An argument that names a GGUF file is taken for a model without its flag.
func checkRequired(cmd *cli.Command, path string, flags, positional []string) error {
	given := func(name string) bool {
		return slices.ContainsFunc(flags, func(f string) bool { return f == "--"+name || strings.HasPrefix(f, "--"+name+"=") })
	}
	for _, f := range cmd.Flags {
		if r, ok := f.(cli.RequiredFlag); ok && r.IsRequired() && !given(f.Names()[0]) {
			name, hint := f.Names()[0], ""
			if i := slices.IndexFunc(positional, gguf.IsFileName); i >= 0 && name == "model" {
				hint = didYouMean("-m " + positional[i])
			}
			return usagef(hint+"usage: "+cmd.UsageText, "%s needs --%s", path, name)
		}
	}
	return nil
}
