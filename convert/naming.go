package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ggufkit/ggufkit/gguf"
)

// naming is what the name of a model says about it, by the convention of Hugging Face repositories: base name, version, size and fine-tune
// joined by hyphens ("SmolLM2-135M-Instruct"). Empty parts are unknown.
type naming struct {
	name, organization, basename, finetune, version, sizeLabel string
}

// modelID is the name of a checkpoint: its folder, or the repository whose hub cache the folder is
// (models--org--name/snapshots/revision).
func modelID(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	parent := filepath.Dir(abs)
	if filepath.Base(parent) == "snapshots" {
		if repo, ok := strings.CutPrefix(filepath.Base(filepath.Dir(parent)), "models--"); ok {
			return strings.Replace(repo, "--", "/", 1)
		}
	}
	return filepath.Base(abs)
}

// partKind is what a part of a model's name stands for.
type partKind int

const (
	unknownPart partKind = iota
	versionPart
	typePart
	sizePart
	finetunePart
)

var (
	versionPattern  = regexp.MustCompile(`(?i)^(v|iter)?\d+([.]\d+)*$`)
	typePattern     = regexp.MustCompile(`(?i)^(i?q\d(_\w)*|b?fp?(16|32))$`)
	sizePattern     = regexp.MustCompile(`(?i)^((a|\d+x)?\d+([._]\d+)?[kmbt]\d?|small|mini|medium|large|x?xl)$`)
	finetunePattern = regexp.MustCompile(`(?i)^(chat|instruct|vision|lora)$`)
	plainSize       = regexp.MustCompile(`^\d+(\.\d+)?[KMBT]$`)
	tailDigitSize   = regexp.MustCompile(`^(.*)([A-Za-z])(\d)$`)
)

// parseName takes a model id apart. params is the number of weights: a size far from it is rather a context length.
func parseName(id string, params uint64) naming {
	if strings.Contains(id, " ") {
		return naming{name: title(id)}
	}
	n := naming{name: id}
	if org, rest, ok := strings.Cut(id, "/"); ok {
		n.organization, n.name = title(org), rest
	}
	parts := strings.FieldsFunc(n.name, func(r rune) bool { return r == '-' })
	n.name = title(n.name)
	kinds := make([]partKind, len(parts))
	for i, part := range parts {
		switch {
		case versionPattern.MatchString(part):
			kinds[i] = versionPart
		case typePattern.MatchString(part):
			kinds[i], parts[i] = typePart, strings.ToUpper(part)
		case i > 0 && sizePattern.MatchString(part):
			kinds[i], parts[i] = sizeKind(part, params)
		case i > 0 && finetunePattern.MatchString(part):
			kinds[i] = finetunePart
		}
	}
	n.assign(parts, kinds)
	return n
}

// sizeKind reads a part that looks like a size ("135M", "7b1", "large"). One that differs from the model's size by
// more than seven eighths of it is a context length and so belongs to the fine-tune.
func sizeKind(part string, params uint64) (partKind, string) {
	part = strings.ReplaceAll(part, "_", ".")
	if m := tailDigitSize.FindStringSubmatch(part); m != nil { // "7b1" means 7.1b
		part = m[1] + "." + m[3] + m[2]
	}
	last := len(part) - 1
	if unicode.IsDigit(rune(part[last-1])) {
		part = part[:last] + strings.ToUpper(part[last:])
	}
	if !plainSize.MatchString(part) || params == 0 {
		return sizePart, part
	}
	var value float64
	if _, err := fmt.Sscan(part[:last], &value); err != nil {
		return sizePart, part
	}
	value *= math.Pow(1000, float64(strings.IndexByte(" KMBT", part[last])))
	if math.Abs(value-float64(params)) > math.Floor(7*float64(params)/8) {
		return finetunePart, part[:last] + strings.ToLower(part[last:])
	}
	return sizePart, part
}

// assign joins the parts: leading words and versions make the base name, less the versions that end the whole name; unknown parts
// after it belong to the fine-tune. Sizes in words count only if there is none in numbers.
func (n *naming) assign(parts []string, kinds []partKind) {
	const digits = "0123456789"
	numeric := false
	for i, part := range parts {
		numeric = numeric || kinds[i] == sizePart && strings.ContainsAny(part, digits)
	}
	for i, part := range parts {
		if kinds[i] == sizePart && numeric && !strings.ContainsAny(part, digits) {
			kinds[i] = unknownPart
		}
	}
	base := 0 // parts of the base name
	for base < len(parts) && (kinds[base] == versionPart || kinds[base] == unknownPart && startsWithLetter(parts[base])) {
		base++
	}
	if base == len(parts) {
		for base > 0 && kinds[base-1] == versionPart {
			base--
		}
	}
	var size, finetune, version []string
	for i, part := range parts[base:] {
		switch kinds[base+i] {
		case versionPart:
			version = append(version, part)
		case sizePart:
			if !slices.Contains(size, part) {
				size = append(size, part)
			}
		case finetunePart, unknownPart:
			finetune = append(finetune, part)
		}
	}
	n.sizeLabel, n.finetune, n.version = strings.Join(size, "-"), strings.Join(finetune, "-"), strings.Join(version, "-")
	if n.sizeLabel != "" || n.finetune != "" || n.version != "" { // else a single name says too little
		n.basename = strings.Join(parts[:base], "-")
	}
}

