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
			m.Set(p.keyName(k.Name), v)
			return nil
		}
	}
	switch {
	case k.Default == "" && k.Optional:
		return nil
	case k.Default == "":
		return fmt.Errorf("%s has no %s, which %s needs", p.cfg.file, strings.Join(k.Config, " or "), p.keyName(k.Name))
	case strings.HasPrefix(k.Default, "="):
		v, ok := m.Get(p.keyName(k.Default[1:]))
		if !ok {
			return fmt.Errorf("architecture %s: %s defaults to %s, which comes later or is absent", p.spec.Name, k.Name, k.Default[1:])
		}
		m.Set(p.keyName(k.Name), v)
		return nil
	case strings.HasSuffix(k.Default, "()"):
		return p.compute(m, k)
	}
	v, err := gguf.ParseValue(k.Type, 0, k.Default)
	if err != nil {
		return fmt.Errorf("architecture %s: default of %s: %w", p.spec.Name, k.Name, err)
	}
	m.Set(p.keyName(k.Name), v)
	return nil
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
		width, err := m.Uint(p.keyName("embedding_length"))
		if err != nil {
			return err
		}
		heads, err := m.Uint(p.keyName("attention.head_count"))
		if err != nil {
			return err
		}
		if heads == 0 || width%heads != 0 {
			return fmt.Errorf("%s has no head_dim and hidden_size %d is not a multiple of %d heads", p.cfg.file, width, heads)
		}
		m.Set(p.keyName(k.Name), gguf.New(uint32(width/heads)))
	default:
		return fmt.Errorf("architecture %s: unknown computation %s", p.spec.Name, k.Default)
	}
	return nil
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
