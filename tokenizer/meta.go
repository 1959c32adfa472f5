package tokenizer

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
)

// Metadata keys.
const (
	keyModel     = "tokenizer.ggml.model"
	keyPre       = "tokenizer.ggml.pre"
	keyTokens    = "tokenizer.ggml.tokens"
	keyScores    = "tokenizer.ggml.scores"
	keyTypes     = "tokenizer.ggml.token_type"
	keyMerges    = "tokenizer.ggml.merges"
	keyAddBOS    = "tokenizer.ggml.add_bos_token"
	keyAddEOS    = "tokenizer.ggml.add_eos_token"
	keyAddSEP    = "tokenizer.ggml.add_sep_token"
	keyAddPrefix = "tokenizer.ggml.add_space_prefix"
	keyLowercase = "tokenizer.ggml.normalizer.lowercase"
	keyStrip     = "tokenizer.ggml.normalizer.strip_accents"
	keyExtra     = "tokenizer.ggml.remove_extra_whitespaces"
	keyCharsMap  = "tokenizer.ggml.precompiled_charsmap"
	keyTemplate  = "tokenizer.chat_template"
	keyTemplates = "tokenizer.chat_templates"
)

// idField is one special id of a vocabulary and the key that holds it.
type idField struct {
	key string
	id  *int32
}

// idFields lists the special ids in the order in which they are written.
func (v *Vocab) idFields() []idField {
	return []idField{
		{"tokenizer.ggml.bos_token_id", &v.BOS}, {"tokenizer.ggml.eos_token_id", &v.EOS},
		{"tokenizer.ggml.unknown_token_id", &v.UNK}, {"tokenizer.ggml.seperator_token_id", &v.SEP},
		{"tokenizer.ggml.padding_token_id", &v.PAD}, {"tokenizer.ggml.cls_token_id", &v.CLS},
		{"tokenizer.ggml.mask_token_id", &v.Mask}, {"tokenizer.ggml.eot_token_id", &v.EOT}, {"tokenizer.ggml.eom_token_id", &v.EOM},
	}
}

// newVocab is a vocabulary without any special id.
func newVocab() *Vocab {
	v := &Vocab{Templates: map[string]string{}}
	for _, f := range v.idFields() {
		*f.id = -1
	}
	return v
}

// optional passes a value that a file need not have; the zero value stands for its absence.
func optional[T any](value T, err error) (T, error) {
	if errors.Is(err, gguf.ErrNoKey) {
		var none T
		return none, nil
	}
	return value, err
}

// VocabOf reads the tokenizer keys of a file. Special ids that lie outside the vocabulary are taken as absent, with a note.
func VocabOf(m *gguf.Meta) (*Vocab, error) {
	v := newVocab()
	var err error
	if v.Model, err = m.Str(keyModel); err != nil {
		return nil, fmt.Errorf("the file has no tokenizer: %w", err)
	}
	if v.Tokens, err = m.Strings(keyTokens); err != nil {
		return nil, err
	}
	if v.Pre, err = optional(m.Str(keyPre)); err != nil {
		return nil, err
	}
	if v.Merges, err = optional(m.Strings(keyMerges)); err != nil {
		return nil, err
	}
	if err := v.readTypes(m); err != nil {
		return nil, err
	}
	if err := v.readScores(m); err != nil {
		return nil, err
	}
	v.defaultIDs()
	for _, f := range v.idFields() {
		id, err := optionalID(m, f.key)
		if err != nil {
			return nil, err
		}
		v.takeID(f, id)
	}
	for _, f := range []struct {
		key string
		dst **bool
	}{{keyAddBOS, &v.AddBOS}, {keyAddEOS, &v.AddEOS}, {keyAddSEP, &v.AddSEP}, {keyAddPrefix, &v.AddSpacePrefix},
		{keyLowercase, &v.Lowercase}, {keyStrip, &v.StripAccents}, {keyExtra, &v.RemoveExtraSpaces}} {
		b, err := m.Bool(f.key)
		if errors.Is(err, gguf.ErrNoKey) {
			continue
		}
		if err != nil {
			return nil, err
		}
		*f.dst = &b
	}
	if err := v.readCharsMap(m); err != nil {
		return nil, err
	}
	if err := v.readExtras(m); err != nil {
		return nil, err
	}
	if err := v.readTemplates(m); err != nil {
		return nil, err
	}
	if v.Model == "gpt2" && v.Pre == "" {
		v.Notes = append(v.Notes, keyPre+" is missing: words are split by the rules of \"default\", which may not be those of the model")
	}
	if n := len(v.Duplicates()); n > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%d tokens have the text of another one", n))
	}
	return v, nil
}

// defaultIDs sets what files of the first days leave out.
func (v *Vocab) defaultIDs() {
	switch v.Model {
	case "llama":
		v.setDefault(&v.UNK, 0)
		v.setDefault(&v.BOS, 1)
		v.setDefault(&v.EOS, 2)
	case "bert":
		v.setDefault(&v.BOS, 101)
		v.setDefault(&v.UNK, 100)
		v.setDefault(&v.SEP, 102)
		v.setDefault(&v.PAD, 0)
		v.setDefault(&v.Mask, 103)
	case "t5":
		v.setDefault(&v.EOS, 1)
		v.setDefault(&v.UNK, 2)
		v.setDefault(&v.PAD, 0)
	}
}

func (v *Vocab) setDefault(dst *int32, id int32) {
	if int(id) < len(v.Tokens) {
		*dst = id
	}
}

// optionalID reads an id; -1 if there is none. Files hold ids in any integer type, and 0xffffffff or -1 for "none".
func optionalID(m *gguf.Meta, key string) (int64, error) {
	id, err := m.Int(key)
	if errors.Is(err, gguf.ErrNoKey) {
		return -1, nil
	}
	return id, err
}

