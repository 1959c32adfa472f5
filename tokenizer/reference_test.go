//go:build oracle || e2e

package tokenizer

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

func oracle(t testing.TB, path string) string {
	t.Helper()
	dir := os.Getenv("ORACLE")
	if dir == "" {
		t.Fatal("ORACLE names no folder of reference data")
	}
	return filepath.Join(dir, filepath.FromSlash(path))
}

func openTokenizer(t testing.TB, path string) *Tokenizer {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := VocabOf(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// checkTricky compares the three ways of encoding, and the text that comes back from plain ids.
func checkTricky(t *testing.T, tok *Tokenizer, path string) {
	t.Helper()
	cases := readJSON[[]struct {
		Text                string
		Plain, Parsed, Full []int32
		Detok               *string
	}](t, path)
	for _, c := range cases {
		if c.Parsed == nil {
			c.Parsed = c.Plain
		}
		for _, mode := range []struct {
			name string
			o    EncodeOptions
			want []int32
		}{
			{"plain", EncodeOptions{}, c.Plain},
			{"parsed", EncodeOptions{ParseSpecial: true}, c.Parsed},
			{"full", EncodeOptions{AddSpecial: true, ParseSpecial: true}, c.Full},
		} {
			ids, err := tok.Encode(c.Text, mode.o)
			if err != nil || !slices.Equal(ids, mode.want) {
				t.Errorf("%s %q: %v %v, want %v", mode.name, c.Text, ids, err, mode.want)
			}
		}
		want := c.Text
		if c.Detok != nil {
			b, err := base64.StdEncoding.DecodeString(*c.Detok)
			if err != nil {
				t.Fatal(err)
			}
			want = string(b)
		}
		text, err := tok.Decode(c.Plain, true)
		if text = tok.CleanSpaces(text); err != nil || text != want {
			t.Errorf("detok %q: %q %v, want %q", c.Text, text, err, want)
		}
	}
}

// checkPlain compares ids without special tokens.
func checkPlain(t *testing.T, tok *Tokenizer, path string) {
	t.Helper()
	for _, c := range readJSON[[]textCase](t, path) {
		ids, err := tok.Encode(c.Text, EncodeOptions{})
		if err != nil || !slices.Equal(ids, c.IDs) {
			t.Errorf("%q: %v %v, want %v", c.Text, ids, err, c.IDs)
		}
	}
}
