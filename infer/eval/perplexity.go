// Package eval measures models.
package eval

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer"
)

// PerplexityOptions are those of Perplexity.
type PerplexityOptions struct {
	Windows
	// Part of Parts, from 1 on, runs only that share of the windows, so that several machines can share a text; 0 of 0 runs all. Merge adds them up.
	Part, Parts int
	Setting     Setting                                         // for the result
	UntilStdErr float64                                         // stop as soon as the standard error is not above this; 0: run all windows
	Progress    func(done, total int, running PerplexityResult) // after each window
}

// PerplexityResult is exp of the mean negative log likelihood over the scored tokens and its standard error.
type PerplexityResult struct {
	Perplexity Number `json:"perplexity"`
	StdErr     Number `json:"stderr"`
	Tokens     int    `json:"tokens"`        // scored
	Chunks     int    `json:"chunks"`        // windows that were run
	Held       int    `json:"window_tokens"` // in these windows, each counted as often as it is in one
	Context    int    `json:"context"`
	Convention string `json:"convention"` // "llama" or "sliding", see Windows.Stride
	Stride     int    `json:"stride"`     // of the sliding window, else 0
	BOS        bool   `json:"bos"`        // in place of each window's first token

	Setting

	// What Merge needs.
	Sum     Number `json:"nll_sum"` // of the negative log likelihoods
	Squares Number `json:"nll_square_sum"`
	Windows int    `json:"windows"` // of all parts together
	Part    int    `json:"part"`
	Parts   int    `json:"parts"`
	Text    string `json:"text_sha256"` // of the ids as little-endian int32
}

// Setting is what computed a result: results of different ones do not add up.
type Setting struct {
	Model     string `json:"model_sha256,omitempty"` // see ModelSum
	Precision string `json:"precision,omitempty"`
	CacheType string `json:"cache_type,omitempty"`
}

