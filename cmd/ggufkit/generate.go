package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/infer/sample"
	"github.com/ggufkit/ggufkit/internal/cpu"
	"github.com/ggufkit/ggufkit/tokenizer"
	"github.com/urfave/cli/v2"
)

// generateFlags are those of run and chat.
func generateFlags() []cli.Flag {
	flags := append(modelFlags(),
		&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "the `TEXT` to go on from"},
		&cli.IntFlag{Name: "predict", Aliases: []string{"n", "n-predict"}, Value: -1, Usage: "stop after `N` tokens (-1: when the model ends or the context is full)"},
		contextFlag("hold at most `N` tokens, prompt and answer together (0: as the model was trained)"),
		&cli.StringSliceFlag{Name: "stop", Aliases: []string{"r", "reverse-prompt"}, KeepSpace: true, Usage: "end before the model writes `TEXT` (may be given several times)"},
		&cli.BoolFlag{Name: "context-shift", Usage: "when the context is full, drop the older half of what --keep does not hold, and go on"},
		&cli.IntFlag{Name: "keep", Usage: "with --context-shift, hold the first `N` tokens of the prompt (-1: all; the model's BOS always; chat: the system's message)"},
		&cli.IntFlag{Name: "samples", Value: 1, Usage: "write `N` texts that follow the prompt, with the seeds SEED, SEED+1, ..."},
	)
	flags = append(flags, sampleFlags()...)
	return append(flags, jsonFlag(), quietFlag(), &cli.BoolFlag{Name: "verbose", Usage: "tell what the model takes and what computes it"})
}

// generation is what run and chat need to let a model write.
type generation struct {
	*loaded
	tok     *tokenizer.Tokenizer
	sampler sample.Options // its seed is that of the first text
	limits  infer.GenerateOptions
	stops   []string
	loading time.Duration
}

// maxSamples bounds --samples.
const maxSamples = 1 << 16

// checkGeneration makes generateFlags that make no sense wrong usage.
func checkGeneration(c *cli.Context, interactive bool) error {
	switch n, keep := c.Int("samples"), c.Int("keep"); {
	case slices.Contains(c.StringSlice("stop"), ""):
		return usagef("leave it out, the model then ends by itself", "--stop: the text is empty")
	case keep < -1:
		return usagef("", "--keep %d: expected -1 or more", keep)
	case n < 1 || n > maxSamples:
		return usagef("", "--samples %d: expected 1 to %d", n, maxSamples)
	case interactive && (c.Bool("json") || c.IsSet("samples")):
		return usagef("leave out --json and --samples, or give -p without -i", "taking turns writes one text, as it comes")
	}
	return nil
}

// startGeneration loads the model and prepares tokenizer and sampler.
func startGeneration(c *cli.Context, u *ui, interactive bool) (*generation, error) {
	if err := checkGeneration(c, interactive); err != nil {
		return nil, err
	}
	start := time.Now()
	g := &generation{sampler: samplerOptions(c, uint64(rand.Uint32())), stops: c.StringSlice("stop")}
	if _, err := sample.New(g.sampler); err != nil {
		return nil, usagef("see 'ggufkit "+c.Command.Name+" --help'", "%v", err)
	}
	var err error
	if g.loaded, err = loadModel(c, u, c.Int("context")); err != nil {
		return nil, err
	}
	if g.tok, err = openTokenizer(u, g.file); err != nil {
		g.close()
		return nil, err
	}
	g.limits = infer.GenerateOptions{MaxTokens: c.Int("predict"), EOG: g.tok.IsEOG, Shift: c.Bool("context-shift"), Keep: c.Int("keep")}
	if c.Bool("ignore-eos") {
		for id := range int32(len(g.tok.Vocab.Tokens)) {
			if g.tok.IsEOG(id) {
				g.sampler.Forbidden = append(g.sampler.Forbidden, id)
			}
		}
	}
	g.loading = time.Since(start)
	if c.Bool("verbose") {
		g.describe(u)
	}
	return g, nil
}

// describe tells what the model takes and what computes it.
func (g *generation) describe(u *ui) {
	m := g.model.Memory()
	level, _ := cpu.Choose()
	u.note("kernels: %s, %s", level, plural(m.Threads, "thread"))
	u.note("weights: %s, shared with other processes that run the file", size(m.Weights))
	u.note("cache: %s a token in %s, %s for a full context of %d tokens", size(m.CachePosition), m.CacheType, size(m.Cache), m.Context)
	u.note("scratch: %s for batches of %d tokens", size(m.Scratch), m.Batch)
	u.note("program: about %s, the tokenizer included; %s of its own in all, the weights aside", size(m.Fixed), size(m.Anonymous()))
	u.note("seed: %d", g.sampler.Seed)
}

// text is what a model wrote, and how.
type text struct {
	Seed     uint64           `json:"seed"`
	Text     string           `json:"text"`
	IDs      []int32          `json:"ids"`
	Reason   infer.StopReason `json:"finish_reason"`
	StopText string           `json:"stop_text,omitempty"`
	took     time.Duration
}

