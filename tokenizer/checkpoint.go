package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// FromCheckpoint reads tokenizer.json, tokenizer.model, tokenizer_config.json, generation_config.json and the chat templates of a checkpoint folder.
// rows is the number of rows of the embedding matrix: the vocabulary is padded to it, and ids beyond it are an error. pre overrides the recognized
// pre-tokenizer if not "". The vocabulary is compared with tokenizer.json on many texts, and refused, with the first text that differs, unless pre is given.
// What GGUF cannot say is kept as Extras.
func FromCheckpoint(dir string, rows int, pre string) (*Vocab, error) {
	if rows < 1 || rows > vocabLimit {
		return nil, fmt.Errorf("%s: an embedding of %d rows cannot have a tokenizer", dir, rows)
	}
	f, err := openHubFiles(dir)
	if err != nil {
		return nil, err
	}
	v := newVocab()
	b := &vocabBuilder{f: f, v: v, rows: rows}
	if err := b.model(pre); err != nil {
		return nil, err
	}
	if err := b.addTokens(); err != nil {
		return nil, err
	}
	if err := b.pad(); err != nil {
		return nil, err
	}
	if err := b.specialIDs(); err != nil {
		return nil, err
	}
	if err := b.templates(); err != nil {
		return nil, err
	}
	slices.Sort(v.LStrip)
	slices.Sort(v.RStrip)
	if err := v.check(); err != nil {
		return nil, err
	}
	if err := b.prove(pre != ""); err != nil {
		return nil, err
	}
	ours := gguf.NewMeta()
	v.writeExtras(ours)
	for key := range ours.All() {
		b.note("%s is written, since GGUF has no key for it; other programs ignore it", key)
	}
	return v, nil
}

// vocabBuilder fills a vocabulary from the files of a checkpoint.
type vocabBuilder struct {
	f    *hubFiles
	v    *Vocab
	rows int

	source string // the file that the tokens come from
	// unlisted counts the pairs of tokens that make a token and are no merge.
	unlisted int
	beyond   []addedToken
}

func (b *vocabBuilder) note(format string, args ...any) {
	b.v.Notes = append(b.v.Notes, fmt.Sprintf(format, args...))
}

func (b *vocabBuilder) detail(format string, args ...any) {
	b.v.Details = append(b.v.Details, fmt.Sprintf(format, args...))
}

// at names a file in an error.
func (b *vocabBuilder) at(file string, err error) error {
	return fmt.Errorf("%s: %w", filepath.Join(b.f.dir, file), err)
}

// model reads the tokens, and what makes them a tokenizer.
func (b *vocabBuilder) model(pre string) error {
	t := b.f.tokenizer
	// Old files do not say that they hold BPE, but only BPE has merges.
	isBPE := t != nil && (t.Model.Type == "BPE" || t.Model.Type == "" && t.Model.Merges != nil)
	switch {
	case isBPE && t.Model.ByteFallback:
		return b.sentencePiece(pre)
	case isBPE:
		return b.byteLevel(pre)
	case t != nil && t.Model.Type == "WordPiece":
		return b.wordPiece(pre)
	case t != nil && t.Model.Type == "Unigram":
		return b.unigramModel(pre)
	case t != nil:
		return b.at("tokenizer.json", fmt.Errorf("model: type %q is not supported\nhint: supported are byte-level BPE, BPE with byte_fallback as SentencePiece makes it, WordPiece and Unigram", t.Model.Type))
	case b.f.pieces != nil:
		return b.sentencePiece(pre)
	case b.f.vocab != nil:
		return b.vocabAndMerges(pre)
	}
	return fmt.Errorf("%s: no tokenizer: neither tokenizer.json nor tokenizer.model nor vocab.json is there\nhint: copy these files of the checkpoint into the folder", b.f.dir)
}

