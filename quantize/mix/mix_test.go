package mix

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/ggufkit/ggufkit/gguf"
)

// mixFile is what llama-quantize chose for one model: the tensors that may be quantized, and for each file type the
// default type and the tensors that differ.
type mixFile struct {
	Architecture string `json:"architecture"`
	BlockCount   int    `json:"block_count"`
	HeadCount    int    `json:"head_count"`
	HeadCountKV  int    `json:"head_count_kv"`
	ExpertCount  int    `json:"expert_count"`
	Tensors      []struct {
		Name  string   `json:"name"`
		Shape []uint64 `json:"shape"`
	} `json:"tensors"`
	Expect map[string]struct {
		Default string            `json:"default"`
		Others  map[string]string `json:"others"`
	} `json:"expect"`
}

// checkMixFiles compares Choose with every file in folder.
func checkMixFiles(t *testing.T, folder string) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no mixes in %s: %v", folder, err)
	}
	for _, name := range files {
		m := readMixFile(t, name)
		if len(m.Expect) < 30 {
			t.Errorf("%s: only %d file types", name, len(m.Expect))
		}
		var tensors []gguf.Tensor
		for _, x := range m.Tensors {
			tensors = append(tensors, gguf.Tensor{Name: x.Name, Shape: x.Shape, Type: gguf.F16})
		}
		model := Model{m.Architecture, m.BlockCount, m.HeadCount, m.HeadCountKV, m.ExpertCount}
		for fileType, want := range m.Expect {
			t.Run(strings.TrimSuffix(filepath.Base(name), ".json.gz")+"/"+fileType, func(t *testing.T) {
				r, err := Parse(fileType)
				if err != nil {
					t.Fatal(err)
				}
				choices, err := Choose(r, model, tensors, Options{})
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range choices {
					w := want.Default
					if o, ok := want.Others[c.Name]; ok {
						w = o
					}
					if !strings.EqualFold(c.To.String(), w) {
						t.Errorf("%s: %s, want %s (%s)", c.Name, c.To, w, c.Rule)
					}
				}
			})
		}
	}
}

func readMixFile(t *testing.T, name string) mixFile {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var m mixFile
	if err := json.UnmarshalRead(z, &m); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

func TestChooseAsLlamaQuantize(t *testing.T) { checkMixFiles(t, "testdata") }

// model makes the weights of a decoder of n blocks, in 256 columns unless said otherwise.
func model(n int, extra ...string) []gguf.Tensor {
	var list []gguf.Tensor
	add := func(name string) {
		list = append(list, gguf.Tensor{Name: name, Shape: []uint64{256, 256}, Type: gguf.F32})
	}
	for _, name := range extra {
		add(name)
	}
	for i := range n {
		for _, part := range []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"} {
			add(fmt.Sprintf("blk.%d.%s.weight", i, part))
		}
		list = append(list, gguf.Tensor{Name: fmt.Sprintf("blk.%d.attn_norm.weight", i), Shape: []uint64{256}, Type: gguf.F32})
	}
	return list
}

// choose returns the choices by name.
func choose(t *testing.T, name string, m Model, tensors []gguf.Tensor, o Options) map[string]Choice {
	t.Helper()
	r, err := Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	list, err := Choose(r, m, tensors, o)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Choice{}
	for _, c := range list {
		out[c.Name] = c
	}
	return out
}

