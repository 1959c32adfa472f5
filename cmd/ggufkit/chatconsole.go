package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/ggufkit/ggufkit/internal/atomicfile"
	"github.com/peterh/liner"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// consoleFlags are those of a conversation.
func consoleFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "interactive", Aliases: []string{"i"}, Usage: "take turns with the model, a line each; lines of \"\"\" enclose longer texts"},
		&cli.StringFlag{Name: "color", Value: "auto", Usage: "show what is typed in colour: `WHEN` is auto (on a terminal), always (also without a value) or never"},
		&cli.BoolFlag{Name: "no-history", Usage: "do not remember what is typed for the next time"},
	}
}

// lineReader asks the user for lines.
type lineReader interface {
	// read returns a line without its end. io.EOF says that the user has had enough.
	read(prompt string) (string, error)
	close() error
}

// console is where the user and the model take turns.
type console struct {
	u          *ui
	lines      lineReader
	interrupts chan os.Signal // Ctrl-C
	paint      bool
	piped      bool // nobody types
}

// openConsole takes over the terminal, if there is one, and Ctrl-C.
func openConsole(c *cli.Context, u *ui) (*console, error) {
	k := &console{u: u, interrupts: make(chan os.Signal, 1)}
	in, _ := u.in.(*os.File)
	typed := in != nil && term.IsTerminal(int(in.Fd()))
	edited := typed && isTerminal(u.out.w)
	k.piped = !typed
	switch when := strings.ToLower(c.String("color")); when {
	case "auto":
		k.paint = edited && os.Getenv("NO_COLOR") == "" && liner.TerminalSupported()
	case "always", "on", "true":
		k.paint = true
	case "never", "off", "false":
	default:
		return nil, usagef("it can be auto, always or never", "--color is %q", when)
	}
	if edited && liner.TerminalSupported() {
		e := &editor{state: liner.NewLiner(), out: u.out, warn: u.note}
		e.state.SetCtrlCAborts(true)
		e.state.SetMultiLineMode(true)
		if !c.Bool("no-history") {
			e.remember(historyFile())
		}
		k.lines = e
	} else {
		k.lines = &plainLines{r: bufio.NewReader(u.in), prompts: u.err, silent: !typed}
	}
	// An interrupt ends a reply, no longer the command.
	signal.Reset(os.Interrupt)
	signal.Notify(k.interrupts, os.Interrupt)
	return k, nil
}

// close gives the terminal back.
func (k *console) close() {
	signal.Stop(k.interrupts)
	if err := k.lines.close(); err != nil {
		k.u.note("warning: %v", err)
	}
}

// blockMark encloses a text of several lines.
const blockMark = `"""`

// ask reads a line, or what stands between two blockMarks; block tells which. io.EOF says that the user has had enough.
func (k *console) ask(ctx context.Context, prompt string) (text string, block bool, err error) {
	line, err := k.line(ctx, prompt)
	if err != nil {
		return "", false, err
	}
	if line, block = strings.CutPrefix(line, blockMark); !block {
		return line, false, nil
	}
	var all strings.Builder
	for {
		if inner, ok := strings.CutSuffix(strings.TrimRight(line, " \t"), blockMark); ok {
			all.WriteString(inner)
			return strings.Trim(all.String(), "\n"), true, nil
		}
		if all.WriteString(line + "\n"); all.Len() > maxText {
			return "", true, fmt.Errorf("the text has more than %d bytes", maxText)
		}
		if line, err = k.line(ctx, "... "); errors.Is(err, io.EOF) && k.piped {
			return "", true, fmt.Errorf("the input ends within a text that %s starts\nhint: %s ends it", blockMark, blockMark)
		} else if err != nil {
			return "", true, err
		}
	}
}

// line reads one line. An interrupt while it waits is the end.
func (k *console) line(ctx context.Context, prompt string) (string, error) {
	select {
	case <-k.interrupts: // too late for the reply before
	default:
	}
	if k.paint {
		k.u.printf("\x1b[1;32m")
		defer k.u.printf("\x1b[0m")
	}
	type result struct {
		line string
		err  error
	}
	done := make(chan result, 1) // whoever is not waited for leaves its result here
	go func() {
		line, err := k.lines.read(prompt)
		done <- result{line, err}
	}()
	select {
	case r := <-done:
		return r.line, r.err
	case <-k.interrupts:
		return "", io.EOF
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// reply runs f with a context that Ctrl-C ends, and reports whether it did.
func (k *console) reply(ctx context.Context, f func(ctx context.Context) error) (interrupted bool, err error) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-k.interrupts:
			cancel()
		case <-inner.Done():
		}
	}()
	err = f(inner)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		return true, nil
	}
	return false, err
}

// plainLines reads from a pipe, a file or a simple terminal.
type plainLines struct {
	r       *bufio.Reader
	prompts io.Writer
	silent  bool // no prompts
}

func (p *plainLines) read(prompt string) (string, error) {
	if !p.silent {
		fmt.Fprint(p.prompts, prompt)
	}
	var line []byte
	for {
		part, err := p.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxText:
			return "", fmt.Errorf("a line has more than %d bytes", maxText)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)):
			return "", err
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		return strings.ToValidUTF8(string(line), "\uFFFD"), nil
	}
}

func (p *plainLines) close() error { return nil }

// editor edits lines on a terminal and remembers them.
type editor struct {
	state   *liner.State
	out     io.Writer
	history string // file, or ""
	warn    func(format string, args ...any)
}

func (e *editor) read(prompt string) (string, error) {
	line, err := e.state.Prompt(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.C, r) {
			return -1 // the editor wants none of these
		}
		return r
	}, prompt))
	switch {
	case errors.Is(err, liner.ErrPromptAborted):
		err = io.EOF
	case errors.Is(err, io.EOF):
		fmt.Fprintln(e.out)
	}
	if err == nil && strings.TrimSpace(line) != "" {
		e.state.AppendHistory(line)
	}
	return line, err
}

func (e *editor) close() error {
	err := e.state.Close()
	if e.history == "" {
		return err
	}
	var b bytes.Buffer
	_, failed := e.state.WriteHistory(&b)
	if failed == nil {
		failed = writeHistory(e.history, b.Bytes())
	}
	return errors.Join(err, failed)
}

// writeHistory replaces the file of typed lines, which nobody else may read: the old one stays until the new one is whole.
func writeHistory(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return writeFile(path, func(out *atomicfile.File) error {
		if err := out.Chmod(0o600); err != nil {
			return err
		}
		_, err := out.Write(data)
		return err
	})
}

// historyFile is where typed lines are remembered, "" if there is no place.
func historyFile() string {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "ggufkit", "history")
}

// remember takes the lines of earlier times from a file and will write it at the end.
func (e *editor) remember(path string) {
	if path == "" {
		return
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return // a link to /dev/null says that nothing is to be remembered
	}
	lines, err := readHistory(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.warn("warning: %v: what is typed is not remembered", err)
		return
	}
	for _, line := range lines {
		e.state.AppendHistory(line)
	}
	e.history = path
}

// maxHistory is how many bytes of the file of typed lines are read, the last ones.
const maxHistory = 8 << 20

// readHistory reads the lines of earlier times, however long. What is no UTF-8 in them is replaced.
func readHistory(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	skipped := max(info.Size()-maxHistory, 0)
	data, err := io.ReadAll(io.NewSectionReader(f, skipped, maxHistory))
	if err != nil {
		return nil, err
	}
	if skipped > 0 { // a part of a line
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(string(data), "\uFFFD")) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines, nil
}
