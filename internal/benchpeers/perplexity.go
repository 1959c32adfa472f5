package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
)

// perplexityRun is a perplexity run of some windows of a text.
type perplexityRun struct {
	text   string
	chunks int
}

// perplexityArgs are the command line of a perplexity run.
func (p *program) perplexityArgs(model string, threads int, t test) []string {
	var args []string
	if p.kind == ggufkitPerplexity {
		args = append(args, "perplexity")
	}
	args = append(args, "-m", model, "-f", t.perplexity.text, "-t", strconv.Itoa(threads), "-c", strconv.Itoa(window), "-b", strconv.Itoa(window), "--chunks", strconv.Itoa(t.perplexity.chunks))
	if p.kind == ggufkitPerplexity {
		return append(args, "--json", "-q")
	}
	return append(args, "--log-prefix", "--log-timestamps")
}

// window is the context of a perplexity run, and its batch.
const window = 512

// logTime is the time that begins an entry of llama.cpp's log, in minutes, seconds, milliseconds and microseconds. What stands before it on the line is
// the rest of an entry that went elsewhere.
const logTime = `(\d+)\.(\d\d)\.(\d{3})\.(\d{3}) \S (?:\w+: )?`

var (
	logStart = regexp.MustCompile(logTime + `calculating perplexity over (\d+) chunks, n_ctx=(\d+)`)
	logEnd   = regexp.MustCompile(logTime + `Final estimate: PPL = ([0-9.]+)`)
)

// parseLog reads how fast a run of llama-perplexity was, and the perplexity, from its log. The time of loading is left out, as it is with ours.
func parseLog(log []byte) (measured, error) {
	start, end := logStart.FindSubmatch(log), logEnd.FindSubmatch(log)
	if start == nil || end == nil {
		return measured{}, fmt.Errorf("the log tells no start or no end of the calculation\n%s", tail(log))
	}
	number := func(text []byte) float64 {
		x, _ := strconv.ParseFloat(string(text), 64) // digits, or 0 where they are too many
		return x
	}
	clock := func(line [][]byte) float64 {
		return 60*number(line[1]) + number(line[2]) + number(line[3])/1e3 + number(line[4])/1e6
	}
	seconds, tokens := clock(end)-clock(start), number(start[5])*number(start[6])
	if !(seconds > 0 && tokens > 0) {
		return measured{}, fmt.Errorf("%g tokens in %g s", tokens, seconds)
	}
	return measured{Rates: []float64{tokens / seconds}, perplexity: number(end[5])}, nil
}

// parseOurs reads what ggufkit perplexity --json printed.
func parseOurs(out []byte) (measured, error) {
	var r struct {
		Perplexity float64
		Rate       float64 `json:"tokens_per_second"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return measured{}, err
	}
	if !(r.Rate > 0) {
		return measured{}, fmt.Errorf("no rate in %q", out)
	}
	return measured{Rates: []float64{r.Rate}, perplexity: r.Perplexity}, nil
}
