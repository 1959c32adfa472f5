package infer

import (
	"cmp"
	"fmt"
	"math"

	"github.com/ggufkit/ggufkit/arch"
)

// expected is what metadata and family of a model come to, as a test tells it. The zero value is llama's way.
type expected struct {
	rotation          []rotated // per block; nil: all rotate by base 10000, if the family does at all
	divisors          []float32 // of the frequencies in blocks that see everything
	magnitude         float64   // of what is rotated there; 0: 1
	window            []int     // per block, 0: none; nil: no block has one
	scale             float64   // of scores; 0: 1/sqrt(headK)
	attnCap, finalCap float64   // 0: none
	embedScale        float64   // 0: 1
}

// rotated is how a block rotates.
type rotated struct {
	base   float64 // 0: not at all
	factor float64 // divides all frequencies; 0: 1
}

// reference computes the logits of all positions from the definitions, in float64 and without any cache or tile.
type reference struct {
	m   *tiny
	src *source
	p   *arch.Params

	decoded map[string][]float32
}

// values are the weights of a tensor; nil if there is none.
func (r *reference) values(name string) []float32 {
	v, ok := r.decoded[name]
	if !ok {
		v = r.src.values(name)
		r.decoded[name] = v
	}
	return v
}

// logits are those of every position of ids.
func (r *reference) logits(ids []int32) [][]float64 {
	r.decoded = map[string][]float32{}
	embed, positions := r.values("token_embd.weight"), r.values("position_embd.weight")
	x := make([][]float64, len(ids))
	for t, id := range ids {
		x[t] = widen(embed[int(id)*r.m.embd:][:r.m.embd])
		for i := range x[t] {
			x[t][i] *= cmp.Or(r.m.want.embedScale, 1)
			if positions != nil {
				x[t][i] += float64(positions[t*r.m.embd+i])
			}
		}
	}
	for il := range r.m.layers {
		r.attend(x, il)
		r.feedForward(x, il)
	}
	output := "output"
	if r.m.tied {
		output = "token_embd"
	}
	out := make([][]float64, len(ids))
	for t := range x {
		out[t] = r.linear(output, r.norm("output_norm", x[t]))
		for i, l := range out[t] {
			out[t][i] = capped(l, r.m.want.finalCap)
		}
	}
	return out
}

// capped is limit*tanh(x/limit), or x where there is no limit.
func capped(x, limit float64) float64 {
	if limit == 0 {
		return x
	}
	return limit * math.Tanh(x/limit)
}

// projections are the query, key and value heads of all positions, rotated.
func (r *reference) projections(x [][]float64, il int) (q, k, v [][]float64) {
	name := func(part string) string { return fmt.Sprintf("blk.%d.%s", il, part) }
	for t := range x {
		h := r.norm(name("attn_norm"), x[t])
		qt, kt, vt := r.linear(name("attn_q"), h), r.linear(name("attn_k"), h), r.linear(name("attn_v"), h)
		if fused := r.linear(name("attn_qkv"), h); fused != nil {
			nq, nk := r.p.NHead[il]*r.m.headK, r.p.NHeadKV[il]*r.m.headK
			qt, kt, vt = fused[:nq], fused[nq:nq+nk], fused[nq+nk:]
		}
		for part, vectors := range map[string][]float64{"attn_q_norm": qt, "attn_k_norm": kt} {
			for at := 0; at < len(vectors); at += r.m.headK {
				head := vectors[at:][:r.m.headK]
				if r.values(name(part)+".weight") != nil {
					copy(head, r.norm(name(part), head))
				}
				r.rotate(head, il, t)
			}
		}
		q, k, v = append(q, qt), append(k, kt), append(v, vt)
	}
	return q, k, v
}

