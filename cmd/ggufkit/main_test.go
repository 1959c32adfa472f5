package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ggufkit": main})
}

// TestScripts runs testdata/*.txtar with the real main. Each finds the demo checkpoint as testdata/demo. Beside testscript's
// own commands there are
//
//	exits STATUS PROGRAM ARGS   run a program that must end with this exit status
//	same FILE FILE              the files hold the same bytes
//	differ FILE FILE            they do not
func TestScripts(t *testing.T) {
	demo, err := filepath.Abs("../../testdata/demo")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			if err := os.MkdirAll(e.Getenv("WORK")+"/testdata", 0o777); err != nil {
				return err
			}
			return os.Symlink(demo, e.Getenv("WORK")+"/testdata/demo")
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": scriptExits,
			"same": func(ts *testscript.TestScript, _ bool, args []string) {
				if !sameBytes(ts, args) {
					ts.Fatalf("%s and %s differ", args[0], args[1])
				}
			},
			"differ": func(ts *testscript.TestScript, _ bool, args []string) {
				if sameBytes(ts, args) {
					ts.Fatalf("%s and %s are the same", args[0], args[1])
				}
			},
		},
	})
}

func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM ARGS")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func sameBytes(ts *testscript.TestScript, args []string) bool {
	if len(args) != 2 {
		ts.Fatalf("two files needed")
	}
	a, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	b, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	return bytes.Equal(a, b)
}

func TestPermute(t *testing.T) {
	app := newApp(newUI(nil, nil, nil))
	for _, c := range []struct{ in, want string }{
		{"inspect --json f.gguf", "[inspect --json -- f.gguf]"},
		{"inspect f.gguf --json", "[inspect --json -- f.gguf]"},
		{"inspect -- --json", "[inspect -- --json]"},
		{"inspect -", "[inspect -- -]"},
		{"run -p=-5 -m f --seed -1 -n -1", "[run --prompt=-5 --model=f --seed=-1 --predict=-1 --]"},
		{"run -m f -p x --top_p 0.5 --repeat_penalty=1.1 --ctx-size 9 --n-predict 2", "[run --model=f --prompt=x --top-p=0.5 --repeat-penalty=1.1 --context=9 --predict=2 --]"},
		{"meta set f.gguf a.b=1 -o out c=d", "[meta set --output=out -- f.gguf a.b=1 c=d]"},
		{"meta get --json f k", "[meta get --json -- f k]"},
		{"help convert", "[convert --help]"},
		{"run f.gguf --help", "[run --help]"},
		{"version", "[--version]"},
		{"--version", "[--version]"},
	} {
		var args []string
		for _, f := range bytes.Fields([]byte("ggufkit " + c.in)) {
			args = append(args, string(f))
		}
		got, err := permute(app, args)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
		} else if s := fmt.Sprint(got[1:]); s != c.want {
			t.Errorf("%s: %s, want %s", c.in, s, c.want)
		}
	}
}
