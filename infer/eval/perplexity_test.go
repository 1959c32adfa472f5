package eval_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/infer/eval"
)

// tinyModel is a random llama of one block with 13 tokens.
type tinyModel struct {
	tensors []gguf.Tensor
	data    map[string][]byte
}

func (m *tinyModel) Tensor(name string) (*gguf.Tensor, bool) {
	for i := range m.tensors {
		if m.tensors[i].Name == name {
			return &m.tensors[i], true
		}
	}
	return nil, false
}

// add appends a float32 tensor.
func (m *tinyModel) add(name string, values []float32, shape ...uint64) {
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	m.tensors = append(m.tensors, gguf.Tensor{Name: name, Type: gguf.F32, Shape: shape})
	m.data[name] = data
}

func (m *tinyModel) Data(t *gguf.Tensor) ([]byte, error) { return m.data[t.Name], nil }

func (m *tinyModel) Names() []string {
	var names []string
	for _, t := range m.tensors {
		names = append(names, t.Name)
	}
	return names
}

const vocab = 13

func load(t *testing.T, o infer.Options) *infer.Model {
	t.Helper()
	m := &tinyModel{data: map[string][]byte{}}
	rng := rand.New(rand.NewPCG(3, 4))
	add := func(name string, shape ...uint64) {
		n := uint64(1)
		for _, d := range shape {
			n *= d
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		m.add(name, values, shape...)
	}
	for _, name := range []string{"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"} {
		add(name+".weight", 8)
	}
	for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"} {
		add("blk.0."+name+".weight", 8, 8)
	}
	add("token_embd.weight", 8, vocab)
	meta := gguf.NewMeta()
	meta.Set("general.architecture", gguf.New("llama"))
	for key, v := range map[string]uint32{"block_count": 1, "context_length": 64, "embedding_length": 8, "feed_forward_length": 8, "attention.head_count": 2} {
		meta.Set("llama."+key, gguf.New(v))
	}
	meta.Set("llama.attention.layer_norm_rms_epsilon", gguf.New(float32(1e-5)))
	model, err := infer.Load(m, meta, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	return model
}

func text(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i*i+i/3) % vocab
	}
	return ids
}

// definition scores a text token by token, as llama-perplexity is documented: windows of n, BOS in place of each first token, and of each
// window the tokens after the one at n/2.
func definition(t *testing.T, m *infer.Model, ids []int32, n, windows int, bos int32) (perplexity, stderr float64, count int) {
	t.Helper()
	var nll []float64
	for w := range windows {
		s, err := m.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		for i := range n - 1 {
			id := ids[w*n+i]
			if i == 0 && bos >= 0 {
				id = bos
			}
			logits, err := s.Append([]int32{id})
			if err != nil {
				t.Fatal(err)
			}
			if i < n/2 {
				continue
			}
			sum := 0.0
			for _, l := range logits {
				sum += math.Exp(float64(l))
			}
			nll = append(nll, math.Log(sum)-float64(logits[ids[w*n+i+1]]))
		}
		s.Close()
	}
	mean, square := 0.0, 0.0
	for _, x := range nll {
		mean += x / float64(len(nll))
	}
	for _, x := range nll {
		square += (x - mean) * (x - mean)
	}
	k := float64(len(nll))
	return math.Exp(mean), math.Sqrt(square/k/(k-1)) * math.Exp(mean), len(nll)
}

