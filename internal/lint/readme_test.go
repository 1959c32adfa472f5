package lint

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
