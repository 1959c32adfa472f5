package kernel

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ggufkit/ggufkit/gguf"
)

func TestTuneStretch(t *testing.T) {
	if os.Getenv("TUNE") == "" {
		return
	}
	pool := newPool(t, 1)
	for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.Q4_K} {
		for _, k := range []int{2048} {
			w := randomMatrix(t, 1, typ, 1024, k)
			for _, n := range []int{8, 32, 128, 256} {
				x := normals(newRand(1), n*k)
				y := make([]float32, n*4096)
				j := job{Product: &Product{W: w, Y: y}, method: byWideTiles, grain: 16}
				st := []int{256, 512, 1024}
				res := make([]float64, len(st))
				lo := 0
				for range 40 {
					for i, s := range st {
						wideBlock = s
						m := newMultiplier(&avx2, pool, true)
						m.jobs = []job{j}
						m.prepare(x, n, k)
						m.piece(&m.workers[0], &j, x, n, lo, lo+16)
						lo = (lo + 16) % 1024
						t0 := time.Now()
						m.piece(&m.workers[0], &j, x, n, lo, lo+16)
						d := float64(time.Since(t0).Nanoseconds())
						if res[i] == 0 || d < res[i] {
							res[i] = d
						}
						lo = (lo + 16) % 1024
					}
				}
				fmt.Printf("%s K %d n %d:", typ, k, n)
				for i := range st {
					if res[i] > 0 {
						fmt.Printf("  %d: %.1f", st[i], 16*float64(k)*float64(n)/res[i])
					}
				}
				fmt.Println()
			}
		}
	}
}
