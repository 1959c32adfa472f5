package eval_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/infer/eval"
)

// draw gives numbers of 32 bits from the linear congruential generator of Numerical Recipes, the upper half of each.
func draw(n int, seed uint32) []int {
	out := make([]int, n)
	for i := range out {
		seed = seed*1664525 + 1013904223
		out[i] = int(seed >> 16)
	}
	return out
}

// bigram is a model of testdata/bigram.py, where it is described: "a" or "b". Its logits are the same in every program.
func bigram(t *testing.T, name string) *infer.Model {
	t.Helper()
	return bigramWith(t, name, infer.Options{})
}

// bigramWith is bigram with a number of threads and a batch.
func bigramWith(t *testing.T, name string, o infer.Options) *infer.Model {
	t.Helper()
	const width, tokens = 32, 259
	m := &tinyModel{data: map[string][]byte{}}
	fill := func(n int, f func(i int) float32) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = f(i)
		}
		return v
	}
	signs, output, noise := draw(tokens*width, 1), draw(tokens*width, 2), draw(tokens*width, 3)
	m.add("token_embd.weight", fill(width*tokens, func(i int) float32 { return float32(signs[i]%2*2 - 1) }), width, tokens)
	m.add("output.weight", fill(width*tokens, func(i int) float32 {
		w := output[i]%61 - 30
		if name == "b" {
			w += noise[i]%9 - 4
		}
		return float32(w) / 64
	}), width, tokens)
	for _, name := range []string{"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"} {
		m.add(name+".weight", fill(width, func(int) float32 { return 1 }), width)
	}
	for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"} {
		m.add("blk.0."+name+".weight", make([]float32, width*width), width, width)
	}
	meta := gguf.NewMeta()
	meta.Set("general.architecture", gguf.New("llama"))
	for key, v := range map[string]uint32{"block_count": 1, "context_length": 64, "embedding_length": width, "feed_forward_length": width, "attention.head_count": 1} {
		meta.Set("llama."+key, gguf.New(v))
	}
	meta.Set("llama.attention.layer_norm_rms_epsilon", gguf.New(float32(1e-30)))
	o.Precision, o.Context = infer.Exact, 1024
	model, err := infer.Load(m, meta, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	return model
}

