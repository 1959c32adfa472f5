package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/ggufkit/ggufkit/gguf"
)

// execute runs a command in this process.
func execute(t *testing.T, wantStatus int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	if status := run(append([]string{"ggufkit"}, args...), strings.NewReader(""), &out, &err); status != wantStatus {
		t.Errorf("%q: status %d, want %d: %s", args, status, wantStatus, &err)
	}
	return out.String(), err.String()
}

// hostile would, printed as it is, set the window's title, change the colour, jump to the line's start and reorder the text.
const hostile = "\x1b]0;title\a\x1b[31m\r\n\u202egpj\u009b31m"

// writeGGUF writes a file without tensor data.
func writeGGUF(t *testing.T, m *gguf.Meta, tensors []gguf.Tensor) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := gguf.NewWriter(f, m, tensors)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tensors {
		size, err := tensors[i].Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Begin(tensors[i].Name); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTerminal: what a file holds reaches the terminal as text only.
func TestTerminal(t *testing.T) {
	m := gguf.NewMeta()
	for _, key := range []string{"general.architecture", "general.name", "tokenizer.ggml.model", hostile} {
		m.Set(key, gguf.New(hostile))
	}
	m.Set("tokenizer.ggml.tokens", gguf.NewArray([]string{hostile, "\xff"}))
	path := writeGGUF(t, m, []gguf.Tensor{{Name: "a" + hostile, Type: gguf.F32, Shape: []uint64{1}}, {Name: "\xff", Type: gguf.F32, Shape: []uint64{1}}})
	for status, list := range [][][]string{
		0: {
			{"inspect", path}, {"inspect", path, "--tensors", "--tokens", "--meta"}, {"meta", "rm", path, hostile, "--dry-run"},
			{"meta", "set", path, "general.name=" + hostile, "--dry-run"}, {"quantize", path, path + ".out", "Q8_0"},
		},
		1: {
			{"run", "-m", path, "-p", "a"}, {"tokenize", "-m", path, "-p", "a"}, {"meta", "get", path, "no" + hostile}, {"inspect", hostile},
			{"convert", hostile},
		},
		2: {{"inspect", "--" + hostile}, {hostile}, {"quantize", path, hostile}, {"meta", "set", path, hostile}},
	} {
		for _, args := range list {
			stdout, stderr := execute(t, status, args...)
			for _, text := range []string{stdout, stderr} {
				if i := strings.IndexFunc(text, func(r rune) bool {
					return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar)
				}); i >= 0 {
					t.Errorf("%q prints a control character: %q", args, text[i:min(len(text), i+40)])
				}
			}
		}
	}
}

// TestEmptyLists: JSON has a list, not null and not nothing, where there are no elements.
func TestEmptyLists(t *testing.T) {
	path := writeGGUF(t, gguf.NewMeta(), nil)
	for list, args := range map[string][]string{
		"meta tensors":        {"inspect", path, "--json"},
		"meta tensors tokens": {"inspect", path, "--json", "--meta", "--tensors", "--tokens"},
	} {
		stdout, _ := execute(t, 0, args...)
		var got map[string]any
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Error(args, err)
		}
		for _, name := range strings.Fields(list) {
			if v, ok := got[name].([]any); !ok || len(v) != 0 {
				t.Errorf("%q: %s is %v", args, name, got[name])
			}
		}
	}
}

