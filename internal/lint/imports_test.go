package lint

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ggufkit/ggufkit"

// rule is one package of the import table. A package may import packages of lower levels; below narrows that to a list of
// packages and whole levels ("level 0"), also names what it may use of its own level. third lists modules from outside.
type rule struct {
	pkg   string
	level int
	below []string
	also  []string
	third []string
}

const (
	jsonModule = "github.com/go-json-experiment/json"
	sysModule  = "golang.org/x/sys"
)

// table is the architecture. A package that is not here may not exist.
var table = []rule{
	{pkg: "internal/half", level: 0, third: []string{sysModule}},
	{pkg: "internal/cpu", level: 0, third: []string{sysModule}},
	{pkg: "internal/mmap", level: 0, third: []string{sysModule}},
	{pkg: "internal/par", level: 0, third: []string{sysModule}},
	{pkg: "internal/atomicfile", level: 0, third: []string{sysModule}},
	{pkg: "internal/spelling", level: 0},

	{pkg: "gguf", level: 1},
	{pkg: "convert/checkpoint", level: 1, third: []string{"github.com/nlpodyssey/safetensors", "github.com/nlpodyssey/gopickle", jsonModule}},
	{pkg: "tokenizer/chat", level: 1, third: []string{jsonModule}},

	{pkg: "arch", level: 2, below: []string{"level 0", "gguf"}},
	{pkg: "tokenizer", level: 2, below: []string{"level 0", "gguf"},
		third: []string{"golang.org/x/text", "github.com/dlclark/regexp2/v2", "google.golang.org/protobuf", jsonModule}},
	{pkg: "quantize/block", level: 2, below: []string{"level 0", "gguf"}},

	{pkg: "internal/kernel", level: 3},
	{pkg: "quantize/mix", level: 3},
	{pkg: "quantize/encode", level: 3, also: []string{"internal/kernel"}},
	{pkg: "infer/sample", level: 3, also: []string{"internal/kernel"}},

	{pkg: "convert", level: 4, third: []string{jsonModule, "go.yaml.in/yaml/v3"}},
	{pkg: "quantize", level: 4},
	{pkg: "inspect", level: 4},
	{pkg: "infer", level: 4},

	{pkg: "infer/eval", level: 5},
	{pkg: "serve", level: 5},

	{pkg: "cmd/ggufkit", level: 6, third: []string{"github.com/urfave/cli/v2", "github.com/schollz/progressbar/v3",
		"github.com/olekukonko/tablewriter", "github.com/fatih/color", "github.com/peterh/liner", "golang.org/x/term", sysModule}},

	{pkg: "internal/benchpeers", level: 6},

	{pkg: "internal/testkit", level: testOnly, third: testModules},
	{pkg: "internal/lint", level: testOnly},
}

// testOnly is the level of packages that tests alone may import.
const testOnly = 7

// testModules may be used by any test and by nothing else.
var testModules = []string{"github.com/rogpeppe/go-internal", "github.com/google/go-cmp", "pgregory.net/rapid", jsonModule}

// listed is what "go list -json" says about a package.
type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func TestImports(t *testing.T) {
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		i := slices.IndexFunc(table, func(r rule) bool { return r.pkg == name })
		if i < 0 {
			t.Errorf("%s: the package is not in the import table of internal/lint", name)
			continue
		}
		for _, imp := range p.Imports {
			if why := table[i].forbids(imp); why != "" {
				t.Errorf("%s imports %s: %s", name, imp, why)
			}
		}
		// Tests may import any package of the module, and the modules for tests.
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			if foreign(imp) && !within(imp, testModules) && !within(imp, table[i].third) {
				t.Errorf("a test of %s imports %s: not among the modules for tests", name, imp)
			}
		}
	}
}

// forbids says why the package may not import imp, "" if it may.
func (r rule) forbids(imp string) string {
	name, ours := strings.CutPrefix(imp, module+"/")
	if !ours {
		if foreign(imp) && !within(imp, r.third) {
			return "the table gives it no such module"
		}
		return ""
	}
	i := slices.IndexFunc(table, func(o rule) bool { return o.pkg == name })
	switch {
	case i < 0:
		return "not in the table"
	case slices.Contains(r.also, name):
		return ""
	case table[i].level >= r.level:
		return "imports go to a lower level only"
	case r.below == nil, slices.Contains(r.below, name), table[i].level == 0 && slices.Contains(r.below, "level 0"):
		return ""
	}
	return "the table allows it " + strings.Join(r.below, " and ") + " only"
}

// foreign reports whether an import path is outside the standard library and this module.
func foreign(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return strings.Contains(first, ".") && !strings.HasPrefix(imp, module)
}

// within reports whether a package belongs to one of the modules.
func within(imp string, modules []string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return imp == m || strings.HasPrefix(imp, m+"/") })
}

// listPackages asks the Go tool, for each platform that has files of its own.
func listPackages(t *testing.T) []listed {
	t.Helper()
	var all []listed
	for _, goos := range []string{"linux", "windows"} {
		cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "-tags=oracle,e2e", "./...")
		cmd.Dir = root(t)
		cmd.Env = append(cmd.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		dec := json.NewDecoder(strings.NewReader(string(out)))
		for {
			var p listed
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
	}
	return all
}

// TestTableForbids keeps the checker itself honest.
func TestTableForbids(t *testing.T) {
	find := func(pkg string) rule {
		return table[slices.IndexFunc(table, func(r rule) bool { return r.pkg == pkg })]
	}
	for _, c := range []struct {
		pkg, imp string
		allowed  bool
	}{
		{"gguf", module + "/internal/mmap", true},
		{"gguf", module + "/arch", false},
		{"arch", module + "/gguf", true},
		{"arch", module + "/infer/sample", false},
		{"infer", module + "/convert", false},
		{"infer", module + "/quantize/encode", true},
		{"quantize/encode", module + "/internal/kernel", true},
		{"quantize/mix", module + "/internal/kernel", false},
		{"cmd/ggufkit", module + "/internal/testkit", false},
		{"gguf", "github.com/urfave/cli/v2", false},
		{"cmd/ggufkit", "github.com/urfave/cli/v2", true},
		{"inspect", "encoding/json", true},
	} {
		if why := find(c.pkg).forbids(c.imp); (why == "") != c.allowed {
			t.Errorf("%s importing %s: allowed is %v, want %v (%s)", c.pkg, c.imp, why == "", c.allowed, why)
		}
	}
}
