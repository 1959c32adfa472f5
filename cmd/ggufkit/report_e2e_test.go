//go:build e2e

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/infer/eval"
)

// chromium opens a page and returns what it prints. The page must leave no message on the browser's console.
func chromium(t *testing.T, args ...string) []byte {
	t.Helper()
	name, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v: install Chromium", err)
	}
	cmd := exec.CommandContext(t.Context(), name, append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--no-first-run", "--enable-logging=stderr", "--user-data-dir=" + t.TempDir()}, args...)...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, log.String())
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("the console says: %s", line)
		}
	}
	return out.Bytes()
}

// measuring is appended to a page (without its policy, which forbids scripts) to write down what the browser has drawn.
const measuring = `<script>
const box = e => { const r = e.getBoundingClientRect(); return {left: r.left, top: r.top, right: r.right, bottom: r.bottom, text: e.textContent}; };
const all = s => [...document.querySelectorAll(s)].map(box);
const token = document.querySelector('.strip .t');
const tip = () => getComputedStyle(token.querySelector('.tip')).display;
const before = tip(); token.focus();
const tables = document.querySelectorAll('.tokens'), show = document.querySelector('.show');
const hidden = getComputedStyle(tables[0]).display; show.checked = true;
const pre = document.createElement('pre'); pre.id = 'measured';
pre.textContent = JSON.stringify({width: innerWidth, scroll: document.documentElement.scrollWidth, plots: all('svg'), points: all('svg circle'), names: all('svg .name'),
  rows: all('#figures tbody tr'), cells: all('#flips tbody td'), tips: [before, tip()], tables: [hidden, getComputedStyle(tables[0]).display]});
document.body.append(pre);
</script>`

// drawn is what measuring writes.
type drawn struct {
	Width, Scroll                     float64
	Plots, Points, Names, Rows, Cells []drawnBox
	Tips, Tables                      []string // how they are shown before and after they are asked for
}

type drawnBox struct {
	Left, Top, Right, Bottom float64
	Text                     string
}

func (b drawnBox) within(o drawnBox) bool {
	return b.Left >= o.Left && b.Right <= o.Right && b.Top >= o.Top && b.Bottom <= o.Bottom && b.Right > b.Left && b.Bottom > b.Top
}

func (b drawnBox) overlaps(o drawnBox) bool {
	return b.Left < o.Right && o.Left < b.Right && b.Top < o.Bottom && o.Top < b.Bottom
}

// measure lets Chromium lay a page out in a window of that width.
func measure(t *testing.T, page string, width int) (d drawn) {
	t.Helper()
	page = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(page, "")
	page = strings.Replace(page, "</body>", measuring+"</body>", 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			t.Errorf("the page asks for %s", r.URL)
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, page)
	}))
	defer server.Close()
	dom := string(chromium(t, fmt.Sprintf("--window-size=%d,1000", width), "--dump-dom", server.URL+"/"))
	_, rest, _ := strings.Cut(dom, `<pre id="measured">`)
	text, _, ok := strings.Cut(rest, "</pre>")
	if !ok {
		t.Fatalf("the page was not measured: %.300s", dom)
	}
	text = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(text)
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v: %.300s", err, text)
	}
	return d
}

// checkDrawn: plots, tables and strips are there, nothing covers anything, and nothing is wider than the window.
func checkDrawn(t *testing.T, page string, models, prompts, width int) {
	t.Helper()
	d := measure(t, page, width)
	if d.Scroll > d.Width {
		t.Errorf("width %d: the page is %v wide", width, d.Scroll)
	}
	if len(d.Plots) != 2 || len(d.Points) != 2*models || len(d.Names) != 2*models || len(d.Rows) != 1+models || len(d.Cells) != models*prompts {
		t.Fatalf("%d plots, %d points, %d names, %d rows, %d cells", len(d.Plots), len(d.Points), len(d.Names), len(d.Rows), len(d.Cells))
	}
	for i := range 2 * models {
		plot := d.Plots[i/models]
		if !d.Points[i].within(plot) || !d.Names[i].within(plot) {
			t.Errorf("width %d: the point of %s is at %+v and %+v, outside of %+v", width, d.Names[i].Text, d.Points[i], d.Names[i], plot)
		}
		for j := range i {
			if d.Names[i].overlaps(d.Names[j]) {
				t.Errorf("width %d: the names %s and %s overlap", width, d.Names[i].Text, d.Names[j].Text)
			}
		}
	}
	for _, r := range append(d.Rows, d.Cells...) {
		if r.Right <= r.Left || r.Bottom <= r.Top {
			t.Errorf("width %d: not drawn: %+v", width, r)
		}
	}
	if got := fmt.Sprint(d.Tips, d.Tables); got != "[none block] [none block]" {
		t.Errorf("numbers of a token, and tables, are shown %s", got)
	}
}

