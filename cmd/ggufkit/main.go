// Command ggufkit takes a Hugging Face checkpoint to a quantized GGUF file, shows and changes such files,
// runs them and measures what was lost.
//
// This package holds the command line only: flags, files and printing. One file per subcommand.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"
)

func main() {
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program. It returns the exit status: 0 done, 1 failed, 2 wrong usage, 3 a check said no.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	u := newUI(stdin, stdout, stderr)
	app := newApp(u)
	// The first interrupt lets the command clean up; after it, a second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), interrupts()...)
	defer stop()
	context.AfterFunc(ctx, stop)

	args, err := permute(app, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	if err == nil {
		err = u.out.err
	}
	if err == nil {
		return 0
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	u.fail(err)
	var usage *usageError
	var verdict *verdictError
	switch {
	case errors.As(err, &usage):
		return 2
	case errors.As(err, &verdict):
		return 3
	}
	return 1
}

// interrupts are the signals that ask the program to end: Ctrl-C, a stop by the system, a terminal that went away (unless the
// program was told to outlive it).
func interrupts() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// newApp is the command table.
func newApp(u *ui) *cli.App {
	cli.FlagStringer = flagLine
	app := &cli.App{
		Name:            "ggufkit",
		Usage:           "convert, quantize, inspect, change, run and measure GGUF models",
		UsageText:       "ggufkit COMMAND [flags] ARGS   (flags may stand before or after the arguments)",
		Version:         version(),
		HideHelpCommand: true,
		Commands: []*cli.Command{
			convertCommand(u),
			quantizeCommand(u),
			splitCommand(u),
			mergeCommand(u),
			inspectCommand(u),
			metaCommand(u),
			runCommand(u),
			chatCommand(u),
			chatTemplateCommand(u),
			tokenizeCommand(u),
			logitsCommand(u),
			perplexityCommand(u),
			benchCommand(u),
			compareCommand(u),
			reportCommand(u),
		},
		Writer:    u.out,
		ErrWriter: u.err,
		// Values such as --set KEY=[1,2] hold commas.
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		Action:                    cli.ShowAppHelp,
	}
	for _, c := range slices.Concat(app.Commands, app.Command("meta").Subcommands, app.Command("chat-template").Subcommands) {
		c.OnUsageError = wrongUsage
		if len(c.Subcommands) == 0 && findFlag(c, "-q") == nil {
			c.Flags = append(c.Flags, quietFlag())
		}
		for i, f := range c.Flags {
			switch f := f.(type) {
			case *cli.BoolFlag:
				f.DisableDefaultText = true
			case *cli.StringSliceFlag:
				c.Flags[i] = newListFlag(f)
			}
		}
	}
	return app
}

// wrongUsage is what cli calls when a flag's value does not parse; without it cli prints the whole help.
func wrongUsage(c *cli.Context, err error, _ bool) error {
	return usagef("see 'ggufkit "+commandPath(c)+" --help'", "%v", err)
}

// version is the module's version as the Go toolchain recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// usageError is a command line that makes no sense: exit status 2.
type usageError struct{ text, hint string }

func (e *usageError) Error() string { return e.text }

// usagef makes a usageError. hint says what to do instead; "" for none.
func usagef(hint, format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...), hint: hint}
}

// verdictError is a check that said no: exit status 3.
type verdictError struct{ err error }

func (e *verdictError) Error() string { return e.err.Error() }
func (e *verdictError) Unwrap() error { return e.err }
