package convert

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/convert/checkpoint"
)

// target is one tensor of the output that an architecture asks for: a rule, in a block if it has them.
type target struct {
	rule  *arch.Tensor
	block int // -1 outside blocks
	name  string
	found []*checkpoint.Tensor // more than one is an error
}

// matching pairs the tensors of a checkpoint with the targets of an architecture. Every source tensor is used once, dropped for a declared
// reason, or stands in unused.
type matching struct {
	targets  []*target            // in the order of the rules, block by block
	bySource map[string]*target   // by the source name that the rule declares
	order    []*target            // found ones in the order of their sources in the checkpoint
	unused   []*checkpoint.Tensor // sources that fit no rule
	dropped  map[string]int       // reason -> how many sources
}

// match pairs names; shapes are checked later.
func match(s *arch.Spec, blocks int, sources []checkpoint.Tensor) (*matching, error) {
	m := &matching{bySource: map[string]*target{}, dropped: map[string]int{}}
	m.expect(s, blocks)
	type drop struct {
		*regexp.Regexp
		reason string
	}
	var drops []drop
	for _, d := range s.Drop {
		re, err := regexp.Compile("^(?:" + d.Pattern + ")$")
		if err != nil {
			return nil, fmt.Errorf("architecture %s: %w", s.Name, err)
		}
		drops = append(drops, drop{re, d.Reason})
	}
next:
	for i := range sources {
		src := &sources[i]
		if t := m.find(s, src.Name); t != nil {
			if t.found = append(t.found, src); len(t.found) == 1 {
				m.order = append(m.order, t)
			}
			continue
		}
		for _, d := range drops {
			if d.MatchString(src.Name) {
				m.dropped[d.reason]++
				continue next
			}
		}
		m.unused = append(m.unused, src)
	}
	return m, nil
}

// expect lists all targets.
func (m *matching) expect(s *arch.Spec, blocks int) {
	for i := range s.Tensors {
		rule := &s.Tensors[i]
		lo, hi := -1, 0
		if strings.Contains(rule.Name, "%d") {
			lo, hi = 0, blocks
		}
		for block := lo; block < hi; block++ {
			t := &target{rule: rule, block: block, name: inBlock(rule.Name, block)}
			m.targets = append(m.targets, t)
			for _, hf := range rule.HF {
				m.bySource[inBlock(hf, block)] = t
			}
		}
	}
}

// inBlock puts a block number into a name.
func inBlock(name string, block int) string {
	return strings.Replace(name, "%d", fmt.Sprint(block), 1)
}

// find looks a source name up as it stands, then with what a class of several modalities puts before it taken away.
func (m *matching) find(s *arch.Spec, name string) *target {
	if t := m.findPrefixed(s.Prefix, name); t != nil {
		return t
	}
	for _, w := range s.Wrappers {
		if rest, ok := strings.CutPrefix(name, w); ok {
			if t := m.findPrefixed(s.Prefix, rest); t != nil {
				return t
			}
		}
	}
	return nil
}

// findPrefixed looks a source name up as it stands, then with the model's prefix added, then with it taken away.
func (m *matching) findPrefixed(prefix, name string) *target {
	if t := m.bySource[name]; t != nil || prefix == "" {
		return t
	}
	if t := m.bySource[prefix+name]; t != nil {
		return t
	}
	if rest, ok := strings.CutPrefix(name, prefix); ok {
		return m.bySource[rest]
	}
	return nil
}

// target finds a target by its GGUF name.
func (m *matching) target(name string) *target {
	for _, t := range m.targets {
		if t.name == name {
			return t
		}
	}
	return nil
}

