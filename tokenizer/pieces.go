package tokenizer

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// pieceModel is the part of a SentencePiece model (tokenizer.model) that GGUF can hold.
type pieceModel struct {
	pieces             []piece
	kind               uint64 // trainer_spec.model_type: 1 unigram, 2 BPE, 3 word, 4 char
	unk, bos, eos, pad int32  // -1 if absent
	dummyPrefix        bool   // a space is put before the text
	removeExtraSpaces  bool
	rules              bool // precompiled_charsmap is there: characters are replaced before encoding
}

type piece struct {
	text  string
	score float32
	kind  TokenType // numbered as in GGUF
}

var pieceKinds = map[uint64]string{1: "Unigram", 2: "BPE", 3: "Word", 4: "Char"}

// errWire is what a damaged file gives.
var errWire = errors.New("not a SentencePiece model: broken protocol buffer")

// fields calls f with every field of a message. Varints and fixed 32 bit numbers come as n, the rest as bytes.
func fields(data []byte, f func(num protowire.Number, n uint64, b []byte) error) error {
	for len(data) > 0 {
		num, typ, size := protowire.ConsumeTag(data)
		if size < 0 {
			return errWire
		}
		data = data[size:]
		var n uint64
		var b []byte
		switch typ {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(data)
		case protowire.Fixed32Type:
			var fixed uint32
			fixed, size = protowire.ConsumeFixed32(data)
			n = uint64(fixed)
		case protowire.BytesType:
			b, size = protowire.ConsumeBytes(data)
		default:
			size = protowire.ConsumeFieldValue(num, typ, data)
		}
		if size < 0 {
			return errWire
		}
		if err := f(num, n, b); err != nil {
			return err
		}
		data = data[size:]
	}
	return nil
}

