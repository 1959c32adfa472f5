package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/inspect"
	"github.com/urfave/cli/v2"
)

func metaCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:            "meta",
		Usage:           "read and change metadata",
		UsageText:       "ggufkit meta get|set|rm FILE ...",
		HideHelpCommand: true,
		Subcommands:     []*cli.Command{metaGetCommand(u), metaSetCommand(u), metaRemoveCommand(u)},
		Action:          cli.ShowSubcommandHelp,
	}
}

func metaGetCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "get",
		Usage:     "print one value in full",
		UsageText: "ggufkit meta get FILE KEY [--json]",
		Description: `Texts are printed as they are, lists as JSON.

Example:
  ggufkit meta get model.gguf llama.rope.freq_base`,
		Flags:  []cli.Flag{jsonFlag()},
		Action: u.action(2, 2, func(c *cli.Context) error { return metaGet(c, u) }),
	}
}

func metaGet(c *cli.Context, u *ui) error {
	if err := fileFirst(c); err != nil {
		return err
	}
	path, key := c.Args().Get(0), c.Args().Get(1)
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	v, ok := f.Meta.Get(key)
	if !ok {
		return missingKey(path, key, f.Meta)
	}
	kv := inspect.NewKV(key, v)
	switch {
	case c.Bool("json"):
		return u.json(kv)
	case v.Type() == gguf.ArrayType:
		return u.jsonLine(kv.Value)
	}
	u.printf("%v\n", kv.Value)
	return nil
}

// fileFirst refuses arguments of which another than the first is the file.
func fileFirst(c *cli.Context) error {
	first := c.Args().First()
	for _, word := range c.Args().Tail() {
		if gguf.IsFileName(word) && !strings.Contains(word, "=") && !gguf.IsFileName(first) {
			return usagef("the file comes first: "+c.Command.UsageText, "%s: %s stands where the file belongs", commandPath(c), first)
		}
	}
	return nil
}

func missingKey(path, key string, m *gguf.Meta) error {
	return fmt.Errorf("%s: %w: %s\nhint: %s'ggufkit inspect %s --meta' lists the keys", path, gguf.ErrNoKey, key, didYouMean(nearestKey(m, key)), path)
}

// nearestKey is the key that a misspelled one most likely means, or one that lacks its architecture; "" if none is close.
func nearestKey(m *gguf.Meta, key string) string {
	var keys []string
	for k := range m.All() {
		if strings.HasSuffix(k, "."+key) {
			return k
		}
		keys = append(keys, k)
	}
	return nearest(key, keys)
}

// editFlags are those of the commands that change a file.
func editFlags() []cli.Flag {
	return []cli.Flag{
		outputFlag("write the changed file to `OUT` and leave FILE alone"),
		dryRunFlag(),
		jsonFlag(),
		quietFlag(),
	}
}

func metaSetCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "set",
		Usage:     "change or add values",
		UsageText: "ggufkit meta set FILE KEY=VALUE|KEY:TYPE=VALUE ... [--from-file KEY=PATH] [-o OUT] [--dry-run]",
		Description: `A key keeps the type it has; a new key, or another type, needs one of
u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool str, or []TYPE for lists such as [1,2,3].
The weights are not touched. Where the new header fits into the old one's space, it is written in place.

Examples:
  ggufkit meta set model.gguf llama.rope.freq_base=500000
  ggufkit meta set model.gguf general.url:str=http://example.org/ -o changed.gguf
  ggufkit meta set model.gguf --from-file tokenizer.chat_template=template.jinja`,
		Flags: append(editFlags(),
			&cli.StringSliceFlag{Name: "from-file", Usage: "take the value of a key from a text file: `KEY[:TYPE]=PATH`"}),
		Action: u.action(1, -1, func(c *cli.Context) error { return metaSet(c, u) }),
	}
}

func metaRemoveCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "rm",
		Usage:     "remove keys",
		UsageText: "ggufkit meta rm FILE KEY ... [-o OUT] [--dry-run]",
		Description: `Example:
  ggufkit meta rm model.gguf general.url`,
		Flags:  editFlags(),
		Action: u.action(2, -1, func(c *cli.Context) error { return metaRemove(c, u) }),
	}
}

// assignment is one KEY[:TYPE]=VALUE.
type assignment struct {
	key, typ, value string
	typed           bool
}

func metaSet(c *cli.Context, u *ui) error {
	if err := fileFirst(c); err != nil {
		return err
	}
	list, err := assignments(c.Context, c.Args().Tail(), c.StringSlice("from-file"))
	if err != nil {
		return err
	}
	return edit(c, u, func(m *gguf.Meta) ([]change, error) {
		var changes []change
		for _, a := range list {
			v, err := a.parse(m)
			if err != nil {
				return nil, err
			}
			ch := newChange(m, a.key)
			m.Set(a.key, v)
			changes = append(changes, ch.to(m))
		}
		return changes, nil
	})
}

// assignments reads the command line's values and the files it names.
func assignments(ctx context.Context, direct, files []string) ([]assignment, error) {
	if len(direct)+len(files) == 0 {
		return nil, usagef("write KEY=VALUE, or KEY:TYPE=VALUE for a new key", "nothing to set")
	}
	var list []assignment
	for i, word := range slices.Concat(direct, files) {
		left, value, ok := strings.Cut(word, "=")
		if !ok || left == "" {
			meant := ""
			if i == 0 && len(direct) == 2 && left != "" && !strings.Contains(direct[1], "=") {
				meant = didYouMean("'" + left + "=" + direct[1] + "'")
			}
			return nil, usagef(meant+"write KEY=VALUE, or KEY:TYPE=VALUE for a new key", "%q sets nothing", word)
		}
		if i >= len(direct) {
			text, err := readText(ctx, value)
			if err != nil {
				return nil, err
			}
			value = text
		}
		a := assignment{value: value}
		a.key, a.typ, a.typed = strings.Cut(left, ":")
		if a.key == "" {
			return nil, usagef("write KEY=VALUE, or KEY:TYPE=VALUE for a new key", "%q names no key", word)
		}
		list = append(list, a)
	}
	return list, nil
}

