//go:build oracle

package tokenizer

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mixedText is size bytes of prose, code, notes and texts in many scripts out of testdata, eight lines of one of them at a time, in an order that a seed gives.
func mixedText(t *testing.B, size int) string {
	var sources [][]string
	for _, pattern := range []string{"../testdata/demo/*.txt", "../testdata/gen/*.py", "../testdata/gen/*.sh", "../testdata/*/README.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: nothing to read: %v", pattern, err)
		}
		var lines []string
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, strings.SplitAfter(string(data), "\n")...)
		}
		sources = append(sources, lines)
	}
	var scripts []string
	for _, c := range readJSON[[]textCase](t, "testdata/bpe/tokens.json") {
		scripts = append(scripts, c.Text+"\n")
	}
	sources = append(sources, scripts)
	rng := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < size {
		lines := sources[rng.IntN(len(sources))]
		i := rng.IntN(len(lines))
		for _, line := range lines[i:min(i+8, len(lines))] {
			b.WriteString(line)
		}
	}
	return b.String()[:size]
}

// BenchmarkEncode is 10 MB of mixed text on one thread.
func BenchmarkEncode(b *testing.B) {
	text := mixedText(b, 10_000_000)
	if path := os.Getenv("MIXED_TEXT"); path != "" {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			b.Fatal(err)
		}
	}
	for _, name := range []string{"gpt-2", "llama-bpe", "llama-spm"} {
		tok := openTokenizer(b, oracle(b, "vocab/ggml-vocab-"+name+".gguf"))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := tok.Encode(text, EncodeOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
