package arch

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
)

// Limits on hyperparameters, far above every model there is. They keep products of two of them within 64 bits and stop an
// absurd file before anything is allocated for it.
const (
	MaxBlocks  = 1 << 12
	MaxWidth   = 1 << 24 // of an embedding or a feed-forward network
	MaxHeads   = 1 << 16
	MaxHeadDim = 1 << 16
	MaxContext = 1 << 30
	MaxVocab   = 1 << 28
)

// Params are the hyperparameters of a model, read from its metadata and checked against each other.
type Params struct {
	Arch string
	// NVocab is the number of tokens the file lists, else its vocab_size; 0 if it says neither (then the rows of the embedding decide).
	NVocab    int
	NCtxTrain int
	NEmbd     int
	NLayer    int
	NFF       []int // per block
	NHead     []int // per block; 0: the block has no attention
	NHeadKV   []int // per block; divides NHead
	HeadK     int   // attention.key_length
	HeadV     int   // attention.value_length
	NormEps   float32

	// Scale multiplies the products of queries and keys: attention.scale, else as the family has it.
	Scale float64
	// AttnSoftcap and FinalSoftcap bound scores and logits to +-cap by cap*tanh(x/cap); 0: they are not bounded.
	AttnSoftcap, FinalSoftcap float64
	// Window is how many positions a windowed block sees, its own included; 0: none is windowed.
	Window   int
	Windowed []bool // per block

	Rope      Rope   // of blocks that see all positions
	LocalRope Rope   // of windowed blocks
	Rotates   []bool // per block
}

// Rope is the rotary embedding.
type Rope struct {
	Dim        int // rotated elements of a head, even; at most HeadK
	FreqBase   float64
	Scaling    string  // "" (none), "linear", "yarn", "longrope" ...
	Factor     float64 // of the scaling; 1 if none
	OrigCtx    int     // context of the training before it was extended; yarn needs it
	AttnFactor float64 // rope.scaling.attn_factor; 1 if absent
	BetaFast   float64 // yarn: pairs that turn more often than this within OrigCtx are not interpolated; 32 if absent
	BetaSlow   float64 // yarn: pairs that turn less often are interpolated fully; 1 if absent
}

// ParamsOf reads the hyperparameters of a file for its architecture. All faults are returned together.
func ParamsOf(s *Spec, m *gguf.Meta) (*Params, error) {
	r := &paramReader{prefix: s.Name + ".", meta: m}
	p := &Params{
		Arch:      s.Name,
		NCtxTrain: r.count("context_length", required, 1, MaxContext),
		NEmbd:     r.count("embedding_length", required, 1, MaxWidth),
		NLayer:    r.count("block_count", required, 1, MaxBlocks),
		NVocab:    r.vocab(),
	}
	if len(r.errs) > 0 {
		return nil, r.err()
	}
	p.NFF = r.perBlock("feed_forward_length", p.NLayer, MaxWidth, nil)
	p.NHead = r.perBlock("attention.head_count", p.NLayer, MaxHeads, nil)
	p.NHeadKV = r.perBlock("attention.head_count_kv", p.NLayer, MaxHeads, p.NHead)
	if len(r.errs) > 0 {
		return nil, r.err()
	}
	p.HeadK = r.headDim("attention.key_length", p)
	p.HeadV = r.headDim("attention.value_length", p)
	p.NormEps = r.normEps(s.Block.Norm)
	p.Scale = r.scale(s.Block.WideScale, p)
	p.AttnSoftcap = r.softcap("attn_logit_softcapping", s.Block.AttnSoftcap)
	p.FinalSoftcap = r.softcap("final_logit_softcapping", s.Block.FinalSoftcap)
	p.Window, p.Windowed = r.window(s.Block.Window, p.NLayer)
	p.Rope = r.rope(s.Block.Rope, p)
	p.LocalRope = r.localRope(s.Block.Window.FreqBase, p.Rope)
	p.Rotates = r.rotates(s.Block, p.NLayer)
	for il, n := range p.NHead {
		if kv := p.NHeadKV[il]; kv > 0 && n%kv != 0 {
			r.fail("block %d: %sattention.head_count %d is not a multiple of head_count_kv %d", il, r.prefix, n, kv)
		}
	}
	if len(r.errs) > 0 {
		return nil, r.err()
	}
	return p, nil
}

