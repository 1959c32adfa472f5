package eval_test

import (
	"encoding/json"
	"encoding/xml"
	"math"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/infer/eval"
)

func TestLimits(t *testing.T) {
	limits, err := eval.ParseLimits("# ours\nkld_mean<=0.01\n\n same_top >= 0.95 # of all\nppl<=60\nkld_max <= 1e3\n")
	if err != nil {
		t.Fatal(err)
	}
	d := eval.Divergence{KLD: 0.01, SameTop: 0.949, PPL: eval.Number(math.NaN()), KLDMax: eval.Number(math.Inf(1))}
	checks, err := eval.CheckLimits(d, limits)
	if err != nil {
		t.Fatal(err)
	}
	var ok []bool
	for _, c := range checks {
		ok = append(ok, c.OK)
	}
	if len(ok) != 4 || !ok[0] || ok[1] || ok[2] || ok[3] {
		t.Errorf("%+v", checks)
	}
	err = eval.Failures(checks)
	if err == nil || !strings.Contains(err.Error(), "3 of 4 limits") || !strings.Contains(err.Error(), "0.949, limit same_top >= 0.95") {
		t.Errorf("failures: %v", err)
	}
	if err := eval.Failures(checks[:1]); err != nil {
		t.Errorf("failures of kept limits: %v", err)
	}
	if _, err := eval.CheckLimits(d, []eval.Limit{{Figure: "kld"}}); err == nil || !strings.Contains(err.Error(), "kld_mean") {
		t.Errorf("an unknown figure: %v", err)
	}
	for _, bad := range []string{"kld_mean", "kld_mean<0.1", "<=1", "kld_mean<=x", "kld_mean<=NaN", "kld_mean=0.1"} {
		if _, err := eval.ParseLimits("\n" + bad); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: error %v", bad, err)
		}
	}
}

func TestBaseline(t *testing.T) {
	before := eval.Divergence{PPL: 50, KLD: 0.02, SameTop: 0.9, Ratio: 1.1, Tokens: 100, Context: 32}
	data, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := eval.BaselineLimits(data, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		now eval.Divergence
		ok  bool
	}{
		"the same":      {before, true},
		"better":        {eval.Divergence{PPL: 40, SameTop: 1, Ratio: 1, Tokens: 100, Context: 32}, true},
		"a bit worse":   {eval.Divergence{PPL: 54, KLD: 0.0219, SameTop: 0.82, Ratio: 1.2, Tokens: 100, Context: 32}, true},
		"worse":         {eval.Divergence{PPL: 50, KLD: 0.0221, SameTop: 0.9, Ratio: 1.1, Tokens: 100, Context: 32}, false},
		"fewer agree":   {eval.Divergence{PPL: 50, KLD: 0.02, SameTop: 0.8, Ratio: 1.1, Tokens: 100, Context: 32}, false},
		"another text":  {eval.Divergence{PPL: 50, KLD: 0.02, SameTop: 0.9, Ratio: 1.1, Tokens: 99, Context: 32}, false},
		"other windows": {eval.Divergence{PPL: 50, KLD: 0.02, SameTop: 0.9, Ratio: 1.1, Tokens: 100, Context: 64}, false},
	} {
		checks, err := eval.CheckLimits(c.now, limits)
		if err != nil {
			t.Fatal(err)
		}
		if err := eval.Failures(checks); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"", "[]", `{"tokens": 5}`} {
		if _, err := eval.BaselineLimits([]byte(bad), 0); err == nil {
			t.Errorf("%q is a baseline", bad)
		}
	}
}

func TestReportsOfChecks(t *testing.T) {
	checks := []eval.Check{{Limit: "a <= 1", Value: 0.5, OK: true}, {Limit: `b <= 1`, Value: eval.Number(math.Inf(1))}}
	var b strings.Builder
	if err := eval.WriteJUnit(&b, `q4 "<|x|>"`, checks); err != nil {
		t.Fatal(err)
	}
	var suite struct {
		XMLName  xml.Name `xml:"testsuite"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Class   string `xml:"classname,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal([]byte(b.String()), &suite); err != nil {
		t.Fatal(err)
	}
	if suite.Tests != 2 || suite.Failures != 1 || len(suite.Cases) != 2 || suite.Cases[0].Failure != nil || suite.Cases[1].Failure == nil ||
		suite.Cases[1].Failure.Message != "+Inf, limit b <= 1" || suite.Cases[0].Name != "a <= 1" || suite.Cases[0].Class != `q4 "<|x|>"` {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	if err := eval.WriteMarkdown(&b, "q4|<x>", checks); err != nil {
		t.Fatal(err)
	}
	const want = "### q4\\|&lt;x&gt;\n\n| limit | value | kept |\n|---|---:|---|\n| a &lt;= 1 | 0.5 | yes |\n| b &lt;= 1 | +Inf | **no** |\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestLikelyLimit: a text that is no limit is echoed as the one that it most likely means.
func TestLikelyLimit(t *testing.T) {
	for text, want := range map[string]string{
		"perplexity<100": "perplexity<=100", "same_top > 0.9": "same_top>=0.9", "ppl=60": "ppl<=60", "ppl": "ppl<=X", "ppl<=many": "ppl<=X", "<=1": "FIGURE<=1", "": "FIGURE<=X",
	} {
		if got := eval.LikelyLimit(text); got != want {
			t.Errorf("%q most likely means %q, want %q", text, got, want)
		}
		if _, err := eval.ParseLimit(text); err == nil || !strings.HasSuffix(err.Error(), "\nhint: write "+want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
