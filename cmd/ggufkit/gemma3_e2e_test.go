//go:build e2e

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A base model goes on from a text; it has no chat template, so a talk with it is refused before anything is computed.
func TestBaseModel(t *testing.T) {
	model := filepath.Join(models(t), "gemma-3-270m-q4_k_m.gguf")
	const question = "What is the capital of France?"
	if text := ggufkit(t, "run", "-m", model, "-p", question, "--temp", "0", "-n", "16", "-q"); !strings.Contains(text, "Paris") {
		t.Errorf("it goes on with %q", text)
	}
	var out, err strings.Builder
	status := run([]string{"ggufkit", "chat", "-m", model, "-p", question, "--temp", "0", "-n", "16"}, strings.NewReader(""), &out, &err)
	if status != 1 || out.Len() > 0 {
		t.Errorf("chat ends with status %d and writes %q", status, out.String())
	}
	for _, part := range []string{model, "no key tokenizer.chat_template", "hint: use 'ggufkit run'"} {
		if !strings.Contains(err.String(), part) {
			t.Errorf("the message is %q, without %q", err.String(), part)
		}
	}
}
