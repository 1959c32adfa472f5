package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ggufkit/ggufkit/gguf"
)

// maxCard bounds what is read of a model card; its front matter stands at the start.
const maxCard = 1 << 20

// card is the front matter of a model card: settings in YAML between two lines of hyphens at the start of README.md. Scalars are taken as
// they are written, so that the language "no" stays one.
type card map[string]*yaml.Node

// readCard reads the card of a checkpoint folder. A card is no part of the model, so one that cannot be read gives a note.
func readCard(dir string) (card, string, error) {
	path := filepath.Join(dir, "README.md")
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if !st.Mode().IsRegular() {
		return nil, "the model card is not used: README.md is not a regular file", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCard))
	if err != nil {
		return nil, "", err
	}
	front, ok := frontMatter(text)
	if !ok {
		return nil, "", nil
	}
	c, err := parseCard(front)
	if err != nil {
		return nil, fmt.Sprintf("the model card is not used: README.md: %v", err), nil
	}
	return c, "", nil
}

// frontMatter is what stands between the first line of a text, if that is "---", and the next such line or the end.
func frontMatter(text []byte) ([]byte, bool) {
	var front []byte
	for i, line := range bytes.Split(text, []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		switch marker := string(line) == "---"; {
		case i == 0 && !marker:
			return nil, false
		case i > 0 && marker:
			return front, true
		case i > 0:
			front = append(append(front, line...), '\n')
		}
	}
	return front, len(front) > 0
}

func parseCard(front []byte) (card, error) {
	var doc yaml.Node
	// Cards with tabs exist, though YAML forbids them.
	if err := yaml.Unmarshal(bytes.ReplaceAll(front, []byte("\t"), []byte("  ")), &doc); err != nil {
		return nil, err
	}
	if doc.Kind == 0 { // nothing but comments
		return nil, nil
	}
	m := mapping(doc.Content[0])
	if m == nil {
		return nil, errors.New("the front matter is not a list of settings")
	}
	return m, nil
}

// mapping is a YAML mapping by its keys, the first of equal ones; nil for anything else.
func mapping(n *yaml.Node) card {
	n = resolved(n)
	if n.Kind != yaml.MappingNode {
		return nil
	}
	m := card{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i].Value; m[key] == nil {
			m[key] = resolved(n.Content[i+1])
		}
	}
	return m
}

// resolved is what a node stands for.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// scalar is the text of a node, "" for null, lists and mappings.
func scalar(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return strings.TrimSpace(n.Value)
}

// text is the first of the settings that is there.
func (c card) text(names ...string) string {
	for _, name := range names {
		if s := scalar(c[name]); s != "" {
			return s
		}
	}
	return ""
}

// entries are those of a list, or a single value.
func (c card) entries(name string) []*yaml.Node {
	n := c[name]
	switch {
	case n == nil || n.Tag == "!!null":
		return nil
	case n.Kind != yaml.SequenceNode:
		return []*yaml.Node{n}
	}
	list := make([]*yaml.Node, len(n.Content))
	for i, e := range n.Content {
		list[i] = resolved(e)
	}
	return list
}

// texts are the scalars of several lists.
func (c card) texts(names ...string) []string {
	var list []string
	for _, name := range names {
		for _, n := range c.entries(name) {
			if s := scalar(n); s != "" {
				list = append(list, s)
			}
		}
	}
	return list
}

// referenceFields are the keys that describe another model or a data set, in the order in which they are written.
var referenceFields = []string{"name", "author", "version", "organization", "description", "url", "doi", "uuid", "repo_url"}

// references describes the models or data sets in the first of the lists that is there. params is the size of this model.
func (c card) references(params uint64, names ...string) []map[string]string {
	for _, name := range names {
		if _, ok := c[name]; !ok {
			continue
		}
		var list []map[string]string
		for _, n := range c.entries(name) {
			if s := scalar(n); s != "" {
				list = append(list, reference(s, params))
			} else if m := mapping(n); m != nil {
				fields := map[string]string{}
				for _, f := range referenceFields {
					fields[f] = m.text(f)
				}
				list = append(list, fields)
			}
		}
		return list
	}
	return nil
}

var hubURL = regexp.MustCompile(`^https?://huggingface\.co/([^/]+/[^/]+)$`)

// reference describes what an id or an address names.
func reference(s string, params uint64) map[string]string {
	fields := map[string]string{}
	id := s
	if strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "ssh://") {
		fields["repo_url"] = s
		m := hubURL.FindStringSubmatch(s)
		if m == nil {
			return fields
		}
		id = m[1]
	} else if org, _, ok := strings.Cut(s, "/"); ok && !strings.Contains(s, " ") && !strings.HasPrefix(org, ".") {
		fields["repo_url"] = "https://huggingface.co/" + s
	}
	n := parseName(id, params)
	fields["name"], fields["organization"], fields["version"] = n.name, n.organization, n.version
	return fields
}

// named is a text for a key; "" leaves the key out.
type named struct{ key, value string }

// either is the first text that is not empty.
func either(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}

// writeNames appends what the model is called: what the card says goes before what the folder's name says.
func writeNames(m *gguf.Meta, c card, n naming) {
	of := func(name string) string { return c.text(name, "model_"+name) }
	for _, kv := range []named{
		{"name", either(of("name"), n.name)},
		{"author", c.text("author", "model_author", "model_creator")},
		{"version", either(of("version"), n.version)},
		{"organization", either(of("organization"), n.organization)},
		{"finetune", either(of("finetune"), n.finetune)},
		{"basename", either(of("basename"), n.basename)},
		{"description", of("description")},
		{"size_label", either(of("size_label"), n.sizeLabel)},
		{"license", strings.Join(c.texts("license"), ",")},
		{"license.name", c.text("license_name")},
		{"license.link", c.text("license_link")},
		{"source.url", of("url")},
		{"source.doi", of("doi")},
		{"source.uuid", of("uuid")},
		{"source.repo_url", of("repo_url")},
	} {
		if kv.value != "" {
			m.Set("general."+kv.key, gguf.New(kv.value))
		}
	}
}

// writeReferences appends what the card says about base models, data sets, tags and languages.
func writeReferences(m *gguf.Meta, c card, params uint64) {
	for _, kind := range []struct {
		key  string
		list []map[string]string
	}{
		{"base_model", c.references(params, "base_model", "base_models", "base_model_sources")},
		{"dataset", c.references(params, "datasets", "dataset", "dataset_sources")},
	} {
		if kind.list == nil {
			continue
		}
		m.Set("general."+kind.key+".count", gguf.New(uint32(len(kind.list))))
		for i, fields := range kind.list {
			for _, f := range referenceFields {
				if fields[f] != "" {
					m.Set(fmt.Sprintf("general.%s.%d.%s", kind.key, i, f), gguf.New(fields[f]))
				}
			}
		}
	}
	if tags := c.texts("tags", "pipeline_tag"); tags != nil {
		m.Set("general.tags", gguf.NewArray(tags))
	}
	if languages := c.texts("languages", "language"); languages != nil {
		m.Set("general.languages", gguf.NewArray(languages))
	}
}
