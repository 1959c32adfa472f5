package infer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// activations are the names that arch.Block has for them.
var activations = map[string]Activation{"silu": SiLU, "gelu": GELU, "gelu_tanh": GELUTanh}

// decoder binds the checked tensors to the parts of a decoder, wired as the declaration says.
func (b *binder) decoder(d *decoder) error {
	wiring := &b.spec.Block
	var ok bool
	*d = decoder{be: b.be, embedScale: 1, softcap: float32(b.params.FinalSoftcap)}
	if d.activation, ok = activations[wiring.Activation]; !ok {
		b.fail(fmt.Errorf("activation %q is not supported", wiring.Activation))
	}
	d.embed = b.weight("token_embd.weight")
	if wiring.ScaleEmbed {
		d.embedScale = float32(math.Sqrt(float64(b.params.NEmbd)))
	}
	if wiring.Positions {
		d.positions = b.positions()
	}
	d.outputNorm = b.norm("output_norm")
	d.output = b.linear("output")
	if d.output.Weight == nil {
		d.output.Weight = d.embed
	}
	var global, local *rotation
	global, local, d.pairs = b.rotations()
	for il := range b.params.NLayer {
		block := b.block(il)
		if b.params.Rotates[il] {
			block.rotation = global
			if b.params.Windowed[il] {
				block.rotation = local
			}
			if !slices.Contains(d.rotations, block.rotation) {
				d.rotations = append(d.rotations, block.rotation)
			}
		}
		d.blocks = append(d.blocks, block)
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

// block binds block il, but for its rotation.
func (b *binder) block(il int) layer {
	p, wiring := b.params, &b.spec.Block
	name := func(part string) string { return fmt.Sprintf("blk.%d.%s", il, part) }
	out := layer{
		attnNorm: b.norm(name("attn_norm")),
		attn:     b.linear(name("attn_output")),
		ffnNorm:  b.norm(name("ffn_norm")),
		down:     b.linear(name("ffn_down")),
		attention: Attention{
			Layer: il, Heads: p.NHead[il], KVHeads: p.NHeadKV[il], HeadK: p.HeadK, HeadV: p.HeadV,
			Scale: float32(p.Scale), Softcap: float32(p.AttnSoftcap),
		},
	}
	if p.NHead[il] == 0 || p.NHeadKV[il] == 0 {
		b.fail(fmt.Errorf("block %d has no attention heads, and a %s model needs them in every block", il, b.spec.Name))
	}
	if p.Windowed[il] {
		out.attention.Window = p.Window
	}
	if wiring.FusedQKV {
		qkv := b.split(name("attn_qkv"), p.NHead[il]*p.HeadK, p.NHeadKV[il]*p.HeadK, p.NHeadKV[il]*p.HeadV)
		out.q, out.k, out.v = qkv[0], qkv[1], qkv[2]
	} else {
		out.q, out.k, out.v = b.linear(name("attn_q")), b.linear(name("attn_k")), b.linear(name("attn_v"))
	}
	switch {
	case wiring.FusedGateUp:
		fused := b.split(name("ffn_up"), p.NFF[il], p.NFF[il])
		out.gate, out.up = fused[0], fused[1]
	case wiring.Gated:
		out.gate, out.up = b.linear(name("ffn_gate")), b.linear(name("ffn_up"))
	default:
		out.up = b.linear(name("ffn_up"))
	}
	if wiring.QKNorm {
		out.qNorm, out.kNorm = b.norm(name("attn_q_norm")), b.norm(name("attn_k_norm"))
	}
	if wiring.PostNorm {
		out.attnPost, out.ffnPost = b.norm(name("post_attention_norm")), b.norm(name("post_ffw_norm"))
	}
	return out
}

// positions binds the learned positions, which must reach as far as the context.
func (b *binder) positions() Weight {
	const name = "position_embd.weight"
	w := b.weight(name)
	if w == nil {
		return nil
	}
	if _, rows := w.Size(); rows < b.context {
		b.fail(fmt.Errorf("%s has %d positions, which does not reach for a context of %d\nhint: choose a smaller context", name, rows, b.context))
	}
	return w
}

// rotations prepares the rotary embeddings of blocks that see all positions and of windowed ones; nil where the family has none.
func (b *binder) rotations() (global, local *rotation, pairs Pairing) {
	switch kind := b.spec.Block.Rope; kind {
	case "none":
		return nil, nil, pairs
	case "norm":
		pairs = Adjacent
	case "neox":
		pairs = Halves
	default:
		b.fail(fmt.Errorf("rope %q is not supported", kind))
		return nil, nil, pairs
	}
	prepare := func(r rotary, factors []float32) *rotation {
		rope, err := newRope(r, factors)
		if err != nil {
			b.fail(err)
		}
		return &rotation{rope: rope}
	}
	factors, err := b.ropeFactors()
	if err != nil {
		b.fail(err)
	}
	global = prepare(b.rope, factors)
	local = global
	if b.params.LocalRope != b.params.Rope {
		local = prepare(rotary{Rope: b.params.LocalRope, extFactor: 1}, nil)
	}
	return global, local, pairs
}

// Tensors with the divisors of longrope.
const longFactors, shortFactors = "rope_factors_long.weight", "rope_factors_short.weight"

// ropeFactors are the divisors of the frequencies that a file may bring; nil if it does not. Of longrope's two lists the one for long
// contexts counts when the context is longer than that of the first training. That way a sequence's past stays valid as it grows.
func (b *binder) ropeFactors() ([]float32, error) {
	table, err := b.factors("rope_freqs.weight")
	if err != nil {
		return nil, err
	}
	long, errLong := b.factors(longFactors)
	short, errShort := b.factors(shortFactors)
	needed := b.params.Rope.Scaling == "longrope" || long != nil || short != nil
	switch err := errors.Join(errLong, errShort); {
	case err != nil || !needed:
		return table, err
	case long == nil || short == nil:
		return nil, fmt.Errorf("longrope needs both %s and %s", longFactors, shortFactors)
	case table != nil:
		return nil, fmt.Errorf("the file has rope_freqs.weight as well as %s and %s: which divides the frequencies is not clear", longFactors, shortFactors)
	case b.context > b.params.Rope.OrigCtx:
		return long, nil
	}
	return short, nil
}

// factors are the values of a tensor of divisors; nil if the source has none.
func (b *binder) factors(name string) ([]float32, error) {
	t, data, err := b.take(name)
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

// split binds consecutive rows of a fused weight, and elements of its bias, each as if it were a tensor of its own.
func (b *binder) split(name string, rows ...int) []Linear {
	out := make([]Linear, len(rows))
	weights, biases := b.cut(name+".weight", rows), b.cut(name+".bias", rows)
	for i := range out {
		out[i] = Linear{Weight: weights[i], Bias: biases[i]}
	}
	return out
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
	return b.bind(t, data)
}

// cut binds consecutive pieces of a tensor along its last dimension; all are nil if the source has none.
func (b *binder) cut(name string, sizes []int) []Weight {
	out := make([]Weight, len(sizes))
	t, data, err := b.take(name)
	if err != nil {
		b.fail(err)
	}
	if t == nil || err != nil {
		return out
	}
	for i, size := range sizes {
		piece := *t
		piece.Shape = slices.Clone(trimOnes(t.Shape))
		piece.Shape[len(piece.Shape)-1] = uint64(size)
		n, err := piece.Bytes()
		if err == nil && n > uint64(len(data)) {
			err = fmt.Errorf("%w: %v is less than pieces of %v", gguf.ErrShape, t.Shape, sizes)
		}
		if err != nil {
			b.fail(fmt.Errorf("%s: %w", name, err))
			return out
		}
		out[i] = b.bind(&piece, data[:n:n])
		data = data[n:]
	}
	return out
}

// bind hands a tensor to the backend; nil after a failure.
func (b *binder) bind(t *gguf.Tensor, data []byte) Weight {
	w, err := b.be.Bind(t, data)
	if err != nil {
		b.fail(fmt.Errorf("%s: %w", t.Name, err))
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
	want, err := t.Bytes()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	if !b.used[name] {
		b.used[name] = true
		b.bytes += want
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
