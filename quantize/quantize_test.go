package quantize

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/quantize/encode"
	"github.com/ggufkit/ggufkit/quantize/mix"
)

// tensor is one tensor of a test model.
type tensor struct {
	name  string
	typ   gguf.Type
	shape []uint64
	data  []float32 // normal values if nil
}

// values are the tensor's elements before they are stored.
func (x *tensor) values(seed uint64) []float32 {
	if x.data != nil {
		return x.data
	}
	n := uint64(1)
	for _, d := range x.shape {
		n *= d
	}
	r := rand.New(rand.NewPCG(seed, 7))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64() * 0.02)
	}
	return out
}

// writeModel writes a file of these tensors; set adds metadata.
func writeModel(t *testing.T, path string, tensors []tensor, set func(*gguf.Meta)) {
	t.Helper()
	meta := gguf.NewMeta()
	meta.Set("general.architecture", gguf.New("llama"))
	meta.Set("llama.block_count", gguf.New(uint32(2)))
	meta.Set("llama.attention.head_count", gguf.New(uint32(4)))
	if set != nil {
		set(meta)
	}
	list := make([]gguf.Tensor, len(tensors))
	for i, x := range tensors {
		list[i] = gguf.Tensor{Name: x.name, Type: x.typ, Shape: x.shape}
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := gguf.NewWriter(f, meta, list)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range tensors {
		if err := w.Begin(x.name); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(store(t, x.typ, x.values(uint64(i)), x.shape[0])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// store is data as a file holds it. F32 goes past the encoder, which refuses NaN.
func store(t *testing.T, typ gguf.Type, data []float32, rowLen uint64) []byte {
	t.Helper()
	if typ == gguf.F32 {
		var b []byte
		for _, f := range data {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
		}
		return b
	}
	n, err := typ.RowBytes(uint64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	if err := encode.Rows(typ, b, data, int(rowLen), nil, nil); err != nil {
		t.Fatal(err)
	}
	return b
}

// small is a decoder of two blocks, the tensors of which stand in an order of their own.
func small() []tensor {
	return []tensor{
		{name: "output_norm.weight", typ: gguf.F32, shape: []uint64{256}},
		{name: "token_embd.weight", typ: gguf.F16, shape: []uint64{256, 1200}},
		{name: "blk.1.attn_v.weight", typ: gguf.BF16, shape: []uint64{256, 64}},
		{name: "blk.0.attn_v.weight", typ: gguf.F32, shape: []uint64{256, 64}},
		{name: "blk.0.ffn_down.weight", typ: gguf.F32, shape: []uint64{512, 256}},
		{name: "blk.0.ffn_up.weight", typ: gguf.F32, shape: []uint64{256, 512}},
		{name: "blk.1.ffn_up.weight", typ: gguf.F32, shape: []uint64{256, 8, 6}},
		{name: "blk.0.attn_norm.weight", typ: gguf.F32, shape: []uint64{256}},
		{name: "output.weight", typ: gguf.BF16, shape: []uint64{256, 1200}},
	}
}

func open(t *testing.T, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func options(t *testing.T, recipe string) Options {
	t.Helper()
	r, err := mix.Parse(recipe)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Recipe: r}
}

// quantize plans and runs.
func quantize(t *testing.T, in, out string, o Options, ro RunOptions) *Report {
	t.Helper()
	p, err := NewPlan(open(t, in), o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(t.Context(), out, ro)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// only fails unless the folder holds these files and nothing else.
func only(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

func data(t *testing.T, f *gguf.File, name string) []byte {
	t.Helper()
	x, ok := f.Tensor(name)
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	b, err := f.Data(x)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The result has the planned size, types, order, metadata and blocks, and the report has the true errors.
func TestQuantize(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.gguf"), filepath.Join(dir, "out.gguf")
	writeModel(t, in, small(), func(m *gguf.Meta) {
		m.Set("general.file_type", gguf.New(uint32(0)))
		m.Set("split.no", gguf.New(uint16(0)))
		m.Set("split.count", gguf.New(uint16(1)))
		m.Set("split.tensors.count", gguf.New(int32(9)))
		m.Set("tokenizer.ggml.tokens", gguf.NewArray([]string{"a", "b"}))
	})
	src := open(t, in)
	p, err := NewPlan(src, options(t, "Q4_K_M"))
	if err != nil {
		t.Fatal(err)
	}
	report, err := p.Run(t.Context(), out, RunOptions{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	only(t, dir, "in.gguf", "out.gguf")
	f := open(t, out)
	if f.Size != p.Size || report.Bytes != p.Size {
		t.Errorf("file of %d bytes, planned %d, reported %d", f.Size, p.Size, report.Bytes)
	}
	checkMeta(t, f)
	want := map[string]gguf.Type{"token_embd.weight": gguf.Q4_K, "output.weight": gguf.Q6_K,
		"blk.1.attn_v.weight": gguf.Q6_K, "blk.0.attn_v.weight": gguf.Q4_K, "blk.0.ffn_down.weight": gguf.Q4_K,
		"blk.0.ffn_up.weight": gguf.Q4_K, "blk.1.ffn_up.weight": gguf.Q4_K,
		"blk.0.attn_norm.weight": gguf.F32, "output_norm.weight": gguf.F32}
	for i, x := range small() {
		got := f.Tensors[i]
		if got.Name != x.name || got.Type != want[x.name] {
			t.Errorf("tensor %d is %s of %s, want %s of %s", i, got.Name, got.Type, x.name, want[x.name])
			continue
		}
		source := widen(t, x.typ, data(t, src, x.name))
		if !bytes.Equal(data(t, f, x.name), store(t, got.Type, source, x.shape[0])) {
			t.Errorf("%s: blocks differ from those of the encoder", x.name)
		}
		checkErrors(t, report.Tensors[i], source, widen(t, got.Type, data(t, f, x.name)))
	}
}

func checkMeta(t *testing.T, f *gguf.File) {
	t.Helper()
	var keys []string
	for key := range f.Meta.All() {
		keys = append(keys, key)
	}
	want := []string{"general.architecture", "llama.block_count", "llama.attention.head_count", "general.file_type",
		"tokenizer.ggml.tokens", "general.quantization_version"}
	if !slices.Equal(keys, want) {
		t.Errorf("keys %v, want %v", keys, want)
	}
	for key, want := range map[string]uint64{"general.file_type": 15, "general.quantization_version": 2} {
		if n, err := f.Meta.Uint(key); err != nil || n != want {
			t.Errorf("%s = %d, %v, want %d", key, n, err, want)
		}
	}
}

func widen(t *testing.T, typ gguf.Type, b []byte) []float32 {
	t.Helper()
	info, _ := typ.Info()
	out := make([]float32, uint64(len(b))/info.Bytes*info.Block)
	if err := encode.Decode(typ, out, b); err != nil {
		t.Fatal(err)
	}
	return out
}

// checkErrors computes the errors of one tensor by their definitions.
func checkErrors(t *testing.T, r TensorReport, a, b []float32) {
	t.Helper()
	var aa, bb, ab, dd, largest float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		aa, bb, ab, dd = aa+x*x, bb+y*y, ab+x*y, dd+(x-y)*(x-y)
		largest = max(largest, math.Abs(x-y))
	}
	n := float64(len(a))
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
			t.Errorf("%s: %s %g, want %g", r.Name, what, got, want)
		}
	}
	near("rmse", r.RMSE, math.Sqrt(dd/n))
	near("relative rmse", r.RelRMSE, math.Sqrt(dd/aa))
	near("max error", r.MaxError, largest)
	near("cosine", r.Cosine, ab/math.Sqrt(aa*bb))
}

// Bytes and report do not depend on the number of threads.
func TestThreadsDoNotMatter(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.gguf")
	writeModel(t, in, small(), nil)
	var file, report []byte
	for _, threads := range []int{1, 2, 5} {
		out := filepath.Join(dir, "out.gguf")
		r := quantize(t, in, out, options(t, "Q5_K_M"), RunOptions{Threads: threads})
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		j, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if file == nil {
			file, report = b, j
		}
		if !bytes.Equal(b, file) || !bytes.Equal(j, report) {
			t.Errorf("%d threads: another file or report", threads)
		}
	}
}

// The planned size is that of the file for every recipe that can be written, and a plan alone writes nothing (field report R046).
func TestPlannedSize(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.gguf")
	writeModel(t, in, small(), func(m *gguf.Meta) { m.Set("general.alignment", gguf.New(uint32(64))) })
	for _, recipe := range []string{"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K"} {
		p, err := NewPlan(open(t, in), options(t, recipe))
		if err != nil {
			t.Fatal(err)
		}
		planned := p.Report()
		only(t, dir, "in.gguf")
		out := filepath.Join(dir, "out.gguf")
		report, err := p.Run(t.Context(), out, RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(out)
		if err != nil {
			t.Fatal(err)
		}
		if uint64(st.Size()) != p.Size || planned.Bytes != p.Size {
			t.Errorf("%s: %d bytes, planned %d", recipe, st.Size(), p.Size)
		}
		if planned.Errors != nil || planned.Tensors[0].Errors != nil || report.Errors == nil {
			t.Errorf("%s: a plan has errors, or a report has none", recipe)
		}
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
	}
}

// The summary of fallbacks is exact (field report R038).
func TestFallbackSummary(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.gguf")
	writeModel(t, in, []tensor{
		{name: "token_embd.weight", typ: gguf.F32, shape: []uint64{256, 64}},
		{name: "output.weight", typ: gguf.F32, shape: []uint64{256, 64}},
		{name: "blk.0.ffn_up.weight", typ: gguf.F32, shape: []uint64{288, 10}},
		{name: "blk.0.ffn_gate.weight", typ: gguf.F32, shape: []uint64{40, 5}},
	}, nil)
	o := options(t, "Q4_K_M")
	r := quantize(t, in, filepath.Join(dir, "out.gguf"), o, RunOptions{})
	const params = 2*256*64 + 2880 + 200
	bits := 4.5*256*64 + 6.5625*256*64 + 5.5*2880 + 16*200 // Q4_K, Q6_K, Q5_0 for Q4_K, F16 for Q4_K
	nominal := 4.5*256*64 + 6.5625*256*64 + 4.5*(2880+200)
	want := Fallbacks{Tensors: 2, Parameters: 3080, Share: 3080.0 / params, NominalBPW: nominal / params}
	if r.Fallbacks != want || math.Abs(r.BPW-bits/params) > 1e-12 {
		t.Errorf("fallbacks %+v with %g bits, want %+v with %g", r.Fallbacks, r.BPW, want, bits/params)
	}
	if r.Tensors[2].To != "Q5_0" || !r.Tensors[2].Fallback || !strings.Contains(r.Tensors[2].Rule, "288") {
		t.Errorf("%+v", r.Tensors[2])
	}
	o.Mix.RefuseFallbacks = true
	if _, err := NewPlan(open(t, in), o); err == nil || !strings.Contains(err.Error(), "ffn_up") || !strings.Contains(err.Error(), "ffn_gate") {
		t.Errorf("strict: %v", err)
	}
}

// A quantized source is refused unless allowed; tensors that have their type already keep their bytes (field report R044).
func TestRequantize(t *testing.T) {
	dir := t.TempDir()
	f32, q8, q4 := filepath.Join(dir, "f32.gguf"), filepath.Join(dir, "q8.gguf"), filepath.Join(dir, "q4.gguf")
	writeModel(t, f32, small(), nil)
	quantize(t, f32, q8, options(t, "Q8_0"), RunOptions{})

	_, err := NewPlan(open(t, q8), options(t, "Q4_K_M"))
	if !errors.Is(err, ErrRequantize) || !strings.Contains(err.Error(), "Q8_0 -> ") || !strings.Contains(err.Error(), "--allow-requantize") {
		t.Errorf("Q8_0 as a source: %v", err)
	}
	allow := options(t, "Q4_K_M")
	allow.AllowRequantize = true
	r := quantize(t, q8, q4, allow, RunOptions{})
	if r.Tensors[1].From != "Q8_0" || r.Tensors[1].To != "Q4_K" || r.Tensors[1].RMSE == 0 {
		t.Errorf("%+v", r.Tensors[1])
	}
	if s, err := open(t, q4).Meta.Str("ggufkit.requantized_from"); err != nil || s != "Q8_0" {
		t.Errorf("source type %q, %v", s, err)
	}
	source := widen(t, gguf.Q8_0, data(t, open(t, q8), "token_embd.weight"))
	if !bytes.Equal(data(t, open(t, q4), "token_embd.weight"), store(t, gguf.Q4_K, source, 256)) {
		t.Error("the blocks are not those of the decoded source")
	}

	again := filepath.Join(dir, "again.gguf")
	quantize(t, q4, again, options(t, "Q4_K_M"), RunOptions{})
	a, b := open(t, q4), open(t, again)
	for _, x := range a.Tensors {
		if !bytes.Equal(data(t, a, x.Name), data(t, b, x.Name)) {
			t.Errorf("%s: Q4_K_M to Q4_K_M changed the bytes", x.Name)
		}
	}
}

// The size report tells what token embedding and output matrix take (field report R045).
func TestEmbeddingShare(t *testing.T) {
	dir := t.TempDir()
	tied, untied := filepath.Join(dir, "tied.gguf"), filepath.Join(dir, "untied.gguf")
	writeModel(t, untied, small(), nil)
	writeModel(t, tied, small()[:8], nil)
	const elements = 256 * 1200
	for path, want := range map[string][2]uint64{tied: {elements / 256 * 210, 0}, untied: {elements / 256 * 144, elements / 256 * 210}} {
		p, err := NewPlan(open(t, path), options(t, "Q4_K_M"))
		if err != nil {
			t.Fatal(err)
		}
		if r := p.Report(); r.EmbeddingBytes != want[0] || r.OutputBytes != want[1] {
			t.Errorf("%s: embedding %d, output %d, want %v", filepath.Base(path), r.EmbeddingBytes, r.OutputBytes, want)
		}
	}
}

// A limit that is exceeded lists the tensors and leaves no file.
func TestLimit(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.gguf")
	writeModel(t, in, small(), nil)
	p, err := NewPlan(open(t, in), options(t, "Q4_K_M"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(t.Context(), filepath.Join(dir, "out.gguf"), RunOptions{MaxRelRMSE: 0.03})
	exceeded := (*LimitError)(nil)
	if !errors.As(err, &exceeded) || r == nil {
		t.Fatalf("report %v, error %v", r, err)
	}
	// Of normal values Q4_K loses about 7 %, Q6_K about 2 %.
	var want []string
	for _, x := range r.Tensors {
		if x.To == "Q4_K" {
			want = append(want, x.Name)
		}
	}
	var got []string
	for _, x := range exceeded.Tensors {
		got = append(got, x.Name)
		if !strings.Contains(err.Error(), x.Name) {
			t.Errorf("%v does not name %s", err, x.Name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	only(t, dir, "in.gguf")
	if _, err := p.Run(t.Context(), filepath.Join(dir, "out.gguf"), RunOptions{MaxRelRMSE: 0.2}); err != nil {
		t.Error(err)
	}
}

// The report has the fields that scripts rely on.
func TestReportJSON(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.gguf")
	writeModel(t, in, small(), nil)
	r := quantize(t, in, filepath.Join(dir, "out.gguf"), options(t, "Q4_K_M"), RunOptions{})
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Tensors []map[string]any `json:"tensors"`
		Bytes   float64          `json:"bytes"`
		BPW     float64          `json:"bpw"`
		RMSE    float64          `json:"rmse"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Tensors) != 9 || m.Bytes == 0 || m.BPW == 0 || m.RMSE == 0 {
		t.Errorf("%s", b)
	}
	for _, x := range m.Tensors {
		for _, key := range []string{"name", "from", "to", "rule", "rmse", "max_error", "cosine", "bpw", "rel_rmse", "bytes", "shape", "fallback"} {
			if _, ok := x[key]; !ok {
				t.Errorf("tensor %v has no %s", x["name"], key)
			}
		}
	}
}

// Progress reaches its total, never goes back and names the tensors in order.
func TestProgress(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.gguf")
	writeModel(t, in, small(), nil)
	var last Progress
	var names []string
	quantize(t, in, filepath.Join(dir, "out.gguf"), options(t, "Q8_0"), RunOptions{Threads: 3, Progress: func(p Progress) {
		if p.Done < last.Done || p.Done > p.Total {
			t.Errorf("%+v after %+v", p, last)
		}
		if p.Tensor != last.Tensor {
			names = append(names, p.Tensor)
		}
		last = p
	}})
	if last.Done != last.Total || last.Total == 0 || len(names) != len(small()) {
		t.Errorf("ended at %+v after %v", last, names)
	}
}
