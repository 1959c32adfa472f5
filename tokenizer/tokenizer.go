// Package tokenizer turns text into token ids and back.
//
// The kinds of vocabulary are BPE over bytes or characters (tokenizer.ggml.model "gpt2", "gemma4"), SentencePiece BPE by score ("llama"), WordPiece
// ("bert"), Unigram ("t5") and RWKV's longest match ("rwkv"). Anything else is refused by name.
package tokenizer

import "fmt"

// TokenType is tokenizer.ggml.token_type.
type TokenType int32

// Token types.
const (
	Normal      TokenType = 1
	Unknown     TokenType = 2
	Control     TokenType = 3
	UserDefined TokenType = 4
	Unused      TokenType = 5
	Byte        TokenType = 6
)

// Vocab is everything about a tokenizer that GGUF stores, in GGUF's terms. -1 is an absent id.
type Vocab struct {
	Model  string // tokenizer.ggml.model: "gpt2", "llama" ...
	Pre    string // tokenizer.ggml.pre
	Tokens []string
	Types  []TokenType
	Scores []float32 // SPM
	Merges []string  // BPE

	BOS, EOS, EOT, EOM, UNK, SEP, PAD, CLS, Mask int32
	// EOG is every id that ends a generation, EOS among them, in rising order.
	EOG []int32
	// AddBOS and so on are nil where the file does not say.
	AddBOS, AddEOS, AddSEP, AddSpacePrefix *bool
	// Lowercase and StripAccents are what a WordPiece vocabulary does to text first; StripAccents follows Lowercase where it is nil.
	Lowercase, StripAccents *bool
	// RemoveExtraSpaces and CharsMap belong to a Unigram vocabulary: runs of spaces count as one; characters that are replaced before all else,
	// as SentencePiece compiles them (precompiled_charsmap).
	RemoveExtraSpaces *bool
	CharsMap          []byte
	Extras
	// Templates maps names to chat templates; "" is the default one.
	Templates map[string]string
	// Notes tell the user what was odd, Details which file of a checkpoint supplied what.
	Notes, Details []string

	// order is the keys of the special ids and of the flags in the order in which a checkpoint's files named them.
	order []string
}

// Tokenizer encodes and decodes with a vocabulary. It is safe for concurrent use.
type Tokenizer struct {
	Vocab *Vocab

	types   []TokenType // the vocabulary's, with the markers that are known by their text made Control
	special *specials
	source  *source // nil if the keys say all
	enc     encoder
	pre     *preTokenizer // of BPE, else nil
	eog     map[int32]bool
	addBOS  bool
	addEOS  bool
	clean   bool // see CleanSpaces
	prefix  bool // a space is put before text (SPM)
}

// encoder turns ordinary text, which holds no special tokens, into ids.
type encoder interface {
	// encode appends the ids of text to dst.
	encode(dst []int32, text string) ([]int32, error)
	// piece is the text of a token of type Normal or Byte.
	piece(id int32) ([]byte, error)
}

// New prepares a vocabulary for use; it fails for a model or pre-tokenizer that is not supported, naming it.
func New(v *Vocab) (*Tokenizer, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	t := &Tokenizer{Vocab: v, types: v.typesByText(), eog: map[int32]bool{}}
	for _, id := range v.eogIDs() {
		t.eog[id] = true
	}
	t.special = newSpecials(v, t.types)
	if err := t.model(v.index()); err != nil {
		return nil, err
	}
	if err := t.whole(); err != nil {
		return nil, err
	}
	set := func(dst *bool, src *bool) {
		if src != nil {
			*dst = *src
		}
	}
	set(&t.addBOS, v.AddBOS)
	set(&t.addEOS, v.AddEOS)
	if t.prefix {
		set(&t.prefix, v.AddSpacePrefix)
	}
	return t, nil
}