// put sets a token. Ids beyond the rows are collected and refused together.
func (b *vocabBuilder) put(id int32, text string, typ TokenType, score float32) {
	v := b.v
	if id < 0 || int(id) >= b.rows {
		b.beyond = append(b.beyond, addedToken{ID: id, Content: text})
		return
	}
	if v.Tokens == nil {
		v.Tokens = make([]string, b.rows)
		v.Types = make([]TokenType, b.rows)
		if v.Model == "llama" || v.Model == "t5" {
			v.Scores = make([]float32, b.rows)
		}
	}
	v.Tokens[id], v.Types[id] = text, typ
	if v.Scores != nil {
		v.Scores[id] = score
	}
}

// modelVocab is the vocabulary in tokenizer.json.
func (b *vocabBuilder) modelVocab() (map[string]int32, error) {
	var vocab map[string]int32
	if err := json.Unmarshal(b.f.tokenizer.Model.Vocab, &vocab); err != nil {
		return nil, b.at("tokenizer.json", fmt.Errorf("model.vocab: %w", err))
	}
	return vocab, nil
}

// putAll sets the tokens of a vocabulary, which may give an id only once.
func (b *vocabBuilder) putAll(vocab map[string]int32) error {
	for text, id := range vocab {
		if id >= 0 && int(id) < len(b.v.Types) && b.v.Types[id] != 0 {
			return b.at(b.source, fmt.Errorf("id %d is given to %q and to %q", id, min(text, b.v.Tokens[id]), max(text, b.v.Tokens[id])))
		}
		b.put(id, text, Normal, 0)
	}
	return nil
}

// byteLevel reads the tokens and merges of a byte-level BPE tokenizer.json.
func (b *vocabBuilder) byteLevel(pre string) error {
	const file = "tokenizer.json"
	t := b.f.tokenizer
	b.v.Model, b.source = "gpt2", file
	if t.Model.Prefix != "" || t.Model.Suffix != "" {
		return b.at(file, fmt.Errorf("model: words marked by continuing_subword_prefix %q or end_of_word_suffix %q are not supported", t.Model.Prefix, t.Model.Suffix))
	}
	form, err := t.normalization()
	b.v.Normalizer = form
	if pre == "" {
		if err == nil {
			pre, err = t.recognize(b.f.config.str("model_type"))
		}
		if err != nil {
			return b.at(file, fmt.Errorf("the pre-tokenizer is not recognized: %w\nhint: --pre NAME forces one of the known pre-tokenizers", err))
		}
		b.detail("tokenizer.ggml.pre %s: recognized by the structure of %s", pre, file)
	} else {
		if err != nil {
			b.note("%s: %v: left out", file, err)
		}
		b.detail("tokenizer.ggml.pre %s: as asked for", pre)
	}
	if err := b.setPre(pre); err != nil {
		return err
	}
	vocab, err := b.modelVocab()
	if err != nil {
		return err
	}
	if err := b.putAll(vocab); err != nil {
		return err
	}
	if b.v.Merges, err = joinMerges(t.Model.Merges); err != nil {
		return b.at(file, err)
	}
	return b.needMerges()
}

// vocabAndMerges reads vocab.json and merges.txt, which say nothing of how words are split: the class of the tokenizer must.
func (b *vocabBuilder) vocabAndMerges(pre string) error {
	b.v.Model, b.source = "gpt2", "vocab.json"
	class := b.f.tokenizerConfig.str("tokenizer_class")
	if pre == "" {
		switch strings.TrimSuffix(class, "Fast") {
		case "GPT2Tokenizer":
			pre = "gpt-2"
		case "Qwen2Tokenizer":
			pre, b.v.Normalizer = "qwen2", nfc
		default:
			return b.at("vocab.json", fmt.Errorf("without tokenizer.json the pre-tokenizer of a %q is not known\nhint: --pre NAME forces one of the known pre-tokenizers", class))
		}
		b.detail("tokenizer.ggml.pre %s: from the tokenizer_class %s", pre, class)
	}
	if err := b.setPre(pre); err != nil {
		return err
	}
	if err := b.putAll(b.f.vocab); err != nil {
		return err
	}
	return b.needMerges()
}