// openBase opens a base file of testdata.
func openBase(t *testing.T, path string) *eval.BaseFile {
	t.Helper()
	b, err := eval.OpenBase(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

var bigramBase = filepath.Join("testdata", "bigram.base")

// From the same base file and the same logits come the digits that llama-perplexity prints.
func TestStatisticsAreLlamaPerplexitys(t *testing.T) {
	base := openBase(t, bigramBase)
	base.Windows.BOS = 1
	d, err := eval.Compare(t.Context(), bigram(t, "b"), base, base.IDs, eval.CompareOptions{Windows: base.Windows})
	if err != nil {
		t.Fatal(err)
	}
	if d.Tokens != 124 || d.Chunks != 4 || d.Context != 64 || !d.BOS {
		t.Errorf("%d tokens in %d windows of %d, BOS %v", d.Tokens, d.Chunks, d.Context, d.BOS)
	}
	sameDigits(t, d, "bigram.txt")
}

// The same of the demo model as Q4_K_M, with the logits that llama.cpp computed, against the model in F32.
func TestStatisticsOfTheDemo(t *testing.T) {
	base := openBase(t, filepath.Join("testdata", "demo.base"))
	data, err := os.ReadFile(filepath.Join("testdata", "demo.logits"))
	if err != nil {
		t.Fatal(err)
	}
	logits := make([]float32, len(data)/4)
	if _, err := binary.Decode(data, binary.LittleEndian, logits); err != nil {
		t.Fatal(err)
	}
	d, err := eval.CompareLogits(base, logits)
	if err != nil {
		t.Fatal(err)
	}
	if d.Tokens != 105 || d.Chunks != 7 || d.Context != 32 {
		t.Errorf("%d tokens in %d windows of %d", d.Tokens, d.Chunks, d.Context)
	}
	sameDigits(t, d, "demo.txt")
}

// sameDigits fails unless llama-perplexity has printed the statistics, in a file of testdata.
func sameDigits(t *testing.T, d eval.Divergence, name string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	_, statistics, _ := strings.Cut(string(want), "====== Perplexity statistics ======\n")
	if got := printed(d); !strings.HasPrefix(statistics, strings.TrimSpace(got)) {
		t.Errorf("got\n%s\nwant\n%s", got, statistics)
	}
}

// printed lays the statistics out as llama-perplexity does.
func printed(d eval.Divergence) string {
	var s strings.Builder
	pair := func(title string, value, err eval.Number) {
		fmt.Fprintf(&s, "%s: %10.6f ± %10.6f\n", title, value, err)
	}
	pair("Mean PPL(Q)                   ", d.PPL, d.PPLStdErr)
	pair("Mean PPL(base)                ", d.PPLBase, d.PPLBaseErr)
	fmt.Fprintf(&s, "Cor(ln(PPL(Q)), ln(PPL(base))): %6.2f%%\n", 100*d.Correlation)
	pair("Mean ln(PPL(Q)/PPL(base))     ", d.LogRatio, d.LogRatioErr)
	pair("Mean PPL(Q)/PPL(base)         ", d.Ratio, d.RatioErr)
	pair("Mean PPL(Q)-PPL(base)         ", d.Difference, d.DifferentErr)
	s.WriteString("\n====== KL divergence statistics ======\n")
	pair("Mean    KLD", d.KLD, d.KLDStdErr)
	type line struct {
		title string
		value eval.Number
	}
	for _, l := range []line{
		{"Maximum", d.KLDMax}, {"99.9%  ", d.KLDP999}, {"99.0%  ", d.KLDP99}, {"95.0%  ", d.KLDP95}, {"90.0%  ", d.KLDP90}, {"Median ", d.KLDMedian},
		{"10.0%  ", d.KLDP10}, {" 5.0%  ", d.KLDP05}, {" 1.0%  ", d.KLDP01}, {" 0.1%  ", d.KLDP001}, {"Minimum", d.KLDMin},
	} {
		fmt.Fprintf(&s, "%s KLD: %10.6f\n", l.title, l.value)
	}
	s.WriteString("\n====== Token probability statistics ======\n")
	fmt.Fprintf(&s, "Mean    Δp: %6.3f ± %5.3f %%\n", 100*d.PDiff, 100*d.PDiffStdErr)
	for _, l := range []line{
		{"Maximum", d.PDiffMax}, {"99.9%  ", d.PDiffP999}, {"99.0%  ", d.PDiffP99}, {"95.0%  ", d.PDiffP95}, {"90.0%  ", d.PDiffP90}, {"75.0%  ", d.PDiffP75},
		{"Median ", d.PDiffMedian}, {"25.0%  ", d.PDiffP25}, {"10.0%  ", d.PDiffP10}, {" 5.0%  ", d.PDiffP05}, {" 1.0%  ", d.PDiffP01}, {" 0.1%  ", d.PDiffP001},
		{"Minimum", d.PDiffMin},
	} {
		fmt.Fprintf(&s, "%s Δp: %6.3f%%\n", l.title, 100*l.value)
	}
	fmt.Fprintf(&s, "RMS Δp    : %6.3f ± %5.3f %%\n", 100*d.PDiffRMS, 100*d.PDiffRMSErr)
	fmt.Fprintf(&s, "Same top p: %6.3f ± %5.3f %%\n\n", 100*d.SameTop, 100*d.SameTopErr)
	return s.String()
}

// saved is the base file of a model of bigram.py.
func saved(t *testing.T, form eval.BaseForm, model string, ids []int32, w eval.Windows) []byte {
	t.Helper()
	var out bytes.Buffer
	m := bigram(t, model)
	save, err := eval.NewBaseWriter(&out, form, ids, w, m.Params.NVocab)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eval.SaveBase(t.Context(), m, ids, eval.PerplexityOptions{Windows: w}, save); err != nil {
		t.Fatal(err)
	}
	if err := save.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A base file of ours in llama-perplexity's form has its bytes.
func TestBaseFileIsLlamaPerplexitys(t *testing.T) {
	want, err := os.ReadFile(bigramBase)
	if err != nil {
		t.Fatal(err)
	}
	base := openBase(t, bigramBase)
	base.Windows.BOS = 1
	got := saved(t, eval.Llama, "a", base.IDs, base.Windows)
	if len(got) != len(want) {
		t.Fatalf("%d bytes, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("byte %d is %#x, want %#x", i, got[i], want[i])
		}
	}
}

// Against the model itself, side by side, come the statistics of its base file but for 16 bits of rounding; the small base file knows all but the
// divergence within the tail, which it estimates within the error that it states.
func TestBasesAgree(t *testing.T) {
	file := openBase(t, bigramBase)
	file.Windows.BOS = 1
	o := eval.CompareOptions{Windows: file.Windows}
	m := bigram(t, "b")
	full, err := eval.Compare(t.Context(), m, file, file.IDs, o)
	if err != nil {
		t.Fatal(err)
	}
	var copied bytes.Buffer
	a := bigram(t, "a")
	save, err := eval.NewBaseWriter(&copied, eval.Small, file.IDs, o.Windows, a.Params.NVocab)
	if err != nil {
		t.Fatal(err)
	}
	side, err := eval.Compare(t.Context(), m, &eval.ModelBase{Model: a, Save: save}, file.IDs, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := save.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(copied.Bytes(), saved(t, eval.Small, "a", file.IDs, o.Windows)) {
		t.Error("saved while comparing, the base file is another one")
	}
	path := filepath.Join(t.TempDir(), "small")
	if err := os.WriteFile(path, copied.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	base := openBase(t, path)
	if base.Windows != o.Windows || base.Form != eval.Small {
		t.Errorf("the file has %+v, want %+v", base.Windows, o.Windows)
	}
	small, err := eval.Compare(t.Context(), m, base, base.IDs, eval.CompareOptions{Windows: base.Windows})
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want eval.Number, bound float64) {
		t.Helper()
		if math.Abs(float64(got-want)) > bound {
			t.Errorf("%s %v, want %v", what, got, want)
		}
	}
	near("side by side: divergence", side.KLD, full.KLD, 1e-5)
	near("side by side: sampling", side.KLDSampling, 0, 0)
	for _, d := range []eval.Divergence{side, small} {
		near("perplexity", d.PPL, full.PPL, 1e-4)
		near("base's perplexity", d.PPLBase, full.PPLBase, 1e-2)
		near("change of probability", d.PDiffRMS, full.PDiffRMS, 1e-4)
		near("same top", d.SameTop, full.SameTop, 0)
	}
	if e := small.KLDSampling; !(e > 0 && e < side.KLD/20) || math.Abs(float64(small.KLD-side.KLD)) > float64(2*e) {
		t.Errorf("the small base file gives a divergence of %v +/- %v, the model %v", small.KLD, e, side.KLD)
	}
}

// Threads, and blocks of rows that do not end together, change no bit of a comparison, whatever the base is.
func TestCompareIsStable(t *testing.T) {
	w := openBase(t, bigramBase).Windows
	w.BOS = 1
	ids := openBase(t, bigramBase).IDs
	small := filepath.Join(t.TempDir(), "small")
	if err := os.WriteFile(small, saved(t, eval.Small, "a", ids, w), 0o666); err != nil {
		t.Fatal(err)
	}
	options := []infer.Options{{Threads: 1, Batch: 1}, {Threads: 3}, {Threads: 2, Batch: 7}, {Threads: 4, Batch: 50}}
	for name, base := range map[string]func(o infer.Options) eval.Base{
		"a model": func(o infer.Options) eval.Base { return &eval.ModelBase{Model: bigramWith(t, "a", o)} },
		"small":   func(infer.Options) eval.Base { return openBase(t, small) },
		"llama's": func(infer.Options) eval.Base { return openBase(t, bigramBase) },
	} {
		var want eval.Divergence
		for i, o := range options {
			other := options[len(options)-1-i]
			var told []eval.Divergence
			got, err := eval.Compare(t.Context(), bigramWith(t, "b", o), base(other), ids, eval.CompareOptions{
				Windows: w, Progress: func(done, total int, d eval.Divergence) { told = append(told, d) },
			})
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				want = got
			}
			if got != want {
				t.Errorf("%s, %+v: %+v, want %+v", name, o, got, want)
			}
			if len(told) != w.Chunks || told[0].Chunks != 1 || told[0].Tokens*w.Chunks != got.Tokens {
				t.Errorf("%s, %+v: told %d times: %+v", name, o, len(told), told)
			}
		}
	}
}

func TestOpenBaseRefuses(t *testing.T) {
	file := openBase(t, bigramBase)
	small := saved(t, eval.Small, "a", file.IDs, file.Windows)
	llama, err := os.ReadFile(bigramBase)
	if err != nil {
		t.Fatal(err)
	}
	with := func(data []byte, at int, b ...byte) []byte {
		data = bytes.Clone(data)
		copy(data[at:], b)
		return data
	}
	rows := 8 + 7*4 + 4*len(file.IDs)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":              {nil, "no base file"},
		"another file":         {[]byte("GGUF    "), "llama-perplexity"},
		"a header cut short":   {llama[:17], "header"},
		"a text cut short":     {llama[:100], "did not finish"},
		"rows cut short":       {small[:len(small)-1], "did not finish"},
		"something behind":     {append(bytes.Clone(llama), 0), "did not finish"},
		"a huge vocabulary":    {with(llama, 12, 0, 0, 0, 0x7f), "vocabulary"},
		"a negative count":     {with(llama, 16, 0, 0, 0, 0x80), "windows"},
		"many windows":         {with(small, 20, 0xff, 0xff, 0xff, 0x7f), "windows"},
		"a window of nothing":  {with(small, 12, 2, 0, 0, 0), "windows of 2"},
		"another version":      {with(small, 8, 9), "version 9"},
		"rows of nothing":      {with(small, 28, 0, 0, 0, 0), "rows of 0"},
		"a NaN for a step":     {with(llama, 20+4*len(file.IDs), 0, 0, 0xc0, 0x7f), "row 0"},
		"a NaN for a tail":     {with(small, rows+4, 0, 0, 0xc0, 0x7f), "row 0"},
		"a text out of range":  {with(llama, 20, 0, 0, 0, 0x40), "token 0 of the text, at byte 20, is 1073741824"},
		"a negative text":      {with(small, 36, 0xfb, 0xff, 0xff, 0xff), "is -5"},
		"a BOS out of range":   {with(small, 24, 0xf9, 0xff, 0xff, 0xff), "start with token -7"},
		"a token out of range": {with(small, rows+8, 3, 1), "row 0: token 259"},
	} {
		path := filepath.Join(t.TempDir(), "base")
		if err := os.WriteFile(path, c.data, 0o666); err != nil {
			t.Fatal(err)
		}
		b, err := eval.OpenBase(path)
		if err == nil {
			_, err = eval.Compare(t.Context(), bigram(t, "b"), b, b.IDs, eval.CompareOptions{Windows: b.Windows})
			b.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestCompareRefuses(t *testing.T) {
	m := bigram(t, "b")
	base := openBase(t, bigramBase)
	o := eval.CompareOptions{Windows: base.Windows}
	other := append([]int32{9}, base.IDs[1:]...)
	shorter := o
	shorter.Context = 32
	for name, c := range map[string]struct {
		m    *infer.Model
		base eval.Base
		ids  []int32
		o    eval.CompareOptions
		want string
	}{
		"another text":         {m, base, other, o, fmt.Sprintf("another text than this one: token 0 is %d there, 9 here", base.IDs[0])},
		"a shorter text":       {m, base, base.IDs[:70], o, fmt.Sprintf("%d tokens there, only 70 here", len(base.IDs))},
		"another window":       {m, base, base.IDs, shorter, "windows of 64"},
		"another vocabulary":   {load(t, infer.Options{}), base, base.IDs, o, "vocabulary"},
		"another model's base": {m, &eval.ModelBase{Model: load(t, infer.Options{})}, base.IDs, o, "vocabulary"},
	} {
		if _, err := eval.Compare(t.Context(), c.m, c.base, c.ids, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}
