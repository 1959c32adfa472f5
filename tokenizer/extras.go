package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
	"golang.org/x/text/unicode/norm"
)

// Keys of our own for what GGUF has no key for. Other programs ignore them.
const (
	keyExtraEOG      = "ggufkit.tokenizer.eog_token_ids"
	keyNormalizer    = "ggufkit.tokenizer.normalizer"
	keyPrependScheme = "ggufkit.tokenizer.prepend_scheme"
	keyLStrip        = "ggufkit.tokenizer.lstrip_token_ids"
	keyRStrip        = "ggufkit.tokenizer.rstrip_token_ids"
	keyBert          = "ggufkit.tokenizer.bert_normalizer"
	keyHuggingFace   = "tokenizer.huggingface.json" // the format's own
)

// Extras is what a tokenizer does beyond what GGUF has keys for.
type Extras struct {
	// Normalizer is applied to text between special tokens: "NFC", or "" for none.
	Normalizer string
	// PrependScheme says where a SentencePiece vocabulary that puts a space before text does so, in Hugging Face's terms. "": before the text
	// and behind every special token. "always": there too, but not before text that starts with a space. "first": as "always", but before
	// the text alone.
	PrependScheme string
	// LStrip and RStrip are the special tokens that swallow the white space before them and behind them, where they are read in a text.
	LStrip, RStrip []int32
	// BertNormalizer says that a WordPiece vocabulary treats text as the model's own tokenizer does where llama.cpp differs: Hangul is decomposed with
	// the accents, of marks only \p{Mn} are accents, characters without a meaning are taken out, and words of more than 100 characters are unknown.
	BertNormalizer bool
	// HuggingFace is a whole tokenizer.json. What it says about reading text counts, not what the other keys say; "" if they say all.
	HuggingFace string
}

const nfc = "NFC"

// Values of PrependScheme.
const (
	prependAlways = "always"
	prependFirst  = "first"
)

func (v *Vocab) checkExtras() error {
	if v.Normalizer != "" && v.Normalizer != nfc {
		return fmt.Errorf("%s: %q is not supported, only %q", keyNormalizer, v.Normalizer, nfc)
	}
	if s := v.PrependScheme; s != "" && s != prependAlways && s != prependFirst {
		return fmt.Errorf("%s: %q is not supported, only %q and %q", keyPrependScheme, s, prependAlways, prependFirst)
	}
	for _, f := range v.idLists() {
		for _, id := range *f.ids {
			if id < 0 || int(id) >= len(v.Tokens) {
				return fmt.Errorf("%s: id %d is not among the %d tokens", f.key, id, len(v.Tokens))
			}
		}
	}
	return nil
}

// idList is a list of ids of a vocabulary and the key that holds it.
type idList struct {
	key string
	ids *[]int32
}

func (v *Vocab) idLists() []idList {
	return []idList{{keyLStrip, &v.LStrip}, {keyRStrip, &v.RStrip}, {keyExtraEOG, &v.EOG}}
}

// readExtras reads our own keys, and what other programs' files leave out although it is known. Ids outside the vocabulary are ignored, with
// a note.
func (v *Vocab) readExtras(m *gguf.Meta) error {
	var err error
	if v.Normalizer, err = optional(m.Str(keyNormalizer)); err != nil {
		return err
	}
	if v.PrependScheme, err = optional(m.Str(keyPrependScheme)); err != nil {
		return err
	}
	if v.HuggingFace, err = optional(m.Str(keyHuggingFace)); err != nil {
		return err
	}
	if v.BertNormalizer, err = optional(m.Bool(keyBert)); err != nil {
		return err
	}
	for _, f := range v.idLists() {
		ids, err := optional(m.Ints(f.key))
		if err != nil {
			return err
		}
		for _, id := range ids {
			if id < 0 || id >= int64(len(v.Tokens)) {
				v.Notes = append(v.Notes, fmt.Sprintf("%s holds %d, which is not among the %d tokens: ignored", f.key, id, len(v.Tokens)))
				continue
			}
			*f.ids = append(*f.ids, int32(id))
		}
	}
	arch, err := optional(m.Str("general.architecture"))
	if err != nil {
		return err
	}
	if !m.Has(keyRStrip) && arch == "phi3" && v.Model == "llama" {
		v.RStrip = v.phi3RStrip()
	}
	v.EOG = v.eogIDs()
	return v.checkExtras()
}

// phi3RStrip is the tokens that swallow the white space behind them in Phi-3's vocabulary: all special ones but these three.
func (v *Vocab) phi3RStrip() []int32 {
	var ids []int32
	for i, typ := range v.typesByText() {
		special := typ == Control || typ == UserDefined || typ == Unknown
		if special && !slices.Contains([]string{"<unk>", "<s>", "<|endoftext|>"}, v.Tokens[i]) {
			ids = append(ids, int32(i))
		}
	}
	return ids
}

// writeExtras writes what is set.
func (v *Vocab) writeExtras(m *gguf.Meta) {
	if v.Normalizer != "" {
		m.Set(keyNormalizer, gguf.New(v.Normalizer))
	}
	if v.PrependScheme != "" {
		m.Set(keyPrependScheme, gguf.New(v.PrependScheme))
	}
	if v.HuggingFace != "" {
		m.Set(keyHuggingFace, gguf.New(v.HuggingFace))
	}
	if v.BertNormalizer {
		m.Set(keyBert, gguf.New(true))
	}
	known := v.withoutList().eogIDs()
	for _, f := range v.idLists() {
		ids := *f.ids
		if f.key == keyExtraEOG {
			ids = slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return slices.Contains(known, id) })
		}
		if len(ids) > 0 {
			m.Set(f.key, gguf.NewArray(ids))
		}
	}
}

// withoutList is the vocabulary as programs see it that do not know our key for more end-of-generation ids.
func (v *Vocab) withoutList() *Vocab {
	w := *v
	w.EOG = nil
	return &w
}

// graphemeJoiner is what the library puts into runs of more than 30 combining marks, to bound its memory.
const graphemeJoiner = "\u034f"

// normalized brings text into the form that the vocabulary asks for.
func (v *Vocab) normalized(text string) string {
	if v.Normalizer != nfc {
		return text
	}
	return unjoined(norm.NFC.String(text), text)
}

// unjoined takes the joiners out of what the library made of text, if it had none before.
func unjoined(out, text string) string {
	if strings.Contains(text, graphemeJoiner) {
		return out
	}
	return strings.ReplaceAll(out, graphemeJoiner, "")
}

// prefixed puts a space before text that the vocabulary wants one before: start is set at the start of all, else a special token stands before.
func (v *Vocab) prefixed(text string, start bool) string {
	switch v.PrependScheme {
	case "":
		return " " + text
	case prependFirst:
		if !start {
			return text
		}
	}
	if strings.HasPrefix(text, " ") || strings.HasPrefix(text, metaspace) {
		return text
	}
	return " " + text
}
