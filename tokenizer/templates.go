package tokenizer

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// templates collects the chat templates.
func (b *vocabBuilder) templates() error {
	inConfig, err := namedTemplates(b.f.tokenizerConfig["chat_template"])
	if err != nil {
		return b.at("tokenizer_config.json", fmt.Errorf("chat_template: %w", err))
	}
	var fromJSON object
	if err := b.f.readJSON("chat_template.json", &fromJSON); err != nil {
		return err
	}
	legacy, err := namedTemplates(fromJSON["chat_template"])
	if err != nil {
		return b.at("chat_template.json", fmt.Errorf("chat_template: %w", err))
	}
	files, err := b.f.templateFiles()
	if err != nil {
		return err
	}
	for _, s := range []struct {
		file string
		list map[string]string
	}{{"chat_template.jinja", files}, {"tokenizer_config.json", inConfig}, {"chat_template.json", legacy}} {
		for name, text := range s.list {
			label := "chat template"
			if name != "" {
				label += " " + name
			}
			old, ok := b.v.Templates[name]
			switch {
			case !ok:
				b.v.Templates[name] = text
				b.detail("%s: from %s", label, s.file)
			case old != text:
				b.note("%s: %s holds another one, which is not used", label, s.file)
			}
		}
	}
	b.noteMarkers()
	return nil
}

// marker is how templates write the tokens that frame a turn.
var marker = regexp.MustCompile(`<[^<>\s'"{}]+>|\[/?[A-Z_]+\]`)

// noteMarkers tells of tokens that a template writes as markers, but that are encoded like any text.
func (b *vocabBuilder) noteMarkers() {
	written := map[string]bool{}
	for _, text := range b.v.Templates {
		for _, m := range marker.FindAllString(text, -1) {
			written[m] = true
		}
	}
	types := b.v.typesByText()
	for id, text := range b.v.Tokens {
		if written[text] && types[id] == Normal {
			b.note("token %d %q is a marker in the chat template, but is not flagged as special: it is encoded like any text, so it may not come out as one token", id, text)
		}
	}
}

// namedTemplates reads a template, or a list of named ones of which "default" is the one without a name.
func namedTemplates(v jsontext.Value) (map[string]string, error) {
	if v == nil || v.Kind() == 'n' {
		return nil, nil
	}
	if v.Kind() == '"' {
		var s string
		err := json.Unmarshal(v, &s)
		return map[string]string{"": s}, err
	}
	var list []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(v, &list); err != nil {
		return nil, err
	}
	named := map[string]string{}
	for _, t := range list {
		named[templateName(t.Name)] = t.Template
	}
	return named, nil
}

// templateName is a name as it may stand in a key.
func templateName(name string) string {
	if name == "default" {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if r < 128 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '_'
	}, name)
}

// templateFiles reads chat_template.jinja and additional_chat_templates/*.jinja.
func (f *hubFiles) templateFiles() (map[string]string, error) {
	named := map[string]string{}
	take := func(name, file string) error {
		data, err := f.read(file)
		if err == nil && data != nil {
			named[name] = string(data)
		}
		return err
	}
	if err := take("", "chat_template.jinja"); err != nil {
		return nil, err
	}
	more, err := filepath.Glob(filepath.Join(f.dir, "additional_chat_templates", "*.jinja"))
	if err != nil {
		return nil, err
	}
	for _, path := range more {
		name := templateName(strings.TrimSuffix(filepath.Base(path), ".jinja"))
		if err := take(name, filepath.Join("additional_chat_templates", filepath.Base(path))); err != nil {
			return nil, err
		}
	}
	return named, nil
}
