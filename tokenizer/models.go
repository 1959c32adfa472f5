package tokenizer

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// wordPiece reads the tokens of a WordPiece tokenizer.json.
func (b *vocabBuilder) wordPiece(pre string) error {
	const file = "tokenizer.json"
	t, v := b.f.tokenizer, b.v
	// The name of the pre-tokenizer plays no part: every reader splits as BERT does.
	v.Model, v.Pre, b.source = "bert", "bert-bge", file
	if pre != "" {
		v.Pre = pre
	}
	if err := t.bertNormalizer(v); err != nil {
		return b.at(file, err)
	}
	if t.Model.Prefix != "##" {
		return b.at(file, fmt.Errorf("model: continuing_subword_prefix %q is not supported for WordPiece, only \"##\"", t.Model.Prefix))
	}
	if t.Model.MaxChars != 0 && t.Model.MaxChars != wordLimit {
		return b.at(file, fmt.Errorf("model: max_input_chars_per_word %d is not supported, only %d", t.Model.MaxChars, wordLimit))
	}
	vocab, err := b.modelVocab()
	if err != nil {
		return err
	}
	special := map[string]bool{t.Model.UnkToken: true}
	for _, a := range t.AddedTokens {
		special[a.Content] = true
	}
	stored := make(map[string]int32, len(vocab))
	for text, id := range vocab {
		rest, continues := strings.CutPrefix(text, "##")
		switch {
		case special[text], strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]"):
		case continues && rest != "":
			text = rest
		default:
			text = metaspace + text
		}
		if other, ok := stored[text]; ok && other != id {
			return b.at(file, fmt.Errorf("ids %d and %d would both be stored as %q", min(id, other), max(id, other), text))
		}
		stored[text] = id
	}
	if err := b.putAll(stored); err != nil {
		return err
	}
	id, ok := vocab[t.Model.UnkToken]
	if !ok {
		return b.at(file, fmt.Errorf("model: unk_token %q is not in the vocabulary", t.Model.UnkToken))
	}
	v.UNK = id
	v.BertNormalizer = true
	return nil
}

// bertNormalizer reads what is done to text before it is cut into words.
func (t *tokenizerJSON) bertNormalizer(v *Vocab) error {
	norm, pre := flatten(t.Normalizer), flatten(t.PreTokenizer)
	if len(norm) != 1 || norm[0].Type != "BertNormalizer" {
		return fmt.Errorf("normalizer: %s is not known for WordPiece, only BertNormalizer", kinds(norm))
	}
	if len(pre) != 1 || pre[0].Type != "BertPreTokenizer" {
		return fmt.Errorf("pre_tokenizer: %s is not known for WordPiece, only BertPreTokenizer", kinds(pre))
	}
	n := norm[0]
	yes := func(b *bool) bool { return b == nil || *b }
	if !yes(n.CleanText) || !yes(n.ChineseChars) {
		return errors.New("normalizer: BertNormalizer without clean_text or without handle_chinese_chars is not supported")
	}
	lower := yes(n.Lowercase)
	v.Lowercase = &lower
	if n.StripAccents != nil && *n.StripAccents != lower {
		v.StripAccents = n.StripAccents
	}
	return nil
}

// kinds names the types of parts.
func kinds(parts []component) string {
	var names []string
	for _, p := range parts {
		names = append(names, p.Type)
	}
	return strings.Join(names, " ")
}

// unigramModel reads the tokens and scores of a Unigram tokenizer.json.
func (b *vocabBuilder) unigramModel(pre string) error {
	const file = "tokenizer.json"
	t, v := b.f.tokenizer, b.v
	v.Model, v.Pre, b.source = "t5", "default", file
	if pre != "" && pre != "default" {
		return fmt.Errorf("%s: a Unigram tokenizer has no pre-tokenizer, so it cannot be %q\nhint: leave out --pre", b.f.dir, pre)
	}
	if err := t.unigramSpaces(v); err != nil {
		return b.at(file, err)
	}
	if t.Model.ByteFallback {
		return b.at(file, errors.New("model: byte_fallback is not supported for Unigram"))
	}
	var pairs []jsontext.Value
	if err := json.Unmarshal(t.Model.Vocab, &pairs); err != nil {
		return b.at(file, fmt.Errorf("model.vocab: %w", err))
	}
	for id, raw := range pairs {
		text, score, err := scoredPiece(raw)
		if err != nil {
			return b.at(file, fmt.Errorf("model.vocab: element %d: %w", id, err))
		}
		typ := Normal
		if t.Model.UnkID != nil && id == *t.Model.UnkID {
			typ = Unknown
		}
		b.put(int32(id), text, typ, float32(score))
	}
	if t.Model.UnkID == nil || *t.Model.UnkID < 0 || *t.Model.UnkID >= len(pairs) {
		return b.at(file, errors.New("model: unk_id names no token, so characters outside the vocabulary cannot be encoded"))
	}
	v.UNK = int32(*t.Model.UnkID)
	return nil
}

// scoredPiece reads ["text", score].
func scoredPiece(raw jsontext.Value) (text string, score float64, err error) {
	var pair []jsontext.Value
	if err := json.Unmarshal(raw, &pair); err != nil {
		return "", 0, err
	}
	if len(pair) != 2 {
		return "", 0, errors.New("not a text and a score")
	}
	if err := json.Unmarshal(pair[0], &text); err != nil {
		return "", 0, err
	}
	return text, score, json.Unmarshal(pair[1], &score)
}

// unigramSpaces recognizes the ways in which SentencePiece's treatment of text is written for Unigram models.
func (t *tokenizerJSON) unigramSpaces(v *Vocab) error {
	norm, pre := flatten(t.Normalizer), flatten(t.PreTokenizer)
	yes := true
	v.AddSpacePrefix, v.RemoveExtraSpaces = &yes, &yes
	for i, n := range norm {
		switch n.Type {
		case "Precompiled":
			if i > 0 {
				return errors.New("normalizer: Precompiled is not the first part")
			}
			data, err := base64.StdEncoding.DecodeString(n.CharsMap)
			if err != nil {
				return fmt.Errorf("normalizer: precompiled_charsmap: %w", err)
			}
			if _, err := newCharsMap(data); err != nil {
				return fmt.Errorf("normalizer: %w", err)
			}
			v.CharsMap = data
		case "Replace":
			// Runs of spaces become one.
			if p, err := n.pattern("Regex"); err != nil || p != " {2,}" || n.Content != " " && n.Content != metaspace {
				return errors.New("normalizer: Replace does not turn runs of spaces into one, which is all that is known for Unigram")
			}
		case "Strip":
		default:
			return fmt.Errorf("normalizer: %s is not known for Unigram", n.Type)
		}
	}
	if form := kinds(pre); form != "WhitespaceSplit Metaspace" && form != "Metaspace" {
		return fmt.Errorf("pre_tokenizer: %s is not known for Unigram", form)
	}
	m := pre[len(pre)-1]
	always := m.Scheme == prependAlways || m.Scheme == "" && (m.AddPrefix == nil || *m.AddPrefix)
	if m.Replacement != metaspace || !always || m.Split != nil && !*m.Split {
		return fmt.Errorf("pre_tokenizer: Metaspace that does not split at spaces, puts none before text, or has another sign than %q, is not known for Unigram", metaspace)
	}
	return nil
}
