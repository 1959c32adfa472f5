package eval

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/convert"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer"
)

// The limits of a proof. What a type explains is not taken from a table: the checkpoint's own values are quantized to the file's type, and what that
// loses is the measure. Other quantizers, and importance matrices, lose somewhat more by this measure; a damage loses several times as much.
const (
	// tensorFactor is how many times what its type explains a tensor's error may be.
	tensorFactor = 2
	// groupFactor is the same for a group of 32 elements in a row, the unit of most scales.
	groupFactor = 2
	// farFactor stands for groupFactor in a tensor that was made with an importance matrix: for the sake of one important element others of its
	// group may be off by far.
	farFactor = 12
	// slopeFactor is how many times the explained relative error the size of a group as a whole may be off: a wrong scale shifts all of a group
	// one way, which rounding does not.
	slopeFactor = 1
	// operationFactor is how many times what its weight explains the local error of an operation may be.
	operationFactor = 2
	// roundings is the relative error that the order of additions in float32 explains in the result of any operation.
	roundings = 1e-4
	// exactness is the relative error that is no difference between weights.
	exactness = 1e-6
	// recordedLimit is how far our logits of the checkpoint may be from those that another program recorded, both rms.
	recordedLimit = 1e-3
)

// ProofOptions are those of Prove.
type ProofOptions struct {
	Threads  int       // 0: the cores this process may use
	Recorded []float32 // another program's logits of the checkpoint, a row for each token; nil: none
	// Progress tells how much of a stage is done, in units of its own; may be nil.
	Progress func(stage string, done, total uint64)
}

// Proof is how a file compares with the checkpoint that it was made from. An error is the root mean square of the difference, divided by that of the
// checkpoint's values.
type Proof struct {
	Architecture string           `json:"architecture"`
	Tokens       int              `json:"tokens"`
	Good         bool             `json:"good"`     // nothing was found
	Findings     []Finding        `json:"findings"` // in the order of the computation: the first is where the error jumps
	Settings     []SettingProof   `json:"settings"` // hyperparameters that differ
	Tensors      []TensorProof    `json:"tensors"`
	Operations   []OperationProof `json:"operations"`
	Logits       LogitsProof      `json:"logits"` // the file's against the checkpoint's
	// With recorded logits: the checkpoint's and the file's against those.
	RecordedCheckpoint *LogitsProof `json:"recorded_checkpoint,omitempty"`
	RecordedFile       *LogitsProof `json:"recorded_file,omitempty"`
}

// Finding is a difference that the types of the file do not explain.
type Finding struct {
	Layer     int      `json:"layer"`            // -1 outside of blocks
	Operation string   `json:"operation"`        // "" where the run shows nothing
	Tensor    string   `json:"tensor,omitempty"` // what it points at
	Keys      []string `json:"keys,omitempty"`   // of the metadata, the same
	Error     Number   `json:"error"`
	Allowed   Number   `json:"allowed"`
	Why       string   `json:"why"`
}

// Place is where the finding is, for people: "block 3, attn_q (blk.3.attn_q.weight)".
func (f *Finding) Place() string {
	place := f.Operation
	switch {
	case f.Operation == "":
		place = "the metadata"
		if f.Tensor != "" {
			return f.Tensor
		}
	case f.Layer >= 0:
		place = fmt.Sprintf("block %d, %s", f.Layer, f.Operation)
	}
	for _, points := range append([]string{f.Tensor}, f.Keys...) {
		if points != "" {
			place += " (" + points + ")"
		}
	}
	return place
}

// OperationProof is one operation of the run.
//
// Local is the error that the operation makes alone: the file's operation works on the checkpoint's activations. Explained is what the type of its
// weight explains of it, and Allowed the limit. Error is the accumulated one: the file runs on its own, with what all operations before have done.
type OperationProof struct {
	Layer     int    `json:"layer"` // -1 outside of blocks
	Operation string `json:"operation"`
	Tensor    string `json:"tensor,omitempty"` // of the weight
	Type      string `json:"type,omitempty"`
	Local     Number `json:"local"`
	Explained Number `json:"explained"`
	Allowed   Number `json:"allowed"`
	Error     Number `json:"error"`
	Cosine    Number `json:"cosine"` // accumulated
}

// LogitsProof compares logits of all tokens. The divergence is the Kullback-Leibler divergence in nats from the first named.
type LogitsProof struct {
	Error    Number `json:"error"`
	Cosine   Number `json:"cosine"`
	MaxError Number `json:"max_error"`
	KLD      Number `json:"kld_mean"`
	KLDMax   Number `json:"kld_max"`
	SameTop  Number `json:"same_top"`
}

// contrast sums how values differ from a reference.
type contrast struct {
	diff, ref, got, dot float64 // sums of squares, and of products
	largest             float64
}

