package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ggufkit/ggufkit/tokenizer"
	"github.com/ggufkit/ggufkit/tokenizer/chat"
	"github.com/urfave/cli/v2"
)

func chatTemplateRender(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "render",
		Usage:     "put a conversation into the template",
		UsageText: "ggufkit chat-template render FILE|DIR [-f CHAT.json] [flags]",
		Description: `CHAT.json is a list of messages, or an object with "messages" and maybe "tools", "documents" and any variable that the template looks
at. Without -f a short conversation is rendered. Special tokens are written as the template has them; nothing is added, not even an end of line.

Examples:
  ggufkit chat-template render model.gguf
  ggufkit chat-template render model.gguf -f chat.json --tools tools.json
  ggufkit chat-template render model.gguf -f chat.json --no-generation-prompt --json`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "read the conversation from `CHAT.json` (-: stdin)", TakesFile: true},
			&cli.StringFlag{Name: "tools", Usage: "read a list of tools from `TOOLS.json`", TakesFile: true},
			&cli.StringSliceFlag{Name: "set", Usage: "set a variable of the template: `NAME=JSON` (may be repeated)"},
			&cli.BoolFlag{Name: "no-generation-prompt", Usage: "do not write what starts an answer"},
			nameFlag(), jsonFlag(), quietFlag(),
		},
		Action: u.action(1, 1, func(c *cli.Context) error { return renderTemplate(c, u) }),
	}
}

func renderTemplate(c *cli.Context, u *ui) error {
	m, err := openTemplated(u, c.Args().First())
	if err != nil {
		return err
	}
	name := templateName(c)
	t, err := m.parse(name)
	if err != nil {
		return err
	}
	talk := conversations()[0].context
	if f := c.String("file"); f != "" {
		if talk, err = readConversation(c.Context, u, f); err != nil {
			return err
		}
	}
	if f := c.String("tools"); f != "" {
		tools, err := readJSONValue(c.Context, u, f, hintTools)
		if err != nil {
			return err
		}
		if talk.Tools = tools.List(); talk.Tools == nil {
			return fmt.Errorf("%s: tools are a JSON list\nhint: %s", f, hintTools)
		}
	}
	if talk.Variables, err = setVariables(talk.Variables, c.StringSlice("set")); err != nil {
		return err
	}
	text, err := m.render(t, talk, !c.Bool("no-generation-prompt"))
	if err != nil {
		return err
	}
	if !c.Bool("json") {
		return u.show(text)
	}
	tok, err := tokenizer.New(m.vocab)
	if err != nil {
		return inFile(m.path, err)
	}
	ids, err := tok.EncodeChat(text)
	if err != nil {
		return err
	}
	return u.json(struct {
		Name string  `json:"name"`
		From string  `json:"from"`
		Text string  `json:"text"`
		IDs  []int32 `json:"ids"`
	}{label(name), m.from[name], text, append([]int32{}, ids...)})
}

// render renders a conversation as the model's own programs do. The error of a template names the file.
func (m *templated) render(t *chat.Template, talk chat.Context, prompt bool) (string, error) {
	talk.AddGenerationPrompt = prompt
	talk.BOS, talk.EOS = tokenText(m.vocab, m.vocab.BOS), tokenText(m.vocab, m.vocab.EOS)
	text, err := t.Render(talk)
	var raised *chat.Exception
	switch {
	case errors.As(err, &raised):
		return "", fmt.Errorf("%s: the chat template refuses: %q", m.path, raised.Message)
	case err != nil:
		return "", inFile(m.path, err)
	}
	return text, nil
}

// The forms of what is read.
const (
	hintTalk  = `write [{"role": "user", "content": "..."}] or {"messages": [...], "tools": [...]}`
	hintTools = `write [{"type": "function", "function": {...}}]`
)

// readJSONValue reads a file of JSON; "-" is stdin. hint is the form that is expected.
func readJSONValue(ctx context.Context, u *ui, path, hint string) (chat.Value, error) {
	text, err := whole(ctx, path, func() (io.ReadCloser, error) {
		if path == "-" {
			return io.NopCloser(u.in), nil
		}
		return os.Open(path)
	})
	if err != nil {
		return chat.Value{}, err
	}
	v, err := chat.ParseJSON([]byte(text))
	if err != nil {
		return v, fmt.Errorf("%s: not the JSON that is expected: %w\nhint: %s", path, err, hint)
	}
	return v, nil
}

