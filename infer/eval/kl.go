package eval

import (
	"math"
	"slices"
)

// Divergence tells how far a model's predictions are from those of a base, over the scored tokens of a text. All statistics are defined as llama-perplexity
// --kl-divergence defines them; an error is the standard error of the value before it. P is the probability of the token that follows.
type Divergence struct {
	PPL          Number `json:"ppl"` // of the model
	PPLStdErr    Number `json:"ppl_stderr"`
	PPLBase      Number `json:"ppl_base"`
	PPLBaseErr   Number `json:"ppl_base_stderr"`
	Correlation  Number `json:"ppl_correlation"` // of the two logarithms of P
	LogRatio     Number `json:"ppl_log_ratio"`   // ln(PPL/PPLBase)
	LogRatioErr  Number `json:"ppl_log_ratio_stderr"`
	Ratio        Number `json:"ppl_ratio"`
	RatioErr     Number `json:"ppl_ratio_stderr"`
	Difference   Number `json:"ppl_difference"`
	DifferentErr Number `json:"ppl_difference_stderr"`

	KLD       Number `json:"kld_mean"` // of the divergence of the model from the base, in nats
	KLDStdErr Number `json:"kld_stderr"`
	KLDMax    Number `json:"kld_max"`
	KLDP999   Number `json:"kld_p99_9"`
	KLDP99    Number `json:"kld_p99"`
	KLDP95    Number `json:"kld_p95"`
	KLDP90    Number `json:"kld_p90"`
	KLDMedian Number `json:"kld_median"`
	KLDP10    Number `json:"kld_p10"`
	KLDP05    Number `json:"kld_p05"`
	KLDP01    Number `json:"kld_p01"`
	KLDP001   Number `json:"kld_p00_1"`
	KLDMin    Number `json:"kld_min"`
	// KLDSampling is the standard error that comes to the mean because a small base file has only a sample of unlikely tokens. With other bases it is 0.
	KLDSampling Number `json:"kld_sampling_stderr"`

	PDiff       Number `json:"p_diff_mean"` // of the change of P
	PDiffStdErr Number `json:"p_diff_stderr"`
	PDiffMax    Number `json:"p_diff_max"`
	PDiffP999   Number `json:"p_diff_p99_9"`
	PDiffP99    Number `json:"p_diff_p99"`
	PDiffP95    Number `json:"p_diff_p95"`
	PDiffP90    Number `json:"p_diff_p90"`
	PDiffP75    Number `json:"p_diff_p75"`
	PDiffMedian Number `json:"p_diff_median"`
	PDiffP25    Number `json:"p_diff_p25"`
	PDiffP10    Number `json:"p_diff_p10"`
	PDiffP05    Number `json:"p_diff_p05"`
	PDiffP01    Number `json:"p_diff_p01"`
	PDiffP001   Number `json:"p_diff_p00_1"`
	PDiffMin    Number `json:"p_diff_min"`
	PDiffRMS    Number `json:"p_diff_rms"`
	PDiffRMSErr Number `json:"p_diff_rms_stderr"`

	SameTop    Number `json:"same_top"` // share of tokens where both find the same one the most likely
	SameTopErr Number `json:"same_top_stderr"`

	Tokens  int  `json:"tokens"` // scored
	Chunks  int  `json:"chunks"` // windows
	Context int  `json:"context"`
	BOS     bool `json:"bos"`
}

// change is what two distributions say about one token.
type change struct {
	nll, base float64 // negative logarithm of P, by the model and by the base
	kld       float64
	variance  float64 // of kld, where it is an estimate
	p, pBase  float64
	sameTop   bool
	single    bool // nll and base are float32, and so shall be their products, as llama-perplexity has them
}

// times is a product of two of the likelihoods.
func (x *change) times(a, b float64) float64 {
	if x.single {
		return float64(float32(a) * float32(b))
	}
	return a * b
}

// moments are the sums behind a mean and its standard error.
type moments struct{ sum, squares float64 }

func (m *moments) add(x float64) {
	m.sum += x
	m.squares += x * x
}

// mean is that of n values and its standard error, which less than 11 values do not show.
func (m moments) mean(n int) (mean, stderr float64) {
	if n == 0 {
		return 0, 0
	}
	mean = m.sum / float64(n)
	if variance := m.squares/float64(n) - mean*mean; variance > 0 && n > 10 {
		stderr = math.Sqrt(variance / float64(n-1))
	}
	return mean, stderr
}

// changes collects the statistics of a text. It keeps 8 bytes for every token, for the percentiles.
type changes struct {
	nll, base, kld, diff, diff2 moments
	product                     float64 // of nll and base
	variance                    float64
	same                        int
	klds, diffs                 []float32
}