func (r *reference) attend(x [][]float64, il int) {
	name := func(part string) string { return fmt.Sprintf("blk.%d.%s", il, part) }
	heads, kvHeads, want := r.p.NHead[il], r.p.NHeadKV[il], &r.m.want
	scale := cmp.Or(want.scale, 1/math.Sqrt(float64(r.m.headK)))
	q, k, v := r.projections(x, il)
	for t := range x {
		first := 0
		if want.window != nil && want.window[il] > 0 {
			first = max(t+1-want.window[il], 0)
		}
		var out []float64
		for h := range heads {
			kv := h / (heads / kvHeads)
			query := q[t][h*r.m.headK:][:r.m.headK]
			weights, total := make([]float64, t+1), 0.0
			for s := first; s <= t; s++ {
				weights[s] = math.Exp(capped(dot(query, k[s][kv*r.m.headK:][:r.m.headK])*scale, want.attnCap))
				total += weights[s]
			}
			head := make([]float64, r.m.headV)
			for s, w := range weights {
				for i := range head {
					head[i] += w / total * v[s][kv*r.m.headV+i]
				}
			}
			out = append(out, head...)
		}
		r.join(x[t], r.linear(name("attn_output"), out), name("post_attention_norm"))
	}
}

// join adds what a branch computed to the stream, normed if the model has weights for that.
func (r *reference) join(x, branch []float64, post string) {
	if r.values(post+".weight") != nil {
		branch = r.norm(post, branch)
	}
	add(x, branch)
}

// rotate turns the pairs of a head at position t.
func (r *reference) rotate(head []float64, il, t int) {
	want := &r.m.want
	turn, magnitude := rotated{base: 10000}, cmp.Or(want.magnitude, 1)
	if want.rotation != nil {
		turn = want.rotation[il]
	}
	if r.m.spec.Block.Rope == "none" || turn.base == 0 {
		return
	}
	dim := r.p.Rope.Dim
	for i := range dim / 2 {
		angle := float64(t) * math.Pow(turn.base, -2*float64(i)/float64(dim)) / cmp.Or(turn.factor, 1)
		if want.divisors != nil {
			angle /= float64(want.divisors[i])
		}
		a, b := 2*i, 2*i+1
		if r.m.spec.Block.Rope == "neox" {
			a, b = i, i+dim/2
		}
		u, v := head[a]*magnitude, head[b]*magnitude
		head[a] = u*math.Cos(angle) - v*math.Sin(angle)
		head[b] = u*math.Sin(angle) + v*math.Cos(angle)
	}
}

func (r *reference) feedForward(x [][]float64, il int) {
	name := func(part string) string { return fmt.Sprintf("blk.%d.%s", il, part) }
	f := map[string]func(float64) float64{
		"silu":      func(x float64) float64 { return x / (1 + math.Exp(-x)) },
		"gelu":      func(x float64) float64 { return x * math.Erfc(-x/math.Sqrt2) / 2 },
		"gelu_tanh": func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) },
	}[r.m.spec.Block.Activation]
	for t := range x {
		h := r.norm(name("ffn_norm"), x[t])
		gate, y := r.linear(name("ffn_gate"), h), r.linear(name("ffn_up"), h)
		if n := r.p.NFF[il]; len(y) > n {
			gate, y = y[:n], y[n:]
		}
		for i := range y {
			if gate != nil {
				y[i] *= f(gate[i])
			} else {
				y[i] = f(y[i])
			}
		}
		r.join(x[t], r.linear(name("ffn_down"), y), name("post_ffw_norm"))
	}
}

func (r *reference) norm(name string, x []float64) []float64 {
	mean := 0.0
	if r.m.spec.Block.Norm == "layer" {
		for _, v := range x {
			mean += v / float64(len(x))
		}
	}
	square := 0.0
	for _, v := range x {
		square += (v - mean) * (v - mean) / float64(len(x))
	}
	y := make([]float64, len(x))
	w, b := r.values(name+".weight"), r.values(name+".bias")
	for i, v := range x {
		y[i] = (v - mean) / math.Sqrt(square+1e-5) * float64(w[i])
		if b != nil {
			y[i] += float64(b[i])
		}
	}
	return y
}

// linear is nil if the model has no such weight.
func (r *reference) linear(name string, x []float64) []float64 {
	w, b := r.values(name+".weight"), r.values(name+".bias")
	if w == nil {
		return nil
	}
	y := make([]float64, len(w)/len(x))
	for i := range y {
		for k, v := range w[i*len(x):][:len(x)] {
			y[i] += float64(v) * x[k]
		}
		if b != nil {
			y[i] += float64(b[i])
		}
	}
	return y
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func add(x, y []float64) {
	for i := range x {
		x[i] += y[i]
	}
}

func widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}
