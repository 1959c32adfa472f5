//go:build e2e

package eval_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/infer/eval"
	"github.com/ggufkit/ggufkit/infer/sample"
	"github.com/ggufkit/ggufkit/tokenizer"
)

// folder is the value of an environment variable that must be set.
func folder(t *testing.T, variable string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		t.Fatalf("%s does not name a folder", variable)
	}
	return dir
}

// loadModel opens a real model.
func loadModel(t *testing.T, name string, o infer.Options) (*infer.Model, *tokenizer.Tokenizer) {
	t.Helper()
	f, err := gguf.Open(filepath.Join(folder(t, "GGUFKIT_MODELS"), name+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	vocab, err := tokenizer.VocabOf(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(vocab)
	if err != nil {
		t.Fatal(err)
	}
	m, err := infer.Load(f, f.Meta, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m, tok
}

// write goes on from a text, greedily, for at most limit tokens.
func write(t *testing.T, m *infer.Model, tok *tokenizer.Tokenizer, prompt string, o tokenizer.EncodeOptions, limit int) (string, infer.StopReason) {
	t.Helper()
	ids, err := tok.Encode(prompt, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.NewTranscript()
	if err != nil {
		t.Fatal(err)
	}
	sampler, err := sample.New(sample.Options{TopP: 1, RepeatPenalty: 1})
	if err != nil {
		t.Fatal(err)
	}
	var out []int32
	reason, err := infer.Generate(t.Context(), s, ids, sampler, infer.GenerateOptions{MaxTokens: limit, EOG: tok.IsEOG}, func(id int32) error {
		out = append(out, id)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := tok.Decode(out, false)
	if err != nil {
		t.Fatal(err)
	}
	return text, reason
}

// comparePerplexity fails unless a model's perplexity after four windows of the held-out text is llama-perplexity's within half a percent.
func comparePerplexity(t *testing.T, model string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder(t, "ORACLE"), "real", "perplexity.json"))
	if err != nil {
		t.Fatal(err)
	}
	var ref struct {
		Models map[string]struct {
			Context int
			Running []float64 `json:"running_after_each_chunk"`
		}
	}
	if err := json.Unmarshal(data, &ref); err != nil {
		t.Fatal(err)
	}
	want := ref.Models[model]
	const chunks = 4
	if len(want.Running) < chunks {
		t.Fatalf("no recorded perplexity of %s", model)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "demo", "heldout.txt"))
	if err != nil {
		t.Fatal(err)
	}
	m, tok := loadModel(t, model, infer.Options{})
	ids, err := tok.Encode(string(text), tokenizer.EncodeOptions{AddSpecial: true})
	if err != nil {
		t.Fatal(err)
	}
	bos := int32(-1)
	if ids[0] == tok.Vocab.BOS { // the vocabulary adds it
		bos = tok.Vocab.BOS
	}
	got, err := eval.Perplexity(t.Context(), m, ids, eval.PerplexityOptions{
		Windows: eval.Windows{Context: want.Context, Chunks: chunks, BOS: bos},
		Progress: func(done, _ int, r eval.PerplexityResult) {
			t.Logf("after %d: %.4f, recorded %.4f", done, r.Perplexity, want.Running[done-1])
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if w := want.Running[chunks-1]; math.Abs(float64(got.Perplexity)/w-1) > 0.005 {
		t.Errorf("perplexity %.4f, recorded %.4f", got.Perplexity, w)
	}
	if n := chunks * (want.Context - want.Context/2 - 1); got.Tokens != n || got.Chunks != chunks {
		t.Errorf("%d tokens in %d windows, want %d in %d", got.Tokens, got.Chunks, n, chunks)
	}
}
