package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer/eval"
	"github.com/ggufkit/ggufkit/tokenizer"
	"github.com/urfave/cli/v2"
)

func tokenizeCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "tokenize",
		Usage:     "turn a text into token ids",
		UsageText: "ggufkit tokenize -m MODEL [-p TEXT | -f FILE] [flags]",
		Description: `Works on vocabulary-only files too. Without -p and -f the text comes from stdin.

Examples:
  ggufkit tokenize -m model.gguf -p 'Now is the winter'
  ggufkit tokenize -m model.gguf -f speech.txt --json`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "the GGUF `FILE` that holds the vocabulary", Required: true, TakesFile: true},
			&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "the `TEXT`"},
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "read the text from `FILE` (-: stdin)", TakesFile: true},
			&cli.BoolFlag{Name: "no-special", Usage: "add no BOS and no EOS"},
			&cli.BoolFlag{Name: "parse-special", Usage: "read special tokens that are written in the text"},
			jsonFlag(),
		},
		Action: u.action(0, 0, func(c *cli.Context) error { return tokenize(c, u) }),
	}
}

func tokenize(c *cli.Context, u *ui) error {
	f, err := gguf.Open(c.String("model"))
	if err != nil {
		return err
	}
	defer f.Close()
	tok, err := openTokenizer(u, f)
	if err != nil {
		return err
	}
	text, err := inputText(c, u)
	if err != nil {
		return err
	}
	ids, err := tok.Encode(text, tokenizer.EncodeOptions{AddSpecial: !c.Bool("no-special"), ParseSpecial: c.Bool("parse-special")})
	if err != nil {
		return inFile(f.Path, err)
	}
	if c.Bool("json") {
		return u.jsonLine(struct {
			IDs []int32 `json:"ids"`
		}{append([]int32{}, ids...)})
	}
	return printIDs(u, tok, ids)
}

// printIDs prints a table as it goes: a text may have millions of tokens.
func printIDs(u *ui, tok *tokenizer.Tokenizer, ids []int32) error {
	width := len("id")
	if len(ids) > 0 {
		width = max(width, len(strconv.Itoa(int(slices.Max(ids)))))
	}
	out := bufio.NewWriter(u.out)
	fmt.Fprintf(out, "%*s  text\n", width, "id")
	for _, id := range ids {
		piece, err := tok.Piece(id, true)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%*d  %q\n", width, id, piece)
	}
	return out.Flush()
}

// inputText is the text that -p or -f names, else all of stdin.
func inputText(c *cli.Context, u *ui) (string, error) {
	if c.IsSet("prompt") {
		if c.IsSet("file") {
			return "", usagef("give -p or -f, not both", "two texts")
		}
		return c.String("prompt"), nil
	}
	if c.IsSet("file") {
		text, err := fileText(c, u)
		return text.text, err
	}
	return stdinText(c.Context, u)
}

// source is a text and what messages call it.
type source struct{ name, text string }

// fileText is the text that --file names; - is stdin.
func fileText(c *cli.Context, u *ui) (s source, err error) {
	if s.name = c.String("file"); s.name == "-" {
		s.name = "stdin"
		s.text, err = stdinText(c.Context, u)
	} else {
		s.text, err = readText(c.Context, s.name)
	}
	return s, err
}

// measuredText is fileText for a text that a model is measured on: something must be there, and a model is none.
func measuredText(c *cli.Context, u *ui) (source, error) {
	s, err := fileText(c, u)
	switch {
	case err != nil:
		return s, err
	case s.text == "":
		return s, fmt.Errorf("%s is empty\nhint: -f names the text; - reads what is piped in", s.name)
	// A text may start with these letters. In a file the version follows, of which some bytes are 0.
	case len(s.text) >= 8 && s.text[:4] == "GGUF" && strings.Contains(s.text[4:8], "\x00"):
		return s, usagef("-m names the model, -f the text that it is measured on", "--file %s: a GGUF file, not a text", c.String("file"))
	}
	return s, nil
}

// ofText names the text in an error that tells that it is too short.
func (s source) ofText(err error) error {
	if errors.Is(err, eval.ErrTooShort) {
		return inFile(s.name, err)
	}
	return err
}

// ids are the tokens of the text.
func (s source) ids(tok *tokenizer.Tokenizer) ([]int32, error) {
	ids, err := tok.Encode(s.text, tokenizer.EncodeOptions{AddSpecial: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return ids, nil
}

func stdinText(ctx context.Context, u *ui) (string, error) {
	return whole(ctx, "stdin", func() (io.ReadCloser, error) { return io.NopCloser(u.in), nil })
}

// maxText is the longest text that is read, in bytes.
const maxText = 1 << 29

// readText reads a text file, a pipe or a device.
func readText(ctx context.Context, path string) (string, error) {
	text, err := whole(ctx, path, func() (io.ReadCloser, error) { return os.Open(path) })
	return text, unread(path, err)
}

// unread says what to do about a folder in the place of a file; other errors stay as they are.
func unread(path string, err error) error {
	if st, e := os.Stat(path); err != nil && e == nil && st.IsDir() {
		return fmt.Errorf("%s: it is a folder\nhint: name a file in it", path)
	}
	return err
}

// whole reads all that open gives. An interrupt ends the wait for a pipe or a terminal that says nothing.
func whole(ctx context.Context, name string, open func() (io.ReadCloser, error)) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		r, err := open()
		if err != nil {
			done <- result{err: err}
			return
		}
		defer r.Close()
		b, err := io.ReadAll(io.LimitReader(r, maxText+1))
		if err == nil && len(b) > maxText {
			err = fmt.Errorf("%s: the text has more than %d bytes\nhint: give a part of it", name, maxText)
		}
		done <- result{string(b), err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
