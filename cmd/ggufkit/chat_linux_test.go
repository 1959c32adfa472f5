//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal starts a program on a terminal of its own. What is written to keys is typed there.
func terminal(t *testing.T, args, env []string) (keys io.Writer, screen *watched, wait func(status int)) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := program(t, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	screen = &watched{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(screen, master) // ends with an error when nobody has the terminal open
	}()
	return master, screen, func(status int) {
		t.Helper()
		ends(t, cmd, status)
		<-read
		master.Close()
	}
}

// TestTalkOnTerminal types into the editor: lines and blocks, history, colour, Ctrl-C and Ctrl-D.
func TestTalkOnTerminal(t *testing.T) {
	model, state := demoF32(t), t.TempDir()
	history := filepath.Join(state, "ggufkit", "history")
	env := []string{"TERM=xterm", "NO_COLOR=", "XDG_STATE_HOME=" + state}
	press := func(w io.Writer, keys string) {
		t.Helper()
		if _, err := io.WriteString(w, keys); err != nil {
			t.Fatal(err)
		}
	}

	keys, screen, wait := terminal(t, append([]string{"chat", "-m", model}, endless...), env)
	screen.await(t, "\x1b[1;32m> ")
	press(keys, "What news?\r")
	screen.await(t, "\x1b[0m")
	screen.longer(t, 200)
	press(keys, "\x03") // Ctrl-C ends the reply
	screen.await(t, "interrupted")
	screen.await(t, "> ")
	press(keys, "\x03") // and at the prompt the talk
	screen.await(t, "text: ")
	wait(0)
	if got := string(readFile(t, history)); got != "What news?\n" {
		t.Errorf("history: %q", got)
	}

	keys, screen, wait = terminal(t, []string{"chat", "-m", model, "-n", "3", "-q"}, append(env, "NO_COLOR=1"))
	screen.await(t, "> ")
	press(keys, "\"\"\"a\r")
	screen.await(t, "... ")
	press(keys, "b\"\"\"\r")
	screen.await(t, "> ")
	press(keys, "\x1b[A\x1b[A\x1b[A") // up: what was typed the last time
	screen.await(t, "What news?")
	press(keys, "\r")
	screen.await(t, "> ")
	if strings.Contains(screen.String(), "\x1b[1;32m") {
		t.Error("colour in spite of NO_COLOR")
	}
	press(keys, "\x04") // Ctrl-D
	wait(0)
	if got, want := string(readFile(t, history)), "What news?\n\"\"\"a\nb\"\"\"\nWhat news?\n"; got != want {
		t.Errorf("history: %q, want %q", got, want)
	}

	// A terminal without cursor movements gets plain lines.
	keys, screen, wait = terminal(t, []string{"chat", "-m", model, "-n", "3", "-q"}, []string{"TERM=dumb", "XDG_STATE_HOME=" + state})
	screen.await(t, "> ")
	press(keys, "What news?\n")
	screen.await(t, "> ")
	press(keys, "/exit\n")
	wait(0)

	keys, screen, wait = terminal(t, []string{"run", "-i", "-m", model, "-p", "HAMLET.", "-n", "20", "--temp", "0", "-r", "ASTRO", "--no-history"}, env)
	screen.await(t, " THURD SATURTH")
	screen.await(t, "\x1b[1;32mASTRO")
	press(keys, "never to be remembered\r")
	screen.await(t, "\x1b[1;32m")
	press(keys, "\x04")
	screen.await(t, "text: ")
	wait(0)
	if got := string(readFile(t, history)); strings.Contains(got, "remembered") {
		t.Errorf("history: %q", got)
	}
}

// A line of any length, and one that is no text, leave the history usable; nobody else may read it.
func TestLongHistory(t *testing.T) {
	state := t.TempDir()
	history, long := filepath.Join(state, "ggufkit", "history"), strings.Repeat("x", 10000)
	if err := os.MkdirAll(filepath.Dir(history), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(history, []byte(long+"\n\xff\nWhat news?\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	keys, screen, wait := terminal(t, []string{"chat", "-m", demoF32(t), "-n", "3", "-q"}, []string{"TERM=xterm", "XDG_STATE_HOME=" + state})
	screen.await(t, "> ")
	if _, err := io.WriteString(keys, "\x04"); err != nil {
		t.Fatal(err)
	}
	wait(0)
	if strings.Contains(screen.String(), "warning") {
		t.Errorf("%q", screen)
	}
	if got, want := string(readFile(t, history)), long+"\n\uFFFD\nWhat news?\n"; got != want {
		t.Errorf("history: %.100q and so on", got)
	}
	if info, err := os.Stat(history); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the history: %v %v", info, err)
	}
}
