package main

import (
	"context"
	"errors"
	"fmt"
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
		said, err := s.turn(c, k, transcript, &spent)
		switch {
		case err != nil:
			return err
		case said == nil || said.full(s.limits.MaxTokens):
			s.u.note("the context is full: %d tokens (-c makes it larger, --context-shift goes on)", s.model.Context)
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

// turn lets the model go on; nil if there is no room.
func (s *story) turn(c *cli.Context, k *console, transcript *infer.Transcript, spent *session) (said *text, err error) {
	ids, err := s.fitting()
	if ids == nil {
		return nil, err
	}
	said = &text{}
	interrupted, err := k.reply(c.Context, func(ctx context.Context) error {
		read, err := s.read(ctx, transcript, ids)
		spent.prompt.add(read)
		if err != nil {
			return err
		}
		said, err = s.write(ctx, transcript, ids, s.sampler.Seed+uint64(len(spent.texts)), k.show)
		return err
	})
	if interrupted {
		said.Reason = ""
	}
	k.u.printf("\n")
	spent.texts = append(spent.texts, said)
	return said, err
}

// fitting is the text's tokens, with room for more; nil if there is none. With a shift the older half of what is not kept is taken out of the text.
func (s *story) fitting() ([]int32, error) {
	for {
		ids, err := s.tok.EncodePrompt(s.text, true)
		if err != nil {
			return nil, err
		}
		if len(ids) == 0 || len(ids) < s.model.Context {
			return ids, nil
		}
		keep := s.limitsFor(ids).Keep
		drop := (len(ids) - keep) / 2
		if !s.limits.Shift || drop <= 0 {
			return nil, nil
		}
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
			return nil, fmt.Errorf("a text of %d tokens cannot be made shorter", len(ids))
		}
	}
}
