// Package convert turns a Hugging Face checkpoint into a GGUF file.
//
// NewPlan reads config, tokenizer and tensor headers and decides everything; Plan.Run then reads the weights once, row by row.
package convert

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/convert/checkpoint"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/tokenizer"
)

// Options of a conversion.
type Options struct {
	Type      string // "" or "auto", "f32", "f16", "bf16", "q8_0" or any recipe of quantize/mix, in any case
	Pre       string // overrides the recognized pre-tokenizer
	VocabOnly bool   // write the metadata and no tensors
	// Edit changes the metadata before it is laid out; may be nil. What the weights say cannot be contradicted.
	Edit func(*gguf.Meta) error
	// SplitMaxSize is the most bytes of one file; what exceeds it becomes several. 0: one file.
	SplitMaxSize uint64
	Threads      int
	Stats        bool                                  // measure what each tensor loses, which takes time
	Progress     func(name string, done, total uint64) // bytes of tensor data written; may be nil
}

// PlannedTensor is one tensor of the output and where it comes from.
type PlannedTensor struct {
	gguf.Tensor
	Sources   []*checkpoint.Tensor // none for a computed tensor
	Transform string               // "" or the name of the rule's transform
	Rule      string               // why it has its type

	block int  // -1 outside blocks
	f32   bool // the architecture wants F32
}

// Plan is a whole conversion before any weight is read. It is also a tensor source; for that, its checkpoint must stay open.
type Plan struct {
	Arch    string
	Meta    *gguf.Meta
	Tensors []PlannedTensor
	Notes   []string // for the user: what was left out, overruled or unusual
	Details []string // what came from which file, and what goes without saying

	ckpt   *checkpoint.Checkpoint
	params *arch.Params
	rope   rope
	label  string      // of the type, for file names
	parts  []gguf.Part // the output files, with their tensors
}

var _ arch.TensorSource = (*Plan)(nil)

// planner carries what NewPlan has found out so far.
type planner struct {
	ckpt  *checkpoint.Checkpoint
	opts  Options
	out   output
	cfg   *config
	spec  *arch.Spec
	rope  rope
	match *matching
	rows  uint64 // of the embedding matrix

	notes, details []string // of the plan
}

func (p *planner) note(notes ...string)     { p.notes = append(p.notes, notes...) }
func (p *planner) detail(details ...string) { p.details = append(p.details, details...) }

// NewPlan reads config, tokenizer and tensor list of an open checkpoint. It fails, listing all of them, on unmapped, missing or doubled tensors
// and wrong shapes. Anything else that the output could not say (an unknown class, a rope setting, a pre-tokenizer) is an error too. With
// Options.VocabOnly the checkpoint may have no tensors at all (a Checkpoint with nothing but its folder).
func NewPlan(ckpt *checkpoint.Checkpoint, o Options) (*Plan, error) {
	out, err := parseOutput(o.Type)
	if err != nil {
		return nil, err
	}
	cfg, err := readConfig(ckpt.Dir)
	if err != nil {
		return nil, err
	}
	spec, err := cfg.spec()
	if err != nil {
		return nil, err
	}
	p := &planner{ckpt: ckpt, opts: o, out: out, cfg: cfg, spec: spec, notes: slices.Clone(ckpt.Notes)}
	if p.rope, err = cfg.rope(); err != nil {
		return nil, err
	}
	if err := p.checkRope(); err != nil {
		return nil, err
	}
	if err := p.pair(); err != nil {
		return nil, err
	}
	vocab, err := p.vocab()
	if err != nil {
		return nil, err
	}
	hyper, err := p.hyper()
	if err != nil {
		return nil, err
	}
	hyper.Set("general.quantization_version", gguf.New(uint32(2)))
	vocab.WriteMeta(hyper)
	params, err := arch.ParamsOf(spec, hyper)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.file, err)
	}
	var tensors []PlannedTensor
	if !p.wordsOnly() {
		if tensors, err = p.tensors(params); err != nil {
			return nil, fmt.Errorf("%s: %w", ckpt.Dir, err)
		}
	}
	meta, err := p.meta(hyper, tensors)
	if err != nil {
		return nil, err
	}
	if params, err = p.edit(meta, params); err != nil {
		return nil, err
	}
	notes, err := out.choose(meta, tensors)
	if err != nil {
		return nil, err
	}
	p.note(notes...)
	if o.VocabOnly {
		tensors = nil
	}
	plan := &Plan{Arch: spec.Name, Meta: meta, Tensors: tensors, ckpt: ckpt, params: params, rope: p.rope, label: out.label(p.match.order)}
	laid := plan.list()
	if plan.parts, err = gguf.Split(meta, laid, gguf.PartLimits{Bytes: o.SplitMaxSize}); err != nil {
		return nil, err
	}
	for i := range laid {
		plan.Tensors[i].Offset = laid[i].Offset
	}
	if o.SplitMaxSize > 0 && len(plan.parts) == 1 {
		p.note("the output fits one file and is not split")
	}
	plan.Notes, plan.Details = p.notes, p.details
	return plan, nil
}

