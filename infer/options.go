package infer

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// Precision of the arithmetic.
type Precision int

// Precisions: Fast quantizes the activations that meet quantized weights to 8 bits and caches keys and values in 16 or 8; it gives the same bits
// for any number of threads. Exact keeps float32 throughout and gives the same bits for any number of threads and any split of a batch.
const (
	Fast Precision = iota
	Exact
)

// Options of loading a model.
type Options struct {
	Precision Precision
	Threads   int // 0: the cores this process may use
	Context   int // most positions of one sequence; 0: as trained
	Batch     int // most tokens computed at once; 0: 512
	Cache     CacheType
	Rope      RopeOptions
	Trace     *Trace // watches all operations; nil: none, at no cost
	Tap       *Tap   // shows all operations as they are done; nil: none

	system *system // nil: the one that runs the process
}

// DefaultBatch is Options.Batch where it is 0.
const DefaultBatch = 512

// machine is the system that the model runs on.
func (o *Options) machine() system {
	if o.system != nil {
		return *o.system
	}
	return system{os.DirFS("/")}
}

// check fails for options that no model can be loaded with.
func (o *Options) check() error {
	if o.Threads < 0 || o.Context < 0 || o.Context > arch.MaxContext || o.Batch < 0 {
		return fmt.Errorf("options out of range: %d threads, context %d, batch %d", o.Threads, o.Context, o.Batch)
	}
	if o.Cache != CacheDefault && o.Precision == Exact {
		return errors.New("exact precision keeps keys and values in F32, another type of the cache is not exact\nhint: leave the type of the cache out, or use fast precision")
	}
	return nil
}

// CacheType is the type of the keys and values that sequences keep.
type CacheType int

// Cache types. By default it is F16 in fast precision and F32 in exact, which has no other. Q8_0 takes about half the memory of F16.
const (
	CacheDefault CacheType = iota
	CacheF16
	CacheQ8_0
)

// ParseCacheType reads the name of a cache type, f16 or q8_0 in any case.
func ParseCacheType(name string) (CacheType, error) {
	switch strings.ToLower(name) {
	case "f16":
		return CacheF16, nil
	case "q8_0":
		return CacheQ8_0, nil
	}
	return CacheDefault, fmt.Errorf("a cache of type %q is not supported\nhint: it can be f16 or q8_0", name)
}

// cacheType is the type of keys and values in the caches of a model.
func (o *Options) cacheType() gguf.Type {
	switch {
	case o.Precision == Exact:
		return gguf.F32
	case o.Cache == CacheQ8_0:
		return gguf.Q8_0
	}
	return gguf.F16
}

// checkCache fails where heads do not consist of whole blocks of the cache's type.
func checkCache(p *arch.Params, t gguf.Type) error {
	for _, h := range []struct {
		what  string
		width int
	}{{"keys", p.HeadK}, {"values", p.HeadV}} {
		if _, err := t.RowBytes(uint64(h.width)); err != nil {
			info, _ := t.Info()
			return fmt.Errorf("%s of %d elements cannot be kept as %s, which has blocks of %d\nhint: choose a cache of f16", h.what, h.width, t, info.Block)
		}
	}
	return nil
}

// RopeOptions take the place of what a file says about its rotary embedding. Zero fields leave it as it is. Windowed blocks with frequencies
// of their own keep them.
type RopeOptions struct {
	FreqBase float64
	Scale    float64 // the context becomes this many times as long: the factor of linear and yarn scaling
	Scaling  string  // "none", "linear" or "yarn"; with a Scale and none in the file it is linear

	// Of yarn alone. ExtFactor is the share in which fast pairs keep their frequency, 1 by default and 0 for none: then it is linear scaling.
	// AttnFactor multiplies the magnitude.
	YarnOrigCtx                int // context of the training before it was extended
	YarnExtFactor              *float64
	YarnAttnFactor             float64
	YarnBetaFast, YarnBetaSlow float64
}

