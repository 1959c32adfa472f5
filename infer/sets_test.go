package infer

import (
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	level "github.com/ggufkit/ggufkit/internal/cpu"
)

// setsFile names the file that a child process of TestInstructionSets writes its logits to.
const setsFile = "GGUFKIT_TEST_LOGITS"

// Instruction sets agree (R099): exact precision within the rounding errors of float32, fast within what one step of activations in 8 bits makes, and
// the most likely token is the same wherever it is no tie within that; in exact precision over a whole text.
func TestInstructionSets(t *testing.T) {
	models := map[string]tiny{"gemma2": families()["gemma2"], "gpt2": families()["gpt2"]}
	for _, typ := range []gguf.Type{gguf.Q4_K, gguf.Q8_0, gguf.BF16} {
		models[typ.String()] = quantTiny(typ)
	}
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			var got [2][][]float32
			for _, p := range []Precision{Fast, Exact} {
				s := newSession(t, m.load(t, Options{Precision: p}))
				got[p] = append(all(t, s, m.ids(90), 83), all(t, s, m.ids(3), 1)...)
				if p == Exact {
					got[p] = append(got[p], mostLikely(t, s, got[p][len(got[p])-1], 40)...)
				}
			}
			if path := os.Getenv(setsFile); path != "" {
				var data []byte
				for _, rows := range got {
					for _, row := range rows {
						data, _ = binary.Append(data, binary.LittleEndian, row)
					}
				}
				if err := os.WriteFile(path, data, 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			path := filepath.Join(t.TempDir(), "logits")
			child := exec.Command(os.Args[0], "-test.run=^TestInstructionSets$/^"+name+"$")
			child.Env = append(os.Environ(), setsFile+"="+path, level.Variable+"=generic")
			if out, err := child.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			rest := data
			for p, bound := range []float64{Fast: 0.03, Exact: 1e-5} {
				p := Precision(p)
				want := make([][]float64, len(got[p]))
				for i := range want {
					row := make([]float32, m.vocab)
					n, err := binary.Decode(rest, binary.LittleEndian, row)
					if err != nil {
						t.Fatal(err)
					}
					want[i], rest = widen(row), rest[n:]
				}
				within(t, name, got[p], want, bound)
				for i, row := range want {
					a, b := largest(widen(got[p][i])), largest(row)
					if a != b && (p == Exact || row[b]-row[a] > 2*bound*max(math.Abs(row[b]), 1)) {
						t.Errorf("precision %d, row %d: token %d, by the portable set %d", p, i, a, b)
					}
				}
			}
		})
	}
}

// mostLikely takes the most likely token n times, starting from the logits at hand, and returns the logits of each.
func mostLikely(t *testing.T, s *Session, logits []float32, n int) [][]float32 {
	t.Helper()
	var out [][]float32
	for range n {
		next, err := s.Append([]int32{int32(largest(widen(logits)))})
		if err != nil {
			t.Fatal(err)
		}
		logits = slices.Clone(next)
		out = append(out, logits)
	}
	return out
}

// largest is the place of the largest value, of equal ones the first.
func largest(values []float64) int { return slices.Index(values, slices.Max(values)) }