// ModelSum identifies a model without reading all of it: the SHA-256 of its tensors' names, types, shapes and the start of their data.
func ModelSum(f *gguf.File) (string, error) {
	h := sha256.New()
	for i := range f.Tensors {
		t := &f.Tensors[i]
		data, err := f.Data(t)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %s %v %d\n", t.Name, t.Type, t.Shape, len(data))
		h.Write(data[:min(len(data), 1024)])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Perplexity cuts the ids (the whole text, tokenized as the vocabulary says) into windows and scores tokens as o.Windows says.
func Perplexity(ctx context.Context, m *infer.Model, ids []int32, o PerplexityOptions) (PerplexityResult, error) {
	return perplexity(ctx, m, ids, o, func(logitRow, int32) error { return nil })
}

// perplexity is Perplexity; also gets every row of logits and the token that follows.
func perplexity(ctx context.Context, m *infer.Model, ids []int32, o PerplexityOptions, also func(logitRow, int32) error) (PerplexityResult, error) {
	list, err := o.cut(len(ids), m.Context)
	if err != nil {
		return PerplexityResult{}, err
	}
	frame := PerplexityResult{
		Context: o.Context, Convention: o.Convention(), Stride: o.Stride, BOS: o.Stride == 0 && o.BOS >= 0,
		Windows: len(list), Part: max(o.Part, 1), Parts: max(o.Parts, 1), Text: textSum(ids), Setting: o.Setting,
	}
	if list, err = share(list, frame.Part, frame.Parts); err != nil {
		return PerplexityResult{}, err
	}
	var nll likelihoods
	result := func(done, held int) PerplexityResult {
		r := frame
		r.Chunks, r.Held = done, held
		nll.fill(&r)
		return r
	}
	done, held := 0, 0
	for rows, err := range o.rows(ctx, m, ids, list) {
		if err != nil {
			return result(done, held), err
		}
		for _, r := range rows {
			next := ids[r.token]
			nll.add(r.total - float64(r.logits[next]))
			if err := also(r.logitRow, next); err != nil {
				return result(done, held), err
			}
			if r.token < list[done].end-1 {
				continue
			}
			held += list[done].end - list[done].start
			done++
			running := result(done, held)
			if o.Progress != nil {
				o.Progress(done, len(list), running)
			}
			if done > 1 && float64(running.StdErr) <= o.UntilStdErr {
				return running, nil
			}
		}
	}
	return result(done, held), nil
}

// share is the windows of one part: the parts follow each other in the text and differ by at most one window.
func share(list []window, part, parts int) ([]window, error) {
	if part < 1 || part > parts {
		return nil, fmt.Errorf("part %d of %d, expected 1 to %d", part, parts, parts)
	}
	if parts > len(list) {
		return nil, fmt.Errorf("%d parts, but the text has %d windows\nhint: ask for at most as many parts", parts, len(list))
	}
	return list[(part-1)*len(list)/parts : part*len(list)/parts], nil
}

// textSum identifies a tokenized text.
func textSum(ids []int32) string {
	h := sha256.New()
	w := bufio.NewWriter(h)
	for _, id := range ids {
		w.Write(binary.LittleEndian.AppendUint32(nil, uint32(id)))
	}
	w.Flush() // a hash takes everything
	return hex.EncodeToString(h.Sum(nil))
}

// Merge adds up results of all parts of a run, in any order. It fails if a part is missing, given twice, incomplete or of another run.
func Merge(parts []PerplexityResult) (PerplexityResult, error) {
	if len(parts) == 0 {
		return PerplexityResult{}, errors.New("no parts")
	}
	parts = slices.SortedFunc(slices.Values(parts), func(a, b PerplexityResult) int { return cmp.Compare(a.Part, b.Part) })
	frame := parts[0].frame()
	if n := frame.Parts; n < 1 || n > maxParts {
		return PerplexityResult{}, fmt.Errorf("a result of %d parts, expected 1 to %d", n, maxParts)
	}
	var nll likelihoods
	total := frame
	for i, p := range parts {
		if differences := p.frame().differences(frame); differences != nil {
			return PerplexityResult{}, fmt.Errorf("part %d is of another run than part %d: %s\nhint: give the results of one text, model and setting",
				p.Part, parts[0].Part, strings.Join(differences, ", "))
		}
		if p.Part != i+1 {
			return PerplexityResult{}, fmt.Errorf("part %d of %d is missing or another one is there twice", min(i+1, p.Part), frame.Parts)
		}
		if p.Tokens < 1 || p.Chunks < 1 || p.Chunks > frame.Windows {
			return PerplexityResult{}, fmt.Errorf("part %d has %d tokens in %d of %d windows", p.Part, p.Tokens, p.Chunks, frame.Windows)
		}
		total.Chunks += p.Chunks
		total.Held += p.Held
		nll.count += p.Tokens
		nll.sum += float64(p.Sum)
		nll.squares += float64(p.Squares)
	}
	switch {
	case len(parts) < frame.Parts:
		return PerplexityResult{}, fmt.Errorf("part %d of %d is missing", len(parts)+1, frame.Parts)
	case total.Chunks != frame.Windows:
		return PerplexityResult{}, fmt.Errorf("the parts have %d windows together, the text has %d: one of them stopped early", total.Chunks, frame.Windows)
	}
	total.Part, total.Parts = 1, 1
	nll.fill(&total)
	return total, nil
}

// maxParts bounds the parts of a run.
const maxParts = 1 << 20

// frame is what all parts of a run have in common.
func (r PerplexityResult) frame() PerplexityResult {
	return PerplexityResult{
		Context: r.Context, Convention: r.Convention, Stride: r.Stride, BOS: r.BOS, Windows: r.Windows, Parts: r.Parts, Text: r.Text, Setting: r.Setting,
	}
}

// differences tells where two frames part.
func (r PerplexityResult) differences(o PerplexityResult) (list []string) {
	for _, field := range []struct {
		name   string
		ours   any
		theirs any
	}{
		{"model_sha256", r.Model, o.Model}, {"text_sha256", r.Text, o.Text}, {"precision", r.Precision, o.Precision},
		{"cache_type", r.CacheType, o.CacheType}, {"context", r.Context, o.Context}, {"convention", r.Convention, o.Convention},
		{"stride", r.Stride, o.Stride}, {"bos", r.BOS, o.BOS}, {"windows", r.Windows, o.Windows}, {"parts", r.Parts, o.Parts},
	} {
		if field.ours != field.theirs {
			list = append(list, fmt.Sprintf("%s is %v, not %v", field.name, field.ours, field.theirs))
		}
	}
	return list
}

// likelihoods sums negative log likelihoods and their squares.
type likelihoods struct {
	count int
	moments
}

func (l *likelihoods) add(nll float64) {
	l.count++
	l.moments.add(nll)
}

// fill sets what a result says about the likelihoods: exp of their mean, and the standard error of the mean, carried through the exponential.
func (l *likelihoods) fill(r *PerplexityResult) {
	r.Tokens, r.Sum, r.Squares = l.count, Number(l.sum), Number(l.squares)
	if l.count == 0 {
		return
	}
	n := float64(l.count)
	mean := l.sum / n
	r.Perplexity = Number(math.Exp(mean))
	if variance := l.squares/n - mean*mean; variance > 0 && l.count > 1 {
		r.StdErr = Number(math.Sqrt(variance/(n-1))) * r.Perplexity
	}
}
