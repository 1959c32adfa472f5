package eval

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Limit bounds a figure of a result, named as in its JSON: "kld_mean<=0.01", "same_top>=0.95".
type Limit struct {
	Figure string
	Least  bool // the bound is a lower one
	Bound  float64
	From   string // where the bound is from, "" for the user
}

// ParseLimit reads FIGURE<=BOUND or FIGURE>=BOUND.
func ParseLimit(text string) (Limit, error) {
	for _, op := range []string{"<=", ">="} {
		figure, bound, ok := strings.Cut(text, op)
		if !ok {
			continue
		}
		x, err := strconv.ParseFloat(strings.TrimSpace(bound), 64)
		if figure = strings.TrimSpace(figure); figure == "" || err != nil || math.IsNaN(x) {
			break
		}
		return Limit{Figure: figure, Least: op == ">=", Bound: x}, nil
	}
	return Limit{}, fmt.Errorf("%q is no limit\nhint: write %s", text, LikelyLimit(text))
}

// LikelyLimit is the limit that a text most likely means which is none: "perplexity<=100" for "perplexity < 100". FIGURE and X stand for what it lacks.
func LikelyLimit(text string) string {
	const marks = "<>= "
	figure, op, bound := strings.TrimSpace(text), "<=", ""
	if i := strings.IndexAny(figure, marks); i >= 0 {
		figure, bound = figure[:i], figure[i:]
		if strings.Contains(bound, ">") {
			op = ">="
		}
		bound = strings.Trim(bound, marks)
	}
	if x, err := strconv.ParseFloat(bound, 64); err != nil || math.IsNaN(x) {
		bound = "X"
	}
	return cmp.Or(figure, "FIGURE") + op + bound
}

// ParseLimits reads a limit from each line. Empty lines and what follows a # are left out.
func ParseLimits(text string) ([]Limit, error) {
	var limits []Limit
	line := 0
	for l := range strings.Lines(text) {
		line++
		l, _, _ = strings.Cut(l, "#")
		if l = strings.TrimSpace(l); l == "" {
			continue
		}
		limit, err := ParseLimit(l)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		limits = append(limits, limit)
	}
	return limits, nil
}

func (l Limit) String() string {
	op := "<="
	if l.Least {
		op = ">="
	}
	text := fmt.Sprintf("%s %s %.6g", l.Figure, op, l.Bound)
	if l.From != "" {
		text += " (" + l.From + ")"
	}
	return text
}

// guarded are the figures that a baseline bounds, where it has them. True: more is better.
var guarded = map[string]bool{
	"perplexity": false, "ppl": false, "ppl_ratio": false, "kld_mean": false, "kld_p99": false, "p_diff_rms": false, "same_top": true,
}

// sameRun are the figures that must be equal for two results to be comparable.
var sameRun = []string{"tokens", "context", "stride"}

// BaselineLimits bounds a result by those of an earlier run over the same text (its JSON): nothing may be worse by more than a share of itself.
func BaselineLimits(earlier []byte, tolerance float64) ([]Limit, error) {
	const hint = "\nhint: a baseline is what perplexity or compare printed with --json"
	before, err := figures(earlier)
	if err != nil {
		return nil, fmt.Errorf("no JSON of a result: %w%s", err, hint)
	}
	const from = "baseline"
	var limits []Limit
	for _, name := range sameRun {
		if x, ok := before[name]; ok {
			limits = append(limits, Limit{name, false, x, from}, Limit{name, true, x, from})
		}
	}
	same := len(limits)
	for _, name := range slices.Sorted(maps.Keys(guarded)) {
		x, ok := before[name]
		if !ok {
			continue
		}
		if guarded[name] {
			limits = append(limits, Limit{name, true, x - math.Abs(x)*tolerance, from})
		} else {
			limits = append(limits, Limit{name, false, x + math.Abs(x)*tolerance, from})
		}
	}
	if len(limits) == same {
		return nil, fmt.Errorf("none of %s%s", strings.Join(slices.Sorted(maps.Keys(guarded)), ", "), hint)
	}
	return limits, nil
}

// figures are the numbers of a result's JSON.
func figures(data []byte) (map[string]float64, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	numbers := map[string]float64{}
	for name, raw := range fields {
		var n Number
		if json.Unmarshal(raw, &n) == nil {
			numbers[name] = float64(n)
		}
	}
	return numbers, nil
}

// Figures lists the names of a result's numbers, which limits can bound: those of its JSON, in alphabetical order.
func Figures(result any) []string {
	data, err := json.Marshal(result)
	if err != nil {
		return nil
	}
	got, _ := figures(data) // a result is an object
	return slices.Sorted(maps.Keys(got))
}

// Check is a limit and whether it was kept.
type Check struct {
	Limit string `json:"limit"`
	Value Number `json:"value"`
	OK    bool   `json:"ok"`
}

// CheckLimits holds a result, which is anything with JSON, against limits. It fails for a figure that the result does not have. NaN keeps no limit.
func CheckLimits(result any, limits []Limit) ([]Check, error) {
	data, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	got, err := figures(data)
	if err != nil {
		return nil, err
	}
	checks := make([]Check, len(limits))
	for i, l := range limits {
		x, ok := got[l.Figure]
		if !ok {
			return nil, fmt.Errorf("the result has no figure %q to limit\nhint: it has %s", l.Figure, strings.Join(slices.Sorted(maps.Keys(got)), ", "))
		}
		checks[i] = Check{Limit: l.String(), Value: Number(x), OK: !l.Least && x <= l.Bound || l.Least && x >= l.Bound}
	}
	return checks, nil
}

// failure tells what is wrong with a check.
func (c Check) failure() string { return fmt.Sprintf("%.6g, limit %s", float64(c.Value), c.Limit) }

// Failures is an error that lists the limits that were not kept, nil if there are none.
func Failures(checks []Check) error {
	var lines []string
	for _, c := range checks {
		if !c.OK {
			lines = append(lines, c.failure())
		}
	}
	if lines == nil {
		return nil
	}
	return fmt.Errorf("%d of %d limits are not kept:\n  %s", len(lines), len(checks), strings.Join(lines, "\n  "))
}

// WriteJUnit writes checks as a JUnit report, one test case each. subject names what was measured.
func WriteJUnit(w io.Writer, subject string, checks []Check) error {
	type failure struct {
		Message string `xml:"message,attr"`
	}
	type testcase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Failure *failure `xml:"failure"`
	}
	suite := struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testcase `xml:"testcase"`
	}{Name: subject, Tests: len(checks)}
	for _, c := range checks {
		t := testcase{Class: subject, Name: c.Limit}
		if !c.OK {
			suite.Failures++
			t.Failure = &failure{c.failure()}
		}
		suite.Cases = append(suite.Cases, t)
	}
	data, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, data)
	return err
}

// WriteMarkdown writes checks as a table.
func WriteMarkdown(w io.Writer, subject string, checks []Check) error {
	cell := strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "\n", " ", "`", "'")
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n| limit | value | kept |\n|---|---:|---|\n", cell.Replace(subject))
	for _, c := range checks {
		kept := "yes"
		if !c.OK {
			kept = "**no**"
		}
		fmt.Fprintf(&b, "| %s | %.6g | %s |\n", cell.Replace(c.Limit), float64(c.Value), kept)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
