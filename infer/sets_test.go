package infer

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	level "github.com/ggufkit/ggufkit/internal/cpu"
)

// setsFile names the file that a child process of TestInstructionSets writes its logits to.
const setsFile = "GGUFKIT_TEST_LOGITS"

// Instruction sets agree: exact precision within the rounding errors of float32, fast within what one step of activations in 8 bits makes.
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
			for p, bound := range map[Precision]float64{Exact: 1e-5, Fast: 0.03} {
				want := make([][]float64, len(got[p]))
				rest := data[int(p)*len(data)/2:]
				for i := range want {
					row := make([]float32, m.vocab)
					n, err := binary.Decode(rest, binary.LittleEndian, row)
					if err != nil {
						t.Fatal(err)
					}
					want[i], rest = widen(row), rest[n:]
				}
				within(t, name, got[p], want, bound)
			}
		})
	}
}
