package lint

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines = 600
	maxFuncLines = 80
	// tableMarker in a file exempts it from the limits of length: it is one table. The reason follows the marker.
	tableMarker = "//lint:table "
)

// source is one Go file.
type source struct {
	path string // relative to the root, with slashes
	file *ast.File
	fset *token.FileSet
	data []byte
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) exempt() bool {
	return ast.IsGenerated(s.file) || bytes.Contains(s.data, []byte("\n"+tableMarker))
}

func (s source) line(p token.Pos) int { return s.fset.Position(p).Line }

// root is the folder of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// walk calls f for every file of the tree that is not ignored by .gitignore's folders.
func walk(t *testing.T, f func(path string, read func() []byte)) {
	t.Helper()
	dir := root(t)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if slices.Contains(ignoredFolders(t, dir), "/"+rel+"/") || rel == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			f(rel, func() []byte {
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				return b
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ignoredFolders are the lines of .gitignore that name a folder of the root: "/models/".
func ignoredFolders(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// sources parses every Go file of the tree.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	walk(t, func(path string, read func() []byte) {
		if !strings.HasSuffix(path, ".go") {
			return
		}
		s := source{path: path, fset: token.NewFileSet(), data: read()}
		file, err := parser.ParseFile(s.fset, path, s.data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s.file = file
		all = append(all, s)
	})
	if len(all) == 0 {
		t.Fatal("no Go files found")
	}
	return all
}

func TestLengths(t *testing.T) {
	for _, s := range sources(t) {
		if s.exempt() {
			continue
		}
		if n := bytes.Count(s.data, []byte("\n")); n > maxFileLines {
			t.Errorf("%s: %d lines, the limit is %d", s.path, n, maxFileLines)
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				if n := s.line(f.End()) - s.line(f.Pos()) + 1; n > maxFuncLines {
					t.Errorf("%s:%d: %s has %d lines, the limit is %d", s.path, s.line(f.Pos()), f.Name.Name, n, maxFuncLines)
				}
			}
		}
	}
}

func TestNoInit(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s:%d: init() hides what runs; make it an explicit call or value", s.path, s.line(f.Pos()))
			}
		}
	}
}

func TestPackageNames(t *testing.T) {
	for _, s := range sources(t) {
		name := strings.TrimSuffix(s.file.Name.Name, "_test")
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc"}, name) {
			t.Errorf("%s: package %s says nothing about what is in it", s.path, name)
		}
	}
}

// TestNoSkips: a check that may not run is no check. What needs data from elsewhere has a build tag, and fails without it.
func TestNoSkips(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
				if x, ok := sel.X.(*ast.Ident); ok && slices.Contains([]string{"t", "f", "tb"}, x.Name) {
					t.Errorf("%s:%d: a test skips itself", s.path, s.line(n.Pos()))
				}
			}
			return true
		})
	}
}

func TestExportedNamesAreDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || s.file.Name.Name == "main" || ast.IsGenerated(s.file) {
			continue
		}
		covered := 0 // the last line of a run of functions, without blank lines between, that starts with a comment
		for _, d := range s.file.Decls {
			f, isFunc := d.(*ast.FuncDecl)
			if isFunc && (f.Doc != nil || s.line(f.Pos()) == covered+1) {
				covered = s.line(f.End())
				continue
			}
			for _, name := range undocumented(d) {
				t.Errorf("%s:%d: %s is exported and has no comment", s.path, s.line(d.Pos()), name)
			}
		}
	}
}

// undocumented lists the exported names of a declaration that no comment covers. A comment on a group covers the group.
func undocumented(d ast.Decl) []string {
	var names []string
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !wellKnown(d) {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		if d.Doc != nil {
			return nil
		}
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && spec.Doc == nil {
					names = append(names, spec.Name.Name)
				}
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					if n.IsExported() && spec.Doc == nil && spec.Comment == nil {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// exportedReceiver reports whether a function, or the type that a method belongs to, is visible outside.
func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	e := f.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// wellKnown methods say by their name alone what they do.
func wellKnown(f *ast.FuncDecl) bool {
	return f.Recv != nil && slices.Contains([]string{"Error", "Unwrap", "Is", "String", "Read", "Write", "Len", "Less", "Swap"}, f.Name.Name)
}

// TestTreeNamesNoMachine: the tree speaks of no folder of someone's machine and of no package registry.
func TestTreeNamesNoMachine(t *testing.T) {
	words := []string{"/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/fa" + "rm/", "/Use" + "rs/",
		"proxy.gol" + "ang.org", "pypi." + "org", "registry." + "npmjs", "deb." + "debian", "files.python" + "hosted"}
	text := []string{".go", ".md", ".py", ".sh", ".txtar", ".s", ".mod", ".yml", ""}
	walk(t, func(path string, read func() []byte) {
		if !slices.Contains(text, filepath.Ext(path)) {
			return
		}
		data := read()
		for _, w := range words {
			if i := bytes.Index(data, []byte(w)); i >= 0 {
				t.Errorf("%s:%d: %s", path, 1+bytes.Count(data[:i], []byte("\n")), w)
			}
		}
	})
}

// TestAssemblyHasItsPlace: machine code is in internal/kernel, beside its portable twin, and nowhere else.
func TestAssemblyHasItsPlace(t *testing.T) {
	walk(t, func(path string, _ func() []byte) {
		if ext := filepath.Ext(path); (ext == ".s" || ext == ".c" || ext == ".syso") && !strings.HasPrefix(path, "internal/kernel/") {
			t.Errorf("%s: assembly outside internal/kernel", path)
		}
	})
}