// parsePieces reads a ModelProto: 1 pieces, 2 trainer_spec, 3 normalizer_spec.
func parsePieces(data []byte) (*pieceModel, error) {
	m := &pieceModel{kind: 1, unk: 0, bos: 1, eos: 2, pad: -1, dummyPrefix: true, removeExtraSpaces: true}
	err := fields(data, func(num protowire.Number, _ uint64, b []byte) error {
		switch num {
		case 1:
			return m.addPiece(b)
		case 2:
			return m.trainer(b)
		case 3:
			return m.normalizer(b)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(m.pieces) == 0 {
		return nil, errors.New("not a SentencePiece model: it holds no pieces")
	}
	return m, nil
}

// addPiece reads a piece: 1 text, 2 score, 3 type.
func (m *pieceModel) addPiece(data []byte) error {
	if len(m.pieces) >= vocabLimit {
		return fmt.Errorf("more than %d pieces", vocabLimit)
	}
	p := piece{kind: Normal}
	err := fields(data, func(num protowire.Number, n uint64, b []byte) error {
		switch num {
		case 1:
			p.text = string(b)
		case 2:
			p.score = math.Float32frombits(uint32(n))
		case 3:
			if n < 1 || n > 6 {
				return fmt.Errorf("piece %d: unknown type %d", len(m.pieces), n)
			}
			p.kind = TokenType(n)
		}
		return nil
	})
	m.pieces = append(m.pieces, p)
	return err
}

// trainer reads the trainer_spec: 3 model_type, 40 to 43 ids of unk, bos, eos and pad.
func (m *pieceModel) trainer(data []byte) error {
	return fields(data, func(num protowire.Number, n uint64, _ []byte) error {
		switch num {
		case 3:
			m.kind = n
		case 40:
			m.unk = int32(n)
		case 41:
			m.bos = int32(n)
		case 42:
			m.eos = int32(n)
		case 43:
			m.pad = int32(n)
		}
		return nil
	})
}

// normalizer reads the normalizer_spec: 2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces.
func (m *pieceModel) normalizer(data []byte) error {
	return fields(data, func(num protowire.Number, n uint64, b []byte) error {
		switch num {
		case 2:
			m.rules = len(b) > 0
		case 3:
			m.dummyPrefix = n != 0
		case 4:
			m.removeExtraSpaces = n != 0
		}
		return nil
	})
}

// sentencePiece reads the tokens of a SentencePiece BPE tokenizer: from tokenizer.model, which has the scores, or from tokenizer.json alone.
func (b *vocabBuilder) sentencePiece(pre string) error {
	b.v.Model, b.v.Pre = "llama", "default"
	if pre != "" && pre != "default" {
		return fmt.Errorf("%s: a SentencePiece tokenizer has no pre-tokenizer, so it cannot be %q\nhint: leave out --pre", b.f.dir, pre)
	}
	prefix := true
	if t := b.f.tokenizer; t != nil {
		var err error
		if prefix, b.v.PrependScheme, err = t.spacePrefix(); err != nil {
			return b.at("tokenizer.json", err)
		}
	} else {
		// SentencePiece itself knows no special tokens: what transformers does around them when it has this file alone depends on its version.
		prefix = b.f.pieces.dummyPrefix
	}
	if !prefix {
		b.v.AddSpacePrefix = &prefix
	}
	if b.f.pieces == nil {
		return b.rankedPieces()
	}
	return b.scoredPieces()
}

// scoredPieces takes the pieces of tokenizer.model.
func (b *vocabBuilder) scoredPieces() error {
	const file = "tokenizer.model"
	m := b.f.pieces
	b.source = file
	if m.kind != 2 {
		return b.at(file, fmt.Errorf("SentencePiece models of type %s are not supported, only BPE", pieceKinds[m.kind]))
	}
	if m.rules {
		b.note("%s replaces characters before it encodes (precompiled_charsmap); readers of GGUF's \"llama\" tokenizer do not", file)
	}
	for id, p := range m.pieces {
		b.put(int32(id), p.text, p.kind, p.score)
	}
	if b.f.tokenizer == nil {
		return nil
	}
	vocab, err := b.modelVocab()
	if err != nil {
		return err
	}
	for _, t := range b.f.tokenizer.AddedTokens {
		delete(vocab, t.Content)
	}
	for text, id := range vocab {
		if id < 0 || int(id) >= len(m.pieces) || m.pieces[id].text != text {
			return b.at("tokenizer.json", fmt.Errorf("token %d is %q, which tokenizer.model does not say: the two files are of different tokenizers\nhint: remove the one that is not the model's", id, text))
		}
	}
	return nil
}

// rankedPieces takes the pieces of tokenizer.json. It has no scores, but lists the merges in the order of the scores of what they make,
// so minus the place of the first merge that makes a token is as good.
func (b *vocabBuilder) rankedPieces() error {
	const file = "tokenizer.json"
	b.source = file
	t := b.f.tokenizer
	vocab, err := b.modelVocab()
	if err != nil {
		return err
	}
	if err := b.putAll(vocab); err != nil {
		return err
	}
	if len(t.Model.Merges) == 0 {
		return b.at(file, errors.New("a BPE tokenizer needs merges, but the file holds none"))
	}
	scores, listed, err := t.mergeScores()
	if err != nil {
		return b.at(file, err)
	}
	for text, id := range vocab {
		if id < 0 || int(id) >= b.rows {
			continue // refused later, with all of its kind
		}
		if _, err := byteOf(text); err == nil && len(text) == len("<0x00>") {
			b.v.Types[id] = Byte
		} else if text == t.Model.UnkToken {
			b.v.Types[id] = Unknown
		}
		score, ok := scores[text]
		if !ok {
			// Characters are never the result of a merge.
			score = -float32(len(t.Model.Merges))
		}
		b.v.Scores[id] = score
	}
	b.detail("the scores of the tokens are the places of their merges in %s", file)
	for _, t := range t.AddedTokens {
		delete(vocab, t.Content)
	}
	if n := unlisted(vocab, listed); n > 0 {
		b.unlisted = n
		b.note("%s: %d pairs of tokens make a token without being among the merges; readers of GGUF merge them, the model's tokenizer does not", file, n)
	}
	return nil
}

// mergeScores gives each text that merges make a score, higher for those that are made first, and lists the merges.
func (t *tokenizerJSON) mergeScores() (scores map[string]float32, listed map[[2]string]bool, err error) {
	scores = make(map[string]float32, len(t.Model.Merges))
	listed = make(map[[2]string]bool, len(t.Model.Merges))
	for i, v := range t.Model.Merges {
		pair, err := splitMerge(v)
		if err != nil {
			return nil, nil, fmt.Errorf("model.merges: element %d: %w", i, err)
		}
		listed[pair] = true
		joined := pair[0] + pair[1]
		if _, ok := scores[joined]; !ok {
			scores[joined] = -float32(i)
		}
	}
	return scores, listed, nil
}

// unlisted counts the pairs of tokens whose texts together are a token's, and which are no merge.
func unlisted(vocab map[string]int32, listed map[[2]string]bool) int {
	n := 0
	for text := range vocab {
		for i := range text {
			if i == 0 {
				continue
			}
			_, left := vocab[text[:i]]
			_, right := vocab[text[i:]]
			if left && right && !listed[[2]string{text[:i], text[i:]}] {
				n++
			}
		}
	}
	return n
}
