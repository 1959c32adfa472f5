package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// testdata/gen.py makes the cases with Python's Jinja2.
func TestPython(t *testing.T) {
	var cases []struct {
		Name, Template      string
		Messages            []Message
		AddGenerationPrompt bool `json:"add_generation_prompt"`
		Out, Error          *string
		Raised              bool
	}
	readJSON(t, filepath.Join("testdata", "cases.json"), &cases)
	for _, c := range cases {
		out, err := Render(c.Template, Context{
			Messages: c.Messages, AddGenerationPrompt: c.AddGenerationPrompt, BOS: "<s>", EOS: "</s>",
			Now: time.Date(2026, 3, 7, 14, 5, 9, 0, time.UTC),
		})
		if c.Out != nil {
			if err != nil || out != *c.Out {
				t.Errorf("%s: %v\n got %q\nwant %q", c.Name, err, out, *c.Out)
			}
			continue
		}
		var raised *Exception
		if err == nil || c.Raised && (!errors.As(err, &raised) || raised.Message != *c.Error) {
			t.Errorf("%s: %q %v, want the error %q", c.Name, out, err, *c.Error)
		}
	}
}

// checkpointChats renders the recorded conversations of a checkpoint's own template.
func checkpointChats(t *testing.T, config, recorded string) {
	t.Helper()
	var c struct {
		ChatTemplate string `json:"chat_template"`
		BOS          any    `json:"bos_token"`
		EOS          any    `json:"eos_token"`
	}
	readJSON(t, config, &c)
	var chats []struct {
		Name                string
		Messages            []Message
		AddGenerationPrompt bool `json:"add_generation_prompt"`
		Rendered            *string
	}
	readJSON(t, recorded, &chats)
	for _, r := range chats {
		bos, _ := c.BOS.(string)
		eos, _ := c.EOS.(string)
		out, err := Render(c.ChatTemplate, Context{Messages: r.Messages, AddGenerationPrompt: r.AddGenerationPrompt, BOS: bos, EOS: eos})
		if r.Rendered == nil && err == nil || r.Rendered != nil && (err != nil || out != *r.Rendered) {
			t.Errorf("%s: %q %v", r.Name, out, err)
		}
	}
	if len(chats) == 0 {
		t.Error("nothing recorded")
	}
}

func TestCheckpoints(t *testing.T) {
	for _, name := range []string{"bpe", "spm"} {
		dir := filepath.Join("..", "testdata", name)
		checkpointChats(t, filepath.Join(dir, "tokenizer_config.json"), filepath.Join(dir, "chat.json"))
	}
}

// Templates come from strangers: whatever they do ends in an error, and soon.
func TestHostile(t *testing.T) {
	for name, src := range map[string]string{
		"macro calls itself":  `{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`,
		"macros in a ring":    `{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}`,
		"macro by name":       `{% macro f(g) %}{{ g(g) }}{% endmacro %}{{ f(f) }}`,
		"call block":          `{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}`,
		"long range":          `{% for i in range(1000000000) %}x{% endfor %}`,
		"range overflow":      `{{ range(9223372036854775806, 9223372036854775807, 2) }}{{ range(0, 9223372036854775807) }}`,
		"loops in loops":      strings.Repeat(`{% for i in range(1000) %}`, 4) + strings.Repeat(`{% endfor %}`, 4),
		"holds itself":        `{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}`,
		"holds itself twice":  `{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns | tojson }}`,
		"list in itself":      `{% set l = [1] %}{{ l.append(l) }}{{ l }}`,
		"list in itself, gap": `{% set l = [1] %}{{ l . append (l) }}{{ l }}`,
		"growing text":        `{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}`,
		"growing set block":   `{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set t %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = t %}{% endfor %}`,
		"deep values":         `{% set ns = namespace(s=[]) %}{% for i in range(100000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}`,
		"brackets":            `{{ ` + strings.Repeat("(", 100000) + strings.Repeat(")", 100000) + ` }}`,
		"blocks":              strings.Repeat(`{% if 1 %}`, 10000) + strings.Repeat(`{% endif %}`, 10000),
		"size":                strings.Repeat("x", templateLimit+1),
		"open tag":            `{{ 'x`,
		"open block":          `{% for x in messages %}`,
		"unknown tag":         `{% frob %}`,
		"unknown filter":      `{{ 1 | frob }}`,
		"unknown function":    `{{ frob() }}`,
	} {
		start := time.Now()
		out, err := Render(src, Context{Messages: []Message{{Role: "user", Content: "hi"}}})
		if err == nil {
			t.Errorf("%s: no error but %.100q", name, out)
		}
		if d := time.Since(start); d > 2*timeLimit {
			t.Errorf("%s: %v", name, d)
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add(`{% for m in messages %}{{ m.role }}{% endfor %}`)
	f.Add(`{% macro f(x) %}{{ x|tojson }}{% endmacro %}{{ f(messages) }}{%- set a %}b{% endset -%}`)
	f.Add(`{% raw %}{{{% endraw %}{# c #}{{ 'a\'' ~ {"a":[1,2.5,none]}["a"] }}`)
	f.Add("{%raw%}{%}")
	f.Fuzz(func(t *testing.T, src string) {
		Render(src, Context{Messages: []Message{{Role: "system", Content: "s"}, {Role: "user", Content: "hi"}}, AddGenerationPrompt: true, BOS: "<s>"})
	})
}