func (b *vocabBuilder) setPre(pre string) error {
	_, err := preByName(pre)
	b.v.Pre = pre
	return err
}

func (b *vocabBuilder) needMerges() error {
	if len(b.v.Merges) == 0 {
		b.v.Merges = b.f.merges
	}
	if len(b.v.Merges) == 0 {
		return fmt.Errorf("%s: a BPE tokenizer needs merges, but neither tokenizer.json nor merges.txt holds any", b.f.dir)
	}
	return b.checkMerges()
}

// checkMerges refuses merges of texts that are no tokens, or that make none: the vocabulary is not the one they were made for.
func (b *vocabBuilder) checkMerges() error {
	known := make(map[string]bool, len(b.v.Tokens))
	for _, text := range b.v.Tokens {
		known[text] = true
		if strings.Contains(text, " ") {
			known[strings.ReplaceAll(text, " ", string(byteRunes[' ']))] = true
		}
	}
	for _, t := range b.beyond {
		known[t.Content] = true // refused later, with a better reason
	}
	for i, m := range b.v.Merges {
		left, right, ok := cutMerge(m)
		if !ok {
			return fmt.Errorf("%s: merge %d: %q is not two texts with a space between", b.f.dir, i, m)
		}
		for _, text := range []string{left, right, left + right} {
			if !known[text] {
				return fmt.Errorf("%s: merge %d, %q: %q is not in the vocabulary of %s\nhint: the files belong to different tokenizers, or one is damaged: download them again",
					b.f.dir, i, m, text, b.source)
			}
		}
	}
	return nil
}

// joinMerges writes merges as "left right". A space within a text, which only a pair can hold, is written as byte-level BPE spells it.
func joinMerges(list []jsontext.Value) ([]string, error) {
	merges := make([]string, 0, len(list))
	for i, v := range list {
		pair, err := splitMerge(v)
		if err != nil {
			return nil, fmt.Errorf("model.merges: element %d: %w", i, err)
		}
		for k := range pair {
			pair[k] = strings.ReplaceAll(pair[k], " ", string(byteRunes[' ']))
		}
		merges = append(merges, pair[0]+" "+pair[1])
	}
	return merges, nil
}

// splitMerge reads a merge in either serialization, "left right" or ["left", "right"].
func splitMerge(v jsontext.Value) (pair [2]string, err error) {
	if v.Kind() == '"' {
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			return pair, err
		}
		left, right, ok := strings.Cut(s, " ")
		if !ok || left == "" || right == "" || strings.Contains(right, " ") {
			return pair, fmt.Errorf("%q is not two texts with one space between", s)
		}
		return [2]string{left, right}, nil
	}
	var list []string
	if err := json.Unmarshal(v, &list); err != nil {
		return pair, err
	}
	if len(list) != 2 || list[0] == "" || list[1] == "" {
		return pair, errors.New("a merge is a pair of texts")
	}
	return [2]string(list), nil
}

// parseMerges reads merges.txt: a merge per line, with an optional first line "#version".
func parseMerges(text string) ([]string, error) {
	var merges []string
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line == "" || n == 1 && strings.HasPrefix(line, "#version") {
			continue
		}
		left, right, ok := cutMerge(line)
		if !ok || strings.Contains(right, " ") || strings.HasPrefix(left, " ") {
			return nil, fmt.Errorf("line %d: %q is not two texts with one space between", n, line)
		}
		merges = append(merges, line)
	}
	return merges, nil
}

