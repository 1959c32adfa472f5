package inspect

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// writeModel makes a file of a model with two blocks, of which one has a window.
func writeModel(t *testing.T, change func(*gguf.Meta)) string {
	t.Helper()
	m := gguf.NewMeta()
	m.Set("general.architecture", gguf.New("gemma2"))
	for key, n := range map[string]uint32{
		"block_count": 2, "context_length": 1000, "embedding_length": 64, "feed_forward_length": 96, "vocab_size": 10, "attention.head_count": 4,
		"attention.head_count_kv": 2, "attention.key_length": 32, "attention.value_length": 32, "attention.sliding_window": 100,
	} {
		m.Set("gemma2."+key, gguf.New(n))
	}
	m.Set("gemma2.attention.layer_norm_rms_epsilon", gguf.New(float32(1e-6)))
	change(m)
	path := filepath.Join(t.TempDir(), "model.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := gguf.NewWriter(f, m, []gguf.Tensor{{Name: "token_embd.weight", Type: gguf.F16, Shape: []uint64{64, 10}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Begin("token_embd.weight"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 64*10*2)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMemory(t *testing.T) {
	same := func(*gguf.Meta) {}
	o := arch.MemoryOptions{Context: 65, Batch: 64, Threads: 1}
	got, err := Memory(writeModel(t, same), o)
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	// A position is 2 blocks of 2 heads of 32 keys and 32 values; 65 positions take two pages of 64.
	for i, position := range []uint64{256 * 2, 8 * 34, 256 * 4} {
		m := got[i]
		if m.CachePosition != position || m.Cache != 128*position || m.Windowed != m.Cache/2 || m.Weights != 1280 || m.Context != 65 {
			t.Errorf("%+v", m)
		}
	}
	if got[0].CacheType != "F16" || got[1].CacheType != "Q8_0" || got[2].CacheType != "F32" {
		t.Error("other types of cache")
	}
	o.Context = 0
	if got, err := Memory(writeModel(t, same), o); err != nil || got[0].Context != 1000 {
		t.Error("context as trained:", got, err)
	}
	odd := func(m *gguf.Meta) { m.Set("gemma2.attention.key_length", gguf.New(uint32(20))) }
	if got, err := Memory(writeModel(t, odd), o); err != nil || len(got) != 2 {
		t.Error("heads that are no whole blocks of Q8_0:", got, err)
	}
}

// Absurd files and options are told from others without a crash.
func TestMemoryRefuses(t *testing.T) {
	huge := func(m *gguf.Meta) {
		for key, n := range map[string]uint32{
			"block_count": arch.MaxBlocks, "context_length": arch.MaxContext, "attention.head_count": arch.MaxHeads, "attention.head_count_kv": arch.MaxHeads,
			"attention.key_length": arch.MaxHeadDim, "attention.value_length": arch.MaxHeadDim,
		} {
			m.Set("gemma2."+key, gguf.New(n))
		}
	}
	o := arch.MemoryOptions{Batch: math.MaxInt, Threads: 1}
	if got, err := Memory(writeModel(t, huge), o); err != nil || got[0].Cache != math.MaxUint64 || got[0].Anonymous() != math.MaxUint64 {
		t.Error("beyond 64 bits:", got, err)
	}
	for want, change := range map[string]func(*gguf.Meta){
		"split.no":      func(m *gguf.Meta) { m.Set("split.count", gguf.New(uint16(2))) },
		"not supported": func(m *gguf.Meta) { m.Set("general.architecture", gguf.New("gemma9")) },
		"block_count":   func(m *gguf.Meta) { m.Remove("gemma2.block_count") },
	} {
		if _, err := Memory(writeModel(t, change), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	o.Context = -1
	if _, err := Memory(writeModel(t, func(*gguf.Meta) {}), o); err == nil {
		t.Error("a negative context is taken")
	}
}