func (v *Vocab) takeID(f idField, id int64) {
	switch {
	case id < 0, id == math.MaxUint32:
	case id < int64(len(v.Tokens)):
		*f.id = int32(id)
	default:
		v.Notes = append(v.Notes, fmt.Sprintf("%s is %d, which is not among the %d tokens: ignored", f.key, id, len(v.Tokens)))
	}
}

func (v *Vocab) readTypes(m *gguf.Meta) error {
	types, err := optional(m.Ints(keyTypes))
	if err != nil || len(types) == 0 {
		return err
	}
	if len(types) != len(v.Tokens) {
		return fmt.Errorf("%s: %d types for %d tokens", keyTypes, len(types), len(v.Tokens))
	}
	v.Types = make([]TokenType, len(types))
	for i, t := range types {
		if t < math.MinInt32 || t > math.MaxInt32 {
			return fmt.Errorf("%s: element %d is %d", keyTypes, i, t)
		}
		v.Types[i] = TokenType(t)
	}
	return nil
}

func (v *Vocab) readScores(m *gguf.Meta) error {
	scores, err := optional(m.Floats(keyScores))
	if errors.Is(err, gguf.ErrValueType) {
		var ints []int64
		if ints, err = m.Ints(keyScores); err == nil {
			for _, n := range ints {
				scores = append(scores, float64(n))
			}
		}
	}
	if err != nil || len(scores) == 0 {
		return err
	}
	if len(scores) != len(v.Tokens) {
		return fmt.Errorf("%s: %d scores for %d tokens", keyScores, len(scores), len(v.Tokens))
	}
	v.Scores = make([]float32, len(scores))
	for i, s := range scores {
		v.Scores[i] = float32(s)
	}
	return nil
}

func (v *Vocab) readCharsMap(m *gguf.Meta) error {
	bytes, err := optional(m.Ints(keyCharsMap))
	if err != nil {
		return err
	}
	for i, b := range bytes {
		// Some writers have them as signed bytes.
		if b < math.MinInt8 || b > math.MaxUint8 {
			return fmt.Errorf("%s: element %d is %d, which is no byte", keyCharsMap, i, b)
		}
		v.CharsMap = append(v.CharsMap, byte(b))
	}
	return nil
}

func (v *Vocab) readTemplates(m *gguf.Meta) error {
	for key := range m.All() {
		name, ok := strings.CutPrefix(key, keyTemplate)
		if ok && name != "" {
			name, ok = strings.CutPrefix(name, ".")
		}
		if !ok {
			continue
		}
		text, err := m.Str(key)
		if err != nil {
			return err
		}
		v.Templates[name] = text
	}
	return nil
}

// WriteMeta appends the tokenizer keys in llama.cpp's order: the special ids and then the flags stand as the files of the checkpoint named them.
// Our own keys come last.
func (v *Vocab) WriteMeta(m *gguf.Meta) {
	m.Set(keyModel, gguf.New(v.Model))
	if v.Pre != "" {
		m.Set(keyPre, gguf.New(v.Pre))
	}
	m.Set(keyTokens, gguf.NewArray(v.Tokens))
	if v.Scores != nil {
		m.Set(keyScores, gguf.NewArray(v.Scores))
	}
	if v.Types != nil {
		m.Set(keyTypes, gguf.NewArray(v.Types))
	}
	if v.Model == "t5" {
		v.writeUnigram(m)
	}
	if len(v.Merges) > 0 {
		m.Set(keyMerges, gguf.NewArray(v.Merges))
	}
	ids, flags := map[string]int32{}, map[string]*bool{
		keyAddBOS: v.AddBOS, keyAddEOS: v.AddEOS, keyAddSEP: v.AddSEP,
	}
	order := slices.Clone(v.order)
	for _, f := range v.idFields() {
		ids[f.key] = *f.id
		order = append(order, f.key)
	}
	for _, key := range order {
		if id, ok := ids[key]; ok && id >= 0 {
			m.Set(key, gguf.New(uint32(id)))
		}
	}
	for _, key := range append(order, keyAddBOS, keyAddEOS, keyAddSEP) {
		if on := flags[key]; on != nil {
			m.Set(key, gguf.New(*on))
		}
	}
	v.writeTemplates(m)
	if v.AddSpacePrefix != nil && v.Model != "t5" {
		m.Set(keyAddPrefix, gguf.New(*v.AddSpacePrefix))
	}
	if v.Lowercase != nil {
		m.Set(keyLowercase, gguf.New(*v.Lowercase))
	}
	if v.StripAccents != nil {
		m.Set(keyStrip, gguf.New(*v.StripAccents))
	}
	v.writeExtras(m)
}

func (v *Vocab) writeUnigram(m *gguf.Meta) {
	if v.AddSpacePrefix != nil {
		m.Set(keyAddPrefix, gguf.New(*v.AddSpacePrefix))
	}
	if v.RemoveExtraSpaces != nil {
		m.Set(keyExtra, gguf.New(*v.RemoveExtraSpaces))
	}
	if len(v.CharsMap) > 0 {
		m.Set(keyCharsMap, gguf.NewArray(v.CharsMap))
	}
}

func (v *Vocab) writeTemplates(m *gguf.Meta) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(v.Templates)) {
		if name != "" {
			names = append(names, name)
			m.Set(keyTemplate+"."+name, gguf.New(v.Templates[name]))
		}
	}
	if len(names) > 0 {
		m.Set(keyTemplates, gguf.NewArray(names))
	}
	if text, ok := v.Templates[""]; ok {
		m.Set(keyTemplate, gguf.New(text))
	}
}
