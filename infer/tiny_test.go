package infer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/block"
)

// tiny describes a small random model.
type tiny struct {
	spec                   *arch.Spec
	layers, embd, ff       int
	heads, kvHeads         int
	headK, headV           int
	vocab, context         int
	matrix                 gguf.Type // of all matrices
	tied                   bool
	noOptional             bool                  // no biases
	factors                map[string][]float32  // divisors of rope frequencies, by the tensor's name
	keys                   map[string]gguf.Value // more metadata, without the architecture's prefix
	perBlockKV, perBlockFF []int64               // arrays in place of kvHeads and ff
	want                   expected
}

// llamaTiny is odd in every dimension that may be.
func llamaTiny() tiny {
	spec, err := arch.ForGGUF("llama")
	if err != nil {
		panic(err)
	}
	return tiny{spec: spec, layers: 2, embd: 24, ff: 20, heads: 6, kvHeads: 2, headK: 6, headV: 5, vocab: 41, context: 1000, matrix: gguf.F32}
}

// quantTiny has dimensions that fill the blocks of every type.
func quantTiny(t gguf.Type) tiny {
	m := llamaTiny()
	m.embd, m.ff, m.heads, m.kvHeads, m.headK, m.headV, m.matrix = 256, 256, 4, 2, 64, 64, t
	return m
}

// source is a model in memory.
type source struct {
	tensors []gguf.Tensor
	data    map[string][]byte
}

func (s *source) Tensor(name string) (*gguf.Tensor, bool) {
	for i := range s.tensors {
		if s.tensors[i].Name == name {
			return &s.tensors[i], true
		}
	}
	return nil, false
}

func (s *source) Data(t *gguf.Tensor) ([]byte, error) { return s.data[t.Name], nil }

func (s *source) Names() []string {
	var names []string
	for _, t := range s.tensors {
		names = append(names, t.Name)
	}
	return names
}

// values are the decoded weights of a tensor; nil if there is none.
func (s *source) values(name string) []float32 {
	t, ok := s.Tensor(name)
	if !ok {
		return nil
	}
	codec, err := block.ForType(t.Type)
	if err != nil {
		panic(err)
	}
	n, err := t.Elements()
	if err != nil {
		panic(err)
	}
	out := make([]float32, n)
	codec.Decode(out, s.data[name])
	return out
}

// meta is the model's metadata.
func (m *tiny) meta() *gguf.Meta {
	meta := gguf.NewMeta()
	meta.Set("general.architecture", gguf.New(m.spec.Name))
	set := func(key string, v gguf.Value) { meta.Set(m.spec.Name+"."+key, v) }
	for key, v := range map[string]int{
		"block_count": m.layers, "context_length": m.context, "embedding_length": m.embd, "feed_forward_length": m.ff, "vocab_size": m.vocab,
		"attention.head_count": m.heads, "attention.head_count_kv": m.kvHeads, "attention.key_length": m.headK, "attention.value_length": m.headV,
	} {
		set(key, gguf.New(uint32(v)))
	}
	if m.perBlockKV != nil {
		set("attention.head_count_kv", gguf.NewArray(m.perBlockKV))
	}
	if m.perBlockFF != nil {
		set("feed_forward_length", gguf.NewArray(m.perBlockFF))
	}
	set("attention.layer_norm_rms_epsilon", gguf.New(float32(1e-5)))
	set("attention.layer_norm_epsilon", gguf.New(float32(1e-5)))
	for key, v := range m.keys {
		set(key, v)
	}
	return meta
}

// build makes random weights for every tensor of the declaration; the same description gives the same model.
func (m *tiny) build(t testing.TB) (*source, *gguf.Meta) {
	t.Helper()
	meta := m.meta()
	p, err := arch.ParamsOf(m.spec, meta)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	src := &source{data: map[string][]byte{}}
	for _, rule := range m.spec.Tensors {
		if strings.HasPrefix(rule.Name, "rope_") && m.factors[rule.Name] == nil || rule.Name == "output.weight" && m.tied ||
			m.noOptional && rule.Optional && strings.HasSuffix(rule.Name, ".bias") {
			continue
		}
		b := &binder{params: p}
		for _, il := range b.instances(rule) {
			shape, err := b.shape(rule, il)
			if err != nil {
				t.Fatal(err)
			}
			src.add(t, m, rng, gguf.Tensor{Name: instance(rule.Name, il), Type: m.matrix, Shape: shape})
		}
	}
	return src, meta
}

func (s *source) add(t testing.TB, m *tiny, rng *rand.Rand, tensor gguf.Tensor) {
	n := 1
	for _, d := range tensor.Shape {
		n *= int(d)
	}
	values := make([]float32, n)
	for i := range values {
		v := rng.NormFloat64()
		switch {
		case len(tensor.Shape) == 2:
			values[i] = float32(v / math.Sqrt(float64(tensor.Shape[0])))
		case strings.HasSuffix(tensor.Name, ".bias"):
			values[i] = float32(v * 0.2)
		default:
			values[i] = float32(1 + v*0.2)
		}
	}
	copy(values, m.factors[tensor.Name])
	if len(tensor.Shape) == 1 {
		tensor.Type = gguf.F32
	}
	codec, err := block.ForType(tensor.Type)
	if err != nil {
		t.Fatal(err)
	}
	size, err := tensor.Type.RowBytes(uint64(n))
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, size)
	codec.Encode(data, values)
	s.tensors = append(s.tensors, tensor)
	s.data[tensor.Name] = data
}

// load builds and loads the model.
func (m *tiny) load(t testing.TB, o Options) *Model {
	t.Helper()
	src, meta := m.build(t)
	model, err := load(m.spec, src, meta, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	return model
}

// ids are n tokens of the vocabulary, seemingly at random.
func (m *tiny) ids(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((i*i*7 + 3*i + 5) % m.vocab)
	}
	return ids
}

// newSession starts a sequence.
func newSession(t testing.TB, m *Model) *Session {
	t.Helper()
	s, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// all returns a copy of the logits of every id, run after what the session holds in pieces of the given size.
func all(t testing.TB, s *Session, ids []int32, piece int) [][]float32 {
	t.Helper()
	var out [][]float32
	for part := range slices.Chunk(ids, piece) {
		err := s.AppendAll(part, func(_ int, logits []float32) error {
			out = append(out, slices.Clone(logits))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// sameBits fails unless both are equal bit for bit.
func sameBits(t testing.TB, what string, got, want [][]float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range want {
		for k := range want[i] {
			if math.Float32bits(got[i][k]) != math.Float32bits(want[i][k]) {
				t.Fatalf("%s: row %d, token %d: %g, want %g bit for bit", what, i, k, got[i][k], want[i][k])
			}
		}
	}
}

// within fails if a value differs by more than tolerance times the largest magnitude (at least 1).
func within(t testing.TB, what string, got [][]float32, want [][]float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	largest, worst, where := 1.0, 0.0, ""
	for i := range want {
		for k, w := range want[i] {
			largest = max(largest, math.Abs(w))
			if d := math.Abs(float64(got[i][k]) - w); !(d <= worst) {
				worst, where = d, fmt.Sprintf("row %d, token %d: %g, want %g", i, k, got[i][k], w)
			}
		}
	}
	if !(worst <= tolerance*largest) {
		t.Fatalf("%s: %s: off by %g, allowed %g", what, where, worst, tolerance*largest)
	}
}
