package infer

import (
	"fmt"
	"math"

	"github.com/ggufkit/ggufkit/arch"
)

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
	embed := r.values("token_embd.weight")
	x := make([][]float64, len(ids))
	for t, id := range ids {
		x[t] = widen(embed[int(id)*r.m.embd:][:r.m.embd])
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
	}
	return out
}

func (r *reference) attend(x [][]float64, il int) {
	name := func(part string) string { return fmt.Sprintf("blk.%d.%s", il, part) }
	heads, kvHeads := r.p.NHead[il], r.p.NHeadKV[il]
	q, k, v := make([][]float64, len(x)), make([][]float64, len(x)), make([][]float64, len(x))
	for t := range x {
		h := r.norm(name("attn_norm"), x[t])
		q[t], k[t], v[t] = r.linear(name("attn_q"), h), r.linear(name("attn_k"), h), r.linear(name("attn_v"), h)
		for i, vectors := range [][]float64{q[t], k[t]} {
			for at := 0; at < len(vectors); at += r.m.headK {
				head := vectors[at:][:r.m.headK]
				if r.m.spec.Block.QKNorm {
					copy(head, r.norm(name([]string{"attn_q_norm", "attn_k_norm"}[i]), head))
				}
				r.rotate(head, t)
			}
		}
	}
	for t := range x {
		var out []float64
		for h := range heads {
			kv := h / (heads / kvHeads)
			query := q[t][h*r.m.headK:][:r.m.headK]
			weights, total := make([]float64, t+1), 0.0
			for s := range weights {
				weights[s] = math.Exp(dot(query, k[s][kv*r.m.headK:][:r.m.headK]) / math.Sqrt(float64(r.m.headK)))
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
		add(x[t], r.linear(name("attn_output"), out))
	}
}

// rotate turns the pairs of a head at position t.
func (r *reference) rotate(head []float64, t int) {
	if r.m.spec.Block.Rope == "none" {
		return
	}
	dim := r.p.Rope.Dim
	for i := range dim / 2 {
		angle := float64(t) * math.Pow(r.p.Rope.FreqBase, -2*float64(i)/float64(dim)) / r.p.Rope.Factor
		if f := r.m.factors["rope_freqs.weight"]; f != nil {
			angle /= float64(f[i])
		}
		a, b := 2*i, 2*i+1
		if r.m.spec.Block.Rope == "neox" {
			a, b = i, i+dim/2
		}
		u, v := head[a], head[b]
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
		y := r.linear(name("ffn_up"), h)
		if r.m.spec.Block.Gated {
			for i, g := range r.linear(name("ffn_gate"), h) {
				y[i] *= f(g)
			}
		} else {
			for i := range y {
				y[i] = f(y[i])
			}
		}
		add(x[t], r.linear(name("ffn_down"), y))
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

func (r *reference) linear(name string, x []float64) []float64 {
	w, b := r.values(name+".weight"), r.values(name+".bias")
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
