package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer"
	"github.com/ggufkit/ggufkit/infer/sample"
	"github.com/ggufkit/ggufkit/internal/cpu"
	"github.com/ggufkit/ggufkit/internal/mmap"
	"github.com/ggufkit/ggufkit/tokenizer"
	"github.com/urfave/cli/v2"
)

// ropeCategory is where --help has the flags that few people need.
const ropeCategory = "ROTARY EMBEDDING:"

// modelFlags are those of every command that loads a model.
func modelFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "the GGUF `FILE` to load", Required: true, TakesFile: true},
		&cli.StringFlag{Name: "precision", Value: "fast", Usage: "`P` is exact (float32 throughout) or fast (activations in 8 bits)"},
		&cli.IntFlag{Name: "batch", Aliases: []string{"b", "batch-size"}, Usage: "compute at most `N` tokens at once (0: 512)"},
		threadsFlag(),
		&cli.StringFlag{Name: "cache-type", Aliases: []string{"ctk", "ctv", "cache-type-k", "cache-type-v"}, Usage: "keep keys and values as `TYPE`: f16 or q8_0, half the memory (default: f16; exact precision has f32)"},
		&cli.Float64Flag{Name: "rope-freq-base", Category: ropeCategory, Usage: "rotate with base frequency `F` (0: as the file says, like all rope and yarn flags)"},
		&cli.Float64Flag{Name: "rope-scale", Category: ropeCategory, Usage: "make the context `X` times as long by rope scaling"},
		&cli.Float64Flag{Name: "rope-freq-scale", Category: ropeCategory, Usage: "the same as --rope-scale 1/`X`"},
		&cli.StringFlag{Name: "rope-scaling", Category: ropeCategory, Usage: "scale the rotary embedding by `KIND`: none, linear or yarn"},
		&cli.IntFlag{Name: "yarn-orig-ctx", Category: ropeCategory, Usage: "yarn: the model was first trained for a context of `N` tokens"},
		&cli.Float64Flag{Name: "yarn-ext-factor", Category: ropeCategory, Usage: "yarn: the share `X` in which fast pairs keep their frequency, 0 to 1"},
		&cli.Float64Flag{Name: "yarn-attn-factor", Category: ropeCategory, Usage: "yarn: multiply the magnitude by `X`"},
		&cli.Float64Flag{Name: "yarn-beta-fast", Category: ropeCategory, Usage: "yarn: pairs that turn at least `X` times within the first context keep their frequency"},
		&cli.Float64Flag{Name: "yarn-beta-slow", Category: ropeCategory, Usage: "yarn: pairs that turn at most `X` times within the first context are scaled in full"},
	}
}

// modelOptions reads modelFlags, but for the model and its precision. context is the longest sequence, 0 as trained.
func modelOptions(c *cli.Context, precision string, context int) (infer.Options, error) {
	o := infer.Options{Threads: c.Int("threads"), Batch: c.Int("batch"), Context: context}
	switch precision {
	case "fast":
		o.Precision = infer.Fast
	case "exact":
		o.Precision = infer.Exact
	default:
		return o, usagef("the precisions are exact and fast", "no precision is called %q", precision)
	}
	o.Trace = newTrace(c)
	if name := c.String("cache-type"); name != "" {
		var err error
		if o.Cache, err = infer.ParseCacheType(name); err != nil {
			return o, usageOf(err)
		}
	}
	o.Rope = infer.RopeOptions{
		FreqBase: c.Float64("rope-freq-base"), Scale: c.Float64("rope-scale"), Scaling: c.String("rope-scaling"),
		YarnOrigCtx: c.Int("yarn-orig-ctx"), YarnAttnFactor: c.Float64("yarn-attn-factor"),
		YarnBetaFast: c.Float64("yarn-beta-fast"), YarnBetaSlow: c.Float64("yarn-beta-slow"),
	}
	if f := c.Float64("rope-freq-scale"); f != 0 {
		if o.Rope.Scale != 0 {
			return o, usagef("give one of them", "--rope-freq-scale and --rope-scale say the same")
		}
		if o.Rope.Scale = 1 / f; o.Rope.Scale == 0 {
			return o, usagef("0.5 doubles the context", "--rope-freq-scale %v: expected a finite number", f)
		}
	}
	if c.IsSet("yarn-ext-factor") {
		f := c.Float64("yarn-ext-factor")
		o.Rope.YarnExtFactor = &f
	}
	if err := o.Rope.Check(); err != nil {
		return o, usageOf(err)
	}
	return o, nil
}

// usageOf makes wrong usage of an error that carries its hint on a line of its own.
func usageOf(err error) error {
	text, hint, _ := strings.Cut(err.Error(), "\nhint: ")
	return usagef(hint, "%s", text)
}

// contextFlag is separate, since logits takes what its ids need.
func contextFlag(usage string) cli.Flag {
	return &cli.IntFlag{Name: "context", Aliases: []string{"c", "ctx-size"}, Usage: usage}
}

