package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/ggufkit/ggufkit/gguf"
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
	if name := c.String("file"); name != "" && name != "-" {
		return readText(c.Context, name)
	}
	return whole(c.Context, "stdin", func() (io.ReadCloser, error) { return io.NopCloser(u.in), nil })
}

// maxText is the longest text that is read, in bytes.
const maxText = 1 << 29

// readText reads a text file, a pipe or a device.
func readText(ctx context.Context, path string) (string, error) {
	return whole(ctx, path, func() (io.ReadCloser, error) { return os.Open(path) })
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