// edit lets the caller change the metadata and reads the hyperparameters again. The tensors are settled by then, so their shapes must stay
// what they are.
func (p *planner) edit(meta *gguf.Meta, params *arch.Params) (*arch.Params, error) {
	if p.opts.Edit == nil {
		return params, nil
	}
	if err := p.opts.Edit(meta); err != nil {
		return nil, err
	}
	if name, err := meta.Str("general.architecture"); err != nil || name != p.spec.Name {
		return nil, fmt.Errorf("general.architecture must stay %s, which the tensors are written for", p.spec.Name)
	}
	edited, err := arch.ParamsOf(p.spec, meta)
	if err != nil {
		return nil, fmt.Errorf("the metadata as changed: %w", err)
	}
	if edited.NLayer != params.NLayer {
		return nil, fmt.Errorf("the metadata as changed does not fit the weights: they are of %d blocks, not %d", params.NLayer, edited.NLayer)
	}
	for _, t := range p.match.targets {
		before, err := shapeOf(params, t)
		if err != nil {
			continue // a tensor that the model does not have
		}
		if after, err := shapeOf(edited, t); err != nil || !slices.Equal(before, after) {
			return nil, fmt.Errorf("the metadata as changed does not fit the weights: %s is %s, and would have to be %s", t.name, dims(before), dims(after))
		}
	}
	return edited, nil
}

// pair matches the checkpoint's tensors with the architecture's by name and finds the embedding matrix.
func (p *planner) pair() error {
	blocks, err := p.blocks()
	if err != nil {
		return err
	}
	if p.match, err = match(p.spec, blocks, p.ckpt.Tensors); err != nil {
		return err
	}
	if p.wordsOnly() {
		return p.statedRows()
	}
	details, err := p.match.resolveTied(p.spec, p.cfg, p.ckpt)
	if err != nil {
		return err
	}
	p.detail(details...)
	embedding := p.match.target("token_embd.weight")
	if embedding == nil {
		return fmt.Errorf("architecture %s declares no embedding matrix", p.spec.Name)
	}
	if len(embedding.found) != 1 {
		// Without the embeddings there is no vocabulary, so shapes cannot be checked; say what is known.
		_, err := p.tensors(nil)
		return fmt.Errorf("%s: %w", p.ckpt.Dir, err)
	}
	if src := embedding.found[0]; len(src.Shape) != 2 || src.Shape[0] == 0 || src.Shape[0] > arch.MaxVocab {
		return fmt.Errorf("%s: %s is %s in %s, expected a matrix with a row for each of up to %d tokens", p.ckpt.Dir, src.Name, describe(src), src.File, arch.MaxVocab)
	}
	p.rows = embedding.found[0].Shape[0]
	return nil
}

// wordsOnly says that a vocabulary is wanted from a checkpoint that has no weights, as when they were not downloaded.
func (p *planner) wordsOnly() bool { return p.opts.VocabOnly && len(p.ckpt.Tensors) == 0 }

// statedRows takes the size of the vocabulary from config.json.
func (p *planner) statedRows() error {
	n, ok, err := p.cfg.uint("vocab_size", 32)
	if err != nil {
		return err
	}
	if !ok || n < 1 || n > arch.MaxVocab {
		return fmt.Errorf("%s: without weights vocab_size must say how many tokens there are, 1 to %d", p.cfg.file, arch.MaxVocab)
	}
	p.note("there are no weights; the size of the vocabulary is that of config.json")
	p.rows = n
	return nil
}

// blocks reads the number of blocks.
func (p *planner) blocks() (int, error) {
	m := gguf.NewMeta()
	i := slices.IndexFunc(p.spec.Keys, func(k arch.Key) bool { return k.Name == "block_count" })
	if err := p.writeKey(m, p.spec.Keys[i]); err != nil {
		return 0, err
	}
	return p.blockCount(m)
}