// rotary is what the angles of a rotary embedding follow from.
type rotary struct {
	arch.Rope
	extFactor float64 // see RopeOptions
}

// apply gives the rotary embedding of a model with the options, whose family rotates in the given way ("none": it does not).
func (o *RopeOptions) apply(r arch.Rope, family, kind string) (rotary, error) {
	out := rotary{Rope: r, extFactor: 1}
	if *o == (RopeOptions{}) {
		return out, nil
	}
	if err := o.Check(); err != nil {
		return out, err
	}
	if kind == "none" {
		return out, fmt.Errorf("a %s model has no rotary embedding that could be changed\nhint: leave the rope options out", family)
	}
	out.FreqBase = cmp.Or(o.FreqBase, r.FreqBase)
	if o.Scaling == "" && o.Scale == 0 && !o.yarn() {
		return out, nil
	}
	switch r.Scaling {
	case "", "linear", "yarn":
	default:
		return out, fmt.Errorf("the model's rope scaling is %s, which has no other factor\nhint: only the base frequency of such a model can be changed", r.Scaling)
	}
	switch {
	case o.Scaling != "":
		out.Scaling = o.Scaling
	case r.Scaling == "":
		out.Scaling = "linear"
	}
	out.Factor = cmp.Or(o.Scale, r.Factor)
	if out.Scaling != "yarn" && o.yarn() {
		return out, fmt.Errorf("yarn options with rope scaling %s\nhint: choose rope scaling yarn", out.Scaling)
	}
	switch out.Scaling {
	case "none":
		if o.Scale != 0 {
			return out, errors.New("a rope scale together with rope scaling none\nhint: leave one of them out")
		}
		out.Scaling, out.Factor = "", 1
	case "yarn":
		out.OrigCtx = cmp.Or(o.YarnOrigCtx, r.OrigCtx)
		out.AttnFactor = r.AttnFactor * cmp.Or(o.YarnAttnFactor, 1)
		out.BetaFast, out.BetaSlow = cmp.Or(o.YarnBetaFast, r.BetaFast), cmp.Or(o.YarnBetaSlow, r.BetaSlow)
		if o.YarnExtFactor != nil {
			out.extFactor = *o.YarnExtFactor
		}
	}
	return out, nil
}

// yarn reports whether an option is set that yarn alone has.
func (o *RopeOptions) yarn() bool {
	return o.YarnOrigCtx != 0 || o.YarnExtFactor != nil || o.YarnAttnFactor != 0 || o.YarnBetaFast != 0 || o.YarnBetaSlow != 0
}

// Bounds of rope options: far beyond what any model was trained for, and near enough for angles that are numbers and keys that F16 holds.
const (
	leastRope, mostRope = 1e-12, 1e12
	mostMagnitude       = 1e3
)

// Check fails for options that mean nothing for any model.
func (o *RopeOptions) Check() error {
	for _, v := range []struct {
		what        string
		value, most float64
	}{
		{"base frequency", o.FreqBase, mostRope}, {"scale", o.Scale, mostRope}, {"attention factor of yarn", o.YarnAttnFactor, mostMagnitude},
		{"fast beta of yarn", o.YarnBetaFast, mostRope}, {"slow beta of yarn", o.YarnBetaSlow, mostRope},
		{"first context of yarn", float64(o.YarnOrigCtx), arch.MaxContext},
	} {
		if v.value != 0 && !(v.value >= leastRope && v.value <= v.most) {
			return fmt.Errorf("rope: the %s is %g, expected %g to %g", v.what, v.value, leastRope, v.most)
		}
	}
	if f := o.YarnExtFactor; f != nil && !(*f >= 0 && *f <= 1) {
		return fmt.Errorf("rope: the extrapolation factor of yarn is %g, expected 0 to 1", *f)
	}
	switch o.Scaling {
	case "", "none", "linear", "yarn":
		return nil
	}
	return fmt.Errorf("rope scaling %q is not supported\nhint: it can be none, linear or yarn", o.Scaling)
}
