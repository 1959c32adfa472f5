package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits on the files of a checkpoint that describe its tokenizer.
const (
	fileLimit  = 256 << 20 // bytes of one file
	vocabLimit = 1 << 24   // tokens
)

// object is a JSON object whose values are read one by one, since the files of a checkpoint mix types freely.
type object map[string]jsontext.Value

// hubFiles are the files of a checkpoint folder that describe its tokenizer; nil if absent.
type hubFiles struct {
	dir                                            string
	tokenizer                                      *tokenizerJSON
	tokenizerText                                  []byte // tokenizer.json as it is
	pieces                                         *pieceModel
	tokenizerConfig, specialMap, config, genConfig object
	added                                          map[string]int32 // added_tokens.json
	vocab                                          map[string]int32 // vocab.json
	merges                                         []string         // merges.txt
}

// tokenizerJSON is the part of tokenizer.json that GGUF can hold.
type tokenizerJSON struct {
	AddedTokens   []addedToken  `json:"added_tokens"`
	Normalizer    *component    `json:"normalizer"`
	PreTokenizer  *component    `json:"pre_tokenizer"`
	PostProcessor *component    `json:"post_processor"`
	Model         tokenizerBody `json:"model"`
}

type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	Special    bool   `json:"special"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	SingleWord bool   `json:"single_word"`
	Normalized bool   `json:"normalized"`
	// bare tokens come from a file that gives text and id alone.
	bare bool
}

type tokenizerBody struct {
	Type         string           `json:"type"`
	Vocab        jsontext.Value   `json:"vocab"` // an object of ids, or the list of pairs of a Unigram model
	Merges       []jsontext.Value `json:"merges"`
	UnkToken     string           `json:"unk_token"`
	Prefix       string           `json:"continuing_subword_prefix"`
	Suffix       string           `json:"end_of_word_suffix"`
	FuseUnk      bool             `json:"fuse_unk"`
	ByteFallback bool             `json:"byte_fallback"`
	IgnoreMerges bool             `json:"ignore_merges"`
	UnkID        *int             `json:"unk_id"`                   // Unigram
	MaxChars     int              `json:"max_input_chars_per_word"` // WordPiece
}

// component is a normalizer, a pre-tokenizer or a post-processor.
type component struct {
	Type          string           `json:"type"`
	Normalizers   []component      `json:"normalizers"`   // Sequence
	PreTokenizers []component      `json:"pretokenizers"` // Sequence
	Processors    []component      `json:"processors"`    // Sequence
	Pattern       object           `json:"pattern"`       // Split, Replace: {"Regex": ...} or {"String": ...}
	Behavior      string           `json:"behavior"`      // Split, Punctuation
	Invert        bool             `json:"invert"`        // Split
	AddPrefix     *bool            `json:"add_prefix_space"`
	UseRegex      *bool            `json:"use_regex"`            // ByteLevel; true if absent
	Individual    bool             `json:"individual_digits"`    // Digits
	Prepend       string           `json:"prepend"`              // Prepend
	Content       string           `json:"content"`              // Replace
	Replacement   string           `json:"replacement"`          // Metaspace
	Scheme        string           `json:"prepend_scheme"`       // Metaspace
	Split         *bool            `json:"split"`                // Metaspace; true if absent
	CharsMap      string           `json:"precompiled_charsmap"` // Precompiled, in base 64
	CleanText     *bool            `json:"clean_text"`           // BertNormalizer, as the next three
	ChineseChars  *bool            `json:"handle_chinese_chars"`
	StripAccents  *bool            `json:"strip_accents"`
	Lowercase     *bool            `json:"lowercase"`
	StripLeft     *bool            `json:"strip_left"` // Strip
	StripRight    *bool            `json:"strip_right"`
	Single        []jsontext.Value `json:"single"` // TemplateProcessing
	Pair          []jsontext.Value `json:"pair"`   // TemplateProcessing
}

// openHubFiles reads what there is.
func openHubFiles(dir string) (*hubFiles, error) {
	f := &hubFiles{dir: dir}
	for name, dst := range map[string]any{
		"tokenizer_config.json": &f.tokenizerConfig, "special_tokens_map.json": &f.specialMap,
		"config.json": &f.config, "generation_config.json": &f.genConfig, "added_tokens.json": &f.added,
	} {
		if err := f.readJSON(name, dst); err != nil {
			return nil, err
		}
	}
	var err error
	if f.tokenizerText, err = f.read("tokenizer.json"); err != nil {
		return nil, err
	}
	if f.tokenizerText != nil {
		if f.tokenizer, err = parseTokenizer(f.tokenizerText); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "tokenizer.json"), err)
		}
	}
	if f.tokenizer == nil || len(f.tokenizer.Model.Merges) == 0 {
		// Needed only where tokenizer.json does not hold them.
		data, err := f.read("merges.txt")
		if err != nil {
			return nil, err
		}
		if f.merges, err = parseMerges(string(data)); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "merges.txt"), err)
		}
	}
	if f.tokenizer == nil {
		if err := f.readJSON("vocab.json", &f.vocab); err != nil {
			return nil, err
		}
	}
	data, err := f.read("tokenizer.model")
	if err != nil {
		return nil, err
	}
	if data != nil && (f.tokenizer == nil || f.tokenizer.Model.ByteFallback) {
		if f.pieces, err = parsePieces(data); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "tokenizer.model"), err)
		}
	}
	return f, nil
}

// parseTokenizer reads tokenizer.json.
func parseTokenizer(data []byte) (*tokenizerJSON, error) {
	t := new(tokenizerJSON)
	return t, json.Unmarshal(data, t)
}

// read is the content of a file, nil if there is none.
func (f *hubFiles) read(name string) ([]byte, error) {
	path := filepath.Join(f.dir, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	if info.Size() > fileLimit {
		return nil, fmt.Errorf("%s: %d bytes are more than the limit of %d", path, info.Size(), fileLimit)
	}
	return os.ReadFile(path)
}

func (f *hubFiles) readJSON(name string, dst any) error {
	data, err := f.read(name)
	if err != nil || data == nil {
		return err
	}
	if err := json.Unmarshal(withoutInfinity(data), dst); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(f.dir, name), err)
	}
	return nil
}

// withoutInfinity puts null for the numbers that Python's JSON has and JSON does not.
func withoutInfinity(data []byte) []byte {
	if !bytes.Contains(data, []byte("Infinity")) && !bytes.Contains(data, []byte("NaN")) {
		return data
	}
	out := make([]byte, 0, len(data))
	quoted := false
	for i := 0; i < len(data); i++ {
		if n := infinity(data[i:]); n > 0 && !quoted {
			out = append(out, "null"...)
			i += n - 1
			continue
		}
		out = append(out, data[i])
		switch {
		case data[i] == '"':
			quoted = !quoted
		case data[i] == '\\' && i+1 < len(data):
			i++
			out = append(out, data[i])
		}
	}
	return out
}

// infinity is the length of such a number at the start of data, else 0.
func infinity(data []byte) int {
	for _, word := range []string{"-Infinity", "Infinity", "NaN"} {
		if bytes.HasPrefix(data, []byte(word)) {
			return len(word)
		}
	}
	return 0
}

// str is the text of a token entry: a string, or an object with the key "content". Anything else is "".
func (o object) str(key string) string {
	var s string
	if json.Unmarshal(o[key], &s) == nil {
		return s
	}
	var token addedToken
	if json.Unmarshal(o[key], &token) == nil {
		return token.Content
	}
	return ""
}

// flag is a boolean, nil if absent or null.
func (o object) flag(key string) *bool {
	var b *bool
	if json.Unmarshal(o[key], &b) != nil {
		return nil
	}
	return b
}

// ids is an id or a list of ids. null, -1 and other values that are no id are left out.
func (o object) ids(key string) []int32 {
	var all []int64
	var one int64
	if json.Unmarshal(o[key], &one) == nil && o[key] != nil && o[key].Kind() == '0' {
		all = []int64{one}
	} else if json.Unmarshal(o[key], &all) != nil {
		return nil
	}
	var ids []int32
	for _, id := range all {
		if id >= 0 && id < vocabLimit {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

// addedTokens merges what the files say about tokens outside the model, the most telling file first: what one file has said
// about an id is not changed by the next.
func (f *hubFiles) addedTokens() ([]addedToken, error) {
	var all []addedToken
	seen := map[int32]bool{}
	add := func(t addedToken) {
		if !seen[t.ID] {
			seen[t.ID] = true
			all = append(all, t)
		}
	}
	if f.tokenizer != nil {
		for _, t := range f.tokenizer.AddedTokens {
			add(t)
		}
	}
	flagged := len(all)
	var decoder map[string]addedToken
	if v := f.tokenizerConfig["added_tokens_decoder"]; v != nil {
		if err := json.Unmarshal(v, &decoder); err != nil {
			return nil, fmt.Errorf("%s: added_tokens_decoder: %w", filepath.Join(f.dir, "tokenizer_config.json"), err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(decoder)) {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%s: added_tokens_decoder: %q is no id", filepath.Join(f.dir, "tokenizer_config.json"), key)
		}
		t := decoder[key]
		t.ID = int32(id)
		add(t)
	}
	for _, text := range slices.Sorted(maps.Keys(f.added)) {
		add(addedToken{ID: f.added[text], Content: text, bare: true})
	}
	f.markSpecial(all[flagged:])
	return all, nil
}

// markSpecial sets the flag of the tokens that special_tokens_map.json lists.
func (f *hubFiles) markSpecial(tokens []addedToken) {
	special := map[string]bool{}
	for key, value := range f.specialMap {
		special[f.specialMap.str(key)] = true
		var list []jsontext.Value
		if json.Unmarshal(value, &list) == nil {
			for _, v := range list {
				special[object{"": v}.str("")] = true
			}
		}
	}
	for i := range tokens {
		tokens[i].Special = tokens[i].Special || special[tokens[i].Content]
	}
}