// vocab reads the tokenizer. The rows of the embedding matrix are the vocabulary's size, whatever config.json says.
func (p *planner) vocab() (*tokenizer.Vocab, error) {
	stated, ok, err := p.cfg.uint("vocab_size", 64)
	if err != nil {
		return nil, err
	}
	if ok && stated != p.rows {
		p.note(fmt.Sprintf("config.json says vocab_size %d, but the embeddings have %d rows; the rows count", stated, p.rows))
	}
	v, err := tokenizer.FromCheckpoint(p.ckpt.Dir, int(p.rows), p.opts.Pre)
	if err != nil {
		return nil, err
	}
	p.note(v.Notes...)
	p.detail(v.Details...)
	if rule := p.match.target("token_embd.weight").rule; rule.Cut {
		p.cut(v)
	}
	return v, nil
}

// cut takes the entries that only pad the vocabulary to the rows of the embedding matrix off its end.
func (p *planner) cut(v *tokenizer.Vocab) {
	n := len(v.Tokens)
	for n > 1 && v.Types[n-1] == tokenizer.Unused && v.Tokens[n-1] == fmt.Sprintf("[PAD%d]", n-1) {
		n--
	}
	if n == len(v.Tokens) {
		return
	}
	p.note(fmt.Sprintf("%d rows of the embeddings beyond the %d tokens are left out", len(v.Tokens)-n, n))
	v.Tokens, v.Types = v.Tokens[:n], v.Types[:n]
	if v.Scores != nil {
		v.Scores = v.Scores[:n]
	}
}

// meta puts the keys that name the model before the others.
func (p *planner) meta(hyper *gguf.Meta, tensors []PlannedTensor) (*gguf.Meta, error) {
	var weights uint64
	for i := range tensors {
		n, err := tensors[i].Elements()
		if err != nil {
			return nil, err
		}
		weights += n
	}
	m := gguf.NewMeta()
	m.Set("general.architecture", gguf.New(p.spec.Name))
	note, err := writeGeneral(m, p.ckpt.Dir, weights)
	if err != nil {
		return nil, err
	}
	if note != "" {
		p.note(note)
	}
	for k, v := range hyper.All() {
		m.Set(k, v)
	}
	return m, nil
}

// tensors lists the output's tensors in the order of the checkpoint, computed ones first, without types. Faults of all tensors are returned
// together. Without params shapes are not known and only names are checked.
func (p *planner) tensors(params *arch.Params) ([]PlannedTensor, error) {
	var f faults
	notes, flagged, err := p.match.checkFlags(p.cfg)
	if err != nil {
		return nil, err
	}
	missing, err := p.match.missing(p.spec, p.cfg, flagged)
	if err != nil {
		return nil, err
	}
	for _, t := range missing {
		tie := ""
		if t.rule.Tied != "" {
			tie = fmt.Sprintf(" (only with tie_word_embeddings does %s stand in for it)", t.rule.Tied)
		}
		if len(t.rule.HF) > 0 {
			f.add("missing: %s for %s%s%s", inBlock(t.rule.HF[0], t.block), t.name, expectedShape(params, t), tie)
		}
	}
	for _, src := range p.match.unused {
		f.add("not used: %s, %s in %s", src.Name, describe(src), src.File)
	}
	for _, t := range p.match.order {
		if len(t.found) > 1 {
			f.add("used twice: %s and %s both stand for %s", t.found[0].Name, t.found[1].Name, t.name)
		}
	}
	if params == nil {
		return nil, f.err(p.spec)
	}
	p.note(notes...)
	for _, reason := range slices.Sorted(maps.Keys(p.match.dropped)) {
		p.note(fmt.Sprintf("%d tensors of the checkpoint are left out: %s", p.match.dropped[reason], reason))
	}
	var planned []PlannedTensor
	for _, t := range p.match.targets {
		if len(t.rule.HF) == 0 && computedFor[t.rule.Transform] == p.rope.kind {
			planned = append(planned, p.planned(params, t, &f))
		}
	}
	for _, t := range p.match.order {
		planned = append(planned, p.planned(params, t, &f))
	}
	return planned, f.err(p.spec)
}

// planned is one tensor with its shape, checked against the source.
func (p *planner) planned(params *arch.Params, t *target, f *faults) PlannedTensor {
	out := PlannedTensor{Tensor: gguf.Tensor{Name: t.name}, Sources: t.found, Transform: t.rule.Transform, block: t.block, f32: t.rule.F32}
	shape, err := shapeOf(params, t)
	if err != nil {
		f.add("%s: %v", t.name, err)
		return out
	}
	out.Shape = shape
	if n := len(p.rope.table(t.rule.Transform)); n > 0 && uint64(n) != shape[0] {
		f.add("%s: the rope section has %d factors for %d pairs of rotated elements", t.name, n, shape[0])
	}
	for _, src := range t.found {
		if _, ok := stored[src.DType]; !ok {
			f.add("element type: %s is %s in %s; weights are read as F32, F16, BF16 or F64", src.Name, src.DType, src.File)
		}
		want := slices.Clone(shape)
		if t.rule.Transform != transpose {
			slices.Reverse(want)
		}
		got := slices.Clone(src.Shape)
		if t.rule.Cut && len(got) > 0 && got[0] > want[0] {
			got[0] = want[0]
		}
		if !slices.Equal(want, got) {
			f.add("shape: %s is %s in %s, but config.json asks for %s%s", src.Name, dims(src.Shape), src.File, dims(want), explainShape(params, t))
		}
	}
	return out
}

