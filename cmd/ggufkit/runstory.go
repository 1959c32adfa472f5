package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/ggufkit/ggufkit/infer"
	"github.com/urfave/cli/v2"
)

// story is a text that the model and the user write in turns.
type story struct {
	*generation
	u    *ui
	text string
}

// interactive takes turns until the user ends it or the context is full. The user's lines are put to the text as they are, with a line end; an empty one
// only lets the model go on. A stop text stays in the text, and stands as the prompt for what the user writes behind it.
func (s *story) interactive(c *cli.Context) error {
	k, err := openConsole(c, s.u)
	if err != nil {
		return err
	}
	defer k.close()
	transcript, err := s.model.NewTranscript()
	if err != nil {
		return err
	}
	defer transcript.Close()
	s.u.note("type a line to go on with it, an empty one to let the model go on; Ctrl-C ends its turn, Ctrl-D ends all")
	var spent session
	defer spent.note(s.u, s.generation)
	s.text = c.String("prompt")
	if s.limits.Keep < 0 { // all of the prompt
		ids, err := s.tok.EncodePrompt(s.text, true)
		if err != nil {
			return err
		}
		s.limits.Keep = len(ids)
	}
	prompt := "> "
	for wait := s.text == ""; ; wait = true {
		if wait {
			line, _, err := k.ask(c.Context, prompt)
			if errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if line != "" {
				s.text += line + "\n"
			}
		}
		ids, err := s.fitting()
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			s.u.note("there is nothing to go on from yet")
			continue
		}
		said, err := s.turn(c, k, transcript, ids, &spent)
		if err != nil {
			return err
		}
		if said.full(s.limits.MaxTokens) {
			s.u.note(contextFull, s.model.Context)
			return nil
		}
		s.text += said.Text + said.StopText
		if prompt = "> "; said.StopText != "" {
			prompt = said.StopText
		}
		if said.Reason == infer.StopEnd && !strings.HasSuffix(s.text, "\n") {
			s.text += "\n"
		}
	}
}

// turn lets the model go on.
func (s *story) turn(c *cli.Context, k *console, transcript *infer.Transcript, ids []int32, spent *session) (said *text, err error) {
	said = &text{}
	interrupted, err := k.reply(c.Context, func(ctx context.Context) error {
		read, err := s.read(ctx, transcript, ids)
		spent.prompt.add(read)
		if err != nil {
			return err
		}
		said, err = s.write(ctx, transcript, ids, s.sampler.Seed+uint64(len(spent.texts)), s.u.show)
		return err
	})
	if interrupted {
		said.Reason = ""
	}
	k.u.printf("\n")
	spent.texts = append(spent.texts, said)
	return said, err
}

// fitting is the text's tokens. With a shift there is room for more: the older half of what is not kept is taken out of the text.
func (s *story) fitting() ([]int32, error) {
	for {
		ids, err := s.tok.EncodePrompt(s.text, true)
		if err != nil {
			return nil, err
		}
		if len(ids) < s.model.Context || !s.limits.Shift {
			return ids, nil
		}
		keep := min(s.limitsFor(ids).Keep, len(ids))
		drop := (len(ids) - keep + 1) / 2
		before, err := s.tok.Decode(ids[:keep], true)
		if err != nil {
			return nil, err
		}
		after, err := s.tok.Decode(ids[keep+drop:], true)
		if err != nil {
			return nil, err
		}
		if text := before + strings.ToValidUTF8(after, ""); len(text) < len(s.text) {
			s.text = text
		} else {
			return ids, nil // all of it is kept
		}
	}
}
