package main

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/internal/atomicfile"
	"github.com/ggufkit/ggufkit/tokenizer"
	"github.com/urfave/cli/v2"
)

func logitsCommand(u *ui) *cli.Command {
	return &cli.Command{
		Name:      "logits",
		Usage:     "compute the logits that follow each of some token ids",
		UsageText: "ggufkit logits -m MODEL --ids 1,2,3 [-o FILE.bin] [flags]",
		Description: `With -o all logits are written as raw little-endian float32, one row of the vocabulary's size per id.
Without it, or with --top or --json beside it, the most likely next tokens after the last id are printed. The file needs no tokenizer.

Examples:
  ggufkit logits -m model.gguf --ids 0,284,331 --precision exact -o logits.bin
  ggufkit logits -m model.gguf --ids 0,284,331 --top 5`,
		Flags: append(modelFlags(),
			&cli.StringFlag{Name: "ids", Usage: "token `IDS`, separated by commas", Required: true},
			outputFlag("write the logits to `FILE`"),
			&cli.IntFlag{Name: "top", Value: 10, Usage: "print the `N` most likely tokens"},
			jsonFlag(), quietFlag()),
		Action: u.action(0, 0, func(c *cli.Context) error { return logits(c, u) }),
	}
}

func logits(c *cli.Context, u *ui) error {
	ids, err := parseIDs(c.String("ids"))
	if err != nil {
		return err
	}
	l, err := loadModel(c, u, len(ids))
	if err != nil {
		return err
	}
	defer l.close()
	if err := checkIDs(ids, l.model.Params.NVocab); err != nil {
		return err
	}
	s, err := l.model.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	var last []float32
	if path := c.String("output"); path != "" {
		err := writeLogits(path, l.file.Path, func(emit func(int, []float32) error) error {
			return s.AppendAll(ids, func(i int, row []float32) error {
				if i == len(ids)-1 {
					last = slices.Clone(row)
				}
				return cmp.Or(c.Context.Err(), emit(i, row))
			})
		})
		if err != nil {
			return err
		}
		u.note("%s: %s of %d float32", path, plural(len(ids), "row"), l.model.Params.NVocab)
		if !c.IsSet("top") && !c.Bool("json") {
			return nil
		}
	} else if last, err = lastLogits(c, s, ids); err != nil {
		return err
	}
	if slices.ContainsFunc(last, func(x float32) bool { return !finite(float64(x)) }) { // which cannot be ranked
		return &infer.LogitsError{Path: l.file.Path, Where: "the last id"}
	}
	return printTop(c, u, topTokens(last, c.Int("top"), pieces(l)))
}

// lastLogits are those that follow the last id.
func lastLogits(c *cli.Context, s *infer.Session, ids []int32) (last []float32, err error) {
	for piece := range slices.Chunk(ids, infer.DefaultBatch) { // so that many ids can be interrupted
		if err := c.Context.Err(); err != nil {
			return nil, err
		}
		if last, err = s.Append(piece); err != nil {
			return nil, err
		}
	}
	return last, nil
}

// parseIDs reads "1,2,3".
func parseIDs(text string) ([]int32, error) {
	var ids []int32
	for field := range strings.SplitSeq(text, ",") {
		id, err := strconv.ParseInt(strings.TrimSpace(field), 10, 32)
		if err != nil || id < 0 {
			return nil, usagef("write --ids 1,2,3", "%q is no token id", field)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// checkIDs holds the ids of --ids against the size of the vocabulary.
func checkIDs(ids []int32, vocab int) error {
	for _, id := range ids {
		if int(id) >= vocab {
			return usagef(fmt.Sprintf("the vocabulary has %s, 0 to %d", plural(vocab, "token"), vocab-1), "--ids: no token has the id %d", id)
		}
	}
	return nil
}

// writeLogits stores every row that produce emits.
func writeLogits(path, input string, produce func(emit func(int, []float32) error) error) error {
	return writeFile(path, func(out *atomicfile.File) error {
		w := bufio.NewWriterSize(out, 1<<16)
		if err := produce(func(_ int, row []float32) error { return writeFloats(w, row) }); err != nil {
			return err
		}
		return w.Flush()
	}, input)
}

func writeFloats(w io.Writer, row []float32) error {
	return binary.Write(w, binary.LittleEndian, row)
}

// topToken is one likely continuation.
type topToken struct {
	ID          int32   `json:"id"`
	Text        string  `json:"text"`
	Logit       float32 `json:"logit"`
	Probability float64 `json:"probability"`
}

// topTokens are the n largest of a row of logits, the lower id first on a tie.
func topTokens(row []float32, n int, piece func(id int32) string) []topToken {
	order := make([]int32, len(row))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(row[b], row[a]) })
	var sum float64
	for _, x := range row {
		sum += math.Exp(float64(x) - float64(row[order[0]]))
	}
	top := make([]topToken, 0, min(n, len(order)))
	for _, id := range order[:min(n, len(order))] {
		p := math.Exp(float64(row[id])-float64(row[order[0]])) / sum
		top = append(top, topToken{ID: id, Text: piece(id), Logit: row[id], Probability: p})
	}
	return top
}

// pieces gives the text of tokens, "" where the file has no usable tokenizer.
func pieces(l *loaded) func(id int32) string {
	var tok *tokenizer.Tokenizer
	if v, err := tokenizer.VocabOf(l.file.Meta); err == nil {
		tok, _ = tokenizer.New(v)
	}
	return func(id int32) string {
		if tok == nil {
			return ""
		}
		piece, _ := tok.Piece(id, true)
		return string(piece)
	}
}

func printTop(c *cli.Context, u *ui, top []topToken) error {
	if c.Bool("json") {
		return u.json(struct {
			Top []topToken `json:"top"`
		}{top})
	}
	rows := make([][]string, len(top))
	for i, t := range top {
		rows[i] = []string{strconv.Itoa(int(t.ID)), strconv.Quote(t.Text), fmt.Sprintf("%.4f", t.Logit), fmt.Sprintf("%.4f", t.Probability)}
	}
	return u.table([]string{"id", "text", "logit", "probability"}, rows, "id", "logit", "probability")
}