// Dim evaluates a dimension expression of a tensor rule for block il (-1 outside blocks): integers and the names below, joined by * and /,
// from left to right; a division must come out even.
//
//	n_embd n_vocab n_ctx rope_dim head_k head_v     of the model
//	n_ff n_head n_head_kv n_qkv                     of the block; n_qkv: rows of q, k and v together
func (p *Params) Dim(expr string, il int) (uint64, error) {
	value, rest, op := uint64(1), expr, byte('*')
	for {
		i := strings.IndexAny(rest, "*/")
		word := rest
		if i >= 0 {
			word = rest[:i]
		}
		v, err := p.operand(word, il)
		if err != nil {
			return 0, fmt.Errorf("dimension %q: %w", expr, err)
		}
		if op == '*' {
			hi, lo := bits.Mul64(value, v)
			if hi != 0 {
				return 0, fmt.Errorf("dimension %q: %w", expr, gguf.ErrOverflow)
			}
			value = lo
		} else {
			if v == 0 || value%v != 0 {
				return 0, fmt.Errorf("dimension %q: %d is not a multiple of %d", expr, value, v)
			}
			value /= v
		}
		if i < 0 {
			return value, nil
		}
		op, rest = rest[i], rest[i+1:]
	}
}

// operand is one word of a dimension expression.
func (p *Params) operand(word string, il int) (uint64, error) {
	perBlock := func(values []int) (uint64, error) {
		if il < 0 || il >= len(values) {
			return 0, fmt.Errorf("%s differs by block and block %d is none", word, il)
		}
		return uint64(values[il]), nil
	}
	switch word {
	case "n_embd":
		return uint64(p.NEmbd), nil
	case "n_ctx":
		return uint64(p.NCtxTrain), nil
	case "n_vocab":
		if p.NVocab == 0 {
			return 0, errors.New("the metadata does not say how many tokens there are")
		}
		return uint64(p.NVocab), nil
	case "rope_dim":
		return uint64(p.Rope.Dim), nil
	case "head_k":
		return uint64(p.HeadK), nil
	case "head_v":
		return uint64(p.HeadV), nil
	case "n_ff":
		return perBlock(p.NFF)
	case "n_head":
		return perBlock(p.NHead)
	case "n_head_kv":
		return perBlock(p.NHeadKV)
	case "n_qkv":
		q, err := perBlock(p.NHead)
		kv, _ := perBlock(p.NHeadKV)
		return q*uint64(p.HeadK) + kv*uint64(p.HeadK+p.HeadV), err
	}
	v, err := strconv.ParseUint(word, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("unknown name %q", word)
	}
	return v, nil
}

const (
	required = true
	optional = false
)

// paramReader reads keys of one architecture and collects what is wrong with them.
type paramReader struct {
	prefix string
	meta   *gguf.Meta
	errs   []error
}

