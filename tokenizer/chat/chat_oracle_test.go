//go:build oracle

package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// templateCase is one rendering by Python's Jinja2.
type templateCase struct {
	Template, Case      string
	AddGenerationPrompt bool `json:"add_generation_prompt"`
	Out                 *string
	Error               struct {
		Message  string
		ByDesign bool `json:"by_design"` // raise_exception was called
	}
}

// TestOracleTemplates renders other people's templates as Python does. Those without tools must agree in full, errors that a template raises
// too. With tools the engine, which is a makeshift, is held to the number that it managed when this was written.
func TestOracleTemplates(t *testing.T) {
	inputs := decode(t, jsontext.NewDecoder(bytes.NewReader(oracle(t, "chat/inputs.json")))).AsDict()
	tokens, _ := inputs.Get("special_tokens")
	cases, _ := inputs.Get("cases")
	var renders []templateCase
	if err := json.Unmarshal(oracle(t, "chat/renders.json"), &renders); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 7, 14, 5, 9, 0, time.UTC)
	good, all := map[string]int{}, map[string]int{}
	for _, r := range renders {
		if r.Out == nil && !r.Error.ByDesign {
			continue // Python's type errors, which this engine mostly does not notice
		}
		vars := map[string]jinja.Value{"tools": jinja.None(), "documents": jinja.None(), "add_generation_prompt": jinja.NewBool(r.AddGenerationPrompt)}
		input, _ := cases.AsDict().Get(r.Case)
		for _, d := range []jinja.Value{tokens, input} {
			for _, key := range d.AsDict().OrderedKeys() {
				vars[key], _ = d.AsDict().Get(key)
			}
		}
		out, err := render(string(oracle(t, "chat/templates/"+r.Template)), now, vars)
		all[r.Case]++
		var raised *Exception
		switch {
		case r.Out != nil && err == nil && out == *r.Out, r.Out == nil && errors.As(err, &raised) && raised.Message == r.Error.Message:
			good[r.Case]++
		case !strings.HasPrefix(r.Case, "tools"):
			t.Errorf("%s %s: %v", r.Template, r.Case, err)
		}
	}
	least := map[string]int{"tools": 74, "tools_str": 50, "tools_only": 92}
	for kind, n := range all {
		t.Logf("%-12s %d of %d", kind, good[kind], n)
		if good[kind] < least[kind] {
			t.Errorf("%s: %d of %d, there were %d", kind, good[kind], n, least[kind])
		}
	}
}

func TestOracleCheckpoints(t *testing.T) {
	for _, name := range []string{"llama", "llama-odd-bias", "llama-tied-headdim", "llama31-rope", "qwen2", "mistral-swa", "mistral-nemo", "qwen3",
		"qwen25-yarn", "gemma", "gemma2", "gemma3", "phi3-longrope", "smollm3"} {
		dir := filepath.Join(os.Getenv("ORACLE"), "archs", name)
		checkpointChats(t, filepath.Join(dir, "hf", "tokenizer_config.json"), filepath.Join(dir, "ref", "chat.json"))
	}
}