// resolveTied settles tensors that repeat another: with tie_word_embeddings a copy in the checkpoint is left out if it is equal
// to what it is tied to, and refused if not, since then one of the two is meant and the file does not say which.
func (m *matching) resolveTied(s *arch.Spec, cfg *config, ckpt *checkpoint.Checkpoint) (details []string, err error) {
	tied, err := cfg.tied(s)
	if err != nil {
		return nil, err
	}
	for _, t := range m.targets {
		if t.rule.Tied == "" || !tied {
			continue
		}
		to := m.target(t.rule.Tied)
		if len(t.found) != 1 || len(to.found) != 1 {
			if len(t.found) == 0 {
				details = append(details, fmt.Sprintf("%s is tied to %s and not written", t.name, to.name))
			}
			continue
		}
		own, other := t.found[0], to.found[0]
		same, err := equalTensors(ckpt, own, other)
		if err != nil {
			return nil, err
		}
		if !same {
			return nil, fmt.Errorf("%s: tie_word_embeddings is true, but %s %s in %s differs from %s %s in %s\n"+
				"hint: set tie_word_embeddings to false to keep both, or remove %s to use the embeddings for the output",
				cfg.file, own.Name, describe(own), own.File, other.Name, describe(other), other.File, own.Name)
		}
		details = append(details, fmt.Sprintf("%s equals %s, to which it is tied, and is not written", own.Name, other.Name))
		t.found = nil
		m.order = slices.DeleteFunc(m.order, func(o *target) bool { return o == t })
	}
	return details, nil
}

// tied says whether the output matrix repeats the embeddings.
func (c *config) tied(s *arch.Spec) (bool, error) {
	tied, ok, err := c.bool("tie_word_embeddings")
	if !ok {
		return s.Tied, err
	}
	return tied, err
}

// equalTensors compares stored bytes.
func equalTensors(c *checkpoint.Checkpoint, a, b *checkpoint.Tensor) (bool, error) {
	if a.DType != b.DType || describe(a) != describe(b) {
		return false, nil
	}
	x, err := c.ReadRaw(a, 0, a.Rows())
	if err != nil {
		return false, err
	}
	y, err := c.ReadRaw(b, 0, b.Rows())
	if err != nil {
		return false, err
	}
	return bytes.Equal(x, y), nil
}

// checkFlags holds optional tensors against the settings that declare them.
func (m *matching) checkFlags(cfg *config) (notes []string, missing []*target, err error) {
	undeclared := map[string]int{}
	var flags []string
	for _, t := range m.targets {
		flag := t.rule.Flag
		if flag == "" {
			continue
		}
		declared, given, err := cfg.bool(flag)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case declared && len(t.found) == 0:
			missing = append(missing, t)
		case !declared && given && len(t.found) > 0:
			return nil, nil, fmt.Errorf("%s: %s is false, but the checkpoint holds %s in %s\n"+
				"hint: set %s to true if the tensor belongs to the model", cfg.file, flag, t.found[0].Name, t.found[0].File, flag)
		case !declared && len(t.found) > 0:
			if undeclared[flag]++; undeclared[flag] == 1 {
				flags = append(flags, flag)
			}
		}
	}
	for _, flag := range flags {
		notes = append(notes, fmt.Sprintf("%d tensors that %s declares are used though config.json does not set it", undeclared[flag], flag))
	}
	return notes, missing, nil
}

// missing lists the targets that must be there and are not. flagged ones are required by a setting.
func (m *matching) missing(s *arch.Spec, cfg *config, flagged []*target) ([]*target, error) {
	tied, err := cfg.tied(s)
	if err != nil {
		return nil, err
	}
	var list []*target
	for _, t := range m.targets {
		optional := t.rule.Optional && (t.rule.Tied == "" || tied)
		if len(t.found) == 0 && !optional {
			list = append(list, t)
		}
	}
	return append(list, flagged...), nil
}

// faults collects what keeps a checkpoint from fitting its architecture.
type faults struct{ lines []string }

// maxFaults is how many faults are listed; the rest is counted.
const maxFaults = 200

func (f *faults) add(format string, args ...any) {
	f.lines = append(f.lines, fmt.Sprintf(format, args...))
}

// err is one error with a line for each fault, or nil.
func (f *faults) err(s *arch.Spec) error {
	if len(f.lines) == 0 {
		return nil
	}
	listed := f.lines[:min(maxFaults, len(f.lines))]
	text := fmt.Sprintf("the tensors do not fit architecture %s:\n  %s", s.Name, strings.Join(listed, "\n  "))
	if more := len(f.lines) - len(listed); more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return errors.New(text + "\nhint: check that the folder is complete and that config.json belongs to these weights")
}

// describe is a source tensor's type and shape, rows first.
func describe(t *checkpoint.Tensor) string {
	return fmt.Sprintf("%s %s", t.DType, dims(t.Shape))
}

// dims writes a shape as "[256 64]".
func dims(shape []uint64) string {
	return fmt.Sprint(shape)
}
