package eval

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// TestRowsFollowTheDefinition: the divergence of each kind of row is the sum of p*log(p/q), also where tokens are impossible.
func TestRowsFollowTheDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	minusInfinity := float32(math.Inf(-1))
	for _, vocab := range []int{1, 2, 5, 31, 33, 1001} {
		for _, kind := range []string{"plain", "impossible", "shut out"} {
			a, b := make([]float32, vocab), make([]float32, vocab) // base and model
			for i := range a {
				a[i] = float32(rng.NormFloat64() * 3)
				b[i] = a[i] + float32(rng.NormFloat64()/10)
			}
			if kind != "plain" && vocab > 2 { // for both, or for the model alone
				b[1] = minusInfinity
				if kind == "impossible" {
					a[1] = minusInfinity
				}
			}
			p, q := probabilities(a), probabilities(b)
			want := 0.0
			for i := range p {
				if p[i] > 0 {
					want += p[i] * math.Log(p[i]/q[i])
				}
			}
			next := int32(vocab - 1)
			check := func(what string, x change, bound float64) {
				t.Helper()
				if math.IsInf(want, 1) != math.IsInf(x.kld, 1) || !math.IsInf(want, 1) && !(math.Abs(x.kld-want) <= bound) {
					t.Errorf("%d tokens, %s, %s: divergence %g, want %g", vocab, kind, what, x.kld, want)
				}
				if math.Abs(x.nll+math.Log(q[next])) > 1e-5 || math.Abs(x.base+math.Log(p[next])) > 1e-3 {
					t.Errorf("%d tokens, %s, %s: %+v", vocab, kind, what, x)
				}
			}
			check("logits", logitsRow{newLogitRow(a)}.compare(newLogitRow(b), next, &rowScratch{}), 1e-6)
			for _, form := range []BaseForm{Small, Llama} {
				var out bytes.Buffer
				w, err := NewBaseWriter(&out, form, make([]int32, 3), Windows{Context: 3, BOS: -1}, vocab)
				if err != nil {
					t.Fatal(err)
				}
				header := w.out.Buffered()
				if err := w.add(newLogitRow(a), next); err != nil {
					t.Fatal(err)
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				decode, what, bound := w.header.smallDecoder(), "small", 2e-3
				if form == Llama {
					decode, what, bound = w.header.llamaDecoder(), "llama", 1e-3
				}
				row, err := decode(out.Bytes()[header:])
				if err != nil {
					t.Fatalf("%d tokens, %s, %s: %v", vocab, kind, what, err)
				}
				if kind == "shut out" && form == Small && vocab > w.header.top { // a sample can miss the one token
					continue
				}
				check(what, row.compare(newLogitRow(b), next, &rowScratch{}), bound)
			}
		}
	}
}

func probabilities(logits []float32) []float64 {
	p := make([]float64, len(logits))
	sum := 0.0
	for i, l := range logits {
		p[i] = math.Exp(float64(l))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}
