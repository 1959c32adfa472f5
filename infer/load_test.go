package infer

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// loadError loads a model whose parts a test has spoiled.
func loadError(t *testing.T, m tiny, o Options, spoil func(*source, *gguf.Meta)) error {
	t.Helper()
	src, meta := m.build(t)
	spoil(src, meta)
	_, err := load(m.spec, src, meta, o)
	return err
}

func wantError(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("%s: no error", what)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %q does not say %q", what, err, p)
		}
	}
}

// Missing, unused and misshapen tensors are listed together.
func TestLoadListsAllFaults(t *testing.T) {
	err := loadError(t, llamaTiny(), Options{}, func(s *source, _ *gguf.Meta) {
		for i := range s.tensors {
			switch s.tensors[i].Name {
			case "blk.0.attn_q.weight":
				s.tensors[i].Name = "blk.0.attn_query.weight"
			case "output_norm.weight":
				s.tensors[i].Name = "model.norm.weight"
			case "blk.1.ffn_down.weight":
				s.tensors[i].Shape = []uint64{24, 20}
			}
		}
	})
	wantError(t, "faults", err, "2 missing: blk.0.attn_q.weight, output_norm.weight", "2 unused: ", "blk.0.attn_query.weight", "model.norm.weight",
		"1 misshapen: blk.1.ffn_down.weight is [24 20], expected [20 24]")
}

func TestLoadRefuses(t *testing.T) {
	m := llamaTiny()
	set := func(key string, v gguf.Value) func(*source, *gguf.Meta) {
		return func(_ *source, meta *gguf.Meta) { meta.Set("llama."+key, v) }
	}
	// retype gives a matrix another type; its bytes do not matter.
	retype := func(typ gguf.Type) func(*source, *gguf.Meta) {
		return func(s *source, _ *gguf.Meta) {
			t, _ := s.Tensor("blk.1.attn_v.weight")
			t.Type = typ
			n, _ := t.Bytes()
			s.data[t.Name] = make([]byte, n)
		}
	}
	for _, c := range []struct {
		name  string
		o     Options
		spoil func(*source, *gguf.Meta)
		want  []string
	}{
		{"no tensors", Options{}, func(s *source, _ *gguf.Meta) { s.tensors = nil }, []string{"only a vocabulary"}},
		{"integers", Options{}, retype(gguf.I32), []string{"blk.1.attn_v.weight", "I32"}},
		{"half a tensor", Options{}, func(s *source, _ *gguf.Meta) {
			s.data["blk.0.attn_k.weight"] = s.data["blk.0.attn_k.weight"][:100]
		}, []string{"blk.0.attn_k.weight", "100 bytes"}},
		{"experts", Options{}, set("expert_count", gguf.New(uint32(8))), []string{"llama.expert_count is 8", "experts"}},
		{"both directions", Options{}, set("attention.causal", gguf.New(false)), []string{"llama.attention.causal"}},
		{"unknown scaling", Options{}, set("rope.scaling.type", gguf.New("dynamic")), []string{`"dynamic"`, "yarn"}},
		{"bad factor", Options{}, func(s *source, meta *gguf.Meta) {
			s.tensors = append(s.tensors, gguf.Tensor{Name: "rope_freqs.weight", Type: gguf.F32, Shape: []uint64{3}})
			s.data["rope_freqs.weight"] = make([]byte, 12)
		}, []string{"rope_freqs.weight", "more than 0"}},
		{"wrong vocabulary", Options{}, set("vocab_size", gguf.New(uint32(40))), []string{"token_embd.weight is [24 41], expected [24 40]"}},
		{"no heads", Options{}, set("attention.head_count_kv", gguf.NewArray([]uint32{2, 0})), []string{"blk.1.attn_k.weight is [24 12], expected [24 0]"}},
		{"negative threads", Options{Threads: -1}, func(*source, *gguf.Meta) {}, []string{"-1 threads"}},
		{"negative context", Options{Context: -1}, func(*source, *gguf.Meta) {}, []string{"context -1"}},
		{"negative batch", Options{Batch: -1}, func(*source, *gguf.Meta) {}, []string{"batch -1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantError(t, c.name, loadError(t, m, c.o, c.spoil), c.want...)
		})
	}
}

// Without a list of tokens or vocab_size, the embedding says how many tokens there are.
func TestVocabFromEmbedding(t *testing.T) {
	m := llamaTiny()
	src, meta := m.build(t)
	meta.Remove("llama.vocab_size")
	model, err := load(m.spec, src, meta, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	if model.Params.NVocab != m.vocab {
		t.Errorf("%d tokens, want %d", model.Params.NVocab, m.vocab)
	}
}

func TestLoadNeedsKnownArchitecture(t *testing.T) {
	src, meta := (&tiny{spec: llamaTiny().spec, layers: 1, embd: 8, ff: 8, heads: 2, kvHeads: 1, headK: 4, headV: 4, vocab: 9, context: 10}).build(t)
	meta.Set("general.architecture", gguf.New("llamma"))
	_, err := Load(src, meta, Options{})
	wantError(t, "architecture", err, "llamma")
	meta.Remove("general.architecture")
	_, err = Load(src, meta, Options{})
	if !errors.Is(err, gguf.ErrNoKey) {
		t.Errorf("without an architecture: %v", err)
	}
}

// A big-endian file is refused before its weights are read as nonsense.
func TestLoadRefusesBigEndian(t *testing.T) {
	var file []byte
	file = append(file, "GGUF"...)
	file = binary.BigEndian.AppendUint32(file, 3)
	file = binary.BigEndian.AppendUint64(file, 1) // tensors
	file = binary.BigEndian.AppendUint64(file, 1) // keys
	str := func(s string) {
		file = binary.BigEndian.AppendUint64(file, uint64(len(s)))
		file = append(file, s...)
	}
	str("general.architecture")
	file = binary.BigEndian.AppendUint32(file, uint32(gguf.String))
	str("llama")
	str("token_embd.weight")
	file = binary.BigEndian.AppendUint32(file, 1)
	file = binary.BigEndian.AppendUint64(file, 8)
	file = binary.BigEndian.AppendUint32(file, uint32(gguf.F32))
	file = binary.BigEndian.AppendUint64(file, 0)
	file = append(file, make([]byte, (32-len(file)%32)%32+32)...)
	path := filepath.Join(t.TempDir(), "big.gguf")
	if err := os.WriteFile(path, file, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = Load(f, f.Meta, Options{})
	wantError(t, "big-endian", err, "big-endian")
}