// parse turns the text into a value of the named type, or of the type that the key has; a chat template is a string in any file.
func (a assignment) parse(m *gguf.Meta) (gguf.Value, error) {
	old, known := m.Get(a.key)
	var typ, elem gguf.ValueType
	var err error
	switch {
	case a.typed:
		typ, elem, err = gguf.ParseValueType(a.typ)
	case known:
		typ = old.Type()
		if list, isList := old.Array(); isList == nil {
			elem = list.Elem()
		}
	case a.key == "tokenizer.chat_template": // the key that files lack most often
		typ = gguf.String
	default:
		shown := a.value
		if len(shown) > 40 || strings.Contains(shown, "\n") { // a text from a file
			shown = "VALUE"
		}
		return gguf.Value{}, usagef(didYouMean(nearestKey(m, a.key))+"a new key needs its type: "+a.key+":TYPE="+shown+", where TYPE is str, u32, f32, bool ...",
			"%s is not in the file", a.key)
	}
	if err != nil {
		return gguf.Value{}, usagef("the types are u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool str and []TYPE", "%s: %v", a.key, err)
	}
	v, err := gguf.ParseValue(typ, elem, a.value)
	if err != nil {
		return v, usagef("", "%s: %v", a.key, err)
	}
	return v, nil
}

func metaRemove(c *cli.Context, u *ui) error {
	if err := fileFirst(c); err != nil {
		return err
	}
	return edit(c, u, func(m *gguf.Meta) ([]change, error) {
		var changes []change
		for _, key := range c.Args().Tail() {
			ch := newChange(m, key)
			if !m.Remove(key) {
				return nil, missingKey(c.Args().First(), key, m)
			}
			changes = append(changes, ch.to(m))
		}
		return changes, nil
	})
}

// change is what an edit does to one key. An absent value is nil.
type change struct {
	Key    string      `json:"key"`
	Before *inspect.KV `json:"before"`
	After  *inspect.KV `json:"after"`
}

func newChange(m *gguf.Meta, key string) change { return change{Key: key, Before: lookup(m, key)} }

// to completes the change with what is there now.
func (ch change) to(m *gguf.Meta) change {
	ch.After = lookup(m, ch.Key)
	return ch
}

func lookup(m *gguf.Meta, key string) *inspect.KV {
	v, ok := m.Get(key)
	if !ok {
		return nil
	}
	kv := inspect.NewKV(key, v)
	return &kv
}

// edit applies a change to the file that the first argument names, and prints it.
func edit(c *cli.Context, u *ui, apply func(*gguf.Meta) ([]change, error)) error {
	path := c.Args().First()
	var report struct {
		File    string   `json:"file"`
		InPlace bool     `json:"in_place"`
		Size    int64    `json:"size,omitempty"`
		DryRun  bool     `json:"dry_run,omitempty"`
		Changes []change `json:"changes"`
	}
	report.File, report.DryRun = path, c.Bool("dry-run")
	body := func(m *gguf.Meta) (err error) {
		ran := runnable(m) == nil
		report.Changes, err = apply(m)
		warnLengths(u, m)
		if after := runnable(m); err == nil && ran && after != nil {
			u.note("warning: the model will not run any more: %s", strings.ReplaceAll(after.Error(), "\n", "; "))
		}
		return err
	}
	if report.DryRun {
		if err := gguf.TryEdit(path, body); err != nil {
			return err
		}
	} else {
		out := c.String("output")
		done, err := gguf.Edit(path, out, body)
		if err != nil {
			return err
		}
		if out != "" {
			report.File = out
		}
		report.InPlace, report.Size = done.InPlace, done.Size
	}
	if c.Bool("json") {
		return u.json(report)
	}
	if err := printChanges(u, report.Changes); err != nil {
		return err
	}
	switch {
	case report.DryRun:
		u.note("nothing written (dry run)")
	case report.InPlace:
		u.note("%s: changed in place", report.File)
	default:
		u.note("%s: written anew, %s", report.File, size(uint64(report.Size)))
	}
	return nil
}

func printChanges(u *ui, changes []change) error {
	show := func(kv *inspect.KV) string {
		if kv == nil {
			return "-"
		}
		return kv.Type + " " + kv.Short(50)
	}
	rows := make([][]string, len(changes))
	for i, ch := range changes {
		rows[i] = []string{ch.Key, show(ch.Before), "->", show(ch.After)}
	}
	return u.table([]string{"key", "before", "", "after"}, rows)
}

// runnable is why the engine refuses a model with this metadata, nil if it does not.
func runnable(m *gguf.Meta) error {
	spec, err := arch.ForMeta(m)
	if err != nil {
		return err
	}
	_, err = arch.ParamsOf(spec, m)
	return err
}

// warnLengths notes lists of the vocabulary that should be of one length and are not.
func warnLengths(u *ui, m *gguf.Meta) {
	length := func(key string) int {
		v, ok := m.Get(key)
		if !ok {
			return -1
		}
		a, err := v.Array()
		if err != nil {
			return -1
		}
		return a.Len()
	}
	tokens := length("tokenizer.ggml.tokens")
	for _, key := range []string{"tokenizer.ggml.scores", "tokenizer.ggml.token_type"} {
		if n := length(key); tokens >= 0 && n >= 0 && n != tokens {
			u.note("warning: %s has %d entries, tokenizer.ggml.tokens has %d", key, n, tokens)
		}
	}
}
