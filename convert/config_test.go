package convert

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// loadConfig reads a config.json with the given text.
func loadConfig(t *testing.T, text string) (*config, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return readConfig(dir)
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
}

func TestConfigTypes(t *testing.T) {
	c, err := loadConfig(t, `{"n": 12, "f": 1e-05, "s": "12", "b": true, "z": null, "neg": -1, "big": 4294967296, "part": 1.5,
		"o": {"inner": {"x": 3}, "list": [1]}}`)
	if err != nil {
		t.Fatal(err)
	}
	if n, ok, err := c.uint("n", 32); n != 12 || !ok || err != nil {
		t.Error(n, ok, err)
	}
	if n, ok, err := c.uint("o.inner.x", 32); n != 3 || !ok || err != nil {
		t.Error(n, ok, err)
	}
	if f, ok, err := c.float("f"); f != 1e-05 || !ok || err != nil {
		t.Error(f, ok, err)
	}
	if f, ok, err := c.float("n"); f != 12 || !ok || err != nil {
		t.Error(f, ok, err)
	}
	for _, path := range []string{"z", "absent", "o.absent", "o.inner.absent", "absent.x", "z.x"} {
		if _, ok, err := c.uint(path, 32); ok || err != nil {
			t.Error(path, ok, err)
		}
	}
	for _, path := range []string{"s", "b", "neg", "big", "part", "o", "o.list"} {
		_, _, err := c.uint(path, 32)
		wantError(t, err, "config.json", path+" is ", "expected a whole number")
	}
	for _, path := range []string{"s", "b", "o"} {
		_, _, err := c.float(path)
		wantError(t, err, "config.json", path+" is ", "expected a number")
	}
	_, _, err = c.bool("n")
	wantError(t, err, "n is 12, expected true or false")
	_, _, err = c.text("n")
	wantError(t, err, "n is 12, expected a string")
	_, _, err = c.uint("n.x", 32)
	wantError(t, err, "n is 12, expected an object")
}

func TestConfigFaults(t *testing.T) {
	if _, err := readConfig(t.TempDir()); err == nil {
		t.Error("a folder without config.json was accepted")
	}
	for _, text := range []string{"", "[]", "{", `{"a": 1, "a": 2}`, `"x"`, "null"} {
		_, err := loadConfig(t, text)
		wantError(t, err, "config.json")
	}
}

func TestSpecOf(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                    "has no architectures",
		`{"architectures": []}`:                 "architectures is []",
		`{"architectures": "LlamaForCausalLM"}`: "expected a list",
		`{"architectures": [1]}`:                "expected a list",
		`{"architectures": ["FooForCausalLM"]}`: `class "FooForCausalLM" is not supported`,
		`{"architectures": ["LlamaForCausalLM"], "hidden_act": "gelu"}`:                           `hidden_act is "gelu", expected "silu"`,
		`{"architectures": ["LlamaForCausalLM"], "partial_rotary_factor": 0.5}`:                   "partial_rotary_factor is 0.5",
		`{"architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": "awq"}}`: `already quantized (quantization_config, method "awq")`,
	} {
		c, err := loadConfig(t, text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.spec()
		wantError(t, err, "config.json", want)
	}
	c, err := loadConfig(t, `{"architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "partial_rotary_factor": 1.0, "quantization_config": null}`)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := c.spec(); err != nil || s.Name != "llama" {
		t.Error(err)
	}
}

// Each pair is the same rope setting in the layouts of transformers 4 and 5.
func TestRopeLayouts(t *testing.T) {
	for name, c := range map[string]struct {
		four, five string
		want       rope
	}{
		"default": {
			`{"rope_theta": 10000.0, "rope_scaling": null}`,
			`{"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}`,
			rope{kind: "default", attn: 1},
		},
		"linear": {
			`{"rope_theta": 10000, "rope_scaling": {"type": "linear", "factor": 4}}`,
			`{"rope_parameters": {"rope_theta": 10000.0, "rope_type": "linear", "factor": 4.0}}`,
			rope{kind: "linear", factor: 4, attn: 1},
		},
		"dynamic": {
			`{"rope_theta": 10000, "rope_scaling": {"type": "dynamic", "rope_type": "dynamic", "factor": 2.0}}`,
			`{"rope_parameters": {"full_attention": {"rope_theta": 10000.0, "rope_type": "dynamic", "factor": 2.0}}}`,
			rope{kind: "dynamic", factor: 2, attn: 1},
		},
		"llama3": {
			`{"rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}}`,
			`{"rope_theta": 500000.0, "rope_parameters": {"rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}}`,
			rope{kind: "llama3", factor: 8, lowFreq: 1, highFreq: 4, origCtx: 8192, attn: 1},
		},
		"yarn": {
			`{"rope_theta": 1e6, "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 16, "beta_slow": 2, "type": "yarn", "truncate": true}}`,
			`{"rope_parameters": {"full_attention": {"rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 16, "beta_slow": 2, "rope_type": "yarn"},
				"other": {"rope_theta": 1000000, "factor": 4, "original_max_position_embeddings": 32, "beta_fast": 16.0, "beta_slow": 2, "type": "yarn"}}}`,
			rope{kind: "yarn", factor: 4, origCtx: 32, betaFast: 16, betaSlow: 2, attn: 1},
		},
	} {
		for layout, text := range map[string]string{"4": c.four, "5": c.five} {
			cfg, err := loadConfig(t, text)
			if err != nil {
				t.Errorf("%s, layout %s: %v", name, layout, err)
				continue
			}
			got, err := cfg.rope()
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s, layout %s: %+v %v, want %+v", name, layout, got, err, c.want)
			}
			if theta, ok, err := cfg.float("rope_parameters.rope_theta"); err != nil || !ok || theta < 10000 {
				t.Errorf("%s, layout %s: rope_theta %g %v", name, layout, theta, err)
			}
		}
	}
}

func TestRopeFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{"rope_scaling": {"type": "foo", "factor": 2}}`:                                                 `rope scaling type "foo"`,
		`{"rope_scaling": {"type": "longrope", "factor": 2}}`:                                            `the rope section of type "longrope" lacks long_factor`,
		`{"rope_scaling": {"type": "linear", "factor": 2, "extra": 1}}`:                                  `"extra", which is unknown for type "linear"`,
		`{"rope_parameters": {"rope_type": "default", "factor": 2}}`:                                     `"factor", which is unknown for type "default"`,
		`{"rope_scaling": {"type": "linear"}}`:                                                           "lacks factor",
		`{"rope_scaling": {"type": "linear", "factor": "2"}}`:                                            `factor is "2", expected a number`,
		`{"rope_scaling": {"type": "linear", "factor": 0}}`:                                              "expected more than 0",
		`{"rope_scaling": {"type": "linear", "rope_type": "yarn", "factor": 2}}`:                         "elsewhere",
		`{"rope_scaling": "linear"}`:                                                                     `rope_scaling is "linear", expected an object`,
		`{"rope_scaling": {"type": 3}}`:                                                                  "rope_type is 3, expected a string",
		`{"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}}`: "lacks original_max_position_embeddings",
		`{"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1}}`:                        "lacks high_freq_factor",
		`{"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4, "original_max_position_embeddings": 8}}`: "not below",
		`{"rope_scaling": {"type": "yarn", "factor": 4, "truncate": false}}`:                                                                    "truncate false",
		`{"rope_theta": 1, "rope_parameters": {"rope_theta": 2}}`:                                                                               "rope_theta is 1, expected 2",
		`{"rope_parameters": {"full_attention": {"rope_theta": 2}, "sliding_attention": {"rope_theta": 3}}}`:                                    "differ by layer type",
		`{"rope_parameters": {"full_attention": {"rope_theta": 2}, "rope_theta": 2}}`:                                                           "mixes settings with layer types",
	} {
		c, err := loadConfig(t, text)
		if err == nil {
			_, err = c.rope()
		}
		wantError(t, err, "config.json", want)
	}
}

// YaRN's attention factor is stored relative to the 0.1 ln(factor) + 1 that readers apply.
func TestYarnAttention(t *testing.T) {
	for text, want := range map[string]float64{
		`{"rope_scaling": {"type": "yarn", "factor": 4}}`:                                                   1,
		`{"rope_scaling": {"type": "yarn", "factor": 4, "attention_factor": 1.1386294361119891}}`:           1,
		`{"rope_scaling": {"type": "yarn", "factor": 4, "attention_factor": 2.2772588722239782}}`:           2,
		`{"rope_scaling": {"type": "yarn", "factor": 4, "mscale": 0.707, "mscale_all_dim": 0.707}}`:         1 / 1.1386294361119891,
		`{"rope_scaling": {"type": "yarn", "factor": 4, "mscale": 1, "mscale_all_dim": 0.5}}`:               1 / (1 + 0.05*1.3862943611198906),
		`{"rope_scaling": {"type": "yarn", "factor": 0.5, "attention_factor": 3}}`:                          3,
		`{"rope_scaling": {"type": "yarn", "factor": 4, "mscale": 1, "mscale_all_dim": 1, "beta_fast": 8}}`: 1 / 1.1386294361119891,
	} {
		c, err := loadConfig(t, text)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.rope()
		if err != nil || r.attn < want*(1-1e-12) || r.attn > want*(1+1e-12) {
			t.Errorf("%s: %g %v, want %g", text, r.attn, err, want)
		}
	}
}

// No settings, however odd, may do worse than give an error.
func FuzzConfig(f *testing.F) {
	f.Add(`{"architectures": ["LlamaForCausalLM"], "rope_scaling": {"type": "yarn", "factor": 4, "mscale": 1}, "hidden_act": "silu"}`)
	f.Add(`{"architectures": ["Qwen2ForCausalLM"], "rope_parameters": {"a": {"rope_theta": 1}, "b": {"rope_type": "llama3"}}}`)
	f.Add(`{"architectures": ["Gemma3ForConditionalGeneration"], "text_config": {"rope_parameters": {"sliding_attention": {"rope_theta": 1}}}}`)
	f.Add(`{"architectures": ["Phi3ForCausalLM"], "rope_scaling": {"type": "su", "long_factor": [1, 2], "short_factor": [1.5]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		c := &config{file: "config.json", root: object{}}
		if json.Unmarshal([]byte(text), &c.root) != nil || c.settle() != nil {
			return
		}
		c.spec()
		c.rope()
		c.uint("num_hidden_layers", 32)
	})
}