// screenshot is the page as it is, in the light or the dark scheme.
func screenshot(t *testing.T, path string, dark bool) image.Image {
	t.Helper()
	scheme := 1
	if dark {
		scheme = 0
	}
	out := filepath.Join(t.TempDir(), "page.png")
	chromium(t, "--window-size=1280,1600", fmt.Sprintf("--blink-settings=preferredColorScheme=%d", scheme), "--screenshot="+out, "file://"+path)
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// checkSchemes: the page follows the scheme of the system, and the plots' colour is there in both.
func checkSchemes(t *testing.T, path string) {
	t.Helper()
	for _, c := range []struct {
		dark         bool
		page, accent [3]uint32
	}{{false, [3]uint32{0xf7, 0xf7, 0xf5}, [3]uint32{0x25, 0x63, 0xc9}}, {true, [3]uint32{0x13, 0x14, 0x17}, [3]uint32{0x79, 0xa9, 0xff}}} {
		img := screenshot(t, path, c.dark)
		at := func(x, y int) [3]uint32 { r, g, b, _ := img.At(x, y).RGBA(); return [3]uint32{r >> 8, g >> 8, b >> 8} }
		if got := at(2, 2); got != c.page {
			t.Errorf("dark %v: the page is %v, want %v", c.dark, got, c.page)
		}
		n := 0
		for y := range img.Bounds().Dy() {
			for x := range img.Bounds().Dx() {
				if at(x, y) == c.accent {
					n++
				}
			}
		}
		if n < 200 {
			t.Errorf("dark %v: %d pixels have the colour of the plots", c.dark, n)
		}
	}
}

func TestReportInBrowser(t *testing.T) {
	dir := t.TempDir()
	r, page := demoReport(t, dir)
	for _, width := range []int{1280, 500} {
		checkDrawn(t, page, len(r.Models), len(r.Prompts), width)
	}
	checkSchemes(t, filepath.Join(dir, "report.html"))
}

// sixTypes are quantizations of SmolLM2 from many bits to few. Q5_K_M is not among them: rows of 576 fall back to Q5_1 in it and to Q5_0 in Q4_K_M, and these
// weights, which come from a Q4_1 file, suffer more by Q5_1 (divergence 0.095 against 0.060): its order tells of the source, not of the bits.
var sixTypes = []string{"Q8_0", "Q6_K", "Q4_K_M", "Q4_K_S", "Q3_K_M", "Q2_K"}

// TestReportOfSixTypes: divergence and perplexity rise in the order of the bits, and the page shows it. A rise of the divergence must be clear of its error from each type to
// the next. Perplexities of neighbours differ by less than this text can tell, so a type may be better than the one before within twice the error of their difference; from the
// first to the last the rise must be clear.
func TestReportOfSixTypes(t *testing.T) {
	dir := t.TempDir()
	full, prompts, out := filepath.Join(dir, "smollm2-F32.gguf"), filepath.Join(dir, "prompts.txt"), filepath.Join(dir, "report.html")
	ggufkit(t, "convert", filepath.Join(models(t), "f32", "smollm2-135m"), "--type", "F32", "-o", full, "-q")
	if err := os.WriteFile(prompts, []byte("Name the capital of France.\nWhy is the sky blue?\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	args := []string{"report", "-o", out, "--base", full, "-f", filepath.Join("..", "..", "testdata", "demo", "heldout.txt"), "-c", "256", "--chunks", "6",
		"--prompts", prompts, "--chat", "-n", "24", "--json", "-q"}
	for _, typ := range sixTypes {
		file := filepath.Join(dir, "smollm2-"+typ+".gguf")
		ggufkit(t, "quantize", full, file, typ, "-q")
		args = append(args, file)
	}
	var r eval.Report
	if err := json.Unmarshal([]byte(ggufkit(t, args...)), &r); err != nil {
		t.Fatal(err)
	}
	for i, m := range r.Models {
		t.Logf("%-7s %.2f bits: divergence %.5f +/- %.5f (%.5f of the base's form), perplexity ratio %.5f +/- %.5f, %d flips",
			m.Label, m.BPW, m.KLD, m.KLDStdErr, m.KLDSampling, m.Ratio, m.RatioErr, m.Flips)
		if m.Label != sixTypes[i] {
			t.Fatalf("model %d is %s, want %s", i, m.Label, sixTypes[i])
		}
		if i == 0 {
			continue
		}
		before := r.Models[i-1]
		if m.BPW >= before.BPW {
			t.Errorf("%s has %.2f bits, %s %.2f", m.Label, m.BPW, before.Label, before.BPW)
		}
		if err := math.Hypot(float64(divergenceError(m.Divergence)), float64(divergenceError(before.Divergence))); float64(m.KLD-before.KLD) < 2*err {
			t.Errorf("divergence %.5f of %s, %.5f of %s: not above by twice the error %.5f", m.KLD, m.Label, before.KLD, before.Label, err)
		}
		if err := math.Hypot(float64(m.LogRatioErr), float64(before.LogRatioErr)); float64(m.LogRatio-before.LogRatio) < -2*err {
			t.Errorf("perplexity %.4f of %s, %.4f of %s: below by more than twice the error", m.PPL, m.Label, before.PPL, before.Label)
		}
	}
	first, last := r.Models[0], r.Models[len(r.Models)-1]
	if err := math.Hypot(float64(first.LogRatioErr), float64(last.LogRatioErr)); float64(last.LogRatio-first.LogRatio) < 4*err {
		t.Errorf("perplexity rises from %.4f to %.4f only", first.PPL, last.PPL)
	}
	page, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, &r, string(page))
	checkDrawn(t, string(page), len(r.Models), len(r.Prompts), 1280)
	checkRise(t, measure(t, string(page), 1280), len(r.Models))
	checkSchemes(t, out)
}

// checkRise: in the first plot the points go up from right to left, as they are drawn.
func checkRise(t *testing.T, d drawn, models int) {
	t.Helper()
	for i := range models - 1 {
		if a, b := d.Points[i], d.Points[i+1]; b.Left >= a.Left || b.Top >= a.Top {
			t.Errorf("the point of %s is not to the left of and above that of %s", d.Names[i+1].Text, d.Names[i].Text)
		}
	}
}
