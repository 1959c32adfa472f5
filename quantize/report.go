package quantize

import (
	"math"

	"github.com/ggufkit/ggufkit/quantize/encode"
)

// Errors say how far the result is from the source, over one tensor or several.
type Errors struct {
	RMSE     float64 `json:"rmse"`      // root mean square of the differences
	RelRMSE  float64 `json:"rel_rmse"`  // RMSE over the root mean square of the source
	MaxError float64 `json:"max_error"` // largest absolute difference
	Cosine   float64 `json:"cosine"`    // of the angle between source and result
}

// TensorReport is one tensor of the result.
type TensorReport struct {
	Name     string   `json:"name"`
	Shape    []uint64 `json:"shape"`
	From     string   `json:"from"`
	To       string   `json:"to"`
	Rule     string   `json:"rule"`
	Fallback bool     `json:"fallback"`
	Bytes    uint64   `json:"bytes"`
	BPW      float64  `json:"bpw"` // bits per weight
	*Errors           // nil in the report of a plan
}

// Fallbacks sums up the tensors whose rows do not fit the type that the recipe has for them.
type Fallbacks struct {
	Tensors    int     `json:"tensors"`
	Parameters uint64  `json:"parameters"`
	Share      float64 `json:"share"`       // of all parameters
	NominalBPW float64 `json:"nominal_bpw"` // of the whole file, had they fitted
}

// Report is the result of a run, or what a plan knows before (no errors then).
type Report struct {
	Recipe  string         `json:"recipe"`
	Tensors []TensorReport `json:"tensors"`

	Bytes          uint64    `json:"bytes"`        // of the file
	SourceBytes    uint64    `json:"source_bytes"` // of the file it was made from
	TensorBytes    uint64    `json:"tensor_bytes"`
	EmbeddingBytes uint64    `json:"embedding_bytes"` // token embeddings, among tensor_bytes
	OutputBytes    uint64    `json:"output_bytes"`    // output matrix, among tensor_bytes; 0 when the token embedding is it
	Parameters     uint64    `json:"parameters"`
	BPW            float64   `json:"bpw"` // tensor_bytes per parameter, in bits
	Fallbacks      Fallbacks `json:"fallbacks"`
	*Errors                  // over all parameters; nil in the report of a plan
}

// Report is what is known before the run: the same as Run's but for the errors.
func (p *Plan) Report() *Report { return p.report(nil) }

// report makes the report; stats, if not nil, has the error sums of each tensor.
func (p *Plan) report(stats []encode.Stats) *Report {
	r := &Report{Recipe: p.Recipe.Name, Tensors: make([]TensorReport, 0, len(p.Tensors)), Bytes: p.Size, SourceBytes: p.source.Size}
	var total encode.Stats
	var nominal float64 // bits
	for i := range p.Tensors {
		t := &p.Tensors[i]
		x := TensorReport{
			Name: t.Name, Shape: t.Shape, From: t.From.String(), To: t.To.String(), Rule: t.Rule, Fallback: t.Fallback,
			Bytes: t.Bytes, BPW: bitsPerWeight(t.Bytes, t.Elements),
		}
		if stats != nil {
			x.Errors = errorsOf(stats[i])
			total.Add(stats[i])
		}
		r.Tensors = append(r.Tensors, x)
		r.TensorBytes += t.Bytes
		r.Parameters += t.Elements
		switch t.Name {
		case "token_embd.weight", "per_layer_token_embd.weight":
			r.EmbeddingBytes += t.Bytes
		case "output.weight":
			r.OutputBytes += t.Bytes
		}
		wanted, _ := t.Wanted.Info()
		nominal += wanted.BitsPerWeight() * float64(t.Elements)
		if t.Fallback {
			r.Fallbacks.Tensors++
			r.Fallbacks.Parameters += t.Elements
		}
	}
	r.BPW = bitsPerWeight(r.TensorBytes, r.Parameters)
	if r.Parameters > 0 {
		r.Fallbacks.Share = float64(r.Fallbacks.Parameters) / float64(r.Parameters)
		r.Fallbacks.NominalBPW = nominal / float64(r.Parameters)
	}
	if stats != nil {
		r.Errors = errorsOf(total)
	}
	return r
}

func bitsPerWeight(bytes, elements uint64) float64 {
	if elements == 0 {
		return 0
	}
	return float64(bytes) * 8 / float64(elements)
}

// errorsOf turns sums into measures. JSON has no infinity: a relative error over a source of zeros becomes the largest number.
func errorsOf(s encode.Stats) *Errors {
	return &Errors{RMSE: s.RMSE(), RelRMSE: min(s.RelRMSE(), math.MaxFloat64), MaxError: s.MaxError, Cosine: s.Cosine()}
}