// shapeOf evaluates the shape of a target, row length first.
func shapeOf(params *arch.Params, t *target) ([]uint64, error) {
	shape := make([]uint64, len(t.rule.Shape))
	for i, expr := range t.rule.Shape {
		n, err := params.Dim(expr, t.block)
		if err != nil {
			return nil, err
		}
		shape[i] = n
	}
	return shape, nil
}

// expectedShape is the shape of a missing tensor in the checkpoint's order, for a message.
func expectedShape(params *arch.Params, t *target) string {
	if params == nil {
		return ""
	}
	shape, err := shapeOf(params, t)
	if err != nil {
		return ""
	}
	slices.Reverse(shape)
	return ", expected with shape " + dims(shape)
}

// explainShape says where the products among a target's dimensions come from: " (n_head*head_k is 4*24)".
func explainShape(params *arch.Params, t *target) string {
	var parts []string
	for _, expr := range t.rule.Shape {
		words := strings.Split(expr, "*")
		if len(words) < 2 {
			continue
		}
		var values []string
		for _, w := range words {
			if n, err := params.Dim(w, t.block); err == nil {
				values = append(values, fmt.Sprint(n))
			}
		}
		parts = append(parts, fmt.Sprintf("%s is %s", expr, strings.Join(values, "*")))
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// list is a copy of the tensors as package gguf takes them.
func (p *Plan) list() []gguf.Tensor {
	list := make([]gguf.Tensor, len(p.Tensors))
	for i := range p.Tensors {
		list[i] = p.Tensors[i].Tensor
	}
	return list
}

func (p *Plan) find(name string) *PlannedTensor {
	for i := range p.Tensors {
		if p.Tensors[i].Name == name {
			return &p.Tensors[i]
		}
	}
	return nil
}

// Tensor finds a tensor of the output by its GGUF name.
func (p *Plan) Tensor(name string) (*gguf.Tensor, bool) {
	if t := p.find(name); t != nil {
		return &t.Tensor, true
	}
	return nil, false
}

// Names lists the tensors of the output.
func (p *Plan) Names() []string {
	var names []string
	for i := range p.Tensors {
		names = append(names, p.Tensors[i].Name)
	}
	return names
}

// Data is a tensor in the output's form: the checkpoint's own bytes, where they stay as they are, else converted into memory.
func (p *Plan) Data(t *gguf.Tensor) ([]byte, error) {
	planned := p.find(t.Name)
	if planned == nil {
		return nil, fmt.Errorf("the plan has no tensor %s", t.Name)
	}
	n, err := planned.Bytes()
	if err != nil {
		return nil, err
	}
	if n > math.MaxInt {
		return nil, fmt.Errorf("tensor %s of %d bytes: %w", t.Name, n, gguf.ErrLimit)
	}
	if raw := p.stored(planned); uint64(len(raw)) == n {
		return raw, nil
	}
	var buf bytes.Buffer
	buf.Grow(int(n))
	if _, err := p.write(context.Background(), &buf, planned, Options{}, nil); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// stored is a view of a tensor in the checkpoint that becomes one of the output without a change; nil if there is none.
func (p *Plan) stored(t *PlannedTensor) []byte {
	if len(t.Sources) != 1 || t.Transform != "" || t.Sources[0].DType == checkpoint.F64 || stored[t.Sources[0].DType] != t.Type {
		return nil
	}
	rows := t.Rows()
	if len(t.Sources[0].Shape) < 2 {
		rows = 1
	}
	raw, err := p.ckpt.ReadRaw(t.Sources[0], 0, rows)
	if err != nil {
		return nil // conversion says what is wrong
	}
	return raw
}

// Reader prepares the rows of a tensor of the output, widened: read fills dst with rows [lo, hi), (hi-lo) times as many values as a row has. It may be
// called for several rows at once.
func (p *Plan) Reader(name string) (read func(lo, hi uint64, dst []float32) error, err error) {
	t := p.find(name)
	if t == nil {
		return nil, fmt.Errorf("the plan has no tensor %s", name)
	}
	src, err := p.source(t)
	if err != nil {
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	}
	return src.read, nil
}
