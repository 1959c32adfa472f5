package main

import (
	"context"
	"fmt"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer/eval"
	"github.com/ggufkit/ggufkit/tokenizer"
	"github.com/urfave/cli/v2"
)

func perplexityCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "perplexity",
		Usage:     "measure how well a model predicts a text",
		UsageText: "ggufkit perplexity -m MODEL -f TEXT [-c 512] [--chunks N] [flags]",
		Description: `The text is cut into windows of the context; of each the second half is scored, as llama-perplexity does it.
The running estimate goes to stderr about ten times.

Example:
  ggufkit perplexity -m model.gguf -f heldout.txt --chunks 8`,
		Flags: append(modelFlags(),
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "the text `FILE`", Required: true, TakesFile: true},
			contextFlag("windows of `N` tokens (0: 512)"),
			&cli.IntFlag{Name: "chunks", Usage: "stop after `N` windows (0: the whole text)"},
			jsonFlag(), quietFlag()),
		Action: u.action(0, 0, func(c *cli.Context) error { return perplexity(c, u) }),
	}
}

func perplexity(c *cli.Context, u *ui) error {
	window := c.Int("context")
	if window == 0 {
		window = 512
	}
	l, err := loadModel(c, u, window)
	if err != nil {
		return err
	}
	defer l.close()
	ids, bos, err := textIDs(c.Context, u, l.file, c.String("file"))
	if err != nil {
		return err
	}
	r, err := eval.Perplexity(c.Context, l.model, ids, eval.PerplexityOptions{
		Windows:  eval.Windows{Context: window, Chunks: c.Int("chunks"), BOS: bos},
		Progress: newTenths(u).perplexity,
	})
	if err != nil {
		return err
	}
	return printPerplexity(c, u, r)
}

func printPerplexity(c *cli.Context, u *ui, r eval.PerplexityResult) error {
	if c.Bool("json") {
		return u.json(r)
	}
	u.printf("perplexity %.4f +/- %.4f over %d tokens in %s of %d\n", r.Perplexity, r.StdErr, r.Tokens, plural(r.Chunks, "window"), r.Context)
	return nil
}

// tenths tells a running estimate about ten times.
type tenths struct {
	u    *ui
	told int
}

func newTenths(u *ui) *tenths { return &tenths{u: u} }

func (t *tenths) note(done, total int, format string, args ...any) {
	if now := done * 10 / total; now > t.told {
		t.told = now
		t.u.note("window %d of %d: "+format, append([]any{done, total}, args...)...)
	}
}

func (t *tenths) perplexity(done, total int, running eval.PerplexityResult) {
	t.note(done, total, "perplexity %.4f", running.Perplexity)
}

// textIDs tokenizes a text file with the model's tokenizer. bos is the id that starts each window, -1 where the model has none.
func textIDs(ctx context.Context, u *ui, f *gguf.File, path string) (ids []int32, bos int32, err error) {
	tok, err := openTokenizer(u, f)
	if err != nil {
		return nil, 0, err
	}
	text, err := readText(ctx, path)
	if err != nil {
		return nil, 0, err
	}
	if ids, err = tok.Encode(text, tokenizer.EncodeOptions{AddSpecial: true}); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", path, err)
	}
	return ids, startOf(tok), nil
}

// windowBOS is the bos of textIDs alone.
func windowBOS(u *ui, f *gguf.File) (int32, error) {
	tok, err := openTokenizer(u, f)
	if err != nil {
		return 0, err
	}
	return startOf(tok), nil
}

func startOf(tok *tokenizer.Tokenizer) int32 {
	if bos, ok := tok.AddsBOS(); ok {
		return bos
	}
	return -1
}
