package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/infer/eval"
)

// element is a start tag of a page.
type element struct {
	name       string
	attributes map[string]string
	text       string // up to the next tag
}

var (
	tagPattern       = regexp.MustCompile(`^<(/?)([a-zA-Z][a-zA-Z0-9]*)((?:\s+[a-zA-Z][a-zA-Z0-9-]*(?:="[^"<]*")?)*)\s*(/?)>`)
	attributePattern = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9-]*)(?:="([^"]*)")?`)
)

// parsePage reads the strict part of HTML that our template writes: quoted attributes, every element closed but the void ones, every < a tag.
func parsePage(t *testing.T, page string) []element {
	t.Helper()
	rest, ok := strings.CutPrefix(page, "<!DOCTYPE html>\n")
	if !ok {
		t.Fatalf("it starts with %.40q", page)
	}
	var list []element
	var open []string
	for {
		at := strings.IndexByte(rest, '<')
		if at < 0 {
			break
		}
		if len(list) > 0 {
			list[len(list)-1].text += html.UnescapeString(rest[:at])
		}
		rest = rest[at:]
		tag := tagPattern.FindStringSubmatch(rest)
		if tag == nil {
			t.Fatalf("no tag: %.80q", rest)
		}
		rest = rest[len(tag[0]):]
		name := strings.ToLower(tag[2])
		if tag[1] == "/" {
			if len(open) == 0 || open[len(open)-1] != name {
				t.Fatalf("</%s> within %v", name, open)
			}
			open = open[:len(open)-1]
			continue
		}
		e := element{name: name, attributes: map[string]string{}}
		for _, a := range attributePattern.FindAllStringSubmatch(tag[3], -1) {
			e.attributes[strings.ToLower(a[1])] = html.UnescapeString(a[2])
		}
		list = append(list, e)
		if tag[4] == "" && !slices.Contains([]string{"meta", "link", "input", "br"}, name) {
			open = append(open, name)
		}
	}
	if len(open) > 0 {
		t.Errorf("not closed: %v", open)
	}
	return list
}

// checkAlone fails if a page runs anything or refers to anything outside of itself.
func checkAlone(t *testing.T, page string) []element {
	t.Helper()
	elements := parsePage(t, page)
	allowed := strings.Fields("html head meta link title style body main header h1 h2 h3 h4 p bdi div figure figcaption span svg g line text polyline circle " +
		"table thead tbody tr th td data a section input label mark dl dt dd footer b")
	ids := map[string]bool{}
	for _, e := range elements {
		ids[e.attributes["id"]] = true
	}
	for _, e := range elements {
		if !slices.Contains(allowed, e.name) {
			t.Errorf("an element <%s>", e.name)
		}
		for name, value := range e.attributes {
			switch {
			case strings.HasPrefix(name, "on"), name == "src", name == "style", name == "action", name == "srcset":
				t.Errorf("<%s> has %s=%q", e.name, name, value)
			case name == "href" && e.name == "link" && value == "data:,":
			case name == "href" && !(strings.HasPrefix(value, "#") && ids[value[1:]]):
				t.Errorf("<%s> refers to %q", e.name, value)
			}
		}
		if e.name == "style" && regexp.MustCompile(`(?i)url\(|@import|//`).MatchString(e.text) {
			t.Error("the style loads something")
		}
		if e.name == "meta" && e.attributes["http-equiv"] != "" && !strings.HasPrefix(e.attributes["content"], "default-src 'none';") {
			t.Errorf("the policy is %q", e.attributes["content"])
		}
	}
	if page := strings.ToLower(page); strings.Contains(page, "http:") || strings.Contains(page, "https:") {
		t.Error("the page names an address")
	}
	return elements
}

// call runs the program in this process and returns what it prints.
func call(t *testing.T, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, err strings.Builder
	if got := run(append([]string{"ggufkit"}, args...), strings.NewReader(""), &out, &err); got != status {
		t.Fatalf("%v: status %d, want %d: %s", args, got, status, err.String())
	}
	return out.String(), err.String()
}