func (c *contrast) add(ref, got []float32) {
	got = got[:len(ref)]
	for i, r := range ref {
		r, g := float64(r), float64(got[i])
		d := g - r
		c.diff += d * d
		c.ref += r * r
		c.got += g * g
		c.dot += r * g
		if d < 0 {
			d = -d
		}
		if !(d <= c.largest) { // a NaN stays
			c.largest = d
		}
	}
}

func (c *contrast) merge(o *contrast) {
	c.diff += o.diff
	c.ref += o.ref
	c.got += o.got
	c.dot += o.dot
	if !(o.largest <= c.largest) {
		c.largest = o.largest
	}
}

// relative is the root of a sum of squared errors by that of the reference.
func (c *contrast) relative(squares float64) float64 {
	if squares == 0 {
		return 0
	}
	return math.Sqrt(squares / c.ref)
}

// cosine is that of the angle between the two; 1 where both are zero.
func (c *contrast) cosine() float64 {
	if c.ref == 0 && c.got == 0 {
		return 1
	}
	if c.ref == 0 || c.got == 0 {
		return 0
	}
	return c.dot / math.Sqrt(c.ref) / math.Sqrt(c.got)
}

// prover is a proof at work.
type prover struct {
	file    *gguf.File
	plan    *convert.Plan
	spec    *arch.Spec
	options ProofOptions
	proof   *Proof
	ids     []int32

	reference, free, forced *stream

	lost    map[lostKey]*lost // by the weight
	tensors map[string]int    // index in proof.Tensors
}

// Prove compares a file with a checkpoint: a plan of type "auto" for it, which must be open. Every tensor's weights are compared, and both run the
// ids in exact precision, operation by operation. The checkpoint's tensors are read as they are needed; only those that a conversion changes
// (the rows of q and k of the llama family, transposed matrices) are held in memory.
func Prove(ctx context.Context, file *gguf.File, plan *convert.Plan, ids []int32, o ProofOptions) (*Proof, error) {
	if len(ids) == 0 {
		return nil, errors.New("no tokens to run")
	}
	name, err := file.Meta.Str("general.architecture")
	if err != nil {
		return nil, err
	}
	if name != plan.Arch {
		return nil, fmt.Errorf("the file is a %s model, the checkpoint a %s model\nhint: give the checkpoint that the file was made from", name, plan.Arch)
	}
	spec, err := arch.ForGGUF(name)
	if err != nil {
		return nil, err
	}
	p := &prover{
		file: file, plan: plan, spec: spec, options: o, ids: ids, proof: &Proof{Architecture: name, Tokens: len(ids), Findings: []Finding{}, Settings: []SettingProof{}},
		lost: map[lostKey]*lost{}, tensors: map[string]int{},
	}
	defer p.close()
	for _, step := range []func(context.Context) error{p.settings, p.load, p.weights, p.run} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	p.judge()
	return p.proof, nil
}

// load binds the checkpoint once and the file twice: one runs on its own, the other on the checkpoint's activations.
func (p *prover) load(context.Context) error {
	for _, s := range []struct {
		into **stream
		src  arch.TensorSource
		meta *gguf.Meta
		what string
	}{{&p.reference, p.plan, p.plan.Meta, "the checkpoint: "}, {&p.free, p.file, p.file.Meta, ""}, {&p.forced, p.file, p.file.Meta, ""}} {
		tap := &infer.Tap{}
		// One pass takes all ids. A longrope model goes by the length of the sequence then, as transformers does.
		model, err := infer.Load(s.src, s.meta, infer.Options{Precision: infer.Exact, Threads: p.options.Threads, Context: len(p.ids), Batch: len(p.ids), Tap: tap})
		if err != nil {
			return fmt.Errorf("%s%w", s.what, err)
		}
		*s.into = &stream{model: model, tap: tap}
	}
	if a, b := p.reference.model.Params.NVocab, p.free.model.Params.NVocab; a != b {
		return fmt.Errorf("the file has %d tokens in its vocabulary, the checkpoint %d\nhint: give the checkpoint that the file was made from", b, a)
	}
	// All weights are compared before anything runs.
	for i, id := range p.ids {
		if n := p.free.model.Params.NVocab; id < 0 || int(id) >= n {
			return fmt.Errorf("element %d of the ids: token %d, the vocabulary has 0 to %d", i, id, n-1)
		}
	}
	if n := p.free.model.Params.NVocab * len(p.ids); p.options.Recorded != nil && len(p.options.Recorded) != n {
		return fmt.Errorf("the recorded logits are %d values, expected %d: %d for each of %d tokens", len(p.options.Recorded), n, n/len(p.ids), len(p.ids))
	}
	return nil
}

func (p *prover) close() {
	for _, s := range []*stream{p.free, p.forced, p.reference} {
		if s != nil {
			s.close()
		}
	}
}

// progress reports, if anybody listens.
func (p *prover) progress(stage string, done, total uint64) {
	if p.options.Progress != nil {
		p.options.Progress(stage, done, total)
	}
}
