package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/tokenizer"
	"github.com/ggufkit/ggufkit/tokenizer/chat"
	"github.com/urfave/cli/v2"
)

func chatTemplateCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:            "chat-template",
		Usage:           "show, render and check the chat templates of a model",
		UsageText:       "ggufkit chat-template show|render|check FILE|DIR ...",
		HideHelpCommand: true,
		Subcommands:     []*cli.Command{chatTemplateShow(u), chatTemplateRender(u), chatTemplateCheck(u)},
		Action:          cli.ShowSubcommandHelp,
	}
}

// nameFlag chooses one of several templates.
func nameFlag() cli.Flag {
	return &cli.StringFlag{Name: "name", Usage: "the template called `NAME` (default: the one without a name)"}
}

func chatTemplateShow(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "print the templates and where each came from",
		UsageText: "ggufkit chat-template show FILE|DIR [flags]",
		Description: `FILE is a GGUF file, DIR a checkpoint folder. A folder's templates are looked for in chat_template.jinja and
additional_chat_templates, then in tokenizer_config.json, then in chat_template.json; what differs from an earlier place is told.

Examples:
  ggufkit chat-template show model.gguf
  ggufkit chat-template show checkpoint --name tool_use --json`,
		Flags:  []cli.Flag{nameFlag(), jsonFlag(), quietFlag()},
		Action: u.action(1, 1, func(c *cli.Context) error { return showTemplates(c, u) }),
	}
}

// templated is a model whose chat templates are looked at.
type templated struct {
	path  string
	vocab *tokenizer.Vocab
	from  map[string]string // template name -> where it was found
}

// openTemplated reads the vocabulary and the templates of a GGUF file or a checkpoint folder.
func openTemplated(u *ui, path string) (*templated, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	m := &templated{path: path, from: map[string]string{}}
	if info.IsDir() {
		if m.vocab, err = tokenizer.FromCheckpoint(path, embeddingRows(path), ""); err != nil {
			return nil, inFile(path, err)
		}
	} else {
		f, err := gguf.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if m.vocab, err = tokenizer.VocabOf(f.Meta); err != nil {
			return nil, inFile(path, err)
		}
	}
	for name := range m.vocab.Templates {
		m.from[name] = strings.TrimSuffix("tokenizer.chat_template."+name, ".")
	}
	for _, d := range m.vocab.Details {
		label, where, _ := strings.Cut(d, ": from ")
		if name, ok := strings.CutPrefix(label, "chat template"); ok {
			m.from[strings.TrimPrefix(name, " ")] = where
		}
	}
	for _, n := range m.vocab.Notes {
		if strings.HasPrefix(n, "chat template") {
			u.note("note: %s", n) // a place that is not used
		}
	}
	if len(m.vocab.Templates) == 0 {
		return nil, fmt.Errorf("%s: there is no chat template\nhint: give a file one: ggufkit meta set FILE --from-file tokenizer.chat_template=TEMPLATE.jinja", path)
	}
	return m, nil
}

// embeddingRows is the number of tokens that a checkpoint's config.json says it has, else more than any vocabulary has: templates can be looked at
// without the weights.
func embeddingRows(dir string) int {
	var config struct {
		Size int `json:"vocab_size"`
		Text struct {
			Size int `json:"vocab_size"`
		} `json:"text_config"`
	}
	const unknown, longest = 1 << 20, 16 << 20
	file := filepath.Join(dir, "config.json")
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || info.Size() > longest {
		return unknown
	}
	if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &config) == nil {
		if n := max(config.Size, config.Text.Size); n > 0 && n <= 1<<24 {
			return n
		}
	}
	return unknown
}

// names lists the templates, the one without a name first.
func (m *templated) names() []string { return slices.Sorted(maps.Keys(m.vocab.Templates)) }

// parse reads the template of a name.
func (m *templated) parse(name string) (*chat.Template, error) {
	src, ok := m.vocab.Templates[name]
	if !ok {
		return nil, fmt.Errorf("%s: there is no template %s\nhint: there are %s", m.path, label(name), strings.Join(labels(m.names()), ", "))
	}
	t, err := chat.Parse(m.from[name], src)
	if err != nil {
		return nil, inFile(m.path, err)
	}
	return t, nil
}

// label is how a template is called.
func label(name string) string {
	if name == "" {
		return "default"
	}
	return name
}

func labels(names []string) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = label(n)
	}
	return list
}

// templateName is the template that --name chooses.
func templateName(c *cli.Context) string {
	if n := c.String("name"); n != "default" {
		return n
	}
	return ""
}

// shownTemplate is one template for JSON.
type shownTemplate struct {
	Name     string `json:"name"`
	From     string `json:"from"`
	Bytes    int    `json:"bytes"`
	Template string `json:"template"`
}

func showTemplates(c *cli.Context, u *ui) error {
	m, err := openTemplated(u, c.Args().First())
	if err != nil {
		return err
	}
	names := m.names()
	if c.IsSet("name") {
		if names = []string{templateName(c)}; m.from[names[0]] == "" {
			_, err := m.parse(names[0])
			return err
		}
	}
	shown := make([]shownTemplate, len(names))
	for i, n := range names {
		src := m.vocab.Templates[n]
		shown[i] = shownTemplate{label(n), m.from[n], len(src), src}
	}
	if c.Bool("json") {
		return u.json(shown)
	}
	for _, s := range shown {
		u.note("template %s: from %s, %d bytes", s.Name, s.From, s.Bytes)
		if err := u.show(strings.TrimSuffix(s.Template, "\n") + "\n"); err != nil {
			return err
		}
	}
	return nil
}
