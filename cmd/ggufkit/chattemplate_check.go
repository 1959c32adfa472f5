package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/ggufkit/ggufkit/tokenizer"
	"github.com/ggufkit/ggufkit/tokenizer/chat"
	"github.com/urfave/cli/v2"
)

func chatTemplateCheck(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "check",
		Usage:     "render a set of conversations and look for faults; status 3 if there are any",
		UsageText: "ggufkit chat-template check FILE|DIR [--against DIR] [-f CHAT.json]...",
		Description: `Renders conversations with a system message, turns, tools, content in parts and thoughts, with and without a generation prompt. A
fault is a template that cannot be read, that fails on a plain question, that writes something which looks like a special token and is none in
this vocabulary, or that leads to two BOS tokens. With --against each text, and each refusal, must be the one that the source's template gives.

Examples:
  ggufkit chat-template check model.gguf
  ggufkit chat-template check model.gguf --against checkpoint`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "against", Usage: "compare with the templates of the checkpoint folder `DIR` (or of another GGUF file)", TakesFile: true},
			&cli.StringSliceFlag{Name: "file", Aliases: []string{"f"}, Usage: "render the conversation of `CHAT.json` too (may be repeated)"},
			nameFlag(), jsonFlag(), quietFlag(),
		},
		Action: u.action(1, 1, func(c *cli.Context) error { return checkTemplates(c, u) }),
	}
}

// templateReport is what check found out, for JSON.
type templateReport struct {
	Template string         `json:"template"`
	From     string         `json:"from"`
	Renders  []renderReport `json:"renders"`
	Faults   []string       `json:"faults"`
	Notes    []string       `json:"notes"`
}

type renderReport struct {
	Conversation     string `json:"conversation"`
	GenerationPrompt bool   `json:"generation_prompt"`
	Result           string `json:"result"` // rendered, refused, failed
	Error            string `json:"error,omitempty"`
	Same             *bool  `json:"same,omitempty"` // as the source's
}

func checkTemplates(c *cli.Context, u *ui) error {
	m, err := openTemplated(u, c.Args().First())
	if err != nil {
		return err
	}
	var source *templated
	if dir := c.String("against"); dir != "" {
		if source, err = openTemplated(u, dir); err != nil {
			return err
		}
	}
	talks := conversations()
	for _, f := range c.StringSlice("file") {
		talk, err := readConversation(c.Context, u, f)
		if err != nil {
			return err
		}
		talks = append(talks, conversation{f, talk})
	}
	names := m.names()
	if c.IsSet("name") {
		names = []string{templateName(c)}
	}
	tok, err := tokenizer.New(m.vocab)
	if err != nil {
		return inFile(m.path, err)
	}
	var reports []*templateReport
	faults := 0
	for _, name := range names {
		r := (&templateCheck{model: m, tok: tok, source: source, name: name}).run(talks)
		reports = append(reports, r)
		faults += len(r.Faults)
	}
	if source != nil && !c.IsSet("name") {
		for _, name := range source.names() {
			if _, ok := m.vocab.Templates[name]; !ok {
				reports[0].Faults = append(reports[0].Faults, fmt.Sprintf("%s has a template %s, %s has none", source.path, label(name), m.path))
				faults++
			}
		}
	}
	if c.Bool("json") {
		err = u.json(reports)
	} else {
		err = printTemplateReports(u, reports, source != nil)
	}
	if err == nil && faults > 0 {
		err = &verdictError{fmt.Errorf("%s: the chat templates have %s", m.path, plural(faults, "fault"))}
	}
	return err
}

