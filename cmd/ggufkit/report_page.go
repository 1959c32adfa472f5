package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ggufkit/ggufkit/infer/eval"
)

// reportTemplate is the page: one file, without scripts. html/template escapes all that comes from files.
//
//go:embed report.html.tmpl
var reportTemplate string

// reportView is what the template shows.
type reportView struct {
	Title   string
	Version string
	Report  *eval.Report
	Plots   []*plot
	Rows    []reportRow
	Prompts []promptView
	Heat    []heatClass
}

// figure is a number as people read it, and in full.
type figure struct{ Text, Value string }

func newFigure(format string, scale float64, n eval.Number) figure {
	return figure{fmt.Sprintf(format, scale*float64(n)), strconv.FormatFloat(float64(n), 'g', -1, 64)}
}

// reportRow is a model in the table of figures.
type reportRow struct {
	eval.ReportFile
	Size    string
	Columns []figure
	Flips   string
}

// reportColumns are the columns of figures behind name, size and bits.
var reportColumns = []struct {
	Name, Title string
	of          func(eval.Divergence) figure
}{
	{"KL divergence", "mean, in nats", func(d eval.Divergence) figure { return newFigure("%.5f", 1, d.KLD) }},
	{"±", "standard error", func(d eval.Divergence) figure { return newFigure("%.5f", 1, divergenceError(d)) }},
	{"median", "of the divergence", func(d eval.Divergence) figure { return newFigure("%.5f", 1, d.KLDMedian) }},
	{"99 %", "of the divergence", func(d eval.Divergence) figure { return newFigure("%.4f", 1, d.KLDP99) }},
	{"max", "of the divergence", func(d eval.Divergence) figure { return newFigure("%.3f", 1, d.KLDMax) }},
	{"perplexity", "of the text", func(d eval.Divergence) figure { return newFigure("%.4f", 1, d.PPL) }},
	{"ratio", "perplexity by the base's", func(d eval.Divergence) figure { return newFigure("%.4f", 1, d.Ratio) }},
	{"±", "standard error of the ratio", func(d eval.Divergence) figure { return newFigure("%.4f", 1, d.RatioErr) }},
	{"same top", "positions with the base's most likely token", func(d eval.Divergence) figure { return newFigure("%.2f %%", 100, d.SameTop) }},
	{"RMS Δp", "change of the probability of the token that follows", func(d eval.Divergence) figure { return newFigure("%.2f %%", 100, d.PDiffRMS) }},
}

// divergenceError is the standard error of the mean divergence: that of the text, and that of the base file's sample.
func divergenceError(d eval.Divergence) eval.Number {
	return eval.Number(math.Hypot(float64(d.KLDStdErr), float64(d.KLDSampling)))
}

// promptView is a prompt with its answers.
type promptView struct {
	Number int
	Prompt string
	Answer string // of the base
	Models []answerView
}

// answerView is a model's answer beside the base's.
type answerView struct {
	ID                  string // of the part of the page
	Label               string
	Flip                int // number of the token, from 1 on; 0: the same answer
	Cell                string
	Before, First, Rest string // of the model's answer: what is the base's too, the token that is not, what follows
	Ends                bool   // the model ends its text where the base goes on, or the other way round
	Mean                figure
	Tokens              []tokenView
}

// tokenView is a token of the base's answer.
type tokenView struct {
	Number              int
	Shown               string
	Heat                int
	Flip                bool
	KLD, P, PBase, TopP figure
	Top                 string // the model's most likely token
	Agrees              bool   // it is this one
}

// heatClass is a colour of the strips: of divergences below Below, those of the class before left out.
type heatClass struct {
	Index int
	Text  string
	below float64
}

var heatClasses = []heatClass{
	{0, "< 0.001", 0.001}, {1, "< 0.003", 0.003}, {2, "< 0.01", 0.01}, {3, "< 0.03", 0.03},
	{4, "< 0.1", 0.1}, {5, "< 0.3", 0.3}, {6, "< 1", 1}, {7, "≥ 1", math.Inf(1)},
}

