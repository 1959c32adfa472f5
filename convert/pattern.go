package convert

import (
	"fmt"
	"math"
	"slices"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/go-json-experiment/json"
)

// blockCount is the number of blocks that the metadata says so far.
func (p *planner) blockCount(m *gguf.Meta) (int, error) {
	n, err := m.Uint(p.keyName("block_count"))
	if err == nil && (n < 1 || n > arch.MaxBlocks) {
		err = fmt.Errorf("%s: %d blocks, expected 1 to %d", p.cfg.file, n, arch.MaxBlocks)
	}
	return int(n), err
}

// writeWindow appends the sliding window if some block would notice it: it is shorter than the trained context and not all blocks are global.
func (p *planner) writeWindow(m *gguf.Meta, k arch.Key) error {
	window, _, err := p.cfg.uint("sliding_window", 32)
	if err != nil || window == 0 {
		return err
	}
	context, err := m.Uint(p.keyName("context_length"))
	if err != nil {
		return err
	}
	windowed, err := p.windowed(m)
	if err != nil {
		return err
	}
	if window >= context || !slices.Contains(windowed, true) {
		return nil
	}
	p.note(fmt.Sprintf("%s is %d as in config.json; other programs know no such key for this architecture and let every token see all earlier ones",
		p.keyName(k.Name), window))
	m.Set(p.keyName(k.Name), gguf.New(uint32(window)))
	return nil
}

// writeWindowPattern appends which blocks are windowed if the file has a window and the pattern is not the family's.
func (p *planner) writeWindowPattern(m *gguf.Meta, k arch.Key) error {
	window, err := m.UintOr(p.keyName("attention.sliding_window"), 0)
	if err != nil || window == 0 {
		return err
	}
	windowed, err := p.windowed(m)
	if err != nil {
		return err
	}
	usual := every(len(windowed), p.spec.Block.Window.GlobalEvery)
	if slices.Equal(windowed, usual) {
		return nil
	}
	p.note(fmt.Sprintf("the windowed blocks are not those that %s models usually have; %s says which they are, and other programs may not read it",
		p.spec.Name, p.keyName(k.Name)))
	m.Set(p.keyName(k.Name), gguf.NewArray(windowed))
	return nil
}

// windowed says of each block whether it attends within the window: by layer_types, else by the settings that came before it, else as the
// family does.
func (p *planner) windowed(m *gguf.Meta) ([]bool, error) {
	blocks, err := p.blockCount(m)
	if err != nil {
		return nil, err
	}
	types, ok, err := list[string](p.cfg, "layer_types", "layer types", blocks)
	if err != nil {
		return nil, err
	}
	if ok {
		windowed := make([]bool, blocks)
		for il, t := range types {
			if t != "sliding_attention" && t != "full_attention" {
				return nil, fmt.Errorf("%s: layer_types: %q is unknown\nhint: known are full_attention and sliding_attention", p.cfg.file, t)
			}
			windowed[il] = t == "sliding_attention"
		}
		return windowed, nil
	}
	for _, name := range []string{"sliding_window_pattern", "_sliding_window_pattern"} {
		if n, ok, err := p.cfg.uint(name, 16); err != nil || ok {
			return every(blocks, int(n)), err
		}
	}
	if first, ok, err := p.cfg.uint("max_window_layers", 16); err != nil || ok {
		windowed := make([]bool, blocks)
		for il := range windowed {
			windowed[il] = uint64(il) >= first
		}
		return windowed, err
	}
	use, _, err := p.cfg.bool("use_sliding_window")
	if err != nil {
		return nil, err
	}
	if use {
		return nil, fmt.Errorf("%s: use_sliding_window says that there are windows, but not in which blocks\nhint: layer_types lists the kind of each block", p.cfg.file)
	}
	return every(blocks, p.spec.Block.Window.GlobalEvery), nil
}