// demoReport converts the demo, quantizes it and makes the report of four types, in exact precision, with two prompts.
func demoReport(t *testing.T, dir string) (r *eval.Report, page string) {
	t.Helper()
	demo := filepath.Join("..", "..", "testdata", "demo")
	base, prompts, out := filepath.Join(dir, "demo-F32.gguf"), filepath.Join(dir, "prompts.txt"), filepath.Join(dir, "report.html")
	call(t, 0, "convert", demo, "--type", "F32", "-o", base, "-q")
	if err := os.WriteFile(prompts, []byte("SIR TOBY\n\nWhat light through yonder <window>\r\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	args := []string{"report", "-o", out, "--base", base, "-f", filepath.Join(demo, "heldout.txt"), "--prompts", prompts,
		"-n", "16", "-c", "128", "--chunks", "3", "--precision", "exact", "--json", "-q"}
	for _, typ := range []string{"Q2_K", "Q4_K_M", "Q8_0", "Q3_K_M"} {
		file := filepath.Join(dir, "demo-"+typ+".gguf")
		call(t, 0, "quantize", base, file, typ, "-q")
		args = append(args, file)
	}
	stdout, stderr := call(t, 0, args...)
	if stderr != "" {
		t.Errorf("with -q it says %q", stderr)
	}
	r = &eval.Report{}
	if err := json.Unmarshal([]byte(stdout), r); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(b)
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	r, page := demoReport(t, dir)
	var labels []string
	for _, m := range r.Models {
		labels = append(labels, m.Label)
	}
	if want := []string{"Q8_0", "Q4_K_M", "Q3_K_M", "Q2_K"}; !slices.Equal(labels, want) {
		t.Fatalf("models %v, want %v: the largest first", labels, want)
	}
	t.Run("page", func(t *testing.T) { checkPage(t, r, page) })
	t.Run("figures", func(t *testing.T) { checkFigures(t, dir, r) })
	t.Run("answers", func(t *testing.T) { checkAnswers(t, dir, r) })
}

// checkPage: the page shows what the JSON has.
func checkPage(t *testing.T, r *eval.Report, page string) {
	elements := checkAlone(t, page)
	values, points := map[string][]string{}, map[string]int{}
	row, tokens, flipped, cells := "", 0, 0, 0
	for _, e := range elements {
		switch class := e.attributes["class"]; {
		case e.name == "tr":
			row = e.attributes["data-model"]
		case e.name == "data" && row != "":
			values[row] = append(values[row], e.attributes["value"])
		case class == "name":
			points[strings.TrimSpace(e.text)]++
		case class == "differs":
			cells++
		case e.name == "span" && strings.HasPrefix(class, "t h") && e.attributes["tabindex"] == "0":
			tokens++
			if strings.HasSuffix(class, " flip") {
				flipped++
			}
		}
	}
	wantTokens, wantFlips := 0, 0
	for _, m := range r.Models {
		d, value := m.Divergence, func(n eval.Number) string { return strconv.FormatFloat(float64(n), 'g', -1, 64) }
		want := []string{fmt.Sprint(m.Bytes)}
		for _, n := range []eval.Number{d.KLD, eval.Number(math.Hypot(float64(d.KLDStdErr), float64(d.KLDSampling))), d.KLDMedian, d.KLDP99, d.KLDMax,
			d.PPL, d.Ratio, d.RatioErr, d.SameTop, d.PDiffRMS} {
			want = append(want, value(n))
		}
		if got := values[m.Label]; !slices.Equal(got, want) {
			t.Errorf("%s: the page has %v, the JSON %v", m.Label, got, want)
		}
		if points[m.Label] != 2 {
			t.Errorf("%s: %d points in two plots", m.Label, points[m.Label])
		}
		wantFlips += m.Flips
	}
	for _, p := range r.Prompts {
		wantTokens += len(p.Answer) * len(r.Models)
		if !strings.Contains(page, html.EscapeString(p.Prompt)) {
			t.Errorf("no prompt %q", p.Prompt)
		}
	}
	if tokens != wantTokens || cells != wantFlips || wantFlips == 0 {
		t.Errorf("%d tokens, want %d; %d answers that part, want %d", tokens, wantTokens, cells, wantFlips)
	}
	if flipped > wantFlips {
		t.Errorf("%d tokens marked, of %d answers that part", flipped, wantFlips)
	}
}

// checkFigures: they are those of compare side by side, but for the error of the base's form that is told.
func checkFigures(t *testing.T, dir string, r *eval.Report) {
	for _, m := range r.Models {
		out, _ := call(t, 0, "compare", "-m", filepath.Join(dir, m.File), "--base", filepath.Join(dir, r.Base.File), "-f", filepath.Join("..", "..", "testdata", "demo", "heldout.txt"),
			"-c", "128", "--chunks", "3", "--precision", "exact", "--json", "-q")
		var d eval.Divergence
		if err := json.Unmarshal([]byte(out), &d); err != nil {
			t.Fatal(err)
		}
		if d.PPL != m.PPL || d.SameTop != m.SameTop || d.Tokens != m.Tokens || math.Abs(float64(d.PPLBase/r.Base.Perplexity-1)) > 1e-6 {
			t.Errorf("%s: perplexity %v (base %v), same top %v, tokens %d; compare has %v (%v), %v, %d",
				m.Label, m.PPL, r.Base.Perplexity, m.SameTop, m.Tokens, d.PPL, d.PPLBase, d.SameTop, d.Tokens)
		}
		if diff := math.Abs(float64(d.KLD - m.KLD)); diff > 4*float64(m.KLDSampling) || m.KLDSampling == 0 {
			t.Errorf("%s: divergence %v, compare has %v; the error is said to be %v", m.Label, m.KLD, d.KLD, m.KLDSampling)
		}
	}
}

// checkAnswers: they are those of run, and the numbers along them follow from the logits by definition.
func checkAnswers(t *testing.T, dir string, r *eval.Report) {
	p := r.Prompts[0]
	base := filepath.Join(dir, r.Base.File)
	prompt, answer := tokensOf(t, base, p.Prompt), idsOf(p.Answer)
	if want := generated(t, base, p.Prompt); !slices.Equal(answer, want) {
		t.Errorf("the base's answer is %v, that of run %v", answer, want)
	}
	before := logitsAlong(t, dir, base, prompt, answer)
	for i, m := range r.Models {
		file, a := filepath.Join(dir, m.File), p.Answers[i]
		want := generated(t, file, p.Prompt)
		if got := idsOf(a.Answer); !slices.Equal(got, want) {
			t.Errorf("%s: the answer is %v, that of run %v", m.Label, got, want)
		}
		flip := 0
		for ; flip < len(answer) && flip < len(want) && answer[flip] == want[flip]; flip++ {
		}
		if flip == len(answer) && flip == len(want) {
			flip = -1
		}
		if a.Flip != flip {
			t.Errorf("%s: flips at %d, want %d", m.Label, a.Flip, flip)
		}
		after := logitsAlong(t, dir, file, prompt, answer)
		for j, s := range a.Steps {
			pb, pm := distribution(before[j]), distribution(after[j])
			kld := 0.0
			for id := range pb {
				kld += pb[id] * math.Log(pb[id]/pm[id])
			}
			id := answer[j]
			if math.Abs(float64(s.KLD)-kld) > 1e-5+0.002*kld || math.Abs(float64(s.P)-pm[id]) > 1e-5 || math.Abs(float64(p.Answer[j].P)-pb[id]) > 1e-5 {
				t.Errorf("%s, token %d: divergence %v, probabilities %v and %v; by definition %v, %v and %v", m.Label, j, s.KLD, p.Answer[j].P, s.P, kld, pb[id], pm[id])
			}
			if top := slices.Index(pm, slices.Max(pm)); int(s.Top.ID) != top {
				t.Errorf("%s, token %d: the most likely token is %d, want %d", m.Label, j, s.Top.ID, top)
			}
		}
	}
}

func idsOf(tokens []eval.ReportToken) []int32 {
	var ids []int32
	for _, t := range tokens {
		ids = append(ids, t.ID)
	}
	return ids
}

// generated is what run writes, 16 tokens.
func generated(t *testing.T, model, prompt string) []int32 {
	t.Helper()
	out, _ := call(t, 0, "run", "-m", model, "-p", prompt, "-n", "16", "--temp", "0", "--precision", "exact", "--json", "-q")
	ids := regexp.MustCompile(`"ids":\s*(\[[^\]]*\])`).FindStringSubmatch(out)
	if ids == nil {
		t.Fatalf("no ids: %s", out)
	}
	return idList(t, ids[1])
}

func tokensOf(t *testing.T, model, text string) []int32 {
	t.Helper()
	out, _ := call(t, 0, "tokenize", "-m", model, "-p", text, "--json")
	var r struct{ IDs json.RawMessage }
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return idList(t, string(r.IDs))
}

func idList(t *testing.T, text string) (ids []int32) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &ids); err != nil {
		t.Fatal(err)
	}
	return ids
}

