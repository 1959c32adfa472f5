package main

import (
	"errors"
	"fmt"

	"github.com/ggufkit/ggufkit/tokenizer"
	"github.com/ggufkit/ggufkit/tokenizer/chat"
	"github.com/urfave/cli/v2"
)

func chatCommand(u *ui) *cli.Command {
	flags := append(generateFlags(),
		&cli.StringFlag{Name: "system", Aliases: []string{"sys"}, Usage: "put `TEXT` before the talk as the system's message"})
	return &cli.Command{
		Name:      "chat",
		Usage:     "ask a chat model one thing",
		UsageText: "ggufkit chat -m MODEL -p TEXT [flags]",
		Description: `The prompt is put into the chat template that the file carries; the answer comes on stdout as it is made.

Example:
  ggufkit chat -m model.gguf -p 'What is the capital of France?' --temp 0`,
		Flags:  flags,
		Action: u.action(0, 0, func(c *cli.Context) error { return chatOnce(c, u) }),
	}
}

func chatOnce(c *cli.Context, u *ui) error {
	if !c.IsSet("prompt") {
		return usagef("usage: "+c.Command.UsageText, "chat needs --prompt")
	}
	g, err := startGeneration(c, u)
	if err != nil {
		return err
	}
	defer g.close()
	text, err := renderChat(g.tok.Vocab, c.String("system"), c.String("prompt"))
	if err != nil {
		return inFile(g.file.Path, err)
	}
	// The template has written the special tokens out.
	ids, err := g.tok.Encode(text, tokenizer.EncodeOptions{ParseSpecial: true})
	if err != nil {
		return err
	}
	return g.once(c, u, ids)
}

// renderChat puts one question into the default template of a vocabulary.
func renderChat(v *tokenizer.Vocab, system, prompt string) (string, error) {
	template, ok := v.Templates[""]
	if !ok {
		return "", fmt.Errorf("no key tokenizer.chat_template\nhint: use 'ggufkit run', or give the file a template: ggufkit meta set FILE --from-file tokenizer.chat_template=TEMPLATE.jinja")
	}
	var messages []chat.Message
	if system != "" {
		messages = append(messages, chat.Message{Role: "system", Content: system})
	}
	messages = append(messages, chat.Message{Role: "user", Content: prompt})
	text, err := chat.Render(template, chat.Context{Messages: messages, AddGenerationPrompt: true, BOS: tokenText(v, v.BOS), EOS: tokenText(v, v.EOS)})
	var raised *chat.Exception
	switch {
	case errors.As(err, &raised):
		return "", fmt.Errorf("the chat template refuses: %q", raised.Message)
	case err == nil && text == "":
		return "", errors.New("the chat template writes nothing\nhint: use 'ggufkit run', or give the file another template: ggufkit meta set FILE --from-file tokenizer.chat_template=TEMPLATE.jinja")
	}
	return text, err
}

// tokenText is the text of a special token, or "" where there is none.
func tokenText(v *tokenizer.Vocab, id int32) string {
	if id < 0 || int(id) >= len(v.Tokens) {
		return ""
	}
	return v.Tokens[id]
}