// scaled converts the demo checkpoint and multiplies a norm's weights, so that one token has all the probability.
func scaled(t *testing.T, tensor string, factor float32) string {
	t.Helper()
	path := demoF32(t)
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	x, _ := f.Tensor(tensor)
	at, size := f.DataOffset+x.Offset, 4*x.Shape[0]
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b := readFile(t, path)
	for i := at; i < at+size; i += 4 {
		w := factor * math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))
		binary.LittleEndian.PutUint32(b[i:], math.Float32bits(w))
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestInfinite: a text that a model holds for impossible is a result, in JSON too.
func TestInfinite(t *testing.T) {
	path := scaled(t, "output_norm.weight", 1e4)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("To be, or not to be: that is the question. ", 8)), 0o666); err != nil {
		t.Fatal(err)
	}
	stdout, _ := execute(t, 0, "perplexity", "-m", path, "-f", text, "-c", "32", "--json")
	var got map[string]any
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || got["perplexity"] != "+Inf" || got["context"] != 32.0 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestNoNumbers: of several models the one is named whose logits are NaN or infinite, and once, with a command that tells more of it.
func TestNoNumbers(t *testing.T) {
	good := demoF32(t)
	dir := t.TempDir()
	text := filepath.Join("..", "..", "testdata", "demo", "heldout.txt")
	questions := filepath.Join(dir, "questions")
	if err := os.WriteFile(questions, []byte("To be, or\n0\nnot to be\nto go\nto see\nto do\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	windows := []string{"-f", text, "-c", "32", "--chunks", "2"}
	for what, value := range map[string]float32{"NaN": float32(math.NaN()), "infinite": float32(math.Inf(1))} {
		bad := scaled(t, "output_norm.weight", value)
		for name, args := range map[string][]string{
			"perplexity":         append([]string{"perplexity", "-m", bad}, windows...),
			"tasks":              {"perplexity", "-m", bad, "-f", questions, "--hellaswag"},
			"compare":            append([]string{"compare", "-m", bad, "--base", good}, windows...),
			"compare, the base":  append([]string{"compare", "-m", good, "--base", bad}, windows...),
			"compare, a file":    append([]string{"compare", "-m", bad, "--save-base", filepath.Join(dir, "base")}, windows...),
			"report":             append([]string{"report", "--json", "--base", good, bad}, windows...),
			"report, the base":   append([]string{"report", "--json", "--base", bad, good}, windows...),
			"run":                {"run", "-m", bad, "-p", "To be", "-n", "3"},
			"run, most likely":   {"run", "-m", bad, "-p", "To be", "-n", "3", "--temp", "0"},
			"logits":             {"logits", "-m", bad, "--ids", "1,2,3"},
			"logits in JSON":     {"logits", "-m", bad, "--ids", "1,2,3", "--json"},
			"run, with a trace":  {"run", "-m", bad, "-p", "To be", "-n", "3", "--trace", filepath.Join(dir, "trace")},
			"in exact precision": append([]string{"perplexity", "-m", bad, "--precision", "exact"}, windows...),
		} {
			stdout, stderr := execute(t, 1, args...)
			_, message, _ := strings.Cut("\n"+stderr, "\nggufkit: ")
			message, hint, _ := strings.Cut(message, "\nhint: ")
			if stdout != "" || strings.Count(message, bad) != 1 || strings.Contains(message, good) || strings.Contains(message, text) {
				t.Errorf("%s, %s: %q %s", what, name, stdout, stderr)
			}
			if !strings.Contains(hint, "'ggufkit inspect "+bad+" --check'") {
				t.Errorf("%s, %s: %q says nothing of inspect", what, name, hint)
			}
		}
	}
}

// A message that quotes a text of any length stays readable: it begins and ends as it would.
func TestLongMessages(t *testing.T) {
	template := "{{ raise_exception('first ' ~ 'y' * 100000 ~ ' last') }}"
	m := gguf.NewMeta()
	m.Set("tokenizer.ggml.model", gguf.New("gpt2"))
	m.Set("tokenizer.ggml.tokens", gguf.NewArray([]string{"a"}))
	m.Set("tokenizer.ggml.merges", gguf.NewArray([]string{}))
	m.Set("tokenizer.chat_template", gguf.New(template))
	_, stderr := execute(t, 1, "chat-template", "render", writeGGUF(t, m, nil))
	if len(stderr) > 2*longest || !strings.Contains(stderr, "first yyy") || !strings.Contains(stderr, " bytes) ... yyy") {
		t.Errorf("%d bytes: %.200s", len(stderr), stderr)
	}
}