// every is true for each block but every nth; with 0 for all.
func every(blocks, n int) []bool {
	pattern := make([]bool, blocks)
	for il := range pattern {
		pattern[il] = n == 0 || (il+1)%n != 0
	}
	return pattern
}

// writeRopePattern appends which blocks rotate if that is not as in the family.
func (p *planner) writeRopePattern(m *gguf.Meta, k arch.Key) error {
	blocks, err := p.blockCount(m)
	if err != nil {
		return err
	}
	usual := every(blocks, p.spec.Block.NoRopeEvery)
	rotates := usual
	if n, ok, err := p.cfg.uint("no_rope_layer_interval", 16); err != nil {
		return err
	} else if ok {
		rotates = every(blocks, int(n))
	}
	flags, ok, err := list[uint32](p.cfg, "no_rope_layers", "numbers", blocks) // 1 where a block rotates, in spite of the name
	if err != nil {
		return err
	}
	if ok {
		rotates = make([]bool, blocks)
		for il, f := range flags {
			rotates[il] = f != 0
		}
	}
	if slices.Equal(rotates, usual) {
		return nil
	}
	pattern := make([]uint32, blocks)
	for il, r := range rotates {
		if r {
			pattern[il] = 1
		}
	}
	p.note(fmt.Sprintf("the blocks that rotate are not those that %s models usually have; %s says which they are, and other programs may not read it",
		p.spec.Name, p.keyName(k.Name)))
	m.Set(p.keyName(k.Name), gguf.NewArray(pattern))
	return nil
}

// list reads a setting that has an entry for each block. An empty list is the same as none.
func list[T any](c *config, path, what string, blocks int) ([]T, bool, error) {
	v, ok, err := c.lookup(path)
	if !ok || err != nil {
		return nil, false, err
	}
	var entries []T
	if v.Kind() != '[' || json.Unmarshal(v, &entries) != nil {
		return nil, false, c.mismatch(path, v, "a list of "+what)
	}
	if len(entries) == 0 {
		return nil, false, nil
	}
	if len(entries) != blocks {
		return nil, false, fmt.Errorf("%s: %s has %d entries for %d blocks", c.file, path, len(entries), blocks)
	}
	return entries, true, nil
}

// writeAttentionScale appends the scale of attention scores, query_pre_attn_scalar^-0.5, if it is not that of the head's length.
func (p *planner) writeAttentionScale(m *gguf.Meta, k arch.Key) error {
	const usual = 256 // of the classes that have the setting
	scalar, ok, err := p.cfg.float("query_pre_attn_scalar")
	if err != nil {
		return err
	}
	if !ok {
		scalar = usual
	}
	if !(scalar > 0) {
		return fmt.Errorf("%s: query_pre_attn_scalar is %g, expected more than 0", p.cfg.file, scalar)
	}
	head, err := m.Uint(p.keyName("attention.key_length"))
	if err != nil {
		return err
	}
	if scalar == float64(head) {
		return nil
	}
	m.Set(p.keyName(k.Name), gguf.New(float32(1/math.Sqrt(scalar))))
	return nil
}

// writeRotaryDim appends how many elements of a head rotate.
func (p *planner) writeRotaryDim(m *gguf.Meta, k arch.Key) error {
	head, err := p.headDim(m)
	if err != nil {
		return err
	}
	part, ok, err := p.cfg.float(ropeSection + ".partial_rotary_factor")
	if err != nil {
		return err
	}
	if !ok {
		part = 1
	}
	dim := math.Floor(part * float64(head))
	if !(dim >= 2 && dim <= float64(head)) || math.Mod(dim, 2) != 0 {
		return fmt.Errorf("%s: partial_rotary_factor %g of heads of %d elements makes %g rotated ones, expected an even number up to the head's", p.cfg.file, part, head, dim)
	}
	m.Set(p.keyName(k.Name), gguf.New(uint32(dim)))
	return nil
}
