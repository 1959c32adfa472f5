package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The files in testdata/badgguf are text: a head of "name: value" lines, an empty line, and a description of the
// bytes (see assemble). Each "expect:" line names one defect, in order:
//
//	expect: fatal|note SENTINEL OFFSET PLACE
//	text: part of the error text of the defect above
//	hint: part of its hint
const badFolder = "../testdata/badgguf"

type expectation struct{ defect, text, hint string }

// readBad reads one file of badFolder.
func readBad(t testing.TB, path string) (want []expectation, data []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(b), "\n\n")
	for line := range strings.Lines(head) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "comment":
		case "expect":
			want = append(want, expectation{defect: value})
		case "text":
			want[len(want)-1].text = value
		case "hint":
			want[len(want)-1].hint = value
		default:
			t.Fatalf("%s: unknown head line %q", path, line)
		}
	}
	return want, assemble(t, body)
}

// assemble makes bytes of words: "text" in Go's quotes, u8/u16/u32/u64 NUMBER, s "text" (a string with its length), zero N,
// align N (zeros up to a multiple), be (big-endian from here), repeat N WORDS; (the words N times).
func assemble(t testing.TB, text string) []byte {
	t.Helper()
	a := assembler{t: t, order: binary.LittleEndian}
	a.words = splitWords(t, text)
	for len(a.words) > 0 {
		a.word()
	}
	return a.out
}

type assembler struct {
	t     testing.TB
	order byteOrder
	words []string
	out   []byte
}

func splitWords(t testing.TB, text string) []string {
	var words []string
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		if q, err := strconv.QuotedPrefix(text); err == nil {
			words, text = append(words, q), text[len(q):]
			continue
		}
		end := strings.IndexAny(text, "; \n")
		switch end {
		case -1:
			end = len(text)
		case 0:
			end = 1 // the semicolon is a word
		}
		words, text = append(words, text[:end]), text[end:]
	}
	return words
}

func (a *assembler) next() string {
	a.t.Helper()
	if len(a.words) == 0 {
		a.t.Fatal("a word is missing")
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

func (a *assembler) number() uint64 {
	a.t.Helper()
	n, err := strconv.ParseUint(a.next(), 0, 64)
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

func (a *assembler) quoted(w string) string {
	a.t.Helper()
	s, err := strconv.Unquote(w)
	if err != nil {
		a.t.Fatalf("%q: %v", w, err)
	}
	return s
}

func (a *assembler) word() {
	a.t.Helper()
	switch w := a.next(); w {
	case "u8":
		a.out = append(a.out, byte(a.number()))
	case "u16":
		a.out = a.order.AppendUint16(a.out, uint16(a.number()))
	case "u32":
		a.out = a.order.AppendUint32(a.out, uint32(a.number()))
	case "u64":
		a.out = a.order.AppendUint64(a.out, a.number())
	case "s":
		s := a.quoted(a.next())
		a.out = append(a.order.AppendUint64(a.out, uint64(len(s))), s...)
	case "zero":
		a.out = append(a.out, make([]byte, a.number())...)
	case "align":
		for n := int(a.number()); len(a.out)%n != 0; {
			a.out = append(a.out, 0)
		}
	case "be":
		a.order = binary.BigEndian
	case "repeat":
		n := a.number()
		inner := a.words
		for range n {
			a.words = inner
			for a.words[0] != ";" {
				a.word()
			}
		}
		a.words = a.words[1:]
	default:
		a.out = append(a.out, a.quoted(w)...)
	}
}

var sentinels = map[string]error{
	"ErrMagic": ErrMagic, "ErrVersion": ErrVersion, "ErrTruncated": ErrTruncated, "ErrLimit": ErrLimit, "ErrOverflow": ErrOverflow,
	"ErrType": ErrType, "ErrValueType": ErrValueType, "ErrValue": ErrValue, "ErrDuplicate": ErrDuplicate, "ErrName": ErrName,
	"ErrAlignment": ErrAlignment, "ErrShape": ErrShape, "ErrOffset": ErrOffset, "ErrEncoding": ErrEncoding, "ErrUnused": ErrUnused,
}

// describe writes a defect as an expect line does.
func describe(d Defect) string {
	severity := "note"
	if d.Fatal {
		severity = "fatal"
	}
	name := "?"
	for n, err := range sentinels {
		if errors.Is(d.Err, err) {
			name = n
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %d %s", severity, name, d.Offset, d.Where))
}

func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob(badFolder + "/*.txt")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files in %s, %v", len(files), badFolder, err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			want, data := readBad(t, path)
			name := filepath.Join(t.TempDir(), "bad.gguf")
			if err := os.WriteFile(name, data, 0o666); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			f, defects, err := Check(name)
			if err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start); d > time.Second {
				t.Errorf("took %v", d)
			}
			checkDefects(t, name, defects, want)
			checkOpen(t, name, defects)
			if f != nil {
				f.Close()
			}
		})
	}
}

// checkDefects compares what was found with what the file expects.
func checkDefects(t *testing.T, path string, got []Defect, want []expectation) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("not found: %s", want[i].defect)
		case i >= len(want):
			t.Errorf("found too: %s\n%v", describe(got[i]), got[i].Error(path))
		case describe(got[i]) != want[i].defect:
			t.Errorf("found %s\nwant  %s\n%v", describe(got[i]), want[i].defect, got[i].Err)
		case !strings.Contains(got[i].Err.Error(), want[i].text):
			t.Errorf("text is %q\nwant %q in it", got[i].Err, want[i].text)
		case !strings.Contains(got[i].Hint, want[i].hint):
			t.Errorf("hint is %q\nwant %q in it", got[i].Hint, want[i].hint)
		case got[i].Fatal && got[i].Hint == "":
			t.Errorf("no hint: %v", got[i].Err)
		}
	}
}

// checkOpen holds Open against the list of defects.
func checkOpen(t *testing.T, path string, defects []Defect) {
	t.Helper()
	f, err := Open(path)
	for _, d := range defects {
		if d.Fatal {
			var e *Error
			if f != nil || !errors.As(err, &e) || e.Path != path || e.Where != d.Where || uint64(e.Offset) != d.Offset || e.Hint != d.Hint || e.Err.Error() != d.Err.Error() {
				t.Errorf("Open gives %v\nwant %v", err, d.Error(path))
			}
			return
		}
	}
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	f.Close()
}

// Whatever a bad file is cut down to, it is never worse than an error.
func TestBadFilesCut(t *testing.T) {
	files, err := filepath.Glob(badFolder + "/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		_, data := readBad(t, path)
		for n := range min(len(data), 400) {
			if _, _, err := ReadHeader("cut", Bytes(data[:n])); err != nil {
				t.Fatalf("%s cut to %d bytes: %v", path, n, err)
			}
		}
	}
}
