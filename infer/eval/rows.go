package eval

import (
	"math"
	"slices"

	"github.com/ggufkit/ggufkit/internal/kernel"
)

// baseRow is a base's distribution of one token.
type baseRow interface {
	// compare holds a model's logits against it, next being the token that follows.
	compare(model logitRow, next int32, s *rowScratch) change
}

// rowScratch is memory for compare, of which each thread has its own.
type rowScratch struct{ a, b []float32 }

// copyOf is a copy of x that stands in *s.
func copyOf(s *[]float32, x []float32) []float32 {
	*s = append((*s)[:0], x...)
	return *s
}

// logitsRow is a base's logits.
type logitsRow struct{ logitRow }

func (r logitsRow) compare(model logitRow, next int32, s *rowScratch) change {
	logits, total, base := model.logits, model.total, r.total
	p := copyOf(&s.a, r.logits)
	kernel.Softmax(p, 1)
	x := change{
		nll: total - float64(logits[next]), base: base - float64(r.logits[next]),
		sameTop: kernel.ArgMax(logits) == kernel.ArgMax(r.logits),
	}
	x.kld = expectation(p, r.logits, logits) - base + total
	x.p, x.pBase = math.Exp(-x.nll), math.Exp(-x.base)
	return x
}

// expectation is the mean of a-b under the weights p, which need not add up to exactly 1. What p gives nothing counts nothing, even where b is infinite.
func expectation(p, a, b []float32) float64 {
	a, b = a[:len(p)], b[:len(p)]
	var s0, s1, s2, s3, w0, w1, w2, w3 float64 // apart, so that additions need not wait for each other
	i := 0
	for ; i+4 <= len(p); i += 4 {
		p, a, b := p[i:i+4:i+4], a[i:i+4:i+4], b[i:i+4:i+4]
		p0, p1, p2, p3 := float64(p[0]), float64(p[1]), float64(p[2]), float64(p[3])
		w0, w1, w2, w3 = w0+p0, w1+p1, w2+p2, w3+p3
		s0 += float64(p0 * (float64(a[0]) - float64(b[0])))
		s1 += float64(p1 * (float64(a[1]) - float64(b[1])))
		s2 += float64(p2 * (float64(a[2]) - float64(b[2])))
		s3 += float64(p3 * (float64(a[3]) - float64(b[3])))
	}
	for ; i < len(p); i++ {
		w0 += float64(p[i])
		s0 += float64(float64(p[i]) * (float64(a[i]) - float64(b[i])))
	}
	if mean := (s0 + s1 + s2 + s3) / (w0 + w1 + w2 + w3); !math.IsNaN(mean) {
		return mean
	}
	var sum, weight float64
	for i, p := range p {
		if p := float64(p); p != 0 { // NaN stays
			weight += p
			sum += float64(p * (float64(a[i]) - float64(b[i])))
		}
	}
	return sum / weight
}

// llamaRow is a row of llama-perplexity's base file: log-probabilities of 16 bits between least and least+65535*step, where everything below is at least.
type llamaRow struct {
	step, least float32
	levels      []uint16
}

// llamaFloor is the log-probability from which on down llama-perplexity leaves a token out.
const llamaFloor = -16

func (r llamaRow) log(level uint16) float32 { return float32(r.step*float32(level)) + r.least }

// logSum is log(sum(exp(x-top))) over exponentials rounded to float32, the way of llama-perplexity. kernel.LogSumExp is faster and as good, but
// differs by up to 1e-7, which can turn a printed digit.
func logSum(x []float32, top float32) float32 {
	var sum float64
	for _, l := range x {
		sum += float64(float32(math.Exp(float64(l - top))))
	}
	return float32(math.Log(sum))
}

// compare has float32 where llama-perplexity has it, so that its printed digits come out.
func (r llamaRow) compare(model logitRow, next int32, s *rowScratch) change {
	logits := model.logits
	top := kernel.ArgMax(logits)
	total := logits[top] + logSum(logits, logits[top])
	nll, base := total-logits[next], -r.log(r.levels[next])

	topBase := 0
	logs := slices.Grow(s.a[:0], len(r.levels))[:len(r.levels)]
	s.a = logs
	for i, level := range r.levels {
		logs[i] = r.log(level)
		if level > r.levels[topBase] {
			topBase = i
		}
	}
	p := copyOf(&s.b, logs)
	mass := math.Exp(kernel.LogSumExp(p)) // of rounded numbers, so not exactly 1
	kernel.Softmax(p, 1)
	var sum float64
	for i, p := range p {
		if log := logs[i]; log > llamaFloor {
			sum += float64(p) * float64(log-logits[i]+total)
		}
	}
	x := change{
		nll: float64(nll), base: float64(base), kld: sum * mass, sameTop: top == topBase, single: true,
		p: float64(float32(math.Exp(float64(-nll)))), pBase: float64(float32(math.Exp(float64(-base)))),
	}
	return x
}

// smallRow is a row of our base file: the most likely tokens, and of the others, the tail, what they have together and a sample.
type smallRow struct {
	next    float32 // log-probability of the token that follows
	tail    float32 // probability
	top     []likely
	samples []likely // of the tail, each token drawn as often as it is likely
}

// likely is a token and its log-probability.
type likely struct {
	id  int32
	log float32
}

// compare takes the tail for one token, which gives no more than the true divergence (the log-sum inequality), and adds what the sample tells about
// the divergence within the tail: the mean of r - 1 - log(r), r being the ratio of the model's probability to the base's with both tails scaled to 1. The mean of r - 1
// is 0, so that this is the divergence too, but no term is negative and the terms differ little.
func (r smallRow) compare(model logitRow, next int32, s *rowScratch) change {
	logits, total := model.logits, model.total
	x := change{nll: total - float64(logits[next]), base: -float64(r.next), sameTop: kernel.ArgMax(logits) == int(r.top[0].id)}
	x.p, x.pBase = math.Exp(-x.nll), math.Exp(-x.base)
	others := copyOf(&s.a, logits)
	for _, t := range r.top {
		others[t.id] = float32(math.Inf(-1))
		if log := float64(t.log); !math.IsInf(log, -1) {
			x.kld += math.Exp(log) * (log - float64(logits[t.id]) + total)
		}
	}
	tail := float64(r.tail)
	if tail == 0 {
		return x
	}
	rest := kernel.LogSumExp(others)
	x.kld += tail * (math.Log(tail) - rest + total)
	if math.IsInf(x.kld, 1) { // the model has no tail
		return x
	}
	var within moments
	for _, t := range r.samples {
		log := float64(logits[t.id]) - rest - float64(t.log) + math.Log(tail)
		within.add(math.Expm1(log) - log)
	}
	if n := float64(len(r.samples)); n > 1 {
		mean := within.sum / n
		x.kld += tail * mean
		x.variance = tail * tail * max(within.squares/n-mean*mean, 0) / (n - 1)
	}
	return x
}
