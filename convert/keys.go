package convert

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/gguf"
)

// hyper writes the keys that the architecture declares.
func (p *planner) hyper() (*gguf.Meta, error) {
	m := gguf.NewMeta()
	for _, k := range p.spec.Keys {
		if err := p.writeKey(m, k); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// keyName is the whole name of a key.
func (p *planner) keyName(name string) string {
	if strings.HasPrefix(name, "general.") {
		return name
	}
	return p.spec.Name + "." + name
}

// writeKey evaluates one rule.
func (p *planner) writeKey(m *gguf.Meta, k arch.Key) error {
	for _, path := range k.Config {
		v, ok, err := p.cfg.value(k.Type, path)
		if err != nil {
			return err
		}
		if ok {
			return p.set(m, k, v)
		}
	}
	switch {
	case k.Default == "" && k.Optional:
		return nil
	case k.Default == "":
		return fmt.Errorf("%s has no %s, which %s needs", p.cfg.file, strings.Join(k.Config, " or "), p.keyName(k.Name))
	case strings.HasPrefix(k.Default, "="):
		return p.repeat(m, k)
	case strings.HasSuffix(k.Default, "()"):
		return p.compute(m, k)
	}
	v, err := gguf.ParseValue(k.Type, 0, k.Default)
	if err != nil {
		return fmt.Errorf("architecture %s: default of %s: %w", p.spec.Name, k.Name, err)
	}
	return p.set(m, k, v)
}

// set writes a key, but for a value that readers assume.
func (p *planner) set(m *gguf.Meta, k arch.Key, v gguf.Value) error {
	if k.Implied != "" {
		implied, err := gguf.ParseValue(k.Type, 0, k.Implied)
		if err != nil {
			return fmt.Errorf("architecture %s: implied value of %s: %w", p.spec.Name, k.Name, err)
		}
		if v.Equal(implied) {
			return nil
		}
	}
	m.Set(p.keyName(k.Name), v)
	return nil
}

// repeat evaluates a default that is another key's value or a multiple of it.
func (p *planner) repeat(m *gguf.Meta, k arch.Key) error {
	name, times := k.Default[1:], uint64(1)
	if factor, rest, ok := strings.Cut(name, "*"); ok {
		n, err := strconv.ParseUint(factor, 10, 8)
		if err != nil {
			return fmt.Errorf("architecture %s: default of %s: %w", p.spec.Name, k.Name, err)
		}
		name, times = rest, n
	}
	if times == 1 {
		v, ok := m.Get(p.keyName(name))
		if !ok {
			return fmt.Errorf("architecture %s: %s defaults to %s, which comes later or is absent", p.spec.Name, k.Name, name)
		}
		return p.set(m, k, v)
	}
	n, err := m.Uint(p.keyName(name))
	if err != nil {
		return fmt.Errorf("architecture %s: default of %s: %w", p.spec.Name, k.Name, err)
	}
	if n > math.MaxUint32/times {
		return fmt.Errorf("%s: %d times %s %d does not fit 32 bits", p.cfg.file, times, name, n)
	}
	return p.set(m, k, gguf.New(uint32(n*times)))
}

// compute evaluates the defaults that stand for a computation.
func (p *planner) compute(m *gguf.Meta, k arch.Key) error {
	switch k.Default {
	case "rope_scaling()":
		context, err := m.Uint(p.keyName("context_length"))
		if err != nil {
			return err
		}
		p.note(writeRope(m, p.spec.Name+".", p.rope, context)...)
	case "file_type()":
		m.Set(p.keyName(k.Name), gguf.New(p.out.fileType(p.match.order)))
	case "embedding_rows()":
		m.Set(p.keyName(k.Name), gguf.New(uint32(p.rows)))
	case "head_dim()":
		dim, err := p.headDim(m)
		if err != nil {
			return err
		}
		m.Set(p.keyName(k.Name), gguf.New(uint32(dim)))
	case "rotary_dim()":
		return p.writeRotaryDim(m, k)
	case "window()":
		return p.writeWindow(m, k)
	case "used_window()":
		if use, _, err := p.cfg.bool("use_sliding_window"); err != nil || !use {
			return err
		}
		return p.writeWindow(m, k)
	case "window_pattern()":
		return p.writeWindowPattern(m, k)
	case "rope_pattern()":
		return p.writeRopePattern(m, k)
	case "attention_scale()":
		return p.writeAttentionScale(m, k)
	default:
		return fmt.Errorf("architecture %s: unknown computation %s", p.spec.Name, k.Default)
	}
	return nil
}

// headDim is the length of a head: head_dim, else the heads share the embedding.
func (p *planner) headDim(m *gguf.Meta) (uint64, error) {
	if dim, ok, err := p.cfg.uint("head_dim", 32); err != nil || ok {
		return dim, err
	}
	width, err := m.Uint(p.keyName("embedding_length"))
	if err != nil {
		return 0, err
	}
	heads, err := m.Uint(p.keyName("attention.head_count"))
	if err != nil {
		return 0, err
	}
	if heads == 0 || width%heads != 0 {
		return 0, fmt.Errorf("%s has no head_dim and hidden_size %d is not a multiple of %d heads", p.cfg.file, width, heads)
	}
	return width / heads, nil
}

// value reads a setting as a metadata value.
func (c *config) value(t gguf.ValueType, path string) (v gguf.Value, ok bool, err error) {
	switch t {
	case gguf.Uint32:
		var n uint64
		n, ok, err = c.uint(path, 32)
		v = gguf.New(uint32(n))
	case gguf.Int32:
		var n uint64
		n, ok, err = c.uint(path, 31)
		v = gguf.New(int32(n))
	case gguf.Float32:
		var f float64
		f, ok, err = c.float(path)
		if err == nil && math.Abs(f) > math.MaxFloat32 {
			err = fmt.Errorf("%s: %s is %s, which does not fit 32 bits", c.file, path, strconv.FormatFloat(f, 'g', -1, 64))
		}
		v = gguf.New(float32(f))
	default:
		err = fmt.Errorf("%s: %s: settings of value type %d are not read", c.file, path, t)
	}
	return v, ok, err
}
