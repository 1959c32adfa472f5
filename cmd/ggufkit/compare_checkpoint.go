package main

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/convert"
	"github.com/ggufkit/ggufkit/convert/checkpoint"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer/eval"
	"github.com/urfave/cli/v2"
)

// proofTokens is how many tokens of a text a proof runs by default: enough for positions to matter.
const proofTokens = 128

// fewTokens is the number under which the logits of a proof say little about texts.
const fewTokens = 64

// proofRows is how many rows of a table are printed for people.
const proofRows = 8

// checkpointFlags are those of a proof against a checkpoint.
func checkpointFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "checkpoint", Usage: "compare with the checkpoint in `DIR` that the file was made from, operation by operation", TakesFile: true},
		&cli.StringFlag{Name: "ids", Usage: "with --checkpoint: run these token `IDS`, separated by commas, in place of a text"},
		&cli.BoolFlag{Name: "layers", Usage: "with --checkpoint: print all operations and tensors, not only the worst"},
		&cli.StringFlag{Name: "logits", Usage: "with --checkpoint: compare with logits of transformers too, raw little-endian float32 in `F`, a row for each id", TakesFile: true},
	}
}

// checkpointHelp describes the proof.
const checkpointHelp = `With --checkpoint DIR the file is proven against the checkpoint that it was made from. Both run the same tokens in exact precision, the checkpoint
from its safetensors; every operation is compared on its own (on the checkpoint's activations) and accumulated, and so are the weights of all
tensors. The checkpoint's values in the file's types, quantized again, tell what the types explain. Whatever is beyond twice that
(of an operation, a tensor or 32 elements of a row; 12 times of those where an importance matrix was used) is named with its block, operation and
tensor, and the exit status is 3.
It takes three passes of 128 tokens (-c: another number; --ids: these) in float32, quantizes the checkpoint once, and maps both files;
the memory of its own is for tensors that conversion reorders: q and k of the llama family, all matrices of gpt2.`

// compareCheckpoint is compare --checkpoint.
func compareCheckpoint(c *cli.Context, u *ui) error {
	if err := checkProof(c); err != nil {
		return err
	}
	path := c.String("model")
	f, err := gguf.OpenModel(path)
	if err != nil {
		return err
	}
	defer f.Close()
	ids, err := proofIDs(c, u, f)
	if err != nil {
		return err
	}
	ckpt, err := checkpoint.Open(c.String("checkpoint"))
	if err != nil {
		return err
	}
	defer ckpt.Close()
	// Words are not compared: a pre-tokenizer that the file names is not looked for again.
	plan, err := convert.NewPlan(ckpt, convert.Options{Type: "auto", Threads: c.Int("threads")})
	if pre, none := f.Meta.Str("tokenizer.ggml.pre"); err != nil && none == nil {
		var again error
		if plan, again = convert.NewPlan(ckpt, convert.Options{Type: "auto", Pre: pre, Threads: c.Int("threads")}); again == nil {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	o := eval.ProofOptions{Threads: c.Int("threads")}
	if logits := c.String("logits"); logits != "" {
		if o.Recorded, err = readLogits(logits, f, len(ids)); err != nil {
			return err
		}
	}
	bar := map[string]*progress{}
	o.Progress = func(stage string, done, total uint64) {
		if bar[stage] == nil {
			bar[stage] = u.progress(stage)
		}
		bar[stage].set(done, total)
	}
	proof, err := eval.Prove(c.Context, f, plan, ids, o)
	for _, b := range bar {
		b.finish()
	}
	if err != nil {
		return inFile(path, err)
	}
	if err := printProof(c, u, proof); err != nil {
		return err
	}
	if !proof.Good {
		first := &proof.Findings[0]
		return &verdictError{fmt.Errorf("%s does not hold what the checkpoint has: %s: %s", path, first.Place(), first.Why)}
	}
	return nil
}

// forProof reports whether one of the flags of a proof is set.
func forProof(c *cli.Context) bool {
	return slices.ContainsFunc(checkpointFlags(), func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) })
}

// checkProof refuses flags that a proof has no use for.
func checkProof(c *cli.Context) error {
	if !c.IsSet("checkpoint") {
		return usagef("name the checkpoint's folder by --checkpoint", "--ids, --layers and --logits are for a proof against a checkpoint")
	}
	if path := c.String("checkpoint"); gguf.IsFileName(path) {
		return usagef(strings.TrimSpace(didYouMean("--base "+path)), "--checkpoint %s: a GGUF file, not the folder of a checkpoint", path)
	}
	refused := []string{"base", "base-precision", "base-file", "save-base", "chunks"}
	for _, f := range modelFlags() {
		if name := f.Names()[0]; name != "model" && name != "precision" && name != "threads" {
			refused = append(refused, name)
		}
	}
	for _, name := range refused {
		if c.IsSet(name) {
			return usagef("leave one of them out", "--checkpoint and --%s do not go together", name)
		}
	}
	switch {
	case c.IsSet("ids") == c.IsSet("file"):
		return usagef("give the tokens to run by one of them", "--checkpoint needs -f TEXT or --ids 1,2,3")
	case c.IsSet("precision") && c.String("precision") != "exact":
		return usagef("leave --precision out", "a proof runs in exact precision")
	}
	return nil
}

