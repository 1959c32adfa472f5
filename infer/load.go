package infer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/internal/mmap"
)

// Model is a loaded model. It is not safe for concurrent use.
type Model struct {
	Params  *arch.Params
	Context int    // most positions of one sequence
	Path    string // of the file, for messages; "" if it is from another source

	decoder decoder
	batch   int
	memory  arch.Memory
	states  map[int]State // by sequence
	nextSeq int

	// Of the batch at hand.
	held, next map[int]int // positions of its sequences: before, and so far
	wanted     []int       // elements that want logits
	rows       []int       // theirs in the residual stream
	runs       []Run
}

// Load binds the tensors of a source without copying them. It fails, listing all of them, on missing, unused or misshapen tensors.
// The source must stay open until the model is closed.
func Load(src arch.TensorSource, meta *gguf.Meta, o Options) (m *Model, err error) {
	err = mmap.Guard(func() error {
		spec, err := arch.ForMeta(meta)
		if err != nil {
			return err
		}
		m, err = load(spec, src, meta, o)
		return err
	})
	return m, err
}

// load is Load for a given declaration.
func load(spec *arch.Spec, src arch.TensorSource, meta *gguf.Meta, o Options) (_ *Model, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	file, ok := src.(*gguf.File)
	if ok && file.Order == binary.BigEndian {
		return nil, errors.New("the file is big-endian, which the engine does not read\nhint: gguf-convert-endian of the Python package gguf makes it little-endian")
	}
	if n, err := meta.Uint("split.count"); err == nil && n > 1 {
		return nil, fmt.Errorf("the file is one of %d parts\nhint: open all of them by the first one", n)
	}
	if len(src.Names()) == 0 {
		return nil, errors.New("the file holds no tensors, only a vocabulary\nhint: it serves to tokenize; running needs a file with weights")
	}
	p, err := arch.ParamsOf(spec, meta)
	if err != nil {
		return nil, err
	}
	m := &Model{Params: p, Context: o.Context, batch: o.Batch, states: map[int]State{}, held: map[int]int{}, next: map[int]int{}}
	if file != nil {
		m.Path = file.Path
	}
	if m.Context == 0 {
		m.Context = p.NCtxTrain
	}
	if m.batch == 0 {
		m.batch = DefaultBatch
	}
	if err := refuse(spec, meta); err != nil {
		return nil, err
	}
	if err := checkCache(p, o.cacheType()); err != nil {
		return nil, err
	}
	b := &binder{src: src, params: p, spec: spec, context: m.Context}
	rope := p.Rope
	if _, ok := src.Tensor(longFactors); ok && rope.Scaling == "" {
		rope.Scaling = "longrope" // other programs' files leave the kind out
	}
	if b.rope, err = o.Rope.apply(rope, spec.Name, spec.Block.Rope); err != nil {
		return nil, err
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	backend := newCPU(&o)
	b.be = o.tapped(o.traced(backend))
	bound := false
	defer func() {
		if !bound { // or a fault, which Load makes an error of
			err = errors.Join(err, b.be.Close())
		}
	}()
	if err := b.decoder(&m.decoder); err != nil {
		return nil, err
	}
	m.decoder.whole = o.Tap != nil // which shows all of them
	m.memory = arch.MemoryOf(spec, p, b.bytes, arch.MemoryOptions{
		Context: m.Context, Batch: m.batch, Threads: backend.pool.Threads(), Cache: o.cacheType(),
	})
	if o.Context > 0 { // else nobody asked for all of it
		if err := o.machine().checkRoom(&m.memory); err != nil {
			return nil, err
		}
	}
	bound = true
	return m, nil
}

// Memory is what the model takes: its weights, one sequence that fills the context, and what batches are computed in.
func (m *Model) Memory() arch.Memory { return m.memory }

// Close frees caches and threads. The source stays open.
func (m *Model) Close() error {
	clear(m.states)
	return m.decoder.be.Close()
}

// refusals are keys that change what a model computes in ways that the decoder does not carry out, with the value that changes nothing.
var refusals = []struct {
	key     string
	neutral float64
	what    string
}{
	{"expert_count", 0, "mixtures of experts"},
	{"attention.causal", 1, "attention in both directions"},
	{"attention.temperature_scale", 0, "a temperature of the attention"},
	{"attention.clamp_kqv", 0, "clamped projections"},
	{"attention.max_alibi_bias", 0, "ALiBi"},
	{"embedding_scale", 1, "a scale of the embedding"},
	{"residual_scale", 1, "a scale of the residual stream"},
	{"logit_scale", 1, "a scale of the logits"},
	{"rope.scaling.yarn_ext_factor", 1, "a partial blend of yarn"},
	{"rope.scaling.yarn_attn_factor", 1, "this magnitude of yarn"},
	{"rope.scaling.yarn_log_multiplier", 0, "this magnitude of yarn"},
}

// refuse fails for a model that sets one of the refusals.
func refuse(spec *arch.Spec, meta *gguf.Meta) error {
	number := func(key string) (float64, bool) {
		v, ok := meta.Get(spec.Name + "." + key)
		if !ok {
			return 0, false
		}
		if b, err := v.Bool(); err == nil {
			if b {
				return 1, true
			}
			return 0, true
		}
		if i, err := v.Int(); err == nil {
			return float64(i), true
		}
		f, err := v.Float()
		return f, err == nil
	}
	for _, r := range refusals {
		if v, ok := number(r.key); ok && v != r.neutral {
			return fmt.Errorf("%s.%s is %g: %s are not supported yet", spec.Name, r.key, v, r.what)
		}
	}
	return nil
}

// binder matches the tensors of a source with a declaration.
type binder struct {
	be      Backend
	bytes   uint64 // of the tensors
	src     arch.TensorSource
	params  *arch.Params
	spec    *arch.Spec
	context int                     // most positions of a sequence
	rope    rotary                  // of blocks that see all positions
	tensors map[string]*gguf.Tensor // those that the declaration names and the source has
	used    map[string]bool
	errs    []error
}

// check compares the source's tensors with the declaration and reports everything that does not fit.
func (b *binder) check() error {
	if err := b.checkVocab(); err != nil {
		return err
	}
	b.tensors, b.used = map[string]*gguf.Tensor{}, map[string]bool{}
	var missing, misshapen, unused []string
	for _, rule := range b.spec.Tensors {
		for _, il := range b.instances(rule) {
			name := instance(rule.Name, il)
			t, ok := b.src.Tensor(name)
			if !ok {
				if !rule.Optional {
					missing = append(missing, name)
				}
				continue
			}
			b.tensors[name] = t
			want, err := b.shape(rule, il)
			if err != nil {
				misshapen = append(misshapen, fmt.Sprintf("%s: %v", name, err))
			} else if !slices.Equal(trimOnes(t.Shape), trimOnes(want)) {
				misshapen = append(misshapen, fmt.Sprintf("%s is %v, expected %v", name, t.Shape, want))
			}
		}
	}
	for _, name := range b.src.Names() {
		if _, ok := b.tensors[name]; !ok {
			unused = append(unused, name)
		}
	}
	var faults []string
	for _, l := range []struct {
		what  string
		names []string
	}{{"missing", missing}, {"unused", unused}, {"misshapen", misshapen}} {
		if len(l.names) > 0 {
			faults = append(faults, fmt.Sprintf("%d %s: %s", len(l.names), l.what, strings.Join(l.names, ", ")))
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("the tensors do not make a %s model: %s", b.spec.Name, strings.Join(faults, "; "))
	}
	return nil
}

// checkVocab takes the vocabulary's size from the embedding where the metadata does not tell.
func (b *binder) checkVocab() error {
	t, ok := b.src.Tensor("token_embd.weight")
	if !ok || b.params.NVocab > 0 {
		return nil
	}
	if len(t.Shape) != 2 || t.Shape[1] == 0 || t.Shape[1] > arch.MaxVocab {
		return fmt.Errorf("token_embd.weight: %w: %v", gguf.ErrShape, t.Shape)
	}
	b.params.NVocab = int(t.Shape[1])
	return nil
}

// instances are the blocks a rule applies to; -1 stands for a tensor of the whole model.
func (b *binder) instances(rule arch.Tensor) []int {
	if !strings.Contains(rule.Name, "%d") {
		return []int{-1}
	}
	blocks := make([]int, b.params.NLayer)
	for il := range blocks {
		blocks[il] = il
	}
	return blocks
}

// instance is the name of a rule's tensor in block il.
func instance(pattern string, il int) string {
	return strings.Replace(pattern, "%d", fmt.Sprint(il), 1)
}

// shape is what a rule's tensor must have in block il.
func (b *binder) shape(rule arch.Tensor, il int) ([]uint64, error) {
	shape := make([]uint64, len(rule.Shape))
	for i, expr := range rule.Shape {
		n, err := b.params.Dim(expr, il)
		if err != nil {
			return nil, err
		}
		shape[i] = n
	}
	return shape, nil
}

// trimOnes drops trailing dimensions of 1, which mean nothing.
func trimOnes(shape []uint64) []uint64 {
	for len(shape) > 1 && shape[len(shape)-1] == 1 {
		shape = shape[:len(shape)-1]
	}
	return shape
}