func (c *changes) add(x change) {
	diff := x.p - x.pBase
	c.nll.sum += x.nll
	c.nll.squares += x.times(x.nll, x.nll)
	c.base.sum += x.base
	c.base.squares += x.times(x.base, x.base)
	c.product += x.times(x.nll, x.base)
	c.kld.add(x.kld)
	c.variance += x.variance
	c.diff.add(diff)
	c.diff2.add(diff * diff)
	if x.sameTop {
		c.same++
	}
	c.klds = append(c.klds, float32(x.kld))
	c.diffs = append(c.diffs, float32(diff))
}

// result works the statistics out so far.
func (c *changes) result() Divergence {
	d := c.means()
	if d.Tokens == 0 {
		return d
	}
	slices.Sort(c.klds)
	for _, p := range []struct {
		at   float32
		into *Number
	}{
		{1, &d.KLDMax}, {.999, &d.KLDP999}, {.99, &d.KLDP99}, {.95, &d.KLDP95}, {.9, &d.KLDP90}, {.5, &d.KLDMedian},
		{.1, &d.KLDP10}, {.05, &d.KLDP05}, {.01, &d.KLDP01}, {.001, &d.KLDP001}, {0, &d.KLDMin},
	} {
		*p.into = percentile(c.klds, p.at)
	}
	slices.Sort(c.diffs)
	for _, p := range []struct {
		at   float32
		into *Number
	}{
		{1, &d.PDiffMax}, {.999, &d.PDiffP999}, {.99, &d.PDiffP99}, {.95, &d.PDiffP95}, {.9, &d.PDiffP90}, {.75, &d.PDiffP75}, {.5, &d.PDiffMedian},
		{.25, &d.PDiffP25}, {.1, &d.PDiffP10}, {.05, &d.PDiffP05}, {.01, &d.PDiffP01}, {.001, &d.PDiffP001}, {0, &d.PDiffMin},
	} {
		*p.into = percentile(c.diffs, p.at)
	}
	return d
}

// means is result without the percentiles, for which everything so far has to be sorted.
func (c *changes) means() Divergence {
	n := len(c.klds)
	if n == 0 {
		return Divergence{}
	}
	d := Divergence{Tokens: n}
	c.perplexities(&d)

	kld, err := c.kld.mean(n)
	d.KLD, d.KLDStdErr, d.KLDSampling = Number(kld), Number(err), Number(math.Sqrt(c.variance)/float64(n))

	diff, err := c.diff.mean(n)
	d.PDiff, d.PDiffStdErr = Number(diff), Number(err)
	square, err := c.diff2.mean(n)
	d.PDiffRMS = Number(math.Sqrt(square))
	if square > 0 {
		d.PDiffRMSErr = Number(err / 2 / math.Sqrt(square))
	}

	same := float64(c.same) / float64(n)
	d.SameTop = Number(same)
	if n > 1 {
		d.SameTopErr = Number(math.Sqrt(same * (1 - same) / float64(n-1)))
	}
	return d
}

// perplexities compares the two perplexities. The errors of ratio and difference are carried through the first derivative, with the covariance
// of the two logarithms: much of what makes a text hard is hard for both.
func (c *changes) perplexities(d *Divergence) {
	n := len(c.klds)
	log, logErr := c.nll.mean(n)
	base, baseErr := c.base.mean(n)
	ppl, pplBase := math.Exp(log), math.Exp(base)
	d.PPL, d.PPLStdErr = Number(ppl), Number(ppl*logErr)
	d.PPLBase, d.PPLBaseErr = Number(pplBase), Number(pplBase*baseErr)

	covariance := 0.0
	if n >= 10 {
		covariance = (c.product/float64(n) - log*base) / float64(n-1)
	}
	if logErr > 0 && baseErr > 0 {
		d.Correlation = Number(min(covariance/(logErr*baseErr), 1))
	}
	ratio := math.Exp(log - base)
	ratioErr := math.Sqrt(max(logErr*logErr+baseErr*baseErr-2*covariance, 0))
	d.LogRatio, d.LogRatioErr = Number(log-base), Number(ratioErr)
	d.Ratio, d.RatioErr = Number(ratio), Number(ratio*ratioErr)
	d.Difference = Number(ppl - pplBase)
	square := ppl*ppl*logErr*logErr + pplBase*pplBase*baseErr*baseErr - 2*ppl*pplBase*covariance
	d.DifferentErr = Number(math.Sqrt(max(square, 0)))
}

// percentile interpolates between the sorted values next to a fraction of the way, in float32 as llama-perplexity does. The median of an even number
// is the mean of the middle two either way.
func percentile(sorted []float32, fraction float32) Number {
	last := len(sorted) - 1
	at := fraction * float32(last)
	i := min(int(at), last)
	at -= float32(i)
	low, high := sorted[i], sorted[min(i+1, last)]
	if low == high { // also where both are infinite
		return Number(low)
	}
	return Number(float32((1-at)*low) + float32(at*high))
}
