package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/tokenizer"
)

// Report tells what a set of quantizations of one model loses against a base: over a text, and in the answers to prompts.
type Report struct {
	Base    ReportBase     `json:"base"`
	Models  []ReportModel  `json:"models"` // the largest file first
	Prompts []ReportPrompt `json:"prompts"`
}

// ReportFile describes a model file.
type ReportFile struct {
	File  string  `json:"file"`  // name, without folders
	Label string  `json:"label"` // short name, different from those of the other files
	Type  string  `json:"type"`  // "Q4_K_M"
	Bytes uint64  `json:"bytes"` // of the file
	BPW   float64 `json:"bpw"`   // bits of all tensors by the number of weights
}

// ReportBase is the model that the others are held against.
type ReportBase struct {
	ReportFile
	Name string `json:"name"` // general.name, "" if the file tells none
	PerplexityResult
}

// ReportModel is one quantization.
type ReportModel struct {
	ReportFile
	Divergence
	Flips int `json:"flips"` // prompts whose answer is not the base's
}

// ReportPrompt is a prompt with the greedy answers of the base and of each model.
type ReportPrompt struct {
	Prompt  string         `json:"prompt"`
	Answer  []ReportToken  `json:"answer"`  // of the base; its last token may be the one that ends a text
	Answers []ReportAnswer `json:"answers"` // by model
}

// ReportToken is a token of an answer, or one that a model would rather have written.
type ReportToken struct {
	ID   int32  `json:"id"`
	Text string `json:"text"` // those of an answer, one after the other, are its text
	P    Number `json:"p"`    // probability by the model whose token it is
}

// ReportAnswer is what a model makes of a prompt.
type ReportAnswer struct {
	Label string `json:"label"` // of the model
	// Flip is the index of the first token that differs from the base's answer, or -1.
	Flip   int           `json:"flip"`
	Answer []ReportToken `json:"answer"` // the model's own
	Steps  []ReportStep  `json:"steps"`  // what the model says to each token of the base's answer, given those before it
}

// ReportStep holds a model's distribution of the next token against the base's, where the text so far is the base's.
type ReportStep struct {
	KLD Number      `json:"kld"` // divergence from the base, in nats
	P   Number      `json:"p"`   // probability of the base's token
	Top ReportToken `json:"top"` // the most likely token
}

// PromptTokens is a prompt as a person reads it, and as the model does.
type PromptTokens struct {
	Text string
	IDs  []int32
}

// ReportOptions are those of NewReport.
type ReportOptions struct {
	Windows  // the stride is 0
	Prompts  []PromptTokens
	Answer   int                                // most tokens of an answer
	Progress func(what string, done, total int) // after each "window" and each "prompt" of a model
}

// ReportSubject is a loaded model and its file.
type ReportSubject struct {
	File      *gguf.File
	Model     *infer.Model
	Tokenizer *tokenizer.Tokenizer
}

// Reporter makes a report, one model after the other: what the base predicted is kept in the form of small base files, so that it runs once and
// need not stay in memory.
type Reporter struct {
	options ReportOptions
	report  Report
	vocab   int
	path    string // of the base file
	answers []*baseAnswer
}

