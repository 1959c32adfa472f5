package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/tokenizer"
	"github.com/ggufkit/ggufkit/tokenizer/chat"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

func chatCommand(u *ui) *cli.Command {
	flags := append(generateFlags(),
		&cli.StringFlag{Name: "system", Aliases: []string{"sys"}, Usage: "put `TEXT` before the talk as the system's message"},
		&cli.StringFlag{Name: "system-file", Usage: "take the system's message from `FILE`", TakesFile: true})
	return &cli.Command{
		Name:      "chat",
		Usage:     "talk with a chat model",
		UsageText: "ggufkit chat -m MODEL [-p TEXT] [flags]",
		Description: `What you say is put into the chat template that the file carries; the answer comes on stdout as it is made. Without -p a terminal
takes turns: type a line, or several between two lines of """; Ctrl-C ends an answer, Ctrl-D, /exit or Ctrl-C at the prompt end the talk, /help
tells more. With -i lines come from stdin also if that is no terminal. What is typed on a terminal is remembered in
$XDG_STATE_HOME/ggufkit/history (~/.local/state without it). When the context is full the talk stops; with --context-shift its oldest turns are forgotten.

Examples:
  ggufkit chat -m model.gguf
  ggufkit chat -m model.gguf -p 'What is the capital of France?' --temp 0
  ggufkit chat -m model.gguf --system-file rules.txt --context-shift -c 2048
  printf 'Hello!\nAnd again?\n' | ggufkit chat -m model.gguf -i -q`,
		Flags:  append(flags, consoleFlags()...),
		Action: u.action(0, 0, func(c *cli.Context) error { return runChat(c, u) }),
	}
}

func runChat(c *cli.Context, u *ui) error {
	interactive := c.Bool("interactive")
	if !c.IsSet("prompt") && !interactive {
		if f, ok := u.in.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
			return usagef("-i reads what you say from stdin, a line each; usage: "+c.Command.UsageText, "chat needs --prompt or a terminal")
		}
		interactive = true
	}
	system := c.String("system")
	if name := c.String("system-file"); name != "" {
		if system != "" {
			return usagef("give one of them", "--system and --system-file")
		}
		var err error
		if system, err = readText(c.Context, name); err != nil {
			return err
		}
		system = strings.TrimRight(system, "\r\n")
	}
	g, err := startGeneration(c, u, interactive)
	if err != nil {
		return err
	}
	defer g.close()
	t := &talk{generation: g, u: u}
	t.setSystem(system)
	if interactive {
		return t.interactive(c)
	}
	t.say(c.String("prompt"))
	ids, err := t.prompt()
	if err != nil {
		return err
	}
	g.limits.Keep = t.keep(c)
	return g.once(c, u, ids)
}

// talk is a conversation.
type talk struct {
	*generation
	u        *ui
	messages []chat.Message
}

// setSystem replaces the system's message; "" takes it away.
func (t *talk) setSystem(text string) {
	t.messages = t.messages[t.system():]
	if text != "" {
		t.messages = slices.Insert(t.messages, 0, chat.Message{Role: "system", Content: text})
	}
}

// system is the number of messages that the system has: 0 or 1.
func (t *talk) system() int {
	if len(t.messages) > 0 && t.messages[0].Role == "system" {
		return 1
	}
	return 0
}

// say adds what the user says.
func (t *talk) say(text string) {
	t.messages = append(t.messages, chat.Message{Role: "user", Content: text})
}

// prompt is the tokens of the talk, up to where the model answers.
func (t *talk) prompt() ([]int32, error) { return t.render(t.messages) }

// keep is how many tokens of the talk a context shift leaves: what --keep says, else what stands before the first thing that a user says.
func (t *talk) keep(c *cli.Context) int {
	if c.IsSet("keep") || !t.limits.Shift {
		return c.Int("keep")
	}
	system := slices.Clip(t.messages[:t.system()])
	a, err := t.render(append(system, chat.Message{Role: "user", Content: "0"}))
	b, err2 := t.render(append(system, chat.Message{Role: "user", Content: "1"}))
	if err != nil || err2 != nil {
		return 0
	}
	return infer.CommonPrefix(a, b)
}

// render puts messages into the file's default template.
func (t *talk) render(messages []chat.Message) ([]int32, error) {
	text, err := renderChat(t.tok.Vocab, messages)
	if err != nil {
		return nil, inFile(t.file.Path, err)
	}
	// The template has written the special tokens out.
	return t.tok.EncodeChat(text)
}

// renderChat puts messages into the default template of a vocabulary.
func renderChat(v *tokenizer.Vocab, messages []chat.Message) (string, error) {
	template, ok := v.Templates[""]
	if !ok {
		return "", fmt.Errorf("no key tokenizer.chat_template\nhint: use 'ggufkit run', or give the file a template: ggufkit meta set FILE --from-file tokenizer.chat_template=TEMPLATE.jinja")
	}
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