// whole prepares the tokenizer.json that the file holds, if any.
func (t *Tokenizer) whole() error {
	if t.Vocab.HuggingFace == "" {
		return nil
	}
	parsed, err := parseTokenizer([]byte(t.Vocab.HuggingFace))
	if err != nil {
		return fmt.Errorf("%s: %w", keyHuggingFace, err)
	}
	src, err := newSource(parsed)
	if err != nil {
		return fmt.Errorf("%s: %w\nhint: ggufkit meta rm takes the key out; then the other keys count", keyHuggingFace, err)
	}
	if err := src.check(len(t.Vocab.Tokens)); err != nil {
		return fmt.Errorf("%s: %w", keyHuggingFace, err)
	}
	t.source = src
	return nil
}

// model chooses the encoder, and what holds where the file does not say.
func (t *Tokenizer) model(ids map[string]int32) error {
	v := t.Vocab
	var err error
	switch v.Model {
	case "gpt2", "gemma4", "whitespace":
		name := v.Pre
		if v.Model != "gpt2" {
			name = v.Model
		}
		if t.pre, err = preByName(name); err != nil {
			return err
		}
		t.enc, err = newBPE(v, ids, t.pre)
		t.addBOS, t.clean = t.pre.addBOS, t.pre.cleanSpaces
	case "llama":
		t.enc = newSPM(v, ids, t.types)
		t.addBOS, t.prefix = true, true
	case "bert":
		t.enc = newWPM(v, ids)
		// The ends of a text have ids of their own.
		t.addBOS, t.addEOS, t.clean = true, true, true
	case "t5":
		t.enc, err = newUnigram(v, t.types)
		t.addEOS, t.prefix = true, true
	case "rwkv":
		t.enc, err = newRWKV(v)
	default:
		return fmt.Errorf("tokenizer.ggml.model: tokenizer model %q is not supported\nhint: supported are gpt2 (BPE), llama (SentencePiece), bert (WordPiece), t5 (Unigram), rwkv and gemma4", v.Model)
	}
	return err
}

// check finds lists of different lengths and ids outside the vocabulary.
func (v *Vocab) check() error {
	n := len(v.Tokens)
	if n == 0 {
		return fmt.Errorf("tokenizer.ggml.tokens: the vocabulary has no tokens")
	}
	if len(v.Types) != 0 && len(v.Types) != n {
		return fmt.Errorf("tokenizer.ggml.token_type: %d types for %d tokens", len(v.Types), n)
	}
	if len(v.Scores) != 0 && len(v.Scores) != n {
		return fmt.Errorf("tokenizer.ggml.scores: %d scores for %d tokens", len(v.Scores), n)
	}
	for i, text := range v.Tokens {
		if err := checkToken(text); err != nil {
			return fmt.Errorf("%s: token %d: %w", keyTokens, i, err)
		}
	}
	for _, f := range v.idFields() {
		if *f.id < -1 || int(*f.id) >= n {
			return fmt.Errorf("%s: id %d is not among the %d tokens", f.key, *f.id, n)
		}
	}
	return v.checkExtras()
}

// mostToken is how many bytes a token may have. The longest known one has 1024; to find one of any length in a text would take any time.
const mostToken = 1 << 13

func checkToken(text string) error {
	if len(text) > mostToken {
		return fmt.Errorf("a text of %d bytes, at most %d", len(text), mostToken)
	}
	return nil
}

// index maps the text of tokens to ids. When several tokens share a text, one that stands for text wins over one that does not,
// and else the lowest id: their order in the file must not change what is encoded.
func (v *Vocab) index() map[string]int32 {
	ids := make(map[string]int32, len(v.Tokens))
	for i, s := range v.Tokens {
		if s == "" {
			continue
		}
		if old, ok := ids[s]; ok && (v.typeOf(int(old)) == Normal || v.typeOf(i) != Normal) {
			continue
		}
		ids[s] = int32(i)
	}
	return ids
}

// Duplicates lists the ids whose text another, lower id has already: they are decoded, and never encoded to unless they are the only
// Normal token of that text.
func (v *Vocab) Duplicates() []int32 {
	seen := make(map[string]bool, len(v.Tokens))
	var dup []int32
	for i, s := range v.Tokens {
		if seen[s] {
			dup = append(dup, int32(i))
		}
		seen[s] = true
	}
	return dup
}