func (r *paramReader) fail(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

func (r *paramReader) err() error {
	return fmt.Errorf("hyperparameters: %w", errors.Join(r.errs...))
}

// count reads an integer in [lo, hi]; 0 if it is absent or faulty.
func (r *paramReader) count(key string, must bool, lo, hi uint64) int {
	key = r.prefix + key
	v, err := r.meta.Uint(key)
	switch {
	case errors.Is(err, gguf.ErrNoKey) && !must:
	case err != nil:
		r.errs = append(r.errs, err)
	case v < lo || v > hi:
		r.fail("%s is %d, expected %d to %d: %w", key, v, lo, hi, gguf.ErrLimit)
	default:
		return int(v)
	}
	return 0
}

// vocab is the length of the token list, else vocab_size, else 0.
func (r *paramReader) vocab() int {
	v, ok := r.meta.Get("tokenizer.ggml.tokens")
	if !ok {
		return r.count("vocab_size", optional, 1, MaxVocab)
	}
	tokens, err := v.Array()
	if err != nil {
		r.fail("tokenizer.ggml.tokens: %w", err)
		return 0
	}
	if n := tokens.Len(); n < 1 || n > MaxVocab {
		r.fail("tokenizer.ggml.tokens has %d entries, expected 1 to %d: %w", n, MaxVocab, gguf.ErrLimit)
		return 0
	}
	return tokens.Len()
}

// perBlock reads an integer for all blocks or an array with one for each. An absent key gives fallback, or is an error if that is nil.
func (r *paramReader) perBlock(key string, blocks int, limit int64, fallback []int) []int {
	key = r.prefix + key
	v, ok := r.meta.Get(key)
	if !ok {
		if fallback == nil {
			r.fail("%s: %w", key, gguf.ErrNoKey)
		}
		return fallback
	}
	values := make([]int64, 1)
	var err error
	if v.Type() == gguf.ArrayType {
		values, err = r.meta.Ints(key)
		if err == nil && len(values) != blocks {
			err = fmt.Errorf("%s has %d entries for %d blocks", key, len(values), blocks)
		}
	} else {
		values[0], err = r.meta.Int(key)
	}
	if err != nil {
		r.errs = append(r.errs, err)
		return nil
	}
	out := make([]int, blocks)
	for il := range out {
		n := values[min(il, len(values)-1)]
		if n < 0 || n > limit {
			r.fail("%s is %d for block %d, expected 0 to %d: %w", key, n, il, limit, gguf.ErrLimit)
			return nil
		}
		out[il] = int(n)
	}
	return out
}

// headDim reads the length of a head's keys or values; by default the heads share the embedding.
func (r *paramReader) headDim(key string, p *Params) int {
	if n := r.count(key, optional, 1, MaxHeadDim); n > 0 {
		return n
	}
	for _, heads := range p.NHead {
		if heads == 0 {
			continue
		}
		if p.NEmbd%heads != 0 {
			r.fail("%s%s is absent and embedding_length %d is not a multiple of head_count %d", r.prefix, key, p.NEmbd, heads)
			return 0
		}
		return p.NEmbd / heads
	}
	return 0
}

// normEps reads the epsilon of the kind of norm the blocks use.
func (r *paramReader) normEps(norm string) float32 {
	key := "attention.layer_norm_epsilon"
	if norm == "rms" {
		key = "attention.layer_norm_rms_epsilon"
	}
	eps := r.float(key, -1)
	if !(eps >= 0 && eps < 1) {
		if _, ok := r.meta.Get(r.prefix + key); !ok {
			r.fail("%s%s: %w", r.prefix, key, gguf.ErrNoKey)
		} else {
			r.fail("%s%s is %g, expected 0 to 1", r.prefix, key, eps)
		}
	}
	return float32(eps)
}

// float reads a finite float, or the default if the key is absent.
func (r *paramReader) float(key string, def float64) float64 {
	key = r.prefix + key
	v, err := r.meta.Float(key)
	switch {
	case errors.Is(err, gguf.ErrNoKey):
		return def
	case err != nil:
		r.errs = append(r.errs, err)
		return def
	case math.IsNaN(v) || math.IsInf(v, 0):
		r.fail("%s is %g", key, v)
		return def
	}
	return v
}

// positive reads a float above 0, or the default if the key is absent.
func (r *paramReader) positive(key string, def float64) float64 {
	v := r.float(key, def)
	if v <= 0 && r.meta.Has(r.prefix+key) {
		r.fail("%s%s is %g, expected more than 0", r.prefix, key, v)
	}
	return v
}

// scale reads the factor of attention scores. Without the key, or where it is 0, it follows from the length of a head, or in a model of
// wideBlocks blocks from the share of a head in the embedding.
func (r *paramReader) scale(wideBlocks int, p *Params) float64 {
	const key = "attention.scale"
	switch scale := r.float(key, 0); {
	case scale < 0:
		r.fail("%s%s is %g, expected more than 0", r.prefix, key, scale)
		return 0
	case scale > 0:
		return scale
	}
	if heads := p.NHead[0]; p.NLayer == wideBlocks && heads > 0 {
		return 1 / math.Sqrt(float64(p.NEmbd)/float64(heads))
	}
	return 1 / math.Sqrt(float64(max(p.HeadK, 1)))
}

// softcap reads the bound of scores or logits.
func (r *paramReader) softcap(key string, def float64) float64 {
	v := r.float(key, def)
	if v < 0 {
		r.fail("%s%s is %g, expected more than 0, or 0 for none", r.prefix, key, v)
	}
	return v
}

// window reads how far windowed blocks see and which blocks they are. Only families that can do without a window may say 0.
func (r *paramReader) window(w Window, blocks int) (length int, windowed []bool) {
	const key, pattern = "attention.sliding_window", "attention.sliding_window_pattern"
	least := uint64(0)
	if w.Default > 0 || w.GlobalEvery > 0 {
		least = 1
	}
	length = w.Default
	if r.meta.Has(r.prefix + key) {
		length = r.count(key, required, least, math.MaxUint32)
	}
	every := w.GlobalEvery
	if v, ok := r.meta.Get(r.prefix + pattern); ok && v.Type() == gguf.ArrayType {
		var err error
		if windowed, err = r.meta.LayerBools(r.prefix+pattern, blocks); err != nil {
			r.errs = append(r.errs, err)
		}
	} else if ok {
		every = r.count(pattern, required, 0, MaxBlocks)
	}
	if windowed == nil {
		windowed = allBut(blocks, every)
	}
	if length == 0 {
		clear(windowed)
	}
	return length, windowed
}

// rotates reads which blocks rotate queries and keys.
func (r *paramReader) rotates(b Block, blocks int) []bool {
	const key = "attention.rope_pattern"
	out := allBut(blocks, b.NoRopeEvery)
	if v, ok := r.meta.Get(r.prefix + key); ok && v.Type() != gguf.ArrayType {
		r.fail("%s%s is one value, expected an array of %d, one for each block", r.prefix, key, blocks)
	} else if ok {
		pattern, err := r.meta.LayerUints(r.prefix+key, blocks)
		if err != nil {
			r.errs = append(r.errs, err)
		}
		for il, n := range pattern {
			out[il] = n != 0
		}
	}
	if b.Rope == "none" {
		clear(out)
	}
	return out
}

// allBut is true for all blocks but every nth; with 0 for all.
func allBut(blocks, n int) []bool {
	out := make([]bool, blocks)
	for il := range out {
		out[il] = n == 0 || (il+1)%n != 0
	}
	return out
}

// localRope reads the rotary embedding of windowed blocks: that of the others, unless there is a base of its own; then it is not scaled.
func (r *paramReader) localRope(def float64, global Rope) Rope {
	base := r.positive("rope.freq_base_swa", def)
	if base <= 0 || global.Dim == 0 {
		return global
	}
	return Rope{Dim: global.Dim, FreqBase: base, Factor: 1, OrigCtx: global.OrigCtx, AttnFactor: 1}
}

// rope reads the rotary embedding of a family that rotates.
func (r *paramReader) rope(kind string, p *Params) Rope {
	if kind == "none" || p.HeadK == 0 {
		return Rope{Factor: 1, AttnFactor: 1}
	}
	rope := Rope{
		Dim:        r.count("rope.dimension_count", optional, 1, MaxHeadDim),
		FreqBase:   r.positive("rope.freq_base", 10000),
		Factor:     r.float("rope.scaling.factor", 0),
		OrigCtx:    r.count("rope.scaling.original_context_length", optional, 1, MaxContext),
		AttnFactor: r.positive("rope.scaling.attn_factor", 1),
		BetaFast:   r.positive("rope.scaling.yarn_beta_fast", 32),
		BetaSlow:   r.positive("rope.scaling.yarn_beta_slow", 1),
	}
	if rope.Dim == 0 {
		rope.Dim = p.HeadK
	}
	if rope.Dim > p.HeadK || rope.Dim%2 != 0 {
		r.fail("%srope.dimension_count is %d, expected an even number up to the key length %d", r.prefix, rope.Dim, p.HeadK)
	}
	if rope.OrigCtx == 0 {
		rope.OrigCtx = p.NCtxTrain
	}
	r.scaling(&rope)
	return rope
}

// scaling settles the kind and factor of the scaling. The key scale_linear is the old form of linear scaling; a factor without a kind is
// linear, and a factor of 0 stands for none.
func (r *paramReader) scaling(rope *Rope) {
	kind, err := r.meta.Str(r.prefix + "rope.scaling.type")
	if errors.Is(err, gguf.ErrNoKey) {
		kind = "linear"
	} else if err != nil {
		r.errs = append(r.errs, err)
	}
	if _, ok := r.meta.Get(r.prefix + "rope.scaling.factor"); !ok {
		rope.Factor = r.float("rope.scale_linear", 0)
	}
	if rope.Factor < 0 {
		r.fail("%srope.scaling.factor is %g, expected more than 0", r.prefix, rope.Factor)
	}
	if rope.Factor == 0 {
		rope.Factor = 1
	}
	if kind == "none" || kind == "linear" && rope.Factor == 1 {
		kind, rope.Factor = "", 1
	}
	rope.Scaling = kind
}
