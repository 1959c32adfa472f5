// Package inspect tells what is in a GGUF file of any architecture: plain structs that a program prints or writes as JSON.
package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// Report is everything about one file. Sections that a caller does not want are set to nil, and left out of the JSON; empty ones are not.
type Report struct {
	Summary
	Meta    []KV          `json:"meta,omitzero"`
	Types   []TypeTotal   `json:"types,omitzero"`
	Tensors []Tensor      `json:"tensors,omitzero"`
	Tokens  []Token       `json:"tokens,omitzero"`
	Defects []Defect      `json:"defects,omitzero"`
	Values  *Values       `json:"values,omitzero"` // set by the caller, from CheckValues
	Memory  []arch.Memory `json:"memory,omitzero"` // set by the caller, from the function Memory

	fatal error
}

// Summary is the head of a report. Fields that the file does not tell are zero.
type Summary struct {
	File          string   `json:"file"`
	Files         []string `json:"files,omitempty"` // all parts of a split model
	Part          *Part    `json:"part,omitempty"`  // where all that follows is of one part of a split model alone
	Version       uint32   `json:"version"`
	ByteOrder     string   `json:"byte_order"` // "little" or "big"
	Size          uint64   `json:"size"`       // of the file, in bytes; of all parts together
	Alignment     uint64   `json:"alignment"`
	DataOffset    uint64   `json:"data_offset"`
	Architecture  string   `json:"architecture"`
	Name          string   `json:"name"`
	Context       uint64   `json:"context"`         // positions the model was trained for
	Parameters    uint64   `json:"parameters"`      // elements of all tensors
	TensorCount   int      `json:"tensor_count"`    //
	TensorBytes   uint64   `json:"tensor_bytes"`    // storage of all tensors, without padding
	BitsPerWeight float64  `json:"bits_per_weight"` // TensorBytes over Parameters, in bits
	Tokenizer     string   `json:"tokenizer"`       // model and pre-tokenizer: "gpt2/llama-bpe"
	TokenCount    int      `json:"token_count"`
	// DuplicateTokens counts the ids whose text a lower id has already.
	DuplicateTokens int  `json:"duplicate_tokens"`
	ChatTemplate    bool `json:"chat_template"`
}

// KV is one metadata value. Type is "u32", "str", "[]f32" and so on; Value is complete, also for long arrays.
// A float that is not finite is a string ("NaN", "+Inf", "-Inf"), since JSON has no number for it.
type KV struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value any    `json:"value"`
}

// NewKV describes one metadata value.
func NewKV(key string, v gguf.Value) KV {
	return KV{Key: key, Type: v.TypeName(), Value: plain(v.Any())}
}

