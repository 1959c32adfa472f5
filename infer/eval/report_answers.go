package eval

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/infer/sample"
	"github.com/ggufkit/ggufkit/internal/kernel"
	"github.com/ggufkit/ggufkit/tokenizer"
)

// Of each position of an answer so many of the base's most likely tokens are kept, and so many samples of the others: 9 KB, so that a single position
// has a divergence to rely on.
const answerTop, answerSamples = 1024, 128

// baseAnswer is the greedy answer of the base and what it predicted at each token.
type baseAnswer struct {
	tokens []ReportToken
	ids    []int32 // of the tokens
	header baseHeader
	rows   []byte
}

// answerOfBase lets the base answer a prompt.
func answerOfBase(ctx context.Context, base ReportSubject, prompt []int32, limit int) (*baseAnswer, error) {
	vocab := base.Model.Params.NVocab
	a := &baseAnswer{header: baseHeader{form: Small, vocab: vocab, top: min(answerTop, vocab), samples: answerSamples}}
	var rows bytes.Buffer
	save := &BaseWriter{out: bufio.NewWriter(&rows), header: a.header}
	var err error
	a.tokens, err = greedyAnswer(ctx, base, prompt, limit, save.add)
	if err != nil {
		return nil, err
	}
	if err := save.out.Flush(); err != nil {
		return nil, err
	}
	a.rows = rows.Bytes()
	for _, t := range a.tokens {
		a.ids = append(a.ids, t.ID)
	}
	return a, nil
}

// hold lets a model answer the prompt, and holds its predictions along the base's answer against the base's.
func (a *baseAnswer) hold(ctx context.Context, m ReportSubject, prompt []int32, limit int) (ReportAnswer, error) {
	out := ReportAnswer{Flip: -1, Steps: []ReportStep{}}
	var err error
	out.Answer, err = greedyAnswer(ctx, m, prompt, limit, func(logitRow, int32) error { return nil })
	if err != nil {
		return out, err
	}
	for i := range max(len(out.Answer), len(a.ids)) {
		if i >= len(out.Answer) || i >= len(a.ids) || out.Answer[i].ID != a.ids[i] {
			out.Flip = i
			break
		}
	}
	decode, size := a.header.smallDecoder(), a.header.rowBytes()
	var scratch rowScratch
	err = along(m.Model, prompt, a.ids, func(i int, logits []float32) error {
		row, err := decode(a.rows[i*size : (i+1)*size])
		if err != nil {
			return err
		}
		model := newLogitRow(logits)
		if !model.sound() {
			return &infer.LogitsError{Path: m.Model.Path, Where: fmt.Sprintf("token %d of the base's answer", i)}
		}
		top := kernel.ArgMax(logits)
		x := row.compare(model, a.ids[i], &scratch)
		text, err := pieceText(m.Tokenizer, int32(top))
		out.Steps = append(out.Steps, ReportStep{
			KLD: Number(x.kld), P: Number(x.p),
			Top: ReportToken{ID: int32(top), Text: text, P: Number(math.Exp(float64(logits[top]) - model.total))},
		})
		return err
	})
	return out, err
}

// along runs a prompt and an answer and emits the logits that predict each token of the answer.
func along(m *infer.Model, prompt, answer []int32, emit func(i int, logits []float32) error) error {
	if len(answer) == 0 {
		return nil
	}
	s, err := m.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	last := len(prompt) - 1
	var batch []infer.Token
	for i := range last + len(answer) {
		id := int32(0)
		if i <= last {
			id = prompt[i]
		} else {
			id = answer[i-last-1]
		}
		batch = append(batch, infer.Token{Seq: s.ID(), Pos: [4]int32{int32(i)}, ID: id, Logits: i >= last})
	}
	return m.Step(batch, func(i int, logits []float32) error { return emit(i-last, logits) })
}

// recorder chooses the most likely tokens and keeps them.
type recorder struct {
	infer.Sampler
	also   func(r logitRow, id int32) error
	tokens []ReportToken
}

// Next implements infer.Sampler.
func (r *recorder) Next(logits []float32) (int32, error) {
	id, err := r.Sampler.Next(logits)
	if err != nil {
		return id, err
	}
	row := newLogitRow(logits)
	p := math.Exp(float64(logits[id]) - row.total)
	r.tokens = append(r.tokens, ReportToken{ID: id, P: Number(p)})
	return id, r.also(row, id)
}

// greedyAnswer is the most likely token, again and again, with the one that ends the text; also gets every row of logits and the token that was chosen.
func greedyAnswer(ctx context.Context, m ReportSubject, prompt []int32, limit int, also func(logitRow, int32) error) ([]ReportToken, error) {
	t, err := m.Model.NewTranscript()
	if err != nil {
		return nil, err
	}
	defer t.Close()
	greedy, err := sample.New(sample.Options{TopP: 1, RepeatPenalty: 1})
	if err != nil {
		return nil, err
	}
	r := &recorder{Sampler: greedy, also: also, tokens: []ReportToken{}}
	o := infer.GenerateOptions{MaxTokens: limit, EOG: m.Tokenizer.IsEOG}
	if _, err := infer.Generate(ctx, t, prompt, r, o, func(int32) error { return nil }); err != nil {
		return nil, err
	}
	return r.tokens, spell(m.Tokenizer, r.tokens)
}

// spell sets the texts of an answer's tokens. A character that several tokens share stands at the last of them; control tokens are written out.
func spell(tok *tokenizer.Tokenizer, tokens []ReportToken) error {
	stream := tok.NewStream()
	for i := range tokens {
		t := &tokens[i]
		plain, err := tok.Piece(t.ID, false)
		if err != nil {
			return err
		}
		if len(plain) > 0 {
			t.Text, err = stream.Push(t.ID)
		} else {
			t.Text, err = pieceText(tok, t.ID)
		}
		if err != nil {
			return err
		}
	}
	if n := len(tokens); n > 0 {
		tokens[n-1].Text = stream.Flush() + tokens[n-1].Text
	}
	return nil
}

// pieceText is a token on its own; one that is a part of a character is spelled in bytes.
func pieceText(tok *tokenizer.Tokenizer, id int32) (string, error) {
	p, err := tok.Piece(id, true)
	if err != nil || utf8.Valid(p) {
		return string(p), err
	}
	text := ""
	for _, b := range p {
		text += fmt.Sprintf("<%02X>", b)
	}
	return text, nil
}
