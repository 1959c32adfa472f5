package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
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

// frozen is the time that the reference renderings were told.
var frozen = time.Date(2026, 3, 7, 14, 5, 9, 0, time.UTC)

// reference is what Python's Jinja2 did.
type reference struct {
	Out   *string
	Error *struct {
		Type, Message string
		ByDesign      bool `json:"by_design"` // raise_exception was called
	}
}

// check compares a rendering with the reference.
func (ref reference) check(t *testing.T, name, out string, err error) bool {
	t.Helper()
	var raised *Exception
	var fault *Error
	switch {
	case ref.Out != nil:
		if err != nil || out != *ref.Out {
			t.Errorf("%s: %v\n got %q\nwant %q", name, err, out, *ref.Out)
			return false
		}
	case ref.Error.ByDesign:
		if !errors.As(err, &raised) || raised.Message != ref.Error.Message {
			t.Errorf("%s: %v %q, want the exception %q", name, err, out, ref.Error.Message)
			return false
		}
	case !errors.As(err, &fault) || fault.Kind != ref.Error.Type || fault.Message != ref.Error.Message:
		t.Errorf("%s: %v %.60q, want %s: %s", name, err, out, ref.Error.Type, ref.Error.Message)
		return false
	}
	return true
}

// languageCases checks a file of templates that share one set of variables. exact: the texts of errors too, else their classes.
func languageCases(t *testing.T, path string, exact bool) {
	t.Helper()
	var file struct {
		Context map[string]Value
		Cases   []struct {
			reference
			Template string
		}
	}
	readJSON(t, path, &file)
	for _, c := range file.Cases {
		out, err := Render(c.Template, Context{Variables: file.Context, Now: frozen})
		var fault *Error
		if !exact && c.Out == nil && errors.As(err, &fault) {
			fault.Message = c.Error.Message
		}
		c.check(t, c.Template, out, err)
	}
	if len(file.Cases) < 300 {
		t.Errorf("%d cases, there were more", len(file.Cases))
	}
}

// TestLanguage goes through features of the language, one by one; Python's Jinja2 made the results.
func TestLanguage(t *testing.T) { languageCases(t, filepath.Join("testdata", "language.json"), true) }

// TestDifferential is a sample of generated templates, and those that once came out otherwise than in Python: white space, statements within each
// other, and all filters, tests, methods, operators and formats on values of all kinds. testdata/gen.py made the results.
func TestDifferential(t *testing.T) {
	languageCases(t, filepath.Join("testdata", "differential.json"), false)
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
			Messages: c.Messages, AddGenerationPrompt: c.AddGenerationPrompt, BOS: "<s>", EOS: "</s>", Now: frozen,
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

// TestErrorsHavePlaces: template, line, column, class and message.
func TestErrorsHavePlaces(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"a\n  {{ nobody.name }}", "t:2:13: 'nobody' is undefined (UndefinedError)"},
		{"é {{ 1 + 'a' }}", "t:1:8: unsupported operand type(s) for +: 'int' and 'str' (TypeError)"},
		{"\n\n{% frob %}", "t:3:4: Encountered unknown tag 'frob'. (TemplateSyntaxError)"},
		{"{% for m in messages %}\r\n{{ m.content.x.y }}{% endfor %}", "t:2:16: 'str object' has no attribute 'x' (UndefinedError)"},
		{"{{ messages|nosuch }}", "t:1:13: No filter named 'nosuch'. (TemplateAssertionError)"},
		{"x{% if true %}\ny", "t:2:2: Unexpected end of template. Jinja was looking for the following tags: 'elif' or 'else' or 'endif'. The innermost block that needs to be closed is 'if'. (TemplateSyntaxError)"},
	} {
		tmpl, err := Parse("t", c.src)
		if err == nil {
			_, err = tmpl.Render(Context{Messages: []Message{{Role: "user", Content: "hi"}}})
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.src, err, c.want)
		}
	}
}

