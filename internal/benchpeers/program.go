package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ggufkit/ggufkit/infer/eval"
)

// kind is what a program's command line is like.
type kind int

const (
	ggufkit kind = iota
	llamaCPP
	ikLlama
	ggufkitPerplexity
	llamaPerplexity
)

// program is something that measures.
type program struct {
	name, path string
	kind       kind
	flags      []string // besides those of a test
}

// measured is what a program says of one test.
type measured struct {
	Rates       []float64 `json:"samples_ts"` // tokens a second of each run
	Prompt      int       `json:"n_prompt"`
	Gen         int       `json:"n_gen"`
	Depth       int       `json:"n_depth"`
	Threads     int       `json:"n_threads"`
	ShareOfPeak float64   `json:"share_of_peak"`    // ours alone has these
	ShareOfRead float64   `json:"share_of_reading"` //

	perplexity float64 // of a perplexity run
	others     float64 // processors that other programs kept busy
}

// best is the fastest run.
func (m *measured) best() float64 { return slices.Max(m.Rates) }

// args are the command line of a test, with some runs after a warm-up.
func (p *program) args(model string, threads int, t test, runs int) []string {
	if p.kind == ggufkitPerplexity || p.kind == llamaPerplexity {
		return p.perplexityArgs(model, threads, t)
	}
	var args []string
	if p.kind == ggufkit {
		args = append(args, "bench")
	}
	args = append(args, "-m", model, "-t", strconv.Itoa(threads), "-r", strconv.Itoa(runs), "-o", "json")
	if t.Depth > 0 && p.kind == ikLlama { // which takes no depth, but times what follows a prompt
		args = append(args, "-p", "0", "-n", "0", "-gp", fmt.Sprintf("%d,%d", t.Depth, t.Gen))
	} else {
		args = append(args, "-p", strconv.Itoa(t.Prompt), "-n", strconv.Itoa(t.Gen))
		if t.Depth > 0 {
			args = append(args, "-d", strconv.Itoa(t.Depth))
		}
	}
	return append(args, p.flags...)
}

// measure runs a test.
func (p *program) measure(ctx context.Context, model string, threads int, t test, runs int) (measured, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, p.path, p.args(model, threads, t, runs)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// The peers' libraries lie beside the program.
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Dir(p.path)+string(os.PathListSeparator)+os.Getenv("LD_LIBRARY_PATH"))
	watch := eval.WatchBusy()
	if err := cmd.Run(); err != nil {
		return measured{}, fmt.Errorf("%s: %w\n%s", cmd, err, tail(stderr.Bytes()))
	}
	others, _ := watch.Others(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
	m, err := p.parse(stdout.Bytes(), stderr.Bytes())
	if err != nil {
		return measured{}, fmt.Errorf("%s: %w", cmd, err)
	}
	if m.perplexity == 0 && (m.Threads != threads || m.Gen != t.Gen || m.Prompt+m.Depth != t.Prompt+t.Depth) {
		return measured{}, fmt.Errorf("%s: it measured something else: %+v", cmd, m)
	}
	m.others = others
	return m, nil
}

// parse reads what a run has printed.
func (p *program) parse(stdout, stderr []byte) (measured, error) {
	switch p.kind {
	case ggufkitPerplexity:
		return parseOurs(stdout)
	case llamaPerplexity:
		return parseLog(append(stdout, stderr...)) // versions differ in which of them has the log
	}
	return parseResult(stdout)
}

// tail is the end of a program's complaints.
func tail(text []byte) []byte { return text[max(0, len(text)-2000):] }

// parseResult reads the one result of a list in JSON. Lines before it are what the program had to say.
func parseResult(out []byte) (measured, error) {
	start := 0
	if !bytes.HasPrefix(out, []byte("[")) {
		start = bytes.Index(out, []byte("\n[")) + 1
		if start == 0 {
			return measured{}, errors.New("the output has no list in JSON")
		}
	}
	var list []measured
	if err := json.NewDecoder(bytes.NewReader(out[start:])).Decode(&list); err != nil {
		return measured{}, err
	}
	if len(list) != 1 || len(list[0].Rates) == 0 || !(slices.Min(list[0].Rates) > 0) {
		return measured{}, fmt.Errorf("the output has %d results, or one without rates", len(list))
	}
	return list[0], nil
}