// addTokens adds the tokens outside the model, and gives special ones their type.
func (b *vocabBuilder) addTokens() error {
	tokens, err := b.f.addedTokens()
	if err != nil {
		return err
	}
	for _, t := range tokens {
		inside := t.ID >= 0 && int(t.ID) < len(b.v.Tokens) && b.v.Types[t.ID] != 0
		if inside && t.bare {
			if b.v.Tokens[t.ID] == t.Content {
				continue // said already, and with more detail
			}
			return b.at("added_tokens.json", fmt.Errorf("id %d is %q, but %q in %s", t.ID, t.Content, b.v.Tokens[t.ID], b.source))
		}
		if inside && b.v.Tokens[t.ID] != t.Content {
			b.note("token %d is %q in the model, and %q among the added tokens: the latter is used", t.ID, b.v.Tokens[t.ID], t.Content)
		}
		typ, text := UserDefined, t.Content
		switch {
		case t.Special:
			typ = Control
		case looksSpecial(t.Content):
			typ = Control
			b.note("token %d %q is not flagged as special, but looks so: it is made a control token", t.ID, t.Content)
		default:
			text = strings.ReplaceAll(text, metaspace, " ")
		}
		score := float32(addedScore)
		if b.v.Model == "t5" && inside {
			// Its tokens have scores of their own, and only the type tells which one stands for what is unknown.
			if score = b.v.Scores[t.ID]; b.v.Types[t.ID] == Unknown {
				typ = Unknown
			}
		}
		b.put(t.ID, text, typ, score)
		b.addStrips(t)
	}
	b.noteFlags(tokens)
	return nil
}

// addStrips takes down whether a token swallows white space.
func (b *vocabBuilder) addStrips(t addedToken) {
	if t.LStrip {
		b.v.LStrip = append(b.v.LStrip, t.ID)
	}
	if t.RStrip {
		b.v.RStrip = append(b.v.RStrip, t.ID)
	}
}

// noteFlags tells of flags of added tokens that are not kept.
func (b *vocabBuilder) noteFlags(tokens []addedToken) {
	count := func(set func(addedToken) bool) (n int) {
		for _, t := range tokens {
			if set(t) {
				n++
			}
		}
		return n
	}
	if n := count(func(t addedToken) bool { return t.SingleWord }); n > 0 {
		b.note("%d added tokens are flagged single_word: they are read within words too, since GGUF cannot say otherwise", n)
	}
	if b.f.tokenizer == nil || !slices.ContainsFunc(flatten(b.f.tokenizer.Normalizer), func(c component) bool { return c.Type == "Prepend" }) {
		return // normalizing changes the text of no token
	}
	if n := count(func(t addedToken) bool { return t.Normalized }); n > 0 {
		b.note("%d added tokens are flagged normalized: the model's tokenizer reads them behind a space only, and swallows it; GGUF cannot say so", n)
	}
}

// Scores that readers expect where the score plays no part.
const (
	addedScore = -1000
	padScore   = -10000
)

// pad fills the rows that have no token, and refuses tokens that have no row.
func (b *vocabBuilder) pad() error {
	if len(b.beyond) > 0 {
		return b.tooMany()
	}
	if b.v.Tokens == nil {
		return fmt.Errorf("%s: the tokenizer has no tokens", b.f.dir)
	}
	missing := 0
	for id, typ := range b.v.Types {
		if typ == 0 {
			missing++
			b.put(int32(id), fmt.Sprintf("[PAD%d]", id), Unused, padScore)
		}
	}
	if missing > 0 {
		b.note("%d rows of the embedding have no token: filled with unused ones", missing)
	}
	return nil
}

// tooMany names the tokens that have no row.
func (b *vocabBuilder) tooMany() error {
	slices.SortFunc(b.beyond, func(x, y addedToken) int { return cmp.Compare(x.ID, y.ID) })
	const most = 10
	var names []string
	for _, t := range b.beyond[:min(most, len(b.beyond))] {
		names = append(names, fmt.Sprintf("%d %q", t.ID, t.Content))
	}
	if n := len(b.beyond) - most; n > 0 {
		names = append(names, fmt.Sprintf("and %d more", n))
	}
	return fmt.Errorf("%s: tokens without a row in the embedding matrix, which has %d: %s\nhint: take the added tokens out of the tokenizer, or resize the embedding",
		b.f.dir, b.rows, strings.Join(names, ", "))
}
