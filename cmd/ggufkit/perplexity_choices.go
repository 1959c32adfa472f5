package main

import (
	"cmp"

	"github.com/ggufkit/ggufkit/infer/eval"
	"github.com/ggufkit/ggufkit/tokenizer"
	"github.com/urfave/cli/v2"
)

// choiceKinds are the tasks with several answers, by flag.
var choiceKinds = []struct {
	flag, form string
	parse      func(text string) ([]eval.Question, error)
	choose     func(list []eval.Question, n int) []eval.Question
}{
	{"hellaswag", "six lines a task: context, number of the right ending, four endings", eval.ParseHellaSwag, eval.SelectHellaSwag},
	{"winogrande", "lines of number,sentence with _,name,name,1 or 2", eval.ParseWinogrande, eval.SelectTasks},
	{"multiple-choice", "the binary form of llama-perplexity", eval.ParseMultipleChoice, eval.SelectTasks},
}

// choiceFlags are those of tasks with several answers.
func choiceFlags() []cli.Flag {
	var flags []cli.Flag
	for _, k := range choiceKinds {
		flags = append(flags, &cli.BoolFlag{Name: k.flag, Usage: "FILE holds tasks: " + k.form})
	}
	return append(flags, &cli.IntFlag{Name: "tasks", Aliases: []string{"hellaswag-tasks", "winogrande-tasks", "multiple-choice-tasks"},
		Usage: "score `N` tasks, chosen as llama-perplexity does (0: all)"})
}

// choices scores the tasks of a file. It returns false if no kind of tasks was asked for.
func choices(c *cli.Context, u *ui) (asked bool, err error) {
	kind := -1
	for i, k := range choiceKinds {
		if !c.Bool(k.flag) {
			continue
		}
		if kind >= 0 {
			return true, usagef("give one of them", "--%s and --%s do not go together", choiceKinds[kind].flag, k.flag)
		}
		kind = i
	}
	if kind < 0 {
		if c.IsSet("tasks") {
			return true, usagef("name the kind: --hellaswag, --winogrande or --multiple-choice", "--tasks without a kind of tasks")
		}
		return false, nil
	}
	for _, name := range []string{"stride", "convention", "part", "until-stderr", "chunks"} {
		if c.IsSet(name) {
			return true, usagef("leave one of them out", "--%s and --%s do not go together", choiceKinds[kind].flag, name)
		}
	}
	if n := c.Int("tasks"); n < 0 {
		return true, usagef("", "--tasks %d: expected 0 or more", n)
	}
	return true, scoreChoices(c, u, kind)
}

func scoreChoices(c *cli.Context, u *ui, kind int) error {
	k := choiceKinds[kind]
	g, err := newGate(c, k.flag+" "+c.String("model"), eval.ChoiceResult{})
	if err != nil {
		return err
	}
	text, err := measuredText(c, u)
	if err != nil {
		return err
	}
	questions, err := k.parse(text.text)
	if err != nil {
		return inFile(text.name, err)
	}
	l, err := loadModel(c, u, cmp.Or(c.Int("context"), 512))
	if err != nil {
		return err
	}
	defer l.close()
	tok, err := openTokenizer(u, l.file)
	if err != nil {
		return err
	}
	var tasks []eval.Task
	for _, q := range k.choose(questions, c.Int("tasks")) {
		t, err := q.Task(func(text string) ([]int32, error) { return tok.Encode(text, tokenizer.EncodeOptions{AddSpecial: true}) })
		if err != nil {
			return inFile(text.name, err)
		}
		tasks = append(tasks, t)
	}
	tenths := newTenths(u)
	r, err := eval.Choose(c.Context, l.model, tasks, func(done int, running eval.ChoiceResult) {
		tenths.say("task", done, len(tasks), "%.2f%% right", 100*running.Accuracy)
	})
	if err != nil {
		return inFile(text.name, err)
	}
	checks, verdict := g.check(r)
	if checks == nil {
		return verdict
	}
	if c.Bool("json") {
		return cmp.Or(u.json(struct {
			eval.ChoiceResult
			Checks []eval.Check `json:"checks,omitempty"`
		}{r, checks}), verdict)
	}
	u.printf("%s %.2f%% +/- %.2f%% right, %d of %s (95%% between %.2f%% and %.2f%%, by chance %.2f%%)\n", k.flag, 100*r.Accuracy, 100*r.StdErr,
		r.Correct, plural(r.Tasks, "task"), 100*r.Low, 100*r.High, 100*r.Chance)
	return verdict
}
