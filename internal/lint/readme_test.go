package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// TestReadmeCommandsAreScripts: every ggufkit command in a code block of the README stands, word for word, in a test script.
func TestReadmeCommandsAreScripts(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(root(t), "cmd", "ggufkit", "testdata", "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no test scripts (%v)", err)
	}
	var tested []string
	for _, path := range scripts {
		for _, line := range lines(t, path) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "! ")
			if command, ok := strings.CutPrefix(line, "exec "); ok {
				tested = append(tested, command)
			}
		}
	}
	commands := readmeCommands(lines(t, filepath.Join(root(t), "README.md")))
	if len(commands) == 0 {
		t.Fatal("the README shows no command")
	}
	for _, c := range commands {
		if !slices.Contains(tested, c) {
			t.Errorf("README: no script of cmd/ggufkit/testdata runs: %s", c)
		}
	}
}

// TestReadmeTable: the README's table of what can be done names every architecture and every type that is written, and no other.
func TestReadmeTable(t *testing.T) {
	var architectures, types []string
	for _, s := range arch.All {
		if !slices.Contains(architectures, s.Name) {
			architectures = append(architectures, s.Name)
		}
	}
	for _, typ := range block.Types() {
		types = append(types, typ.String())
	}
	readme := lines(t, filepath.Join(root(t), "README.md"))
	for _, c := range []struct {
		row, name string // name is how a listed one is written
		want      []string
	}{
		{"architectures to convert and run", "`([a-z0-9]+)`", architectures},
		{"types to write and run", `\b(I?Q\d_\w+|B?F\d+)\b`, types},
	} {
		i := slices.IndexFunc(readme, func(line string) bool { return strings.HasPrefix(line, "| "+c.row+" |") })
		if i < 0 {
			t.Errorf("README: no row %q", c.row)
			continue
		}
		var got []string
		for _, m := range regexp.MustCompile(c.name).FindAllStringSubmatch(strings.Split(readme[i], "|")[2], -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("README: %s: %v, want %v", c.row, got, c.want)
		}
	}
}

// readmeCommands are the lines of code blocks that start with ggufkit, without comments.
func readmeCommands(lines []string) []string {
	var commands []string
	inBlock := false
	for _, line := range lines {
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		if strings.HasPrefix(line, "```") {
			inBlock = !inBlock
		}
		if inBlock && strings.HasPrefix(line, "ggufkit ") {
			command, _, _ := strings.Cut(line, "  #")
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	return commands
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(b), "\n")
}
