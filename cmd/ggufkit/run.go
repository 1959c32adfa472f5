package main

import (
	"fmt"

	"github.com/ggufkit/ggufkit/infer"
	"github.com/urfave/cli/v2"
)

func runCommand(u *ui) *cli.Command {
	flags := append(append(generateFlags(), consoleFlags()...), traceFlag())
	return &cli.Command{
		Name:      "run",
		Usage:     "go on from a text",
		UsageText: "ggufkit run -m MODEL -p TEXT [flags]",
		Description: `The prompt is taken as it is: no chat template ('ggufkit chat' has one). What follows it comes on stdout as it is made, and how fast it
was on stderr. Of several samples each comes after a line "--- sample 1 of 3, seed 7"; the prompt is computed once for all.
--json prints {"prompt_tokens", "samples": [{"seed", "text", "ids", "finish_reason", "stop_text"}], "timings"} at the end; a text finishes by "stop"
(the model ended it), "stop text" or "length" (-n or the context). With -i you and the model write the text in turns: see 'ggufkit chat --help'.

Examples:
  ggufkit run -m model.gguf -p 'To be, or not' -n 100 --seed 1
  ggufkit run -m model.gguf -p 'The capital of France is' --temp 0 -n 8 -q
  ggufkit run -m model.gguf -p 'Q: Why? A:' --stop 'Q:' --stop $'\n\n' --samples 3 --json
  ggufkit run -m model.gguf -i -r 'User:' -p 'User: Who are you?
  Bot:'
  ggufkit run -m model.gguf -p 'Once upon a time' -n 5000 -c 512 --context-shift --keep 16`,
		Flags:  flags,
		Action: u.action(0, 0, func(c *cli.Context) error { return runText(c, u) }),
	}
}

func runText(c *cli.Context, u *ui) error {
	interactive := c.Bool("interactive")
	if !c.IsSet("prompt") && !interactive {
		return usagef("give a text by -p, or -i for a conversation; usage: "+c.Command.UsageText, "run needs --prompt")
	}
	if err := creatable(c.String("trace"), c.String("model")); err != nil {
		return err
	}
	g, err := startGeneration(c, u, interactive)
	if err != nil {
		return err
	}
	defer g.close()
	if interactive {
		s := &story{generation: g, u: u}
		err = s.interactive(c)
	} else {
		err = g.prompted(c, u)
	}
	if err != nil {
		return err
	}
	return writeTrace(u, c.String("trace"), g.trace, g.file.Path)
}

// contextFull is what to say then.
const contextFull = "the context is full: %d tokens (-c makes it larger, --context-shift goes on)"

// prompted prints the texts that follow --prompt.
func (g *generation) prompted(c *cli.Context, u *ui) error {
	ids, err := g.tok.EncodePrompt(c.String("prompt"), true)
	if err != nil {
		return inFile(g.file.Path, err)
	}
	return g.once(c, u, ids)
}

// once prints the texts that follow a prompt and how fast it was.
func (g *generation) once(c *cli.Context, u *ui, ids []int32) error {
	t, err := g.model.NewTranscript()
	if err != nil {
		return err
	}
	defer t.Close()
	prompt, err := g.read(c.Context, t, ids)
	if err != nil {
		return err
	}
	show := u.show
	if c.Bool("json") {
		show = func(string) error { return nil }
	}
	texts, err := g.samples(c, u, t, ids, show)
	times := g.timings(prompt, texts...)
	switch {
	case err == nil && c.Bool("json"):
		return u.jsonLine(struct {
			Prompt  int     `json:"prompt_tokens"`
			Samples []*text `json:"samples"`
			Timings timings `json:"timings"`
		}{len(ids), texts, times})
	case len(texts) > 0:
		times.note(u)
	}
	return err
}

// samples writes --samples texts that follow what the transcript holds. After an error the last one is as long as it was then.
func (g *generation) samples(c *cli.Context, u *ui, t *infer.Transcript, ids []int32, show func(string) error) (texts []*text, err error) {
	n := max(c.Int("samples"), 1)
	for i := range n {
		seed := g.sampler.Seed + uint64(i)
		if n > 1 {
			_ = show(fmt.Sprintf("--- sample %d of %d, seed %d\n", i+1, n, seed))
		}
		fork := t.Fork()
		text, err := g.write(c.Context, fork, ids, seed, show)
		fork.Close()
		if text != nil && (err == nil || len(text.IDs) > 0) {
			_ = show("\n")
			texts = append(texts, text)
		}
		if err != nil {
			return texts, err
		}
		if text.full(g.limits.MaxTokens) {
			u.note(contextFull, g.model.Context)
		}
	}
	return texts, nil
}