// readConversation reads a list of messages, or an object that has one and the variables beside it.
func readConversation(ctx context.Context, u *ui, path string) (chat.Context, error) {
	v, err := readJSONValue(ctx, u, path, hintTalk)
	if err != nil {
		return chat.Context{}, err
	}
	talk, err := conversationOf(v)
	if err != nil {
		return talk, fmt.Errorf("%s: %w\nhint: %s", path, err, hintTalk)
	}
	return talk, nil
}

func conversationOf(v chat.Value) (chat.Context, error) {
	talk := chat.Context{Variables: map[string]chat.Value{}}
	messages := v
	for _, name := range v.Names() {
		member, _ := v.Member(name)
		switch name {
		case "messages":
			messages = member
		case "tools":
			talk.Tools = member.List()
		case "documents":
			talk.Documents = member.List()
		case "add_generation_prompt", "bos_token", "eos_token":
		default:
			talk.Variables[name] = member
		}
	}
	if !messages.IsList() {
		return talk, errors.New("there is no list of messages")
	}
	for i, item := range messages.List() {
		message, err := chat.MessageOf(item)
		if err != nil {
			return talk, fmt.Errorf("message %d: %w", i, err)
		}
		talk.Messages = append(talk.Messages, message)
	}
	return talk, nil
}

// setVariables adds those that --set names.
func setVariables(vars map[string]chat.Value, settings []string) (map[string]chat.Value, error) {
	all := map[string]chat.Value{}
	maps.Copy(all, vars)
	for _, s := range settings {
		name, text, ok := strings.Cut(s, "=")
		v, err := chat.ParseJSON([]byte(text))
		if !ok || name == "" || err != nil {
			return nil, usagef("write NAME=JSON, such as enable_thinking=false or 'today=\"2026-03-07\"'", "--set %s: no JSON value", s)
		}
		all[name] = v
	}
	return all, nil
}

// conversation is one of the talks that check renders.
type conversation struct {
	name    string
	context chat.Context
}

// conversations are the built-in ones. They have what templates treat in ways of their own.
func conversations() []conversation {
	turn := func(role, content string) chat.Message { return chat.Message{Role: role, Content: content} }
	system, user := turn("system", "You are a helpful assistant."), turn("user", "Hello, how are you?")
	answer, next := turn("assistant", "I'm fine.\nAnd you? "), turn("user", "  Fine & \"well\" <b>too</b>, 谢谢 🚀 ")
	now := time.Date(2026, 3, 7, 14, 5, 9, 0, time.UTC)
	list := []conversation{
		{name: "system and turns", context: chat.Context{Messages: []chat.Message{system, user, answer, next}}},
		{name: "one question", context: chat.Context{Messages: []chat.Message{user}}},
		{name: "turns without a system message", context: chat.Context{Messages: []chat.Message{user, answer, next}}},
		{name: "an answer at the end", context: chat.Context{Messages: []chat.Message{user, answer}}},
	}
	for _, c := range jsonConversations {
		v, err := chat.ParseJSON([]byte(c.text))
		if err != nil {
			panic(err)
		}
		talk, err := conversationOf(v)
		if err != nil {
			panic(err)
		}
		list = append(list, conversation{c.name, talk})
	}
	for i := range list {
		list[i].context.Now = now
	}
	return slices.Clip(list)
}

// jsonConversations are those that need more than roles and texts.
var jsonConversations = []struct{ name, text string }{
	{"content in parts", `[{"role": "user", "content": [{"type": "text", "text": "First part."}, {"type": "text", "text": "Second."}]}]`},
	{"tools", `{"messages": [{"role": "user", "content": "Weather in Zürich?"}], "tools": [{"type": "function", "function": {"name": "get_weather",
		"description": "Get the <current> weather.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]}`},
	{"a tool was called", `{"messages": [{"role": "user", "content": "Weather in Zürich?"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001",
		"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich"}}}]}, {"role": "tool", "tool_call_id": "call00001", "name": "get_weather",
		"content": "{\"temp\": 21.5}"}, {"role": "assistant", "content": "21.5 °C."}, {"role": "user", "content": "Thanks!"}], "tools": [{"type": "function",
		"function": {"name": "get_weather", "description": "Get the weather.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]}`},
	{"thoughts", `[{"role": "user", "content": "x + 1 = 3?"}, {"role": "assistant", "content": "<think>\nsubtract 1\n</think>\n\nx = 2",
		"reasoning_content": "subtract 1"}, {"role": "user", "content": "And x + 2 = 3?"}]`},
}
