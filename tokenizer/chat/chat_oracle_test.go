//go:build oracle

package chat

import (
	"os"
	"path/filepath"
	"testing"
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
	languageCases(t, filepath.Join(oracleDir(t), "chat", "jinja_cases.json"), true)
}

// TestOracleCheckpoints: every checkpoint that has a template.
func TestOracleCheckpoints(t *testing.T) {
	recorded, err := filepath.Glob(filepath.Join(oracleDir(t), "archs", "*", "ref", "chat.json"))
	if err != nil || len(recorded) < 35 {
		t.Fatalf("%d recordings: %v", len(recorded), err)
	}
	for _, path := range recorded {
		dir := filepath.Dir(filepath.Dir(path))
		t.Run(filepath.Base(dir), func(t *testing.T) {
			checkpointChats(t, filepath.Join(dir, "hf", "tokenizer_config.json"), path)
		})
	}
}