// The rules that the recorded models do not reach; the expected types are those of llama.cpp's source.
func TestRulesForSpecialModels(t *testing.T) {
	dense := Model{Arch: "llama", Layers: 16, Heads: 8, KVHeads: 8}
	gqa := Model{Arch: "llama", Layers: 16, Heads: 8, KVHeads: 2}
	mixtral := Model{Arch: "llama", Layers: 16, Heads: 8, KVHeads: 2, Experts: 8}
	falcon := Model{Arch: "falcon", Layers: 16, Heads: 8, KVHeads: 1}
	llama70 := Model{Arch: "llama", Layers: 80, Heads: 64, KVHeads: 8}
	llama65 := Model{Arch: "llama", Layers: 80, Heads: 64, KVHeads: 64}
	tests := []struct {
		model   Model
		recipe  string
		imatrix bool
		tensor  string
		want    gguf.Type
	}{
		{dense, "Q4_K_M", false, "output.weight", gguf.Q6_K},
		{dense, "Q4_K_M", false, "token_embd.weight", gguf.Q4_K},
		{dense, "Q4_K_M", false, "blk.0.attn_v.weight", gguf.Q6_K},
		{dense, "Q4_K_M", false, "blk.1.ffn_down.weight", gguf.Q6_K},
		{dense, "Q4_K_M", false, "blk.2.ffn_down.weight", gguf.Q4_K},
		{dense, "Q4_K_M", false, "blk.4.ffn_down.weight", gguf.Q6_K},
		{dense, "Q4_K_M", false, "blk.13.ffn_down.weight", gguf.Q6_K},
		{dense, "Q4_K_M", false, "blk.12.attn_v.weight", gguf.Q4_K},
		{dense, "Q4_K_M", false, "blk.14.attn_v.weight", gguf.Q6_K},
		{dense, "Q4_K_S", false, "blk.3.attn_v.weight", gguf.Q5_K},
		{dense, "Q4_K_S", false, "blk.4.attn_v.weight", gguf.Q4_K},
		{dense, "Q4_0", true, "blk.1.ffn_down.weight", gguf.Q4_1},
		{dense, "Q4_0", false, "blk.1.ffn_down.weight", gguf.Q4_0},
		{dense, "Q5_0", true, "blk.2.ffn_down.weight", gguf.Q5_0},
		{dense, "Q5_0", true, "blk.0.ffn_down.weight", gguf.Q5_1},
		{dense, "IQ3_XXS", true, "blk.0.attn_v.weight", gguf.IQ3_XXS},
		{dense, "IQ3_XXS", false, "blk.0.attn_v.weight", gguf.IQ3_S},
		{dense, "IQ3_XXS", true, "blk.0.ffn_down.weight", gguf.IQ3_XXS},
		{dense, "IQ4_XS", true, "blk.0.ffn_down.weight", gguf.IQ4_XS},
		{gqa, "Q2_K", false, "blk.5.attn_v.weight", gguf.Q4_K},
		{dense, "Q2_K", false, "blk.5.attn_v.weight", gguf.Q3_K},
		{gqa, "IQ4_XS", false, "blk.5.attn_v.weight", gguf.Q5_K},
		{mixtral, "Q4_K_M", false, "blk.5.attn_v.weight", gguf.Q8_0},
		{mixtral, "Q4_K_M", false, "blk.5.attn_k.weight", gguf.Q8_0},
		{mixtral, "Q4_K_M", false, "blk.5.attn_output.weight", gguf.Q5_K},
		{mixtral, "Q5_K_M", false, "blk.5.attn_output.weight", gguf.Q5_K},
		{mixtral, "Q3_K_L", false, "blk.5.attn_output.weight", gguf.Q3_K},
		{mixtral, "IQ2_XS", false, "blk.5.attn_k.weight", gguf.Q4_K},
		{mixtral, "IQ2_XS", false, "blk.5.attn_v.weight", gguf.Q4_K},
		{falcon, "Q4_K_M", false, "output.weight", gguf.Q8_0},
		{falcon, "Q4_K_M", false, "blk.0.ffn_down.weight", gguf.Q6_K},
		{falcon, "Q4_K_M", false, "blk.1.ffn_down.weight", gguf.Q5_K},
		{falcon, "Q4_K_M", false, "blk.2.ffn_down.weight", gguf.Q4_K},
		{falcon, "Q4_K_S", false, "blk.0.ffn_down.weight", gguf.Q4_K},
		{falcon, "Q3_K_L", false, "blk.0.attn_output.weight", gguf.Q4_K},
		{falcon, "Q3_K_M", false, "blk.2.ffn_down.weight", gguf.Q3_K},
		{llama70, "Q4_K_M", false, "blk.11.attn_v.weight", gguf.Q5_K},
		{llama70, "Q4_K_M", false, "blk.12.attn_v.weight", gguf.Q6_K},
		{llama65, "Q4_K_M", false, "blk.11.attn_v.weight", gguf.Q4_K},
		{llama70, "Q3_K_S", false, "blk.11.attn_v.weight", gguf.Q5_K},
		{llama70, "IQ1_S", false, "blk.11.attn_v.weight", gguf.Q4_K},
	}
	for _, tt := range tests {
		tensors := model(tt.model.Layers, "token_embd.weight", "output.weight")
		c := choose(t, tt.recipe, tt.model, tensors, Options{HasImatrix: tt.imatrix})[tt.tensor]
		if c.To != tt.want {
			t.Errorf("%+v %s imatrix=%v: %s is %s, want %s (%s)", tt.model, tt.recipe, tt.imatrix, tt.tensor, c.To, tt.want, c.Rule)
		}
	}
}