// NewReport runs the base over a text, tokenized as its vocabulary says, and over the prompts. folder is where a temporary file may be: about vocabulary/50 bytes for each
// scored token. Close removes it.
func NewReport(ctx context.Context, base ReportSubject, ids []int32, folder string, o ReportOptions) (*Reporter, error) {
	if o.Answer < 1 && len(o.Prompts) > 0 {
		return nil, fmt.Errorf("answers of %d tokens, expected 1 or more", o.Answer)
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	r := &Reporter{options: o, vocab: base.Model.Params.NVocab, report: Report{Models: []ReportModel{}, Prompts: []ReportPrompt{}}}
	if err := r.runBase(ctx, base, ids, folder); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close removes the temporary file.
func (r *Reporter) Close() error {
	if r.path == "" {
		return nil
	}
	return os.Remove(r.path)
}

func (r *Reporter) runBase(ctx context.Context, base ReportSubject, ids []int32, folder string) error {
	out, err := os.CreateTemp(folder, "ggufkit-*.base")
	if err != nil {
		return err
	}
	defer out.Close()
	r.path = out.Name()
	save, err := NewBaseWriter(out, Small, ids, r.options.Windows, r.vocab)
	if err != nil {
		return err
	}
	b := &r.report.Base
	b.ReportFile = reportFile(base.File)
	b.Name, _ = base.File.Meta.Str("general.name")
	b.PerplexityResult, err = SaveBase(ctx, base.Model, ids, PerplexityOptions{
		Windows:  r.options.Windows,
		Progress: func(done, total int, _ PerplexityResult) { r.options.Progress("window", done, total) },
	}, save)
	if err = cmp.Or(err, save.Close(), out.Close()); err != nil {
		return err
	}
	for i, p := range r.options.Prompts {
		a, err := answerOfBase(ctx, base, p.IDs, r.options.Answer)
		if err != nil {
			return fmt.Errorf("prompt %d: %w", i+1, err)
		}
		r.answers = append(r.answers, a)
		r.report.Prompts = append(r.report.Prompts, ReportPrompt{Prompt: p.Text, Answer: a.tokens, Answers: []ReportAnswer{}})
		r.options.Progress("prompt", i+1, len(r.options.Prompts))
	}
	return nil
}

// Add runs a model over the same text and prompts. It must have the base's vocabulary; that it has is checked as far as the ids of the text go.
func (r *Reporter) Add(ctx context.Context, m ReportSubject) error {
	base, err := OpenBase(r.path)
	if err != nil {
		return err
	}
	defer base.Close()
	added := ReportModel{ReportFile: reportFile(m.File)}
	added.Divergence, err = Compare(ctx, m.Model, base, base.IDs, CompareOptions{
		Windows:  base.Windows,
		Progress: func(done, total int, _ Divergence) { r.options.Progress("window", done, total) },
	})
	if err != nil {
		return err
	}
	for i, p := range r.options.Prompts {
		a, err := r.answers[i].hold(ctx, m, p.IDs, r.options.Answer)
		if err != nil {
			return fmt.Errorf("prompt %d: %w", i+1, err)
		}
		if a.Flip >= 0 {
			added.Flips++
		}
		r.report.Prompts[i].Answers = append(r.report.Prompts[i].Answers, a)
		r.options.Progress("prompt", i+1, len(r.options.Prompts))
	}
	r.report.Models = append(r.report.Models, added)
	return nil
}

// Report is what there is to tell about the models that were added.
func (r *Reporter) Report() *Report {
	out := r.report
	n := len(out.Models)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(out.Models[b].Bytes, out.Models[a].Bytes) })
	labels := labelsOf(out.Base.ReportFile, out.Models)
	out.Base.Label, out.Models = labels[0], make([]ReportModel, n)
	for to, from := range order {
		out.Models[to] = r.report.Models[from]
		out.Models[to].Label = labels[1+from]
	}
	out.Prompts = slices.Clone(out.Prompts)
	for i := range out.Prompts {
		answers := make([]ReportAnswer, n)
		for to, from := range order {
			answers[to] = out.Prompts[i].Answers[from]
			answers[to].Label = labels[1+from]
		}
		out.Prompts[i].Answers = answers
	}
	return &out
}

// labelsOf gives each file its type for a name, or the model's name by its file where several have the same type; what is still the same is numbered.
func labelsOf(base ReportFile, models []ReportModel) []string {
	files := []ReportFile{base}
	for _, m := range models {
		files = append(files, m.ReportFile)
	}
	types := map[string]int{}
	for _, f := range files {
		types[f.Type]++
	}
	used := map[string]int{}
	labels := make([]string, len(files))
	for i, f := range files {
		label := f.Type
		if types[label] > 1 {
			label = gguf.ModelName(f.File)
		}
		if used[label]++; used[label] > 1 {
			label = fmt.Sprintf("%s (%d)", label, used[label])
		}
		labels[i] = label
	}
	return labels
}

// reportFile describes an open file.
func reportFile(f *gguf.File) ReportFile {
	b := BenchModelOf(f)
	r := ReportFile{File: filepath.Base(f.Path), Type: b.FileType, Bytes: f.Stored()}
	if b.NParams > 0 {
		r.BPW = 8 * float64(b.Size) / float64(b.NParams)
	}
	return r
}