func (v *Vocab) typeOf(i int) TokenType {
	if len(v.Types) == 0 {
		return Normal
	}
	return v.Types[i]
}

// EncodeOptions: AddSpecial adds BOS and EOS as the vocabulary says; ParseSpecial reads special tokens written in the text.
type EncodeOptions struct{ AddSpecial, ParseSpecial bool }

// textLimit is a bound on a text in bytes: positions within it are 32 bits wide.
const textLimit = 1 << 30

// AddsBOS is the id that Encode puts before a text with AddSpecial; ok is false if there is none.
func (t *Tokenizer) AddsBOS() (id int32, ok bool) {
	id = t.Vocab.BOS
	if t.Vocab.Model == "bert" && t.Vocab.CLS >= 0 {
		id = t.Vocab.CLS
	}
	return id, t.addBOS && id >= 0
}

// addsEOS is the id that Encode puts behind a text with AddSpecial.
func (t *Tokenizer) addsEOS() (id int32, ok bool) {
	id = t.Vocab.EOS
	if t.Vocab.Model == "bert" && t.Vocab.SEP >= 0 {
		id = t.Vocab.SEP
	}
	return id, t.addEOS && id >= 0
}

// Encode turns text (any bytes) into ids. Byte-level BPE reads every byte that is not part of a valid UTF-8 sequence as U+FFFD,
// SentencePiece keeps it as a byte token. With AddSpecial a BOS is added even if the text starts with one (see EncodePrompt).
func (t *Tokenizer) Encode(text string, o EncodeOptions) ([]int32, error) {
	if len(text) > textLimit {
		return nil, fmt.Errorf("a text of %d bytes is too long to encode at once: at most %d", len(text), textLimit)
	}
	out := make([]int32, 0, len(text)/3+2)
	if bos, ok := t.AddsBOS(); ok && o.AddSpecial {
		out = append(out, bos)
	}
	out, err := t.appendText(out, text, o.ParseSpecial)
	if err != nil {
		return nil, err
	}
	if eos, ok := t.addsEOS(); ok && o.AddSpecial {
		out = append(out, eos)
	}
	return out, nil
}

// EncodePrompt encodes a raw prompt with the specials that the vocabulary adds, but never a second BOS.
func (t *Tokenizer) EncodePrompt(text string, parseSpecial bool) ([]int32, error) {
	ids, err := t.Encode(text, EncodeOptions{AddSpecial: true, ParseSpecial: parseSpecial})
	if err != nil {
		return nil, err
	}
	if bos, ok := t.AddsBOS(); ok && len(ids) >= 2 && ids[0] == bos && ids[1] == bos {
		ids = ids[1:]
	}
	return ids, nil
}

// EncodeChat encodes what a chat template rendered: its special tokens are read and none is added, since the template writes all that
// the model expects.
func (t *Tokenizer) EncodeChat(prompt string) ([]int32, error) {
	return t.Encode(prompt, EncodeOptions{ParseSpecial: true})
}

// appendText encodes text fragment by fragment: special tokens stand for themselves, what is between them goes to the encoder.
func (t *Tokenizer) appendText(out []int32, text string, parseSpecial bool) ([]int32, error) {
	if t.source != nil {
		ids, err := t.source.encode(out, text, parseSpecial)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", keyHuggingFace, err)
		}
		return ids, nil
	}
	var err error
	for i, f := range t.special.split(text, parseSpecial) {
		if f.id >= 0 {
			out = append(out, f.id)
			continue
		}
		s := t.Vocab.normalized(f.text)
		if t.prefix && t.Vocab.Model == "llama" {
			s = t.Vocab.prefixed(s, i == 0)
		}
		if out, err = t.enc.encode(out, s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// IsEOG reports whether the id ends a generation.
func (t *Tokenizer) IsEOG(id int32) bool { return t.eog[id] }