// The two conventions give what their definitions say, and a text that is too short is an error (field report R076).
func TestPerplexity(t *testing.T) {
	for _, c := range []struct {
		context, tokens, chunks, windows int
		bos                              int32
	}{
		{10, 107, 0, 10, -1},
		{10, 107, 3, 3, -1},
		{10, 107, 99, 10, 5},
		{7, 50, 0, 7, 2}, // an odd window
		{64, 64, 0, 1, -1},
		{3, 9, 0, 3, -1},
	} {
		m := load(t, infer.Options{Precision: infer.Exact, Batch: 16})
		ids := text(c.tokens)
		want, stderr, count := definition(t, m, ids, c.context, c.windows, c.bos)
		last, calls := 0, 0
		got, err := eval.Perplexity(t.Context(), m, ids, eval.PerplexityOptions{
			Windows: eval.Windows{Context: c.context, Chunks: c.chunks, BOS: c.bos},
			Progress: func(done, total int, running eval.PerplexityResult) {
				if done <= last || total != c.windows || running.Chunks != done {
					t.Errorf("progress %d of %d after %d: %+v", done, total, last, running)
				}
				last = done
				calls++
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(float64(got.Perplexity)/want-1) > 1e-6 || math.Abs(float64(got.StdErr)/stderr-1) > 1e-5 {
			t.Errorf("%+v: %g +/- %g, want %g +/- %g", c, got.Perplexity, got.StdErr, want, stderr)
		}
		if got.Tokens != count || got.Chunks != c.windows || got.Held != c.windows*c.context || got.Context != c.context || got.BOS != (c.bos >= 0) {
			t.Errorf("%+v: %+v, want %d tokens", c, got, count)
		}
		if last != c.windows || calls == 0 {
			t.Errorf("%+v: progress ended at %d", c, last)
		}
		if got.Tokens > 0 && ids[0] != text(1)[0] {
			t.Error("the caller's ids changed")
		}
	}
}

func TestPerplexityRefuses(t *testing.T) {
	m := load(t, infer.Options{Context: 40})
	for _, c := range []struct {
		name string
		ids  []int32
		o    eval.PerplexityOptions
		want string
		is   error
	}{
		{"short text", text(10), eval.PerplexityOptions{Windows: eval.Windows{Context: 32, BOS: -1}}, "at least 32 tokens", eval.ErrTooShort},
		{"no text", nil, eval.PerplexityOptions{Windows: eval.Windows{Context: 32, BOS: -1}}, "at least 32 tokens", eval.ErrTooShort},
		{"window above the context", text(100), eval.PerplexityOptions{Windows: eval.Windows{Context: 41, BOS: -1}}, "window of 41", infer.ErrContextFull},
		{"window of nothing", text(100), eval.PerplexityOptions{Windows: eval.Windows{Context: 2, BOS: -1}}, "window of 2", nil},
		{"token past the vocabulary", append(text(31), vocab), eval.PerplexityOptions{Windows: eval.Windows{Context: 32, BOS: -1}}, "token 13", nil},
		{"bos past the vocabulary", text(32), eval.PerplexityOptions{Windows: eval.Windows{Context: 32, BOS: 99}}, "token 99", nil},
	} {
		_, err := eval.Perplexity(t.Context(), m, c.ids, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func TestPerplexityCancelled(t *testing.T) {
	m := load(t, infer.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	got, err := eval.Perplexity(ctx, m, text(1000), eval.PerplexityOptions{Windows: eval.Windows{Context: 64, BOS: -1}, Progress: func(int, int, eval.PerplexityResult) { cancel() }})
	if !errors.Is(err, context.Canceled) || got.Chunks == 0 || got.Chunks == 15 {
		t.Errorf("%v after %d windows", err, got.Chunks)
	}
}

// sliding scores a text token by token as transformers' guide does: windows that start every stride tokens, of which the tokens that the one before
// did not hold are scored.
func sliding(t *testing.T, m *infer.Model, ids []int32, n, stride int) (perplexity float64, count int) {
	t.Helper()
	sum, seen := 0.0, 0
	for begin := 0; ; begin += stride {
		end := min(begin+n, len(ids))
		s, err := m.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		for i := begin; i < end-1; i++ {
			logits, err := s.Append(ids[i : i+1])
			if err != nil {
				t.Fatal(err)
			}
			if i+1 < seen {
				continue
			}
			total := 0.0
			for _, l := range logits {
				total += math.Exp(float64(l))
			}
			sum += math.Log(total) - float64(logits[ids[i+1]])
			count++
		}
		s.Close()
		if seen = end; end == len(ids) {
			return math.Exp(sum / float64(count)), count
		}
	}
}

func TestSlidingPerplexity(t *testing.T) {
	for _, c := range []struct{ tokens, context, stride, windows int }{
		{50, 16, 5, 8}, {50, 16, 8, 6}, {64, 16, 16, 4}, {40, 40, 7, 1}, {17, 16, 16, 1}, {18, 16, 16, 2}, {50, 16, 1, 35},
	} {
		m := load(t, infer.Options{Precision: infer.Exact})
		ids := text(c.tokens)
		want, count := sliding(t, m, ids, c.context, c.stride)
		// the BOS belongs to the other convention
		got, err := eval.Perplexity(t.Context(), m, ids, eval.PerplexityOptions{Windows: eval.Windows{Context: c.context, Stride: c.stride, BOS: 3}})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(float64(got.Perplexity)/want-1) > 1e-6 || got.Tokens != count || got.Chunks != c.windows {
			t.Errorf("%+v: %.6f over %d tokens in %d windows, want %.6f over %d", c, got.Perplexity, got.Tokens, got.Chunks, want, count)
		}
		if got.Convention != "sliding" || got.Stride != c.stride || got.BOS {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// Exact precision gives the same perplexity, to the last bit, whatever the batch and the threads.
func TestPerplexityIsStable(t *testing.T) {
	ids := text(500)
	want := eval.PerplexityResult{}
	for i, o := range []infer.Options{{}, {Batch: 1}, {Batch: 7}, {Batch: 64}, {Batch: 600, Threads: 1}, {Threads: 3}} {
		o.Precision = infer.Exact
		got, err := eval.Perplexity(t.Context(), load(t, o), ids, eval.PerplexityOptions{Windows: eval.Windows{Context: 60, BOS: -1}})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			want = got
		}
		if got != want {
			t.Errorf("%+v: %+v, want %+v", o, got, want)
		}
	}
}

func TestPerplexityInParts(t *testing.T) {
	m := load(t, infer.Options{Precision: infer.Exact})
	ids := text(500)
	o := eval.PerplexityOptions{Windows: eval.Windows{Context: 20, BOS: 2}}
	want, err := eval.Perplexity(t.Context(), m, ids, o)
	if err != nil {
		t.Fatal(err)
	}
	var parts []eval.PerplexityResult
	for part := range 3 {
		o.Part, o.Parts = 3-part, 3
		p, err := eval.Perplexity(t.Context(), m, ids, o)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, p)
	}
	got, err := eval.Merge(parts)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(float64(got.Perplexity/want.Perplexity)-1) > 1e-12 || math.Abs(float64(got.StdErr/want.StdErr)-1) > 1e-9 {
		t.Errorf("merged %+v, want %+v", got, want)
	}
	if got.Tokens != want.Tokens || got.Chunks != want.Chunks || got.Held != want.Held || got.Part != want.Part || got.Parts != want.Parts {
		t.Errorf("merged %+v, want %+v", got, want)
	}
	other, early := parts[0], parts[0]
	other.Text = "another"
	early.Chunks--
	negative := parts[0]
	negative.Tokens = -1
	for name, c := range map[string]struct {
		parts []eval.PerplexityResult
		want  string
	}{
		"nothing":    {nil, "no parts"},
		"one gone":   {[]eval.PerplexityResult{parts[2], parts[1]}, "part 3 of 3 is missing"},
		"first gone": {parts[:2], "part 1 of 3 is missing"},
		"twice":      {[]eval.PerplexityResult{parts[0], parts[1], parts[1], parts[2]}, "twice"},
		"another":    {[]eval.PerplexityResult{other, parts[1], parts[2]}, "another run"},
		"early":      {[]eval.PerplexityResult{early, parts[1], parts[2]}, "stopped early"},
		"negative":   {[]eval.PerplexityResult{negative, parts[1], parts[2]}, "-1 tokens"},
		"no counts":  {[]eval.PerplexityResult{{}}, "0 parts"},
	} {
		if _, err := eval.Merge(c.parts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	o.Part = 4
	if _, err := eval.Perplexity(t.Context(), m, ids, o); err == nil || !strings.Contains(err.Error(), "part 4 of 3") {
		t.Errorf("part 4 of 3: error %v", err)
	}
	o.Part, o.Parts = 1, 26
	if _, err := eval.Perplexity(t.Context(), m, ids, o); err == nil || !strings.Contains(err.Error(), "25 windows") {
		t.Errorf("26 parts: error %v", err)
	}
}

func TestPerplexityUntilStdErr(t *testing.T) {
	m := load(t, infer.Options{Precision: infer.Exact})
	var errs []eval.Number
	o := eval.PerplexityOptions{
		Windows:  eval.Windows{Context: 20, BOS: -1},
		Progress: func(_, _ int, r eval.PerplexityResult) { errs = append(errs, r.StdErr) },
	}
	all, err := eval.Perplexity(t.Context(), m, text(1000), o)
	if err != nil {
		t.Fatal(err)
	}
	o.UntilStdErr = float64(errs[9])
	want := 1 + slices.IndexFunc(errs[1:], func(e eval.Number) bool { return e <= errs[9] }) + 1
	got, err := eval.Perplexity(t.Context(), m, text(1000), o)
	if err != nil {
		t.Fatal(err)
	}
	if got.Chunks != want || got.Chunks == all.Chunks || got.StdErr > errs[9] {
		t.Errorf("stopped after %d of %d windows at %v, want %d at %v", got.Chunks, all.Chunks, got.StdErr, want, errs[9])
	}
}
