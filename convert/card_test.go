package convert

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// The keys and the file name are those of the gguf package for Python (testdata/gen/modelcards.py).
func TestCards(t *testing.T) {
	b, err := os.ReadFile("../testdata/golden/convert/modelcards.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Case, Folder, Output string
		Params               uint64
		Readme               *string
		KV                   [][2]any
	}
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Case, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), c.Folder)
			if err := os.Mkdir(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			if c.Readme != nil {
				if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(*c.Readme), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			m := gguf.NewMeta()
			if note, err := writeGeneral(m, dir, c.Params); note != "" || err != nil {
				t.Fatal(note, err)
			}
			got := [][2]any{}
			for key, v := range m.All() {
				if key != "general.type" {
					got = append(got, [2]any{key, plain(v.Any())})
				}
			}
			want := [][2]any{}
			for _, kv := range c.KV {
				want = append(want, [2]any{kv[0], plain(kv[1])})
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
			p := &Plan{Meta: m, label: "F32", Tensors: make([]PlannedTensor, 1)}
			if name := p.DefaultName(); name != c.Output+"-F32.gguf" {
				t.Errorf("the file is %s, want %s-F32.gguf", name, c.Output)
			}
		})
	}
}

// Names of files hold nothing that a file system takes for something else.
func TestDefaultName(t *testing.T) {
	m := gguf.NewMeta()
	m.Set("general.name", gguf.New(`../a/b\c: d`))
	m.Set("general.size_label", gguf.New(uint32(7)))
	if name := (&Plan{Meta: m}).DefaultName(); name != "-a-b-c--d-vocab.gguf" {
		t.Error(name)
	}
	if name := (&Plan{Meta: gguf.NewMeta()}).DefaultName(); name != "model-vocab.gguf" {
		t.Error(name)
	}
}

// Scalars are taken as they are written, aliases are followed, and what is no card is noted.
func TestCardOddities(t *testing.T) {
	c, err := parseCard([]byte("version: 1.0\nlanguage: no\nbase: &b [x, y]\ntags: *b\nlicense: &l mit\nauthor: *l\nversion: 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.text("version") != "1.0" || c.text("language") != "no" || c.text("author") != "mit" || strings.Join(c.texts("tags"), " ") != "x y" {
		t.Error(c.text("version"), c.text("language"), c.text("author"), c.texts("tags"))
	}
	for text, want := range map[string]string{"- a\n- b\n": "not a list of settings", "a: [": "yaml", "a: *missing\n": "missing"} {
		_, err := parseCard([]byte(text))
		wantError(t, err, want)
	}
}

// No card may do worse than give an error.
func FuzzCard(f *testing.F) {
	f.Add("license: mit\ntags: [a, b]\nbase_model:\n- a/b-7B\n- {name: x}\n")
	f.Add("a: &a [*a, *a]\nbase_model: *a\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCard([]byte(text))
		if err != nil {
			return
		}
		m := gguf.NewMeta()
		writeNames(m, c, naming{name: "x"})
		writeReferences(m, c, 1000)
		if _, _, err := gguf.Layout(m, nil); err != nil {
			t.Error(err)
		}
	})
}