func startsWithLetter(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r)
}

// versionWord is a word that a title leaves as it is.
var versionWord = regexp.MustCompile(`^(v\d+(\.\d+)*|\d.*)$`)

// title writes an id as a title: hyphens become blanks and words in small letters get capitals, but for versions.
func title(id string) string {
	words := strings.Fields(strings.ReplaceAll(id, "-", " "))
	for i, word := range words {
		if word != strings.ToLower(word) || word == strings.ToUpper(word) || versionWord.MatchString(word) {
			continue
		}
		inWord := false
		words[i] = strings.Map(func(r rune) rune {
			start := !inWord
			inWord = unicode.IsLetter(r)
			if start {
				return unicode.ToTitle(r)
			}
			return r
		}, word)
	}
	return strings.Join(words, " ")
}

// sizeOf writes a number of weights with two digits ("1.2M", "997K").
func sizeOf(params uint64) string {
	value, suffix := float64(params)*1e-3, "K"
	for _, unit := range []struct {
		scale  float64
		suffix string
	}{{1e-12, "T"}, {1e-9, "B"}, {1e-6, "M"}} {
		if scaled := float64(params) * unit.scale; scaled > 1 {
			value, suffix = scaled, unit.suffix
			break
		}
	}
	whole := 0 // digits before the point
	if rounded := math.RoundToEven(value); rounded > 0 {
		whole = len(fmt.Sprintf("%.0f", rounded))
	}
	return fmt.Sprintf("%.*f%s", max(2-whole, 0), value, suffix)
}

// writeGeneral appends the keys that say what the model is called, what its card says and how its makers sample from it. params is its
// number of weights.
func writeGeneral(m *gguf.Meta, dir string, params uint64) (note string, err error) {
	m.Set("general.type", gguf.New("model"))
	if err := writeSampling(m, filepath.Join(dir, "generation_config.json")); err != nil {
		return "", err
	}
	c, note, err := readCard(dir)
	if err != nil {
		return "", err
	}
	n := parseName(modelID(dir), params)
	if n.sizeLabel == "" && params > 0 {
		n.sizeLabel = sizeOf(params)
	}
	writeNames(m, c, n)
	writeReferences(m, c, params)
	return note, nil
}

// samplingKeys maps settings of generation_config.json to keys under general.sampling.
var samplingKeys = []struct {
	config, key string
	typ         gguf.ValueType
}{
	{"top_k", "top_k", gguf.Int32}, {"top_p", "top_p", gguf.Float32}, {"min_p", "min_p", gguf.Float32},
	{"temperature", "temp", gguf.Float32}, {"repetition_penalty", "penalty_repeat", gguf.Float32},
}

// writeSampling appends the recommended sampler settings, if the checkpoint has a file with any.
func writeSampling(m *gguf.Meta, path string) error {
	c, err := readSettings(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, k := range samplingKeys {
		v, ok, err := c.value(k.typ, k.config)
		if err != nil {
			return err
		}
		if ok {
			m.Set("general.sampling."+k.key, v)
		}
	}
	return nil
}

// DefaultName is the name of the output by the convention for GGUF files, BaseName-SizeLabel-FineTune-Version-Type.gguf: "SmolLM2-135M-Instruct-Q4_K_M.gguf".
// A file without weights ends in "-vocab" instead of size and type.
func (p *Plan) DefaultName() string {
	of := func(key string) string {
		s, _ := p.Meta.Str("general." + key) // a key that --set made no text is not used
		return fileWord(s)
	}
	parts := []string{either(of("basename"), of("name"), "model")}
	if len(p.Tensors) > 0 {
		parts = append(parts, of("size_label"))
	}
	parts = append(parts, of("finetune"), of("version"))
	if len(p.Tensors) > 0 {
		parts = append(parts, p.label)
	} else {
		parts = append(parts, "vocab")
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "-") + ".gguf"
}

// fileWord makes a text fit for a part of a file's name.
func fileWord(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '/' || r == '\\' || r == ':' || r < ' ' {
			return '-'
		}
		return r
	}, strings.Trim(s, " ."))
}
