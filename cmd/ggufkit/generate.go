package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/infer/sample"
	"github.com/ggufkit/ggufkit/tokenizer"
	"github.com/urfave/cli/v2"
)

// generateFlags are those of run and chat.
func generateFlags() []cli.Flag {
	flags := append(modelFlags(),
		&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "the `TEXT` to go on from", Required: true},
		&cli.IntFlag{Name: "predict", Aliases: []string{"n", "n-predict"}, Value: -1, Usage: "stop after `N` tokens (-1: when the model ends or the context is full)"},
		contextFlag("hold at most `N` tokens, prompt and answer together (0: as the model was trained)"),
	)
	return append(append(flags, sampleFlags()...), quietFlag())
}

// generation is what run and chat need to let a model write.
type generation struct {
	*loaded
	tok     *tokenizer.Tokenizer
	sampler *sample.Sampler
	limit   int // most tokens; negative: none
}

// startGeneration loads the model and prepares tokenizer and sampler.
func startGeneration(c *cli.Context, u *ui) (*generation, error) {
	sampler, err := sample.New(samplerOptions(c, rand.Uint64()))
	if err != nil {
		return nil, usagef("see 'ggufkit "+c.Command.Name+" --help'", "%v", err)
	}
	l, err := loadModel(c, u, c.Int("context"))
	if err != nil {
		return nil, err
	}
	tok, err := openTokenizer(u, l.file)
	if err != nil {
		l.close()
		return nil, err
	}
	return &generation{loaded: l, tok: tok, sampler: sampler, limit: c.Int("predict")}, nil
}

// write prints the text that follows the prompt as it comes, in whole characters, and then how fast it was.
func (g *generation) write(ctx context.Context, u *ui, prompt []int32) error {
	if len(prompt) == 0 {
		return fmt.Errorf("%s: the prompt has no tokens to go on from\nhint: give a text; this model puts no token of its own in front", g.file.Path)
	}
	if len(prompt) > g.model.Context {
		return fmt.Errorf("the prompt has %d tokens, the context holds %d\nhint: give a larger context with -c, or a shorter prompt", len(prompt), g.model.Context)
	}
	s, err := g.model.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	stream := g.tok.NewStream()
	count, start := 0, time.Now()
	var first time.Time // when the prompt had been read
	stop, err := infer.Generate(ctx, s, prompt, g.sampler, infer.GenerateOptions{MaxTokens: g.limit, EOG: g.tok.IsEOG}, func(id int32) error {
		if count++; count == 1 {
			first = time.Now()
		}
		text, err := stream.Push(id)
		u.printf("%s", text)
		return cmp.Or(err, u.out.err) // nobody reads on: stop
	})
	if err == nil || count > 0 {
		u.printf("%s\n", stream.Flush())
	}
	if err != nil {
		return err
	}
	if stop == infer.StopLength && count != g.limit {
		u.note("the context is full: %d tokens", s.Len())
	}
	if first.IsZero() {
		first = time.Now()
	}
	u.note("%s", timing("prompt", len(prompt), first.Sub(start)))
	u.note("%s", timing("text", count, time.Since(first)))
	return nil
}

func timing(what string, tokens int, d time.Duration) string {
	return fmt.Sprintf("%s: %d tokens in %.2f s (%.1f per second)", what, tokens, d.Seconds(), float64(tokens)/max(d.Seconds(), 1e-9))
}