// proofIDs are the tokens to run.
func proofIDs(c *cli.Context, u *ui, f *gguf.File) ([]int32, error) {
	if text := c.String("ids"); text != "" {
		ids, err := parseIDs(text)
		if embedding, ok := f.Tensor("token_embd.weight"); ok && err == nil {
			err = checkIDs(ids, int(embedding.Rows()))
		}
		return ids, err
	}
	tok, err := openTokenizer(u, f)
	if err != nil {
		return nil, err
	}
	text, err := measuredText(c, u)
	if err != nil {
		return nil, err
	}
	ids, err := text.ids(tok)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s holds no tokens", text.name)
	}
	return ids[:min(len(ids), cmp.Or(c.Int("context"), proofTokens))], nil
}

// readLogits reads raw little-endian float32, a row for each of n tokens of the file's vocabulary. What has more than these is not read on; what has
// fewer is refused by the proof.
func readLogits(path string, f *gguf.File, n int) ([]float32, error) {
	most := uint64(maxText)
	if t, ok := f.Tensor("token_embd.weight"); ok {
		most = 4 * uint64(n) * t.Rows()
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, unread(path, err)
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, int64(min(most, math.MaxInt64-1))+1))
	if err != nil {
		return nil, err
	}
	if uint64(len(data)) > most {
		return nil, fmt.Errorf("%s: more than the %d float32 values for %s", path, most/4, plural(n, "token"))
	}
	if len(data) == 0 || len(data)%4 != 0 {
		return nil, fmt.Errorf("%s: %d bytes are not whole float32 values\nhint: --logits takes raw little-endian float32, a row of the vocabulary's size for each token", path, len(data))
	}
	values := make([]float32, len(data)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return values, nil
}

// printProof prints the report.
func printProof(c *cli.Context, u *ui, p *eval.Proof) error {
	if c.Bool("json") {
		return u.json(p)
	}
	rows := proofRows
	if c.Bool("layers") {
		rows = math.MaxInt
	}
	if err := errors.Join(printTensorProofs(u, p.Tensors, rows), printOperationProofs(u, p.Operations, rows)); err != nil {
		return err
	}
	for _, s := range p.Settings {
		u.printf("setting %s (%s): %v, the checkpoint has %v\n", s.Name, strings.Join(s.Keys, ", "), s.File, s.Checkpoint)
	}
	u.printf("logits of %s against the checkpoint: %s\n", plural(p.Tokens, "token"), &p.Logits)
	if p.RecordedCheckpoint != nil {
		u.printf("recorded logits, checkpoint: %s\nrecorded logits, file: %s\n", p.RecordedCheckpoint, p.RecordedFile)
	}
	for i := range p.Findings {
		f := &p.Findings[i]
		if i == proofRows && !c.Bool("layers") {
			u.printf("... and %d more (--layers shows all)\n", len(p.Findings)-i)
			break
		}
		u.printf("found: %s: error %.3g, allowed %.3g: %s\n", visible(f.Place()), f.Error, f.Allowed, f.Why)
	}
	if p.Tokens < fewTokens {
		u.printf("%s: enough to judge weights and operations, not how good the model's text is (perplexity and compare --base measure that)\n", plural(p.Tokens, "token"))
	}
	if p.Good {
		u.printf("verdict: good: %s and %s hold and compute what the checkpoint has, as well as their types can\n", plural(len(p.Tensors), "tensor"), plural(len(p.Operations), "operation"))
		return nil
	}
	u.printf("verdict: not good: the error jumps first at %s\n", visible(p.Findings[0].Place()))
	return nil
}

// excess ranks an error by what is allowed of it.
func excess(err, allowed eval.Number) float64 {
	if x := float64(err) / (float64(allowed) + 1e-9); !math.IsNaN(x) {
		return x
	}
	return math.Inf(1)
}

func printTensorProofs(u *ui, all []eval.TensorProof, most int) error {
	if most < len(all) {
		all = slices.Clone(all)
		slices.SortStableFunc(all, func(a, b eval.TensorProof) int {
			return cmp.Or(cmp.Compare(excess(b.Error, b.Explained+1e-6), excess(a.Error, a.Explained+1e-6)), cmp.Compare(b.Outliers, a.Outliers))
		})
		u.printf("worst tensors of %d\n", len(all))
	} else {
		u.printf("tensors\n")
	}
	var rows [][]string
	for _, t := range all[:min(most, len(all))] {
		rows = append(rows, []string{t.Name, t.Type, fmt.Sprintf("%.3g", t.Error), fmt.Sprintf("%.3g", t.Explained), fmt.Sprintf("%.6f", t.Cosine), fmt.Sprint(t.Outliers)})
	}
	return u.table([]string{"tensor", "type", "error", "explained", "cosine", "outliers"}, rows, "error", "explained", "cosine", "outliers")
}

func printOperationProofs(u *ui, all []eval.OperationProof, most int) error {
	if most < len(all) {
		all = slices.Clone(all)
		slices.SortStableFunc(all, func(a, b eval.OperationProof) int {
			return cmp.Compare(excess(b.Local, b.Allowed), excess(a.Local, a.Allowed))
		})
		u.printf("\nworst operations of %d\n", len(all))
	} else {
		u.printf("\noperations\n")
	}
	var rows [][]string
	for _, o := range all[:min(most, len(all))] {
		block := ""
		if o.Layer >= 0 {
			block = fmt.Sprint(o.Layer)
		}
		rows = append(rows, []string{block, o.Operation, o.Type, fmt.Sprintf("%.3g", o.Local), fmt.Sprintf("%.3g", o.Explained), fmt.Sprintf("%.3g", o.Allowed), fmt.Sprintf("%.3g", o.Error), fmt.Sprintf("%.6f", o.Cosine)})
	}
	err := u.table([]string{"block", "operation", "type", "local error", "explained", "allowed", "accumulated", "cosine"}, rows, "block", "local error", "explained", "allowed", "accumulated", "cosine")
	u.printf("\n")
	return err
}
