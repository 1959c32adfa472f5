package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/tokenizer/chat"
	"github.com/urfave/cli/v2"
)

const chatHelp = `/clear        forget the talk, but for the system's message
/system TEXT  set the system's message (without a text: take it away)
/exit         end the talk, like Ctrl-D
/help         this list
"""           starts a message of several lines and ends it; in it a line may start with /`

// interactive takes turns until the user ends it.
func (t *talk) interactive(c *cli.Context) error {
	k, err := openConsole(c, t.u)
	if err != nil {
		return err
	}
	defer k.close()
	transcript, err := t.model.NewTranscript()
	if err != nil {
		return err
	}
	defer transcript.Close()
	if _, err := t.render([]chat.Message{{Role: "user", Content: "0"}}); err != nil {
		return err // no template, or none that works: better now than after the first message
	}
	t.u.note("/help tells what there is beside talking, Ctrl-D ends the talk")
	var spent session
	defer spent.note(t.u, t.generation)
	if c.IsSet("prompt") {
		t.say(c.String("prompt"))
		if err := t.answer(c, k, transcript, &spent); err != nil {
			return err
		}
	}
	for {
		line, block, err := k.ask(c.Context, "> ")
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case strings.TrimSpace(line) == "":
		case !block && strings.HasPrefix(line, "/"):
			if t.command(line) {
				return nil
			}
		default:
			t.say(line)
			if err := t.answer(c, k, transcript, &spent); err != nil {
				return err
			}
		}
	}
}

// command carries out a line that starts with a slash and reports whether it ends the talk.
func (t *talk) command(line string) (exit bool) {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch name {
	case "/exit", "/quit", "/bye":
		return true
	case "/help", "/?":
		t.u.printf("%s\n", chatHelp)
	case "/clear":
		t.messages = t.messages[:t.system()]
		t.u.note("the talk is forgotten")
	case "/system":
		t.setSystem(strings.TrimSpace(rest))
	default:
		t.u.note("there is no %s; /help lists what there is", name)
	}
	return false
}

// answer lets the model answer the last message. What does not work for this message only is told, and the message taken back.
func (t *talk) answer(c *cli.Context, k *console, transcript *infer.Transcript, spent *session) error {
	ids, err := t.fitting()
	if err != nil {
		t.messages = t.messages[:len(t.messages)-1]
		t.u.fail(err)
		return nil
	}
	t.limits.Keep = t.keep(c)
	var said *text
	interrupted, err := k.reply(c.Context, func(ctx context.Context) error {
		read, err := t.read(ctx, transcript, ids)
		spent.prompt.add(read)
		if err != nil {
			return err
		}
		said, err = t.write(ctx, transcript, ids, t.sampler.Seed+uint64(len(spent.texts)), t.u.show)
		return err
	})
	if said != nil {
		k.u.printf("\n")
		spent.texts = append(spent.texts, said)
	}
	switch {
	case err != nil:
		return err
	case interrupted && (said == nil || said.Text == ""):
		t.messages = t.messages[:len(t.messages)-1]
		t.u.note("interrupted; the message is taken back")
		return nil
	case interrupted:
		t.u.note("interrupted")
	case said.full(t.limits.MaxTokens):
		t.u.note("the context is full: %d tokens (/clear starts anew, -c makes it larger, --context-shift forgets the oldest turns)", t.model.Context)
	}
	t.messages = append(t.messages, chat.Message{Role: "assistant", Content: said.Text})
	return nil
}

// fitting is the prompt, with room for an answer. With a shift the oldest turns are forgotten until half of the context is free or one turn is left.
func (t *talk) fitting() ([]int32, error) {
	ids, err := t.prompt()
	if err != nil || len(ids) < t.model.Context {
		return ids, err
	}
	for t.limits.Shift && len(ids) > t.model.Context/2 && t.forget() {
		if ids, err = t.prompt(); err != nil {
			return nil, err
		}
	}
	if len(ids) >= t.model.Context {
		hint := "/clear starts anew, -c makes the context larger, --context-shift forgets the oldest turns"
		if t.limits.Shift {
			hint = "give a shorter message; -c makes the context larger"
		}
		return nil, usagef(hint, "the context is full: the talk has %d tokens, the context holds %d", len(ids), t.model.Context)
	}
	return ids, nil
}

// forget drops the oldest turn, if it is not the last.
func (t *talk) forget() bool {
	start := t.system()
	next := slices.IndexFunc(t.messages[min(start+1, len(t.messages)):], func(m chat.Message) bool { return m.Role == "user" })
	if next < 0 {
		return false
	}
	t.messages = slices.Delete(t.messages, start, start+1+next)
	return true
}

// session is what an interactive command has computed.
type session struct {
	prompt stage
	texts  []*text
}

// note tells how fast it was.
func (s *session) note(u *ui, g *generation) {
	if len(s.texts) > 0 {
		g.timings(s.prompt, s.texts...).note(u)
	}
}
