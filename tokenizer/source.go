package tokenizer

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// source encodes as a tokenizer.json says, by its own expressions and tables and not by GGUF's: it proves a conversion, and it is the tokenizer
// of files that hold tokenizer.json because GGUF has no keys for all of it.
type source struct {
	added      []addedToken // of those that are matched in text as it is, then of the others
	plain      *trie        // of the first kind: text -> index in added
	normalized *trie        // of the second kind, in normalized text
	normalizer []normalStep
	splitter   []splitStep
	model      sourceModel
}

// sourceModel turns one word into ids.
type sourceModel interface {
	append(dst []int32, word string) ([]int32, error)
	ids() iter.Seq[int32]
}

// newSource prepares a tokenizer.json; it fails for what is not known, naming it.
func newSource(t *tokenizerJSON) (*source, error) {
	s := &source{plain: newTrie(), normalized: newTrie()}
	var err error
	if s.normalizer, err = stepsOf(flatten(t.Normalizer), normalizerOf); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if s.splitter, err = stepsOf(flatten(t.PreTokenizer), splitterOf); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	switch {
	case t.Model.Type == "BPE", t.Model.Type == "" && t.Model.Merges != nil:
		s.model, err = newSourceBPE(t)
	case t.Model.Type == "WordPiece":
		s.model, err = newSourceWords(t)
	case t.Model.Type == "Unigram":
		s.model, err = newSourceUnigram(t)
	default:
		err = fmt.Errorf("type %q is not known", t.Model.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	for i, a := range t.AddedTokens {
		s.added = append(s.added, a)
		if err := s.look(i); err != nil {
			return nil, fmt.Errorf("added token %d: %w", a.ID, err)
		}
	}
	s.plain.freeze()
	s.normalized.freeze()
	return s, nil
}

// look has texts searched for an added token: as they are, or normalized.
func (s *source) look(i int) (err error) {
	a, into := &s.added[i], s.plain
	text := a.Content
	if a.Normalized && len(s.normalizer) > 0 {
		into = s.normalized
		if text, err = s.normalize(text); err != nil {
			return err
		}
	}
	if err := checkToken(text); err != nil {
		return err
	}
	if text != "" {
		into.add(text, int32(i))
	}
	return nil
}

// check fails for ids that are not below n.
func (s *source) check(n int) error {
	outside := func(id int32) bool { return id < 0 || int(id) >= n }
	for id := range s.model.ids() {
		if outside(id) {
			return fmt.Errorf("id %d is not among the %d tokens", id, n)
		}
	}
	for _, a := range s.added {
		if outside(a.ID) {
			return fmt.Errorf("id %d of the added token %q is not among the %d tokens", a.ID, a.Content, n)
		}
	}
	return nil
}

func (b *sourceBPE) ids() iter.Seq[int32]   { return maps.Values(b.vocab) }
func (w *sourceWords) ids() iter.Seq[int32] { return maps.Values(w.vocab) }
func (s *sourceUnigram) ids() iter.Seq[int32] {
	return slices.Values([]int32{int32(len(s.u.v.Tokens) - 1)})
}

func (s *source) normalize(text string) (string, error) {
	var err error
	size := len(text)
	for i, step := range s.normalizer {
		if text, err = step(text); err == nil {
			err = checkGrowth(int64(len(text)), size)
		}
		if err != nil {
			return "", fmt.Errorf("normalizer: part %d: %w", i, err)
		}
	}
	return text, nil
}

// encode gives the ids of a text without what is put before and behind it. special says whether special tokens are read in the text.
func (s *source) encode(dst []int32, text string, special bool) ([]int32, error) {
	text = validUTF8(text)
	start := true
	err := s.cut(text, s.plain, special, func(part string, token int32) error {
		first := start
		start = false
		if token >= 0 {
			dst = append(dst, s.added[token].ID)
			return nil
		}
		norm, err := s.normalize(part)
		if err != nil {
			return err
		}
		return s.cut(norm, s.normalized, special, func(part string, token int32) error {
			at := first
			first = false
			if token >= 0 {
				dst = append(dst, s.added[token].ID)
				return nil
			}
			dst, err = s.words(dst, part, at)
			return err
		})
	})
	return dst, err
}

// words splits a text without added tokens and encodes its words. start is set at the start of the whole text.
func (s *source) words(dst []int32, text string, start bool) ([]int32, error) {
	pieces := []string{text}
	for i, step := range s.splitter {
		var err error
		if pieces, err = step(pieces, start); err != nil {
			return nil, fmt.Errorf("pre_tokenizer: part %d: %w", i, err)
		}
	}
	var err error
	for _, p := range pieces {
		if p == "" {
			continue
		}
		if dst, err = s.model.append(dst, p); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// cut finds added tokens, from the left, and of several at one place the longest. f gets each token's index, and the texts between with -1.
func (s *source) cut(text string, tokens *trie, special bool, f func(part string, token int32) error) error {
	done := 0
	for i := 0; i < len(text); {
		token, end := int32(-1), 0
		tokens.prefixes(text[i:], func(t int32, n int) {
			if special || !s.added[t].Special {
				token, end = t, i+n
			}
		})
		if token < 0 || s.added[token].SingleWord && !standsAlone(text, i, end) {
			_, n := utf8.DecodeRuneInString(text[i:])
			i += n
			continue
		}
		start := i
		if s.added[token].LStrip {
			start = done + len(strings.TrimRightFunc(text[done:i], unicode.IsSpace))
		}
		if s.added[token].RStrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if start > done {
			if err := f(text[done:start], -1); err != nil {
				return err
			}
		}
		if err := f("", token); err != nil {
			return err
		}
		done, i = end, end
	}
	if done < len(text) {
		return f(text[done:], -1)
	}
	return nil
}

// standsAlone reports whether no character of a word stands right before or behind a part of a text.
func standsAlone(text string, start, end int) bool {
	before, n := utf8.DecodeLastRuneInString(text[:start])
	behind, m := utf8.DecodeRuneInString(text[end:])
	return (n == 0 || !isWord(before)) && (m == 0 || !isWord(behind))
}

// sourceBPE is the BPE of a tokenizer.json.
type sourceBPE struct {
	vocab        map[string]int32
	merges       *mergeTable
	unk          int32 // -1 if there is none
	fuse         bool  // unknown characters in a row are one token
	ignoreMerges bool
	bytes        [256]int32 // tokens of bytes, -1 where bytes are not fallen back to
	pool         sync.Pool  // of *merger
}

func newSourceBPE(t *tokenizerJSON) (*sourceBPE, error) {
	if t.Model.Prefix != "" || t.Model.Suffix != "" {
		return nil, errors.New("words marked by continuing_subword_prefix or end_of_word_suffix are not known")
	}
	b := &sourceBPE{pool: sync.Pool{New: func() any { return new(merger) }}, unk: -1, fuse: t.Model.FuseUnk, ignoreMerges: t.Model.IgnoreMerges, merges: newMergeTable(len(t.Model.Merges))}
	if err := json.Unmarshal(t.Model.Vocab, &b.vocab); err != nil {
		return nil, fmt.Errorf("vocab: %w", err)
	}
	if id, ok := b.vocab[t.Model.UnkToken]; ok && t.Model.UnkToken != "" {
		b.unk = id
	}
	for c := range b.bytes {
		b.bytes[c] = -1
		if id, ok := b.vocab[fmt.Sprintf("<0x%02X>", c)]; ok && t.Model.ByteFallback {
			b.bytes[c] = id
		}
	}
	for rank, raw := range t.Model.Merges {
		pair, err := splitMerge(raw)
		if err != nil {
			return nil, fmt.Errorf("merges: element %d: %w", rank, err)
		}
		l, left := b.vocab[pair[0]]
		r, right := b.vocab[pair[1]]
		id, both := b.vocab[pair[0]+pair[1]]
		if !left || !right || !both {
			return nil, fmt.Errorf("merges: element %d: %q and %q, or what they make, is not in the vocabulary", rank, pair[0], pair[1])
		}
		// Of several merges of a pair the last one counts.
		*b.merges.slot(pairOf(l, r)) = mergeRule{pairOf(l, r), int32(rank), id}
	}
	return b, nil
}

func (b *sourceBPE) join(_ string, l, r *symbol) (int32, float32, bool) {
	m, ok := b.merges.find(l.id, r.id)
	if !ok {
		return 0, 0, false
	}
	return m.id, float32(m.rank), true
}

func (b *sourceBPE) append(dst []int32, word string) ([]int32, error) {
	if id, ok := b.vocab[word]; ok && b.ignoreMerges {
		return append(dst, id), nil
	}
	m := b.pool.Get().(*merger)
	defer b.pool.Put(m)
	m.reset()
	unknown := false
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		char := word[i : i+n]
		i += n
		if id, ok := b.vocab[char]; ok {
			m.add(i, id)
			unknown = false
			continue
		}
		if ids := b.inBytes(char); ids != nil {
			for k, id := range ids {
				m.add(i-n+k+1, id)
			}
			unknown = false
			continue
		}
		if b.unk >= 0 && !(unknown && b.fuse) {
			m.add(i, b.unk)
			unknown = true
		}
	}
	if len(m.symbols) == 0 {
		return dst, nil
	}
	m.merge(word, b)
	for i := int32(0); i >= 0; i = m.symbols[i].next {
		dst = append(dst, m.symbols[i].id)
	}
	return dst, nil
}

// inBytes is the tokens of the bytes of a character, nil if one has none.
func (b *sourceBPE) inBytes(char string) []int32 {
	ids := make([]int32, 0, utf8.UTFMax)
	for i := range len(char) {
		if b.bytes[char[i]] < 0 {
			return nil
		}
		ids = append(ids, b.bytes[char[i]])
	}
	return ids
}

// sourceWords is the WordPiece of a tokenizer.json.
type sourceWords struct {
	vocab  map[string]int32
	prefix string
	unk    int32
	most   int // characters of a word
	maxLen int // bytes of a token
}

// mostChars bounds max_input_chars_per_word: the time for a word grows with its square.
const mostChars = 1000

func newSourceWords(t *tokenizerJSON) (*sourceWords, error) {
	w := &sourceWords{prefix: t.Model.Prefix, most: t.Model.MaxChars}
	if err := json.Unmarshal(t.Model.Vocab, &w.vocab); err != nil {
		return nil, fmt.Errorf("vocab: %w", err)
	}
	switch {
	case w.most == 0:
		w.most = wordLimit
	case w.most < 0 || w.most > mostChars:
		return nil, fmt.Errorf("max_input_chars_per_word is %d, at most %d are supported", w.most, mostChars)
	}
	for text := range w.vocab {
		w.maxLen = max(w.maxLen, len(text))
	}
	var ok bool
	if w.unk, ok = w.vocab[t.Model.UnkToken]; !ok {
		return nil, fmt.Errorf("unk_token %q is not in the vocabulary", t.Model.UnkToken)
	}
	return w, nil
}

func (w *sourceWords) append(dst []int32, word string) ([]int32, error) {
	if utf8.RuneCountInString(word) > w.most {
		return append(dst, w.unk), nil
	}
	start := len(dst)
	for at := 0; at < len(word); {
		id, end := int32(-1), min(len(word), at+w.maxLen)
		for ; end > at; end-- {
			text := word[at:end]
			if at > 0 {
				text = w.prefix + text
			}
			if found, ok := w.vocab[text]; ok {
				id = found
				break
			}
		}
		if id < 0 {
			return append(dst[:start], w.unk), nil
		}
		dst = append(dst, id)
		at = end
	}
	return dst, nil
}

// sourceUnigram is the Unigram model of a tokenizer.json.
type sourceUnigram struct{ u *unigram }

func newSourceUnigram(t *tokenizerJSON) (*sourceUnigram, error) {
	if t.Model.ByteFallback {
		return nil, errors.New("byte_fallback is not known for Unigram")
	}
	var pairs []jsontext.Value
	if err := json.Unmarshal(t.Model.Vocab, &pairs); err != nil {
		return nil, fmt.Errorf("vocab: %w", err)
	}
	v := newVocab()
	for i, raw := range pairs {
		text, score, err := scoredPiece(raw)
		if err == nil {
			err = checkToken(text)
		}
		if err != nil {
			return nil, fmt.Errorf("vocab: element %d: %w", i, err)
		}
		v.Tokens, v.Scores = append(v.Tokens, text), append(v.Scores, float32(score))
	}
	if t.Model.UnkID == nil || *t.Model.UnkID < 0 || *t.Model.UnkID >= len(pairs) {
		return nil, errors.New("unk_id names no token")
	}
	v.UNK = int32(*t.Model.UnkID)
	types := slices.Repeat([]TokenType{Normal}, len(pairs))
	u, err := newUnigram(v, types)
	return &sourceUnigram{u: u}, err
}

func (s *sourceUnigram) append(dst []int32, word string) ([]int32, error) {
	l := s.u.pool.Get().(*lattice)
	defer s.u.pool.Put(l)
	return s.u.best(dst, word, l), nil
}