// heat is the class of a divergence.
func heat(kld float64) int {
	for _, c := range heatClasses {
		if kld < c.below {
			return c.Index
		}
	}
	return len(heatClasses) - 1 // also where it is no number
}

// writeReport writes the page.
func writeReport(w io.Writer, r *eval.Report) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"columns": func() any { return reportColumns },
		"name":    visible,
		"text":    func(s string) string { return spellOut(s, "\n\t") },
	}).Parse(reportTemplate)
	if err != nil {
		return err
	}
	v := &reportView{Title: r.Base.Name, Version: version(), Report: r, Plots: reportPlots(r), Heat: heatClasses}
	if v.Title == "" {
		v.Title = r.Base.File
	}
	for _, m := range r.Models {
		row := reportRow{ReportFile: m.ReportFile, Size: size(m.Bytes), Flips: fmt.Sprintf("%d of %d", m.Flips, len(r.Prompts))}
		for _, c := range reportColumns {
			row.Columns = append(row.Columns, c.of(m.Divergence))
		}
		v.Rows = append(v.Rows, row)
	}
	for i, p := range r.Prompts {
		v.Prompts = append(v.Prompts, newPromptView(i+1, p))
	}
	return t.Execute(w, v)
}

// BaseSize is the size of the base for people.
func (v *reportView) BaseSize() string { return size(v.Report.Base.Bytes) }

// Flipped is the number of prompts that some model answers in another way.
func (v *reportView) Flipped() int {
	n := 0
	for _, p := range v.Prompts {
		if slices.ContainsFunc(p.Models, func(a answerView) bool { return a.Flip > 0 }) {
			n++
		}
	}
	return n
}

func newPromptView(number int, p eval.ReportPrompt) promptView {
	v := promptView{Number: number, Prompt: p.Prompt, Answer: textOf(p.Answer)}
	for i, a := range p.Answers {
		m := answerView{ID: fmt.Sprintf("answer-%d-%d", number, i+1), Label: a.Label, Flip: a.Flip + 1, Cell: "same"}
		if a.Flip >= 0 {
			m.Cell = fmt.Sprintf("token %d", a.Flip+1)
			at := min(a.Flip, len(a.Answer))
			m.Before = textOf(a.Answer[:at])
			if m.Ends = at == len(a.Answer); !m.Ends {
				m.First, m.Rest = shownToken(a.Answer[at].Text), textOf(a.Answer[at+1:])
			}
		}
		sum := 0.0
		for j, s := range a.Steps {
			t := p.Answer[j]
			sum += float64(s.KLD)
			m.Tokens = append(m.Tokens, tokenView{
				Number: j + 1, Shown: shownToken(t.Text), Heat: heat(float64(s.KLD)), Flip: j == a.Flip,
				KLD: newFigure("%.5f", 1, s.KLD), P: newFigure("%.2f %%", 100, s.P), PBase: newFigure("%.2f %%", 100, t.P),
				Top: strings.ReplaceAll(shownToken(s.Top.Text), "↵\n", "↵"), TopP: newFigure("%.2f %%", 100, s.Top.P), Agrees: s.Top.ID == t.ID,
			})
		}
		m.Mean = newFigure("%.5f", 1, eval.Number(sum/float64(max(len(a.Steps), 1))))
		v.Models = append(v.Models, m)
	}
	return v
}

// textOf is the text of an answer.
func textOf(tokens []eval.ReportToken) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(t.Text)
	}
	return b.String()
}

// shownToken makes a token visible that has no ink: a line's end, or the first part of a character that a later token completes.
func shownToken(text string) string {
	if text == "" {
		return "·"
	}
	return spellOut(strings.ReplaceAll(text, "\n", "↵\n"), "\n\t")
}