func printTemplateReports(u *ui, reports []*templateReport, compared bool) error {
	for _, r := range reports {
		var rows [][]string
		header := []string{"conversation", "generation prompt", "result"}
		if compared {
			header = append(header, "same")
		}
		for _, x := range r.Renders {
			row := []string{x.Conversation, yesNo(x.GenerationPrompt), x.Result}
			if compared {
				row = append(row, yesNo(x.Same != nil && *x.Same))
			}
			rows = append(rows, row)
		}
		u.printf("template %s, from %s\n", r.Template, r.From)
		if err := u.table(header, rows); err != nil {
			return err
		}
		for _, n := range r.Notes {
			u.note("note: %s", n)
		}
		for _, f := range r.Faults {
			u.printf("fault: %s\n", spellOut(shorten(f), ""))
		}
	}
	return nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// templateCheck checks one template.
type templateCheck struct {
	model, source *templated
	tok           *tokenizer.Tokenizer
	name          string
	report        *templateReport
	told          map[string]bool
}

// fault adds a fault once.
func (t *templateCheck) fault(format string, args ...any) { t.add(&t.report.Faults, format, args...) }

// note adds a remark once.
func (t *templateCheck) note(format string, args ...any) { t.add(&t.report.Notes, format, args...) }

func (t *templateCheck) add(list *[]string, format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if !t.told[s] {
		t.told[s] = true
		*list = append(*list, s)
	}
}

func (t *templateCheck) run(talks []conversation) *templateReport {
	t.report = &templateReport{Template: label(t.name), From: t.model.from[t.name], Renders: []renderReport{}, Faults: []string{}, Notes: []string{}}
	t.told = map[string]bool{}
	own, err := t.model.parse(t.name)
	if err != nil {
		t.fault("%v", err)
		return t.report
	}
	var other *chat.Template
	if t.source != nil {
		if other, err = t.source.parse(t.name); err != nil {
			t.fault("%v", err)
			return t.report
		}
	}
	rendered := 0
	for _, talk := range talks {
		for _, prompt := range []bool{false, true} {
			text, err := t.model.render(own, talk.context, prompt)
			r := renderReport{Conversation: talk.name, GenerationPrompt: prompt, Result: "rendered"}
			if err != nil {
				r.Result, r.Error = outcome(own, talk.context, prompt), err.Error()
				t.note("%s: %v", talk.name, err)
			} else {
				rendered++
				t.lint(talk.context, text)
			}
			if other != nil {
				t.compare(&r, other, talk, text)
			}
			t.report.Renders = append(t.report.Renders, r)
		}
	}
	if rendered == 0 {
		t.fault("no conversation can be rendered; the first error: %s", t.report.Renders[0].Error)
	}
	return t.report
}

// outcome tells a template that refuses a conversation from one that fails on it.
func outcome(t *chat.Template, talk chat.Context, prompt bool) string {
	talk.AddGenerationPrompt = prompt
	_, err := t.Render(talk)
	var raised *chat.Exception
	if errors.As(err, &raised) {
		return "refused"
	}
	return "failed"
}

// compare renders with the source's template and its own special tokens.
func (t *templateCheck) compare(r *renderReport, other *chat.Template, talk conversation, text string) {
	want, err := t.source.render(other, talk.context, r.GenerationPrompt)
	result := "rendered"
	if err != nil {
		result = outcome(other, talk.context, r.GenerationPrompt)
	}
	same := result == r.Result && text == want
	r.Same = &same
	switch {
	case same:
	case result != r.Result:
		t.fault("%s: %s here, %s by the source's template", talk.name, r.Result, result)
	default:
		i := 0
		for i < min(len(text), len(want)) && text[i] == want[i] {
			i++
		}
		t.fault("%s: the texts differ from byte %d on: %q here, %q by the source's template", talk.name, i, excerpt(text, i), excerpt(want, i))
	}
}

// excerpt is a little of a text around a place.
func excerpt(s string, i int) string {
	return strings.ToValidUTF8(s[max(i-10, 0):min(i+30, len(s))], "")
}

// marker is how templates write the tokens that frame a turn: <|...|>, <...> of one word, [INST].
var marker = regexp.MustCompile(`<\|[^<>|\s]+\|>|<[a-z]+_[a-z_]+>|\[/?[A-Z_]{3,}\]|<<[A-Z]+>>`)

// lint looks at what was rendered: whether what looks like a special token is one, and whether BOS is written once.
func (t *templateCheck) lint(talk chat.Context, text string) {
	v := t.model.vocab
	ids := map[string]int{}
	for id, token := range v.Tokens {
		ids[token] = id
	}
	for _, mark := range marker.FindAllString(text, -1) {
		if id, ok := ids[mark]; !ok && !said(talk, mark) {
			if strings.HasPrefix(mark, "<|") {
				t.fault("the template writes %q, which looks like a special token and is none of the vocabulary", mark)
			} else {
				t.note("the template writes %q, which is no token of the vocabulary: it is encoded as text", mark)
			}
		} else if ok && id < len(v.Types) && v.Types[id] == tokenizer.Normal {
			t.note("token %d %q is written as a marker, but is not flagged as special: it is encoded like any text", id, mark)
		}
	}
	t.lintBOS(text)
}

// said reports whether a text comes from the conversation.
func said(talk chat.Context, mark string) bool {
	for _, m := range talk.Messages {
		if strings.Contains(m.Content, mark) {
			return true
		}
	}
	return false
}

// lintBOS holds a rendered text to the rule of one BOS: what the template writes counts, and the tokenizer adds none.
func (t *templateCheck) lintBOS(text string) {
	encoded, err := t.tok.EncodeChat(text)
	if err != nil {
		t.fault("what the template writes cannot be encoded: %v", err)
		return
	}
	_, adds := t.tok.AddsBOS()
	bos := t.model.vocab.BOS
	if bos < 0 {
		return
	}
	n := 0
	for n < len(encoded) && encoded[n] == bos {
		n++
	}
	switch {
	case n > 1:
		t.fault("a conversation starts with %d BOS tokens", n)
	case n == 1 && adds:
		t.note("the template writes BOS and the tokenizer would add one: a chat gets one only")
	case n == 0 && adds:
		t.note("the tokenizer adds BOS to raw prompts, the template writes none: a chat starts without")
	}
}
