package infer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// activations are the names that arch.Block has for them.
var activations = map[string]Activation{"silu": SiLU, "gelu": GELU, "gelu_tanh": GELUTanh}

// decoder binds the checked tensors to the parts of a decoder, wired as the declaration says.
func (b *binder) decoder(d *decoder) error {
	var ok bool
	*d = decoder{be: b.be, headK: b.params.HeadK, headV: b.params.HeadV}
	if d.activation, ok = activations[b.spec.Block.Activation]; !ok {
		b.fail(fmt.Errorf("activation %q is not supported", b.spec.Block.Activation))
	}
	d.rope, d.pairs = b.rope()
	d.embed = b.weight("token_embd.weight")
	d.outputNorm = b.norm("output_norm")
	d.output = b.linear("output")
	if d.output.Weight == nil {
		d.output.Weight = d.embed
	}
	for il := range b.params.NLayer {
		d.blocks = append(d.blocks, b.block(il))
	}
	for name := range b.tensors {
		if !b.used[name] {
			b.fail(fmt.Errorf("%s: the decoder has no use for this tensor", name))
		}
	}
	if len(b.errs) > 0 {
		slices.SortFunc(b.errs, func(x, y error) int { return cmp.Compare(x.Error(), y.Error()) })
		return errors.Join(b.errs...)
	}
	d.newBuffers()
	return nil
}

// block binds block il.
func (b *binder) block(il int) layer {
	name := func(part string) string { return fmt.Sprintf("blk.%d.%s", il, part) }
	out := layer{
		heads: b.params.NHead[il], kvHeads: b.params.NHeadKV[il],
		attnNorm: b.norm(name("attn_norm")),
		q:        b.linear(name("attn_q")),
		k:        b.linear(name("attn_k")),
		v:        b.linear(name("attn_v")),
		attn:     b.linear(name("attn_output")),
		ffnNorm:  b.norm(name("ffn_norm")),
		up:       b.linear(name("ffn_up")),
		down:     b.linear(name("ffn_down")),
	}
	if out.heads == 0 || out.kvHeads == 0 {
		b.fail(fmt.Errorf("block %d has no attention heads, and a %s model needs them in every block", il, b.spec.Name))
	}
	if b.spec.Block.Gated {
		out.gate = b.linear(name("ffn_gate"))
	}
	if b.spec.Block.QKNorm {
		out.qNorm, out.kNorm = b.norm(name("attn_q_norm")), b.norm(name("attn_k_norm"))
	}
	return out
}

// rope prepares the rotations; nil where the family has none.
func (b *binder) rope() (*rope, Pairing) {
	var pairs Pairing
	switch kind := b.spec.Block.Rope; kind {
	case "none":
		return nil, pairs
	case "norm":
		pairs = Adjacent
	case "neox":
		pairs = Halves
	default:
		b.fail(fmt.Errorf("rope %q is not supported", kind))
		return nil, pairs
	}
	factors, err := b.ropeFactors()
	if err != nil {
		b.fail(err)
		return nil, pairs
	}
	r, err := newRope(b.params.Rope, factors)
	if err != nil {
		b.fail(err)
	}
	return r, pairs
}

// ropeFactors are the divisors of the frequencies that a file may bring; nil if it does not.
func (b *binder) ropeFactors() ([]float32, error) {
	t, data, err := b.take("rope_freqs.weight")
	if t == nil || err != nil {
		return nil, err
	}
	codec, err := block.ForType(t.Type)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	factors := make([]float32, t.Shape[0])
	codec.Decode(factors, data)
	for i, f := range factors {
		if !(f > 0) {
			return nil, fmt.Errorf("%s: factor %d is %g, expected more than 0", t.Name, i, f)
		}
	}
	return factors, nil
}

// norm binds a norm of the family's kind.
func (b *binder) norm(name string) *Norm {
	return &Norm{
		Layer:  b.spec.Block.Norm == "layer",
		Weight: b.weight(name + ".weight"),
		Bias:   b.weight(name + ".bias"),
		Eps:    b.params.NormEps,
	}
}

// linear binds a weight and the bias it may have; both are nil where the source has none.
func (b *binder) linear(name string) Linear {
	return Linear{Weight: b.weight(name + ".weight"), Bias: b.weight(name + ".bias")}
}

// weight binds a tensor; nil if the source has none.
func (b *binder) weight(name string) Weight {
	t, data, err := b.take(name)
	if err != nil {
		b.fail(err)
	}
	if t == nil || err != nil {
		return nil
	}
	w, err := b.be.Bind(t, data)
	if err != nil {
		b.fail(fmt.Errorf("%s: %w", name, err))
		return nil
	}
	return w
}

// take finds a checked tensor and its bytes, and notes that it has been used.
func (b *binder) take(name string) (*gguf.Tensor, []byte, error) {
	t := b.tensors[name]
	if t == nil {
		return nil, nil, nil
	}
	b.used[name] = true
	want, err := t.Bytes()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	data, err := b.src.Data(t)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	if uint64(len(data)) != want {
		return nil, nil, fmt.Errorf("%s: %d bytes, expected %d: %w", name, len(data), want, gguf.ErrTruncated)
	}
	return t, data, nil
}

func (b *binder) fail(err error) { b.errs = append(b.errs, err) }
