package infer

import (
	"maps"
	"math"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// Rope options compute what a file with the same settings does.
func TestRopeOptions(t *testing.T) {
	none := 0.0
	yarn := map[string]gguf.Value{"rope.scaling.type": gguf.New("yarn"), "rope.scaling.factor": f32(4), "rope.scaling.original_context_length": u32(100)}
	with := func(m map[string]gguf.Value, more map[string]gguf.Value) map[string]gguf.Value {
		m = maps.Clone(m)
		maps.Copy(m, more)
		return m
	}
	linear := map[string]gguf.Value{"rope.scaling.type": gguf.New("linear"), "rope.scaling.factor": f32(4)}
	for _, c := range []struct {
		name       string
		file, same map[string]gguf.Value // keys of the file that is loaded with the options, and of the one that says so itself
		o          RopeOptions
	}{
		{"base", nil, map[string]gguf.Value{"rope.freq_base": f32(500)}, RopeOptions{FreqBase: 500}},
		{"scale is linear", nil, linear, RopeOptions{Scale: 4}},
		{"another factor", map[string]gguf.Value{"rope.scaling.factor": f32(2)}, linear, RopeOptions{Scale: 4}},
		{"none", linear, nil, RopeOptions{Scaling: "none"}},
		{"yarn", nil, yarn, RopeOptions{Scaling: "yarn", Scale: 4, YarnOrigCtx: 100}},
		{"from linear to yarn", linear, yarn, RopeOptions{Scaling: "yarn", YarnOrigCtx: 100}},
		{"betas", yarn, with(yarn, map[string]gguf.Value{"rope.scaling.yarn_beta_fast": f32(8), "rope.scaling.yarn_beta_slow": f32(2)}),
			RopeOptions{YarnBetaFast: 8, YarnBetaSlow: 2}},
		{"magnitude", yarn, with(yarn, map[string]gguf.Value{"rope.scaling.attn_factor": f32(1.5)}), RopeOptions{YarnAttnFactor: 1.5}},
		{"no fast pairs", yarn, linear, RopeOptions{YarnExtFactor: &none}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, same := llamaTiny(), llamaTiny()
			m.keys, same.keys = c.file, c.same
			ids := m.ids(60)
			want := all(t, newSession(t, same.load(t, Options{Precision: Exact})), ids, 60)
			sameBits(t, c.name, all(t, newSession(t, m.load(t, Options{Precision: Exact, Rope: c.o})), ids, 60), want)
		})
	}
}

// Windowed blocks with frequencies of their own keep them.
func TestRopeOptionsOfWindows(t *testing.T) {
	m := families()["gemma3 with a pattern of three"]
	ids := m.ids(60)
	got := all(t, newSession(t, m.load(t, Options{Precision: Exact, Rope: RopeOptions{FreqBase: 2000, Scale: 3}})), ids, 60)
	same := m
	same.keys = maps.Clone(m.keys)
	same.keys["rope.freq_base"], same.keys["rope.scaling.factor"] = f32(2000), f32(3)
	sameBits(t, "global blocks", got, all(t, newSession(t, same.load(t, Options{Precision: Exact})), ids, 60))
}

func TestOptionsRefused(t *testing.T) {
	two := 2.0
	none := func(*source, *gguf.Meta) {}
	for _, c := range []struct {
		name string
		m    tiny
		o    Options
		want []string
	}{
		{"cache of exact", llamaTiny(), Options{Precision: Exact, Cache: CacheF16}, []string{"exact precision", "F32"}},
		{"odd heads", llamaTiny(), Options{Cache: CacheQ8_0}, []string{"keys of 6 elements", "Q8_0", "32", "f16"}},
		{"no rope", families()["gpt2"], Options{Rope: RopeOptions{FreqBase: 5}}, []string{"gpt2", "no rotary"}},
		{"longrope", families()["phi3"], Options{Rope: RopeOptions{Scale: 2}}, []string{"longrope"}},
		{"unknown scaling", llamaTiny(), Options{Rope: RopeOptions{Scaling: "dynamic"}}, []string{`"dynamic"`, "none, linear or yarn"}},
		{"scale and none", llamaTiny(), Options{Rope: RopeOptions{Scaling: "none", Scale: 2}}, []string{"none"}},
		{"yarn without yarn", llamaTiny(), Options{Rope: RopeOptions{YarnBetaFast: 2}}, []string{"yarn options", "linear"}},
		{"negative base", llamaTiny(), Options{Rope: RopeOptions{FreqBase: -1}}, []string{"base frequency", "-1"}},
		{"no factor", llamaTiny(), Options{Rope: RopeOptions{Scale: 1e-308}}, []string{"scale", "1e-308", "1e-12"}},
		{"too loud", llamaTiny(), Options{Rope: RopeOptions{Scaling: "yarn", YarnAttnFactor: 1e30}}, []string{"attention factor", "1e+30", "1000"}},
		{"no number", llamaTiny(), Options{Rope: RopeOptions{Scale: math.NaN()}}, []string{"scale", "NaN"}},
		{"blend", llamaTiny(), Options{Rope: RopeOptions{Scaling: "yarn", YarnExtFactor: &two}}, []string{"0 to 1"}},
	} {
		t.Run(c.name, func(t *testing.T) { wantError(t, c.name, loadError(t, c.m, c.o, none), c.want...) })
	}
}

func TestParseCacheType(t *testing.T) {
	for name, want := range map[string]CacheType{"f16": CacheF16, "Q8_0": CacheQ8_0} {
		if got, err := ParseCacheType(name); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	_, err := ParseCacheType("q4_0")
	wantError(t, "q4_0", err, `"q4_0"`, "f16 or q8_0")
}