// full reports whether it ended since the context was full.
func (t *text) full(limit int) bool { return t.Reason == infer.StopLength && len(t.IDs) != limit }

// read makes a transcript hold a prompt and tells how many of its tokens had to be computed, and how long that took.
func (g *generation) read(ctx context.Context, t *infer.Transcript, prompt []int32) (stage, error) {
	if len(prompt) == 0 {
		return stage{}, fmt.Errorf("%s: the prompt has no tokens to go on from\nhint: give a text; this model puts no token of its own in front", g.file.Path)
	}
	if len(prompt) > g.model.Context {
		return stage{}, fmt.Errorf("the prompt has %d tokens, the context holds %d\nhint: give a larger context with -c, or a shorter prompt", len(prompt), g.model.Context)
	}
	start := time.Now()
	_, reused, err := t.Run(ctx, prompt)
	return newStage(len(prompt)-reused, time.Since(start)), err
}

// write lets the model go on from a prompt. show gets the text as it comes, in whole characters and without stop texts. After an
// error the text is what came until then.
func (g *generation) write(ctx context.Context, t *infer.Transcript, prompt []int32, seed uint64, show func(string) error) (*text, error) {
	o := g.sampler
	o.Seed = seed
	sampler, err := sample.New(o)
	if err != nil {
		return nil, err
	}
	out, start := &text{Seed: seed, IDs: []int32{}}, time.Now()
	var all strings.Builder
	put := func(s string) error {
		all.WriteString(s)
		return show(s)
	}
	stream, stops := g.tok.NewStream(), infer.NewStops(g.stops)
	out.Reason, err = infer.Generate(ctx, t, prompt, sampler, g.limitsFor(prompt), func(id int32) error {
		out.IDs = append(out.IDs, id)
		piece, err := stream.Push(id)
		if err != nil {
			return err
		}
		piece, done := stops.Push(piece)
		if done {
			err = infer.ErrStop
		}
		return cmp.Or(put(piece), err)
	})
	if out.Reason != infer.StopText {
		rest, _ := stops.Push(stream.Flush())
		err = cmp.Or(err, put(rest+stops.Flush()))
	}
	out.Text, out.StopText, out.took = all.String(), stops.Found(), time.Since(start)
	return out, err
}

// show prints a part of a text. A terminal gets no characters that it would act on. An error says that nobody reads on.
func (u *ui) show(s string) error {
	if isTerminal(u.out.w) {
		s = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				return unicode.ReplacementChar
			}
			return r
		}, s)
	}
	u.printf("%s", s)
	return u.out.err
}

// limitsFor are the limits with the number of tokens to keep of a prompt.
func (g *generation) limitsFor(prompt []int32) infer.GenerateOptions {
	o := g.limits
	if o.Keep < 0 {
		o.Keep = len(prompt)
	}
	if bos := g.tok.Vocab.BOS; bos >= 0 && prompt[0] == bos {
		o.Keep = max(o.Keep, 1)
	}
	return o
}

// stage is how long a number of steps of a generation took. The prompt has a step for each token; a text has one less, since its first token comes
// from the prompt.
type stage struct {
	Tokens          int     `json:"tokens"`
	Seconds         float64 `json:"seconds"`
	MsPerToken      float64 `json:"ms_per_token"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	steps           int
}

func newStage(steps int, took time.Duration) stage {
	s := stage{Tokens: steps, Seconds: took.Seconds(), steps: steps}
	if steps > 0 {
		s.MsPerToken = s.Seconds * 1000 / float64(steps)
		s.TokensPerSecond = float64(steps) / max(s.Seconds, 1e-9)
	}
	return s
}

// add adds a stage.
func (s *stage) add(o stage) {
	*s = newStage(s.steps+o.steps, time.Duration((s.Seconds+o.Seconds)*float64(time.Second)))
}

// timings are those of one command.
type timings struct {
	Load   float64 `json:"load_seconds"`
	Prompt stage   `json:"prompt"`
	Text   stage   `json:"text"`
}

// timings sums up texts that followed one prompt.
func (g *generation) timings(prompt stage, texts ...*text) timings {
	var took time.Duration
	tokens, steps := 0, 0
	for _, t := range texts {
		took += t.took
		tokens += len(t.IDs)
		steps += max(len(t.IDs)-1, 0)
	}
	t := timings{Load: g.loading.Seconds(), Prompt: prompt, Text: newStage(steps, took)}
	t.Text.Tokens = tokens
	return t
}

// note tells how fast it was.
func (t timings) note(u *ui) {
	u.note("load: %.2f s", t.Load)
	u.note("prompt: %s", t.Prompt)
	u.note("text: %s", t.Text)
}

func (s stage) String() string {
	out := plural(s.Tokens, "token")
	if s.steps != s.Tokens {
		out += ", " + plural(s.steps, "step") + ","
	}
	out += fmt.Sprintf(" in %.2f s", s.Seconds)
	if s.steps > 0 {
		out += fmt.Sprintf(" (%.2f ms per token, %.1f tokens per second)", s.MsPerToken, s.TokensPerSecond)
	}
	return out
}