// loaded is an open model file and what was made of it.
type loaded struct {
	file  *gguf.File
	model *infer.Model
	trace *infer.Trace // that --trace asks for, or nil
}

// loadModel opens the file that --model names and binds its weights. context is the longest sequence, 0 as trained.
func loadModel(c *cli.Context, u *ui, context int) (*loaded, error) {
	return openModel(c, u, c.String("model"), c.String("precision"), context)
}

// openModel is loadModel for any file and precision.
func openModel(c *cli.Context, u *ui, path, precision string, context int) (*loaded, error) {
	o, err := modelOptions(c, precision, context)
	if err != nil {
		return nil, err
	}
	if _, err := cpu.Choose(); err != nil {
		u.note("warning: %v", err)
	}
	f, err := gguf.OpenModel(path)
	if err != nil {
		return nil, err
	}
	m, err := infer.Load(f, f.Meta, o)
	if err != nil {
		return nil, errors.Join(inFile(f.Path, err), f.Close())
	}
	if trained := m.Params.NCtxTrain; context > trained && trained > 0 {
		u.note("warning: the model was trained for a context of %d tokens, not %d", trained, context)
	}
	return &loaded{file: f, model: m, trace: o.Trace}, nil
}

func (l *loaded) close() {
	l.model.Close()
	l.file.Close()
}

// openTokenizer prepares the tokenizer of an open file, and tells what is odd about it.
func openTokenizer(u *ui, f *gguf.File) (*tokenizer.Tokenizer, error) {
	v, err := tokenizer.VocabOf(f.Meta)
	if err != nil {
		return nil, inFile(f.Path, err)
	}
	for _, n := range v.Notes {
		u.note("note: %s", n)
	}
	t, err := tokenizer.New(v)
	if err != nil {
		return nil, inFile(f.Path, err)
	}
	return t, nil
}

// inFile names the file in an error that does not do so itself, nor names another.
func inFile(path string, err error) error {
	var fault *mmap.FaultError
	var logits *infer.LogitsError
	if strings.Contains(err.Error(), path+": ") || errors.As(err, &fault) || errors.As(err, &logits) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// sampleFlags choose how the next token is drawn. The defaults are llama.cpp's.
func sampleFlags() []cli.Flag {
	return []cli.Flag{
		&cli.Float64Flag{Name: "temp", Category: "SAMPLING:", Aliases: []string{"temperature"}, Value: 0.8, Usage: "divide the logits by `T`; 0: always the most likely token"},
		&cli.IntFlag{Name: "top-k", Category: "SAMPLING:", Value: 40, Usage: "draw from the `K` most likely tokens (0: all)"},
		&cli.Float64Flag{Name: "top-p", Category: "SAMPLING:", Value: 0.95, Usage: "draw from the most likely tokens that together have probability `P` (1: all)"},
		&cli.Float64Flag{Name: "min-p", Category: "SAMPLING:", Value: 0.05, Usage: "draw from tokens at least `P` times as likely as the first (0: all)"},
		&cli.Float64Flag{Name: "repeat-penalty", Category: "SAMPLING:", Value: 1, Usage: "make tokens of the last --repeat-last-n less likely: logits above 0 are divided by `X`, others multiplied (1: off)"},
		&cli.IntFlag{Name: "repeat-last-n", Category: "SAMPLING:", Value: 64, Usage: "look back `N` tokens of prompt and text for the repeat penalty (0: off, -1: all)"},
		&cli.Float64Flag{Name: "presence-penalty", Category: "SAMPLING:", Usage: "take `X` off the logits of tokens that the text has already"},
		&cli.Float64Flag{Name: "frequency-penalty", Category: "SAMPLING:", Usage: "take `X` off the logits of tokens for each time that the text has them already"},
		&cli.BoolFlag{Name: "ignore-eos", Category: "SAMPLING:", Usage: "never let the model end the text"},
		&cli.Int64Flag{Name: "seed", Category: "SAMPLING:", Aliases: []string{"s"}, Value: -1, Usage: "the same `SEED` gives the same text (-1: another one every time)"},
	}
}

// samplerOptions reads sampleFlags; seed replaces a negative --seed.
func samplerOptions(c *cli.Context, seed uint64) sample.Options {
	if s := c.Int64("seed"); s >= 0 {
		seed = uint64(s)
	}
	return sample.Options{
		Temperature:   float32(c.Float64("temp")),
		TopK:          c.Int("top-k"),
		TopP:          float32(c.Float64("top-p")),
		MinP:          float32(c.Float64("min-p")),
		RepeatPenalty: float32(c.Float64("repeat-penalty")),
		RepeatLastN:   c.Int("repeat-last-n"),

		PresencePenalty:  float32(c.Float64("presence-penalty")),
		FrequencyPenalty: float32(c.Float64("frequency-penalty")),
		Seed:             seed,
	}
}