// A tied embedding is the output matrix and gets its type; an untied one does not (field report R045).
func TestTiedEmbedding(t *testing.T) {
	m := Model{Arch: "llama", Layers: 2, Heads: 4, KVHeads: 4}
	c := choose(t, "Q4_K_M", m, model(2, "token_embd.weight"), Options{})["token_embd.weight"]
	if c.To != gguf.Q6_K || !strings.Contains(c.Rule, "tied") {
		t.Errorf("tied: %+v", c)
	}
	if c := choose(t, "Q4_K_M", m, model(2, "token_embd.weight", "output.weight"), Options{})["token_embd.weight"]; c.To != gguf.Q4_K {
		t.Errorf("untied: %+v", c)
	}
	f16, q8 := gguf.F16, gguf.Q8_0
	both := Options{OutputType: &f16, EmbeddingType: &q8}
	if c := choose(t, "Q4_K_M", m, model(2, "token_embd.weight"), both)["token_embd.weight"]; c.To != q8 {
		t.Errorf("tied with both types asked: %+v", c)
	}
	if c := choose(t, "Q4_K_M", m, model(2, "token_embd.weight"), Options{OutputType: &f16})["token_embd.weight"]; c.To != f16 {
		t.Errorf("tied with output type asked: %+v", c)
	}
	list := choose(t, "Q4_K_M", m, model(2, "token_embd.weight", "output.weight"), both)
	if list["output.weight"].To != f16 || list["token_embd.weight"].To != q8 {
		t.Errorf("untied with both types asked: %+v", list)
	}
}

// An override equal to the overall type still wins, the first match wins, case is ignored, and an override without effect is an
// error (field report R042).
func TestOverrides(t *testing.T) {
	m := Model{Arch: "llama", Layers: 8, Heads: 4, KVHeads: 4}
	tensors := model(8, "token_embd.weight", "output.weight")
	plain := choose(t, "Q4_K_M", m, tensors, Options{})
	got := choose(t, "Q4_K_M", m, tensors, Options{Overrides: []Override{
		{"FFN_DOWN", gguf.Q4_K}, {`blk\.0\.ffn`, gguf.Q8_0}, {`blk\.0\.attn_v`, gguf.F16},
	}})
	for name, c := range got {
		want := plain[name].To
		switch {
		case strings.Contains(name, "ffn_down"):
			want = gguf.Q4_K
		case strings.HasPrefix(name, "blk.0.ffn"):
			want = gguf.Q8_0
		case name == "blk.0.attn_v.weight":
			want = gguf.F16 // and the layers after it are not shifted
		}
		if c.To != want {
			t.Errorf("%s: %s, want %s (%s)", name, c.To, want, c.Rule)
		}
	}
	if c := got["blk.3.ffn_down.weight"]; !strings.Contains(c.Rule, "override") {
		t.Errorf("rule %q does not name the override", c.Rule)
	}
	if c := choose(t, "F16", m, tensors, Options{Overrides: []Override{{"ffn_up", gguf.Q8_0}}})["blk.0.ffn_up.weight"]; c.To != gguf.Q8_0 {
		t.Errorf("override of an unquantized recipe: %+v", c)
	}

	r, _ := Parse("Q4_K_M")
	for pattern, want := range map[string]string{
		"attn_zzz":  "matches no tensor",
		"attn_norm": "keep their type",
		"attn_(":    "not a regular expression",
	} {
		_, err := Choose(r, m, tensors, Options{Overrides: []Override{{pattern, gguf.Q8_0}}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), pattern) {
			t.Errorf("%s: error %v, want %q", pattern, err, want)
		}
	}
}

