package infer

import (
	"context"
	"errors"
	"fmt"

	"github.com/ggufkit/ggufkit/infer/sample"
)

// Sampler chooses tokens; package sample has one.
type Sampler interface {
	// AcceptPrompt tells it about the tokens that stand before the output.
	AcceptPrompt(ids []int32)
	// Accept tells it about a token of the output.
	Accept(id int32)
	// Next chooses a token.
	Next(logits []float32) (int32, error)
}

// GenerateOptions bound a generation.
type GenerateOptions struct {
	MaxTokens int                 // most tokens to generate; negative: no limit but the context
	EOG       func(id int32) bool // reports the tokens that end a generation
	// Shift makes room when the context is full: the older half of the tokens after the first Keep ones is dropped and the rest runs again. A
	// generation without MaxTokens may then go on until the model or the receiver ends it.
	Shift bool
	Keep  int
}

// StopReason says why a generation ended.
type StopReason string

// Reasons: the model chose a token that ends the text, the receiver has found a stop text, or a limit was reached.
const (
	StopEnd    StopReason = "stop"
	StopText   StopReason = "stop text"
	StopLength StopReason = "length"
)

// LogitsError is for logits among which are NaN or infinities, so that nothing follows from them.
type LogitsError struct {
	Path  string // of the model's file, "" where it is none
	Where string // which: "token 17 of the text" for those that predict it
}

func (e *LogitsError) Error() string {
	prefix, file := "", "FILE"
	if e.Path != "" {
		prefix, file = e.Path+": ", e.Path
	}
	return fmt.Sprintf("%sthe logits of %s are not numbers\nhint: 'ggufkit inspect %s --check' finds weights that are no numbers; with sound ones, try --precision exact",
		prefix, e.Where, file)
}

// ErrStop is what the receiver of tokens returns to end the generation with StopText.
var ErrStop = errors.New("a stop text is complete")

// Generate makes the transcript hold a prompt and goes on with token after token as the sampler chooses, which is told about the prompt first. emit gets
// each token before the next is computed; the token that ends the text is not emitted. ctx ends it between two tokens. Without a shift it ends
// with StopLength when prompt and output fill the context.
func Generate(ctx context.Context, t *Transcript, prompt []int32, sampler Sampler, o GenerateOptions, emit func(id int32) error) (StopReason, error) {
	logits, _, err := t.Run(ctx, prompt)
	if err != nil {
		return "", err
	}
	sampler.AcceptPrompt(prompt)
	for count := 0; count != o.MaxTokens; count++ {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		full := len(t.ids) >= t.session.model.Context
		if full && !o.Shift {
			break
		}
		id, err := sampler.Next(logits)
		if errors.Is(err, sample.ErrNotNumber) {
			return "", &LogitsError{Path: t.session.model.Path, Where: fmt.Sprintf("token %d of the text", len(t.ids))}
		} else if err != nil {
			return "", err
		}
		if o.EOG(id) {
			return StopEnd, nil
		}
		sampler.Accept(id)
		if err := emit(id); errors.Is(err, ErrStop) {
			return StopText, nil
		} else if err != nil {
			return "", err
		}
		if count+1 == o.MaxTokens {
			break
		}
		if full {
			if shifted, err := t.shift(ctx, o.Keep); err != nil {
				return "", err
			} else if !shifted {
				break
			}
		}
		if err := t.append([]int32{id}); err != nil {
			return "", err
		}
		logits = t.logits
	}
	return StopLength, nil
}
