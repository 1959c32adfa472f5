//go:build e2e

package infer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer"
)

// BenchmarkModels measures tokens per second of a prompt of 512 tokens and of 64 steps of one token each, as llama-bench's pp512 and tg64, the latter
// also behind 4096 tokens.
func BenchmarkModels(b *testing.B) {
	const prompt, steps = 512, 64
	ids := make([]int32, prompt)
	for i := range ids {
		ids[i] = int32(i*7919%40000 + 100)
	}
	for _, name := range []string{"SmolLM2-135M-Instruct.Q4_1", "gemma-3-270m-q4_k_m"} {
		f, err := gguf.Open(filepath.Join(os.Getenv("GGUFKIT_MODELS"), name+".gguf"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		for _, threads := range []int{1, 2} {
			m, err := infer.Load(f, f.Meta, infer.Options{Threads: threads, Context: 8192})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			measure := func(test string, n int, run func(s *infer.Session) error) {
				b.Run(fmt.Sprintf("%s/%s/t%d", name, test, threads), func(b *testing.B) {
					for b.Loop() {
						s, err := m.NewSession()
						if err != nil {
							b.Fatal(err)
						}
						if err := run(s); err != nil {
							b.Fatal(err)
						}
						s.Close()
					}
					b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "tok/s")
				})
			}
			measure("pp512", prompt, func(s *infer.Session) error {
				_, err := s.Append(ids)
				return err
			})
			generate := func(s *infer.Session) error {
				for i := range steps {
					if _, err := s.Append(ids[i:][:1]); err != nil {
						return err
					}
				}
				return nil
			}
			measure("tg64", steps, generate)
			deep, err := m.NewSession()
			if err != nil {
				b.Fatal(err)
			}
			for range 8 {
				if _, err := deep.Append(ids); err != nil {
					b.Fatal(err)
				}
			}
			measure("tg64@d4096", steps, func(*infer.Session) error {
				if err := generate(deep); err != nil {
					return err
				}
				return deep.Truncate(8 * prompt)
			})
			deep.Close()
		}
	}
}