// Ranks come from the names, not from the order in the file, and Choose keeps that order.
func TestOrderOfTensorsDoesNotMatter(t *testing.T) {
	m := Model{Arch: "llama", Layers: 12, Heads: 4, KVHeads: 4}
	tensors := model(12, "token_embd.weight", "output.weight")
	want := choose(t, "Q4_K_M", m, tensors, Options{})
	var turned []gguf.Tensor
	for i := range tensors {
		turned = append(turned, tensors[len(tensors)-1-i])
	}
	r, _ := Parse("q4_k")
	list, err := Choose(r, m, turned, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range list {
		if c.Name != turned[i].Name {
			t.Fatalf("choice %d is for %s, want %s", i, c.Name, turned[i].Name)
		}
		if c != want[c.Name] {
			t.Errorf("%+v, want %+v", c, want[c.Name])
		}
	}
}

// Experts of one layer get one type, since the block number stands for the running number (field report R043).
func TestExpertsCountLayers(t *testing.T) {
	var tensors []gguf.Tensor
	for i := range 16 {
		for e := range 8 {
			tensors = append(tensors, gguf.Tensor{Name: fmt.Sprintf("blk.%d.ffn_down.%d.weight", i, e), Shape: []uint64{256, 8}})
		}
	}
	got := choose(t, "Q4_K_M", Model{Arch: "llama", Layers: 16, Experts: 8}, tensors, Options{})
	for i, want := range map[int]gguf.Type{0: gguf.Q6_K, 1: gguf.Q6_K, 2: gguf.Q4_K, 4: gguf.Q6_K, 5: gguf.Q4_K, 15: gguf.Q6_K} {
		for e := range 8 {
			if c := got[fmt.Sprintf("blk.%d.ffn_down.%d.weight", i, e)]; c.To != want {
				t.Errorf("%s: %s, want %s", c.Name, c.To, want)
			}
		}
	}
}

// Rows that are not whole blocks fall back by the table; strict refuses them all at once (field report R038).
func TestFallback(t *testing.T) {
	m := Model{Arch: "llama", Layers: 1, Heads: 4, KVHeads: 4}
	tensors := []gguf.Tensor{
		{Name: "token_embd.weight", Shape: []uint64{256, 32}},
		{Name: "output.weight", Shape: []uint64{288, 32}},
		{Name: "blk.0.ffn_up.weight", Shape: []uint64{288, 4}},
		{Name: "blk.0.ffn_gate.weight", Shape: []uint64{40, 4}},
		{Name: "blk.0.ffn_down.weight", Shape: []uint64{288, 4}},
	}
	got := choose(t, "Q4_K_M", m, tensors, Options{})
	want := map[string]gguf.Type{
		"token_embd.weight": gguf.Q4_K, "output.weight": gguf.Q8_0, "blk.0.ffn_up.weight": gguf.Q5_0,
		"blk.0.ffn_gate.weight": gguf.F16, "blk.0.ffn_down.weight": gguf.Q8_0,
	}
	for name, w := range want {
		c := got[name]
		// The output matrix falls back by a rule of the recipe.
		fallback := name != "token_embd.weight" && name != "output.weight"
		if c.To != w || c.Fallback != fallback {
			t.Errorf("%+v, want %s, fallback %v", c, w, fallback)
		}
		if fallback && !strings.Contains(c.Rule, fmt.Sprint("rows of ", map[bool]int{true: 40, false: 288}[w == gguf.F16])) {
			t.Errorf("rule %q does not name the row length", c.Rule)
		}
	}
	if c := choose(t, "Q8_0", m, tensors, Options{})["blk.0.ffn_gate.weight"]; c.To != gguf.F16 || !c.Fallback {
		t.Errorf("Q8_0 in rows of 40: %+v", c)
	}
	r, _ := Parse("Q4_K_M")
	_, err := Choose(r, m, tensors, Options{RefuseFallbacks: true})
	for _, name := range []string{"blk.0.ffn_up.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_down.weight", "288", "40"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("strict: %v does not name %s", err, name)
		}
	}
}

func TestKept(t *testing.T) {
	m := Model{Arch: "llama", Layers: 1}
	tensors := []gguf.Tensor{
		{Name: "output.weight", Shape: []uint64{256, 8}},
		{Name: "blk.0.attn_norm.weight", Shape: []uint64{256}},
		{Name: "blk.0.attn_q.bias", Shape: []uint64{256, 2}},
		{Name: "blk.0.ffn_gate_inp.weight", Shape: []uint64{256, 8}},
		{Name: "blk.0.ffn_up.weight", Shape: []uint64{256, 8}, Type: gguf.I32},
		{Name: "blk.0.ffn_gate_inp_shexp.weight", Shape: []uint64{256, 1}},
		{Name: "blk.0.ffn_gate_inp_shexp2.weight", Shape: []uint64{256, 2}},
		{Name: "position_embd.weight", Shape: []uint64{256, 2}, Type: gguf.BF16},
	}
	got := choose(t, "Q8_0", m, tensors, Options{LeaveOutput: true})
	for _, x := range tensors {
		c := got[x.Name]
		if kept := c.To == x.Type; kept != (x.Name != "blk.0.ffn_gate_inp_shexp2.weight") || kept != strings.HasPrefix(c.Rule, "kept") {
			t.Errorf("%+v", c)
		}
	}
}

func TestPure(t *testing.T) {
	m := Model{Arch: "llama", Layers: 8, Heads: 4, KVHeads: 4}
	for name, c := range choose(t, "Q4_K_M", m, model(8, "token_embd.weight", "output.weight"), Options{Pure: true}) {
		if want := map[bool]gguf.Type{true: gguf.F32, false: gguf.Q4_K}[strings.Contains(name, "norm")]; c.To != want {
			t.Errorf("%s: %s, want %s", name, c.To, want)
		}
	}
}

func TestParse(t *testing.T) {
	for name, want := range map[string]uint32{"q4_k_m": 15, "Q4_K": 15, "q3_k": 12, "Q5_k": 17, "f16": 1, "F32": 0, "bf16": 32, "q2_k": 10} {
		if r, err := Parse(name); err != nil || r.FileType != want {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if _, err := Parse("Q4_K_X"); err == nil || !strings.Contains(err.Error(), "Q4_K_M") {
		t.Errorf("unknown name: %v does not list the names", err)
	}
}
