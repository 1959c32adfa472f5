package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagLine is a flag's line in --help: main and short name, placeholder, meaning, default. The names that other programs give it work
// too, but would bury the rest. Within a category the library sorts the lines.
func flagLine(f cli.Flag) string {
	d, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return ""
	}
	names := "--" + d.Names()[0]
	for _, alias := range d.Names()[1:] {
		if len(alias) == 1 {
			names += ", -" + alias
			break
		}
	}
	usage := d.GetUsage()
	if d.TakesValue() {
		placeholder := "VALUE"
		if _, rest, ok := strings.Cut(usage, "`"); ok {
			placeholder, _, _ = strings.Cut(rest, "`")
		}
		names += " " + placeholder
	}
	usage = strings.ReplaceAll(usage, "`", "")
	// 0 is said only where it means something, by the usage itself.
	if text := d.GetDefaultText(); d.TakesValue() && text != "" && text != "0" {
		usage = fmt.Sprintf("%s (default: %s)", usage, text)
	}
	return names + "\t" + usage
}