// logitsAlong are those that predict each token of an answer, by the command logits.
func logitsAlong(t *testing.T, dir, model string, prompt, answer []int32) [][]float32 {
	t.Helper()
	out := filepath.Join(dir, "logits.bin")
	ids := slices.Concat(prompt, answer[:len(answer)-1])
	call(t, 0, "logits", "-m", model, "--ids", strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]"), "--precision", "exact", "-o", out, "-q")
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, len(data)/4)
	if err := binary.Read(bytes.NewReader(data), binary.LittleEndian, values); err != nil {
		t.Fatal(err)
	}
	rows := slices.Collect(slices.Chunk(values, len(values)/len(ids)))
	return rows[len(prompt)-1:]
}

func distribution(logits []float32) []float64 {
	top, sum := float64(slices.Max(logits)), 0.0
	p := make([]float64, len(logits))
	for i, l := range logits {
		p[i] = math.Exp(float64(l) - top)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// Names and texts come from files that nobody vouches for, and figures need not be numbers.
func TestReportOfHostileFiles(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror='alert(2)'>&amp;</style>{{.}}`
	nan, inf := eval.Number(math.NaN()), eval.Number(math.Inf(1))
	r := &eval.Report{Base: eval.ReportBase{Name: evil, ReportFile: eval.ReportFile{File: evil, Label: evil, Type: evil, Bytes: 1}}}
	r.Base.Perplexity = nan
	p := eval.ReportPrompt{Prompt: evil, Answer: []eval.ReportToken{{Text: evil, P: nan}, {Text: ""}, {Text: "\n\x00\u202e"}}}
	for i, d := range []eval.Divergence{{KLD: nan, PPL: inf}, {}, {KLD: 0.5, KLDStdErr: 2, PPL: 3}, {KLD: inf, KLDStdErr: nan, PPL: 3, RatioErr: inf}} {
		r.Models = append(r.Models, eval.ReportModel{ReportFile: eval.ReportFile{File: evil, Label: evil, Bytes: uint64(i) << 40}, Divergence: d, Flips: 1})
		step := eval.ReportStep{KLD: d.KLD, P: nan, Top: eval.ReportToken{ID: 1, Text: evil, P: inf}}
		p.Answers = append(p.Answers, eval.ReportAnswer{Label: evil, Flip: i - 1, Answer: p.Answer[:max(i-1, 0)], Steps: []eval.ReportStep{step, step, step}})
	}
	for _, r := range []*eval.Report{
		{Base: r.Base, Models: r.Models, Prompts: []eval.ReportPrompt{p}},
		{Base: r.Base, Models: r.Models[:1]},
		{Base: r.Base, Models: r.Models[2:3]},
	} {
		var page strings.Builder
		if err := writeReport(&page, r); err != nil {
			t.Fatal(err)
		}
		coordinates := []string{"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "points"}
		for _, e := range checkAlone(t, page.String()) {
			for name, value := range e.attributes {
				if slices.Contains(coordinates, name) && (strings.Contains(value, "NaN") || strings.Contains(value, "Inf")) {
					t.Errorf("<%s %s=%q>", e.name, name, value)
				}
			}
			if e.name == "title" && e.attributes["class"] == "" && strings.HasSuffix(e.text, "what quantization loses") && !strings.HasPrefix(e.text, evil) {
				t.Errorf("the title is %q", e.text)
			}
		}
		if strings.ContainsAny(page.String(), "\x00\u202e") {
			t.Error("a control character is not spelled out")
		}
	}
}

func TestPlotScales(t *testing.T) {
	for _, c := range []struct{ low, high float64 }{{1, 2}, {3, 3}, {0, 0}, {1e-9, 1e-8}, {8.25, 8.26}, {0, 1e6}} {
		at, ticks := linearScale(c.low, c.high, 100, 0)
		if len(ticks) < 2 || len(ticks) > 12 {
			t.Errorf("%v to %v: %d ticks", c.low, c.high, len(ticks))
		}
		for _, tick := range ticks {
			v, err := strconv.ParseFloat(tick.Text, 64)
			if err != nil || tick.At < -0.01 || tick.At > 100.01 || math.Abs(at(v)-tick.At) > 0.01 {
				t.Errorf("%v to %v: tick %q at %v, its value is at %v", c.low, c.high, tick.Text, tick.At, at(v))
			}
		}
	}
	for _, c := range []struct{ low, high float64 }{{0.001, 0.5}, {0.2, 0.2}, {1e-7, 3}} {
		at, ticks := logScale(c.low, c.high, 100, 0)
		if len(ticks) < 1 || len(ticks) > 14 {
			t.Errorf("%v to %v: %d ticks", c.low, c.high, len(ticks))
		}
		if a, b, c := at(c.low), at(math.Sqrt(c.low*c.high)), at(c.high); math.Abs(a+c-2*b) > 1e-6 || a < 0 || a > 100 {
			t.Errorf("%v, %v, %v: the scale is not logarithmic", a, b, c)
		}
	}
}