// Defect is one fault of a file. Fatal ones keep other commands from opening it.
type Defect struct {
	File    string `json:"file,omitempty"` // the part of a split model that has it; "" for the first, or the only, file
	Offset  uint64 `json:"offset"`         // bytes from the start of the file
	Where   string `json:"where"`          // key or tensor; "" for the header
	Fatal   bool   `json:"fatal"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what to do about it
}

// Read reads the header of the file at path and reports all of it, as far as it can be read: faults are listed, not returned. With the first part
// of a split model it reports all parts as one, and the faults of each; if that cannot be, it tells why and reports the part, as with a later one. The
// error is for a file that is no GGUF file or cannot be opened.
func Read(path string) (*Report, error) {
	f, defects, err := gguf.Check(path)
	if err != nil {
		return nil, err
	}
	r := &Report{Summary: Summary{File: path}, Meta: []KV{}, Tokens: []Token{}}
	for _, d := range defects {
		r.add(path, d.Error(path), d.Fatal)
	}
	if f == nil {
		return nil, r.fatal
	}
	f = r.join(f)
	defer f.Close()
	for key, v := range f.Meta.All() {
		r.Meta = append(r.Meta, NewKV(key, v))
	}
	r.Tensors = tensorsOf(f)
	r.Types = totals(r.Tensors)
	tokens, err := tokensOf(f.Meta)
	r.Tokens = append(r.Tokens, tokens...)
	if err != nil {
		r.Defects = append(r.Defects, Defect{Where: "vocabulary", Message: err.Error()})
	}
	r.summarize(f)
	return r, nil
}

// add lists a fault of the file, or of another part of the model that the file begins.
func (r *Report) add(path string, err error, fatal bool) {
	r.Defects = append(r.Defects, newDefect(path, err, fatal))
	if fatal && r.fatal == nil {
		r.fatal = err
	}
}

func newDefect(path string, err error, fatal bool) Defect {
	var e *gguf.Error
	if !errors.As(err, &e) {
		return Defect{Fatal: fatal, Message: err.Error()}
	}
	d := Defect{Where: e.Where, Offset: uint64(max(e.Offset, 0)), Fatal: fatal, Message: e.Err.Error(), Hint: e.Hint}
	if e.Path != path {
		d.File = e.Path
	}
	return d
}

// Fatal is the first fault that keeps other commands from opening the file, or nil.
func (r *Report) Fatal() error { return r.fatal }

func (r *Report) summarize(f *gguf.File) {
	s := &r.Summary
	s.Version, s.Size, s.Alignment, s.DataOffset = f.Version, f.Stored(), f.Alignment, f.DataOffset
	if paths := f.Paths(); len(paths) > 1 {
		s.Files = paths
	}
	s.ByteOrder = "little"
	if f.Order == binary.BigEndian {
		s.ByteOrder = "big"
	}
	s.Architecture = text(f.Meta, "general.architecture")
	s.Name = text(f.Meta, "general.name")
	if n, err := f.Meta.Uint(s.Architecture + ".context_length"); err == nil {
		s.Context = n
	}
	s.TensorCount = len(r.Tensors)
	for _, t := range r.Types {
		s.Parameters += t.Parameters
		s.TensorBytes += t.Bytes
	}
	if s.Parameters > 0 {
		s.BitsPerWeight = float64(s.TensorBytes) * 8 / float64(s.Parameters)
	}
	s.Tokenizer = text(f.Meta, "tokenizer.ggml.model")
	if pre := text(f.Meta, "tokenizer.ggml.pre"); pre != "" {
		s.Tokenizer += "/" + pre
	}
	s.TokenCount = len(r.Tokens)
	seen := make(map[string]bool, len(r.Tokens))
	for _, t := range r.Tokens {
		if seen[t.Text] {
			s.DuplicateTokens++
		}
		seen[t.Text] = true
	}
	_, s.ChatTemplate = f.Meta.Get("tokenizer.chat_template")
}

// text is a string key, or "" where there is none.
func text(m *gguf.Meta, key string) string {
	s, err := m.Str(key)
	if err != nil {
		return ""
	}
	return s
}

// plain makes a value fit for JSON.
func plain(v any) any {
	var f float64
	switch v := v.(type) {
	case float32:
		f = float64(v)
	case float64:
		f = v
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
		return v
	default:
		return v
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Sprint(f)
	}
	return v
}

// Short prints a value in at most about width characters: strings are quoted and cut, of a long array the first elements
// and the count are shown.
func (kv KV) Short(width int) string { return short(kv.Value, width) }

func short(v any, width int) string {
	switch v := v.(type) {
	case string:
		return quoted(v, width)
	case []any:
		return shortArray(v, width)
	case nil:
		return "?"
	}
	return fmt.Sprint(v)
}

func quoted(s string, width int) string {
	if runes := []rune(s[:min(len(s), 4*width)]); len(runes) > width {
		return fmt.Sprintf("%q... (%d bytes)", string(runes[:width]), len(s))
	}
	return fmt.Sprintf("%q", s)
}

func shortArray(v []any, width int) string {
	var parts []string
	for i, e := range v {
		p := short(e, max(width, 1))
		if width -= len(p) + 2; width < 0 && i > 0 {
			return fmt.Sprintf("[%s, ... %d in all]", strings.Join(parts, ", "), len(v))
		}
		parts = append(parts, p)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// Token is one entry of the vocabulary. Type and Score are zero where the file has none.
type Token struct {
	ID    int     `json:"id"`
	Text  string  `json:"text"`
	Type  string  `json:"type"`
	Score float64 `json:"score"`
}

var tokenTypes = []string{"", "normal", "unknown", "control", "user_defined", "unused", "byte"}

// tokensOf reads the vocabulary; a file without one has no tokens.
func tokensOf(m *gguf.Meta) ([]Token, error) {
	if _, ok := m.Get("tokenizer.ggml.tokens"); !ok {
		return nil, nil
	}
	texts, err := m.Strings("tokenizer.ggml.tokens")
	if err != nil {
		return nil, err
	}
	tokens := make([]Token, len(texts))
	for i, s := range texts {
		tokens[i] = Token{ID: i, Text: s}
	}
	if _, ok := m.Get("tokenizer.ggml.token_type"); ok {
		types, err := m.Ints("tokenizer.ggml.token_type")
		if err != nil {
			return tokens, err
		}
		for i, t := range types[:min(len(types), len(tokens))] {
			tokens[i].Type = fmt.Sprint(t)
			if t > 0 && t < int64(len(tokenTypes)) {
				tokens[i].Type = tokenTypes[t]
			}
		}
	}
	if _, ok := m.Get("tokenizer.ggml.scores"); ok {
		scores, err := m.Floats("tokenizer.ggml.scores")
		if err != nil {
			return tokens, err
		}
		for i, x := range scores[:min(len(scores), len(tokens))] {
			if !math.IsNaN(x) && !math.IsInf(x, 0) {
				tokens[i].Score = x
			}
		}
	}
	return tokens, nil
}