// TestContext: what transformers hands to templates, and what it does not.
func TestContext(t *testing.T) {
	var m Message
	if err := json.Unmarshal([]byte(`{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"text": "b"}],
		"tool_calls": [{"function": {"name": "f", "arguments": {"z": 1, "a": 2.0, "n": 12345678901234567890123}}}]}`), &m); err != nil {
		t.Fatal(err)
	}
	if m.Role != "assistant" || m.Content != "ab" {
		t.Errorf("%q %q", m.Role, m.Content)
	}
	tool, err := ParseJSON([]byte(`{"name": "f"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ src, want string }{
		{"{{ messages[0].tool_calls[0].function.arguments | tojson }}", `{"z": 1, "a": 2.0, "n": 12345678901234567890123}`},
		{"{{ messages[0].content[1].type }}{{ messages[1] }}", "image{'role': 'user', 'content': 'x\ufffd'}"},
		{"{{ tools[0].name }} {{ documents is none }} {{ bos_token }} {{ eos_token is defined }} {{ pad_token }} {{ think }}", "f True <s> False <pad> False"},
	} {
		out, err := Render(c.src, Context{
			Messages: []Message{m, {Role: "user", Content: "x\xff"}}, Tools: []Value{tool}, BOS: "<s>",
			Variables: map[string]Value{"pad_token": Text("<pad>"), "think": Bool(false)},
		})
		if err != nil || out != c.want {
			t.Errorf("%s: %q %v, want %q", c.src, out, err, c.want)
		}
	}
	for _, bad := range []string{`{"content": "x"}`, `[]`, `"x"`, `{"role": ""}`, `{`} {
		if err := json.Unmarshal([]byte(bad), &m); err == nil {
			t.Errorf("%s is a message", bad)
		}
	}
}

// TestReportedFeatures: field report R096, what other engines lacked though official templates use it, and what a template raises reaches the caller.
func TestReportedFeatures(t *testing.T) {
	messages := []Message{{Role: "user", Content: "a"}, {Role: "assistant", Content: "<think>t</think>b"}, {Role: "user", Content: "c"}}
	for _, c := range []struct{ src, want string }{
		{"{% for m in messages %}{% if loop.index0 == 1 %}{% continue %}{% endif %}{{ m.content }}{% if loop.last %}{% break %}{% endif %}{% endfor %}", "ac"},
		{"{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content.split('</think>')[-1] }}{% endgeneration %}{% endif %}{% endfor %}", "b"},
		{"{{ messages | rejectattr('role', 'equalto', 'user') | list | length }}", "1"},
		{"{{ strftime_now('%d %b %Y') }}", "07 Mar 2026"},
		{"{% if tools is none and not tools %}none{% endif %}{{ none }}", "noneNone"},
		{"{% set ns = namespace(n=0) %}{% for m in messages[::-1][:2] %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "2"},
		{"{{ ' x '.strip().upper().lstrip('X') or 'empty' }}{{ 'abc'.startswith('ab') }}", "emptyTrue"},
	} {
		out, err := Render(c.src, Context{Messages: messages, Now: frozen})
		if err != nil || out != c.want {
			t.Errorf("%s: %q %v, want %q", c.src, out, err, c.want)
		}
	}
	_, err := Render("{% for m in messages %}{% if m.role == messages[loop.index0 - 1].role %}{{ raise_exception('roles must alternate, not ' ~ m.role) }}{% endif %}{% endfor %}",
		Context{Messages: []Message{{Role: "user", Content: "a"}, {Role: "user", Content: "b"}}})
	var raised *Exception
	if !errors.As(err, &raised) || raised.Message != "roles must alternate, not user" {
		t.Errorf("%v", err)
	}
}

// hostile templates must end in an error, soon and in little memory.
var hostile = map[string]string{
	"macro calls itself":  `{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`,
	"macros in a ring":    `{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}`,
	"macro by name":       `{% macro f(g) %}{{ g(g) }}{% endmacro %}{{ f(f) }}`,
	"call block":          `{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{{ f() }}`,
	"block calls itself":  `{% block a %}{{ self.a() }}{% endblock %}`,
	"recursive loop":      `{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}`,
	"default calls":       `{% macro f(a=f()) %}{% endmacro %}{{ f() }}`,
	"long range":          `{% for i in range(1000000000) %}x{% endfor %}`,
	"range overflow":      `{{ range(0, 9223372036854775807) }}`,
	"loops in loops":      strings.Repeat(`{% for i in range(1000) %}`, 4) + strings.Repeat(`{% endfor %}`, 4),
	"holds itself":        `{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}`,
	"holds itself twice":  `{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns | tojson }}`,
	"list in itself":      `{% set l = [1] %}{{ l.append(l) }}{{ l }}`,
	"list in itself, gap": `{% set l = [1] %}{{ l . append (l) }}{{ l }}`,
	"growing text":        `{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}`,
	"growing set block":   `{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set t %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = t %}{% endfor %}`,
	"growing list":        `{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}`,
	"growing repr":        `{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}`,
	"growing equality":    `{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}`,
	"growing JSON":        `{% set ns = namespace(s=[]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s | tojson(indent=4) }}`,
	"growing hash":        `{% set ns = namespace(s=(1,)) %}{% for i in range(60) %}{% set ns.s = (ns.s, ns.s) %}{% endfor %}{{ {ns.s: 1} }}`,
	"deep values":         `{% set ns = namespace(s=[]) %}{% for i in range(100000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}`,
	"deep equality":       `{% set ns = namespace(s=[], t=[]) %}{% for i in range(90000) %}{% set ns.s = [ns.s] %}{% set ns.t = [ns.t] %}{% endfor %}{{ ns.s == ns.t }}`,
	"big text":            `{{ 'x' * 10**9 }}`,
	"big list":            `{{ [1] * 10**9 }}`,
	"big product":         `{{ [1, 2] * 4611686018427387904 }}`,
	"big number":          `{{ 10**(10**9) }}`,
	"big width":           `{{ '%1000000000d' % 1 }}`,
	"big star":            `{{ '%*d' % (1000000000, 1) }}`,
	"big format":          `{{ '{:1000000000}'.format(1) }}`,
	"big precision":       `{{ '%.1000000000f' % 1.5 }}`,
	"big pad":             `{{ 'x'.ljust(10**12) }}`,
	"big center":          `{{ 'x' | center(10**12) }}`,
	"big indent":          `{{ 'x\ny' | indent(10**12) }}`,
	"big JSON indent":     `{{ [1] | tojson(indent=10**12) }}`,
	"big replace":         `{{ ('a' * 10**6).replace('', 'b' * 10**6) }}`,
	"big join":            `{{ ('a' * 10**6).join('b' * 10**6) }}`,
	"big batch":           `{{ [1] | batch(10**12, 'x') | list }}`,
	"big slice":           `{{ [1] | slice(10**12) | list }}`,
	"big split":           `{{ (',' * 10**8).split(',') | length }}`,
	"big rsplit":          `{{ ('a ' * 10**8).rsplit() | length }}`,
	"big lines":           `{{ ('\n' * 10**8).splitlines() | length }}`,
	"big wrap":            `{{ ('x' * 10**7) | wordwrap(1) }}`,
	"big wrap, words":     `{{ ('x ' * 10**8) | wordwrap(1) }}`,
	"big escape":          `{{ ('<' * 10**8) | e | length }}`,
	"big repr":            `{{ ['\x01' * 10**8] }}`,
	"big tags":            `{{ ('a ' * 10**8) | striptags }}`,
	"big tabs":            `{{ '\t'.expandtabs(10**12) * 1000 }}`,
	"big integer":         `{{ ('9' * 5000) | int }}`,
	"squares":             `{% set ns = namespace(n=3) %}{% for i in range(100) %}{% set ns.n = ns.n * ns.n %}{% endfor %}`,
	"many scans":          `{% set s = 'é' * 10**6 %}{% for i in range(100000) %}{% set x = s[999999] %}{% endfor %}`,
	"many sorts":          `{% set l = range(100000) | list %}{% for i in range(1000) %}{% set x = l | sort %}{% endfor %}`,
	"list of bytes":       `{{ ('x' * 10**8).encode() | first | string * 10**9 }}`,
	"slices of bytes":     `{% set b = ('x' * 10**8).encode() %}{% for i in range(100000) %}{% set c = b[::1] %}{% endfor %}`,
	"keys of bytes":       `{% set b = ('x' * 10**8).encode() %}{% set d = {} %}{% for i in range(100000) %}{% set c = d.get(b) %}{% endfor %}`,
	"big repr of bytes":   `{{ ('\x01' * 10**8).encode() }}`,
	"big attribute":       `{{ [1] | map(attribute='.' * 10**8) | list }}`,
	"big sort":            `{{ [1] | sort(attribute=',' * 10**8) }}`,
	"truth of a text":     `{% set s = 'é' * 10**8 %}{% for i in range(100000) %}{% if s and s and s and s %}{% endif %}{% endfor %}{{ 1 // 0 }}`,
	"ends of a text":      `{{ ('a' * 4000000).startswith((('a' * 3999999 ~ 'b'),) * 14000000) }}`,
	"count in a list":     `{% set a = 'x' * 4000000 %}{% set b = 'x' * 4000000 %}{{ ([a] * 14000000).count(b) }}`,
	"strip of all":        `{{ ('b' * 10**6).strip('a' * 10**8 ~ 'b') }}{{ 1 // 0 }}`,
	"many arguments":      `{% set l = [1] * 10**7 %}{% for i in range(100000) %}{% set x = dict(*l) is defined or cycler(*l) %}{% endfor %}`,
	"big slices":          `{% set l = [1] * 10**7 %}{% for i in range(100000) %}{% set x = l | slice(1) | first %}{% endfor %}`,
	"hyphens":             `{{ ('a-' * 6 * 10**6) | wordwrap(10**6) }}`,
	"sizes":               `{% set s = '1' * 10**8 %}{% for i in range(100000) %}{% set x = s | filesizeformat %}{% endfor %}`,
	"deep filters":        `{% set ns = namespace(x=[1]) %}{% for i in range(8) %}{% for j in range(90000) %}{% set ns.x = ns.x | select %}{% endfor %}{% endfor %}{{ ns.x | list }}`,
	"long message":        `{{ {}['x' * 10**8] or raise_exception('y' * 10**8) }}`,
	"long key":            `{{ ('%(' ~ '\x01' * 10**8 ~ ')s') % {} }}`,
	"brackets":            `{{ ` + strings.Repeat("(", 100000) + strings.Repeat(")", 100000) + ` }}`,
	"lists":               `{{ ` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + ` }}`,
	"negations":           `{{ ` + strings.Repeat("not ", 100000) + `1 }}`,
	"minuses":             `{{ ` + strings.Repeat("- ", 100000) + `1 }}`,
	"conditions":          `{{ ` + strings.Repeat("1 if 0 else ", 50000) + `1 }}`,
	"sums":                `{{ 1` + strings.Repeat(" + 1", 100000) + ` }}`,
	"filters":             `{{ 1` + strings.Repeat("|abs", 100000) + ` }}`,
	"subscripts":          `{{ x` + strings.Repeat(".a", 100000) + ` }}`,
	"tests":               `{{ x` + strings.Repeat(" is defined(1)", 50000) + ` }}`,
	"blocks":              strings.Repeat(`{% if 1 %}`, 10000) + strings.Repeat(`{% endif %}`, 10000),
	"size":                strings.Repeat("x", templateLimit+1),
	"no UTF-8":            "a\xff",
	"open tag":            `{{ 'x`,
	"open block":          `{% for x in messages %}`,
	"unknown tag":         `{% frob %}`,
	"unknown filter":      `{{ 1 | frob }}`,
	"unknown function":    `{{ frob() }}`,
	"sandbox":             `{{ ''.__class__.__mro__ }}`,
	"sandbox by format":   `{{ '{0.__class__.__mro__}'.format(1) }}`,
}

// Templates come from strangers: whatever they do ends in an error, and soon.
func TestHostile(t *testing.T) {
	for name, src := range hostile {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		out, err := Render(src, Context{Messages: []Message{{Role: "user", Content: "hi"}}})
		if err == nil {
			t.Errorf("%s: no error but %.100q", name, out)
		} else if strings.Contains(err.Error(), "SystemError") || len(err.Error()) > 2*messageLimit {
			t.Errorf("%s: %.1000v", name, err)
		}
		if d := time.Since(start); d > 2*timeLimit {
			t.Errorf("%s: %v", name, d)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 3<<30 {
			t.Errorf("%s: %d MB were allocated", name, n>>20)
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add(`{% for m in messages %}{{ m.role }}{% endfor %}`)
	f.Add(`{% macro f(x) %}{{ x|tojson }}{% endmacro %}{{ f(messages) }}{%- set a %}b{% endset -%}`)
	f.Add(`{% raw %}{{{% endraw %}{# c #}{{ 'a\'' ~ {"a":[1,2.5,none]}["a"] }}`)
	f.Add("{%raw%}{%}")
	f.Add(`{{ '%5.2f|%-3s' % (1.5, 'x') }}{{ '{0!r:>8}{1.a[0]}'.format(1, {'a': [2]}) }}{{ messages|map(attribute='content')|sort|join(',')|title }}`)
	f.Add(`{% for x in [[1, [2]], 3] recursive %}{{ loop(x) if x is iterable else x }}{{ loop.previtem }}{% else %}{% endfor %}{{ 'a-b c'|wordwrap(2) }}`)
	f.Add(`{% call(a, b=2) f(1, *[2], **{'c': 3}) %}{{ caller(1)[::-2] }}{% endcall %}{% filter indent(2) %}{% autoescape true %}{{ '<' }}{% endautoescape %}{% endfilter %}`)
	f.Fuzz(func(t *testing.T, src string) {
		start := time.Now()
		_, err := Render(src, Context{Messages: []Message{{Role: "system", Content: "s"}, {Role: "user", Content: "hi"}}, AddGenerationPrompt: true, BOS: "<s>"})
		if err != nil && strings.Contains(err.Error(), "SystemError") {
			t.Errorf("%q: %v", src, err)
		}
		if d := time.Since(start); d > 2*timeLimit {
			t.Errorf("%q: %v", src, d)
		}
	})
}
