//go:build oracle

package chat

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func oracle(t *testing.T, path string, v any) {
	t.Helper()
	readJSON(t, filepath.Join(oracleDir(t), filepath.FromSlash(path)), v)
}

func oracleDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("ORACLE")
	if dir == "" {
		t.Fatal("ORACLE names no folder of reference data")
	}
	return dir
}

// frozen is the time that the reference renderings were told.
var frozen = time.Date(2026, 3, 7, 14, 5, 9, 0, time.UTC)

// reference is what Python's Jinja2 did.
type reference struct {
	Out   *string
	Error struct {
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

// TestOracleTemplates renders other people's templates as Python does, and fails where that fails, with the same message.
func TestOracleTemplates(t *testing.T) {
	var inputs struct {
		Tokens map[string]Value            `json:"special_tokens"`
		Cases  map[string]map[string]Value `json:"cases"`
	}
	oracle(t, "chat/inputs.json", &inputs)
	var renders []struct {
		reference
		Template, Case      string
		AddGenerationPrompt bool `json:"add_generation_prompt"`
	}
	oracle(t, "chat/renders.json", &renders)
	good := 0
	for _, r := range renders {
		src, err := os.ReadFile(filepath.Join(oracleDir(t), "chat", "templates", r.Template))
		if err != nil {
			t.Fatal(err)
		}
		c := Context{AddGenerationPrompt: r.AddGenerationPrompt, Now: frozen, Variables: map[string]Value{}}
		for name, v := range inputs.Tokens {
			c.Variables[name] = v
		}
		for name, v := range inputs.Cases[r.Case] {
			c.Variables[name] = v
		}
		out, err := Render(string(src), c)
		if r.check(t, r.Template+" "+r.Case, out, err) {
			good++
		}
	}
	if t.Logf("%d of %d", good, len(renders)); len(renders) < 858 {
		t.Errorf("%d renderings, there were more", len(renders))
	}
}

// TestOracleCases are features of the language, one by one.
func TestOracleCases(t *testing.T) {
	var file struct {
		Context map[string]Value
		Cases   []struct {
			reference
			Template string
		}
	}
	oracle(t, "chat/jinja_cases.json", &file)
	for _, c := range file.Cases {
		out, err := Render(c.Template, Context{Variables: file.Context, Now: frozen})
		c.check(t, c.Template, out, err)
	}
	if len(file.Cases) < 341 {
		t.Errorf("%d cases, there were more", len(file.Cases))
	}
}

func TestOracleCheckpoints(t *testing.T) {
	for _, name := range []string{"llama", "llama-odd-bias", "llama-tied-headdim", "llama31-rope", "qwen2", "mistral-swa", "mistral-nemo", "qwen3",
		"qwen25-yarn", "gemma", "gemma2", "gemma3", "phi3-longrope", "smollm3"} {
		dir := filepath.Join(oracleDir(t), "archs", name)
		checkpointChats(t, filepath.Join(dir, "hf", "tokenizer_config.json"), filepath.Join(dir, "ref", "chat.json"))
	}
}
