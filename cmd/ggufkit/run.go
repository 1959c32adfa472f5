package main

import "github.com/urfave/cli/v2"

func runCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "go on from a text",
		UsageText: "ggufkit run -m MODEL -p TEXT [flags]",
		Description: `The prompt is taken as it is: no chat template ('ggufkit chat' has one). What follows it comes on stdout as it is made.

Examples:
  ggufkit run -m model.gguf -p 'To be, or not' -n 100 --seed 1
  ggufkit run -m model.gguf -p 'The capital of France is' --temp 0 -n 8 -q`,
		Flags:  generateFlags(),
		Action: u.action(0, 0, func(c *cli.Context) error { return runText(c, u) }),
	}
}

func runText(c *cli.Context, u *ui) error {
	g, err := startGeneration(c, u)
	if err != nil {
		return err
	}
	defer g.close()
	ids, err := g.tok.EncodePrompt(c.String("prompt"), true)
	if err != nil {
		return err
	}
	return g.write(c.Context, u, ids)
}
