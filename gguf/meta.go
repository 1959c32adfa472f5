package gguf

import (
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Meta is the ordered metadata of a file. Keys are unique. A Meta that was read knows its file, so errors of the getters
// name the file, the key and its offset.
type Meta struct {
	path    string
	entries []entry
	index   map[string]int
}

type entry struct {
	key   string
	value Value
	at    int64 // offset in the file, noOffset for a new key
}

// NewMeta is an empty list.
func NewMeta() *Meta { return &Meta{index: map[string]int{}} }

// Len is the number of keys.
func (m *Meta) Len() int { return len(m.entries) }

// All yields keys and values in file order.
func (m *Meta) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for _, e := range m.entries {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

// Get finds a key.
func (m *Meta) Get(key string) (Value, bool) {
	i, ok := m.index[key]
	if !ok {
		return Value{}, false
	}
	return m.entries[i].value, true
}

// Has reports whether a key is present.
func (m *Meta) Has(key string) bool {
	_, ok := m.index[key]
	return ok
}

// Set replaces the value of a key where it stands, or appends a new key.
func (m *Meta) Set(key string, v Value) {
	if i, ok := m.index[key]; ok {
		m.entries[i].value = v
		return
	}
	m.add(key, v, noOffset)
}

func (m *Meta) add(key string, v Value, at int64) {
	m.index[key] = len(m.entries)
	m.entries = append(m.entries, entry{key, v, at})
}

// Remove deletes a key and reports whether it was there.
func (m *Meta) Remove(key string) bool {
	i, ok := m.index[key]
	if !ok {
		return false
	}
	delete(m.index, key)
	m.entries = slices.Delete(m.entries, i, i+1)
	for ; i < len(m.entries); i++ {
		m.index[m.entries[i].key] = i
	}
	return true
}

// Rename gives a key another name in its place. It fails if old is absent or new is present.
func (m *Meta) Rename(old, new string) error {
	i, ok := m.index[old]
	if !ok {
		return m.fault(old, ErrNoKey)
	}
	if _, ok := m.index[new]; ok {
		return m.fault(new, ErrDuplicate)
	}
	delete(m.index, old)
	m.index[new] = i
	m.entries[i].key = new
	return nil
}

// Clone is an independent copy. Long arrays stay views of the file that they were read from.
func (m *Meta) Clone() *Meta {
	c := NewMeta()
	c.path = m.path
	for _, e := range m.entries {
		c.add(e.key, e.value, e.at)
	}
	return c
}

// fault is the error for a key.
func (m *Meta) fault(key string, err error) error {
	e := &Error{Path: m.path, Where: keyPlace(key), Offset: noOffset, Err: err}
	if i, ok := m.index[key]; ok {
		e.Offset = m.entries[i].at
	}
	return e
}

// absent is the error for a key that is not there.
func (m *Meta) absent(key string) error {
	err := &Error{Path: m.path, Where: keyPlace(key), Offset: noOffset, Err: ErrNoKey}
	if v, ok := m.Get(keySplitNo); ok {
		if no, e := v.Uint(); e == nil && no > 0 {
			err.Hint = "it is a part of a split model, whose metadata is in the first part"
		}
	}
	return err
}

// read finds a key and decodes it.
func read[T any](m *Meta, key string, get func(Value) (T, error)) (T, error) {
	v, ok := m.Get(key)
	if !ok {
		var zero T
		return zero, m.absent(key)
	}
	x, err := get(v)
	if err != nil {
		return x, m.fault(key, err)
	}
	return x, nil
}

// readAll finds an array and decodes all of it.
func readAll[T any](m *Meta, key string, get func(Array) ([]T, error)) ([]T, error) {
	return read(m, key, func(v Value) ([]T, error) {
		a, err := v.Array()
		if err != nil {
			return nil, err
		}
		return get(a)
	})
}

// Uint, Int, Float, Bool, Str, Strings, Ints, Floats, Bools read a key. A missing key is ErrNoKey, a wrong type
// ErrValueType, a number that does not fit ErrValue; all name the key. Uint and Int take any integer type, Float f32 and f64.
func (m *Meta) Uint(key string) (uint64, error)      { return read(m, key, Value.Uint) }
func (m *Meta) Int(key string) (int64, error)        { return read(m, key, Value.Int) }
func (m *Meta) Float(key string) (float64, error)    { return read(m, key, Value.Float) }
func (m *Meta) Bool(key string) (bool, error)        { return read(m, key, Value.Bool) }
func (m *Meta) Str(key string) (string, error)       { return read(m, key, Value.Str) }
func (m *Meta) Strings(key string) ([]string, error) { return readAll(m, key, Array.Strings) }
func (m *Meta) Ints(key string) ([]int64, error)     { return readAll(m, key, Array.Ints) }
func (m *Meta) Floats(key string) ([]float64, error) { return readAll(m, key, Array.Floats) }
func (m *Meta) Bools(key string) ([]bool, error)     { return readAll(m, key, Array.Bools) }

// or replaces the error of a missing key by a default; other errors stay.
func or[T any](x T, err error) func(def T) (T, error) {
	return func(def T) (T, error) {
		if errors.Is(err, ErrNoKey) {
			return def, nil
		}
		return x, err
	}
}

// UintOr, IntOr, FloatOr, BoolOr, StrOr read a key that may be missing: then they return def. A wrong type is still an error.
func (m *Meta) UintOr(key string, def uint64) (uint64, error)    { return or(m.Uint(key))(def) }
func (m *Meta) IntOr(key string, def int64) (int64, error)       { return or(m.Int(key))(def) }
func (m *Meta) FloatOr(key string, def float64) (float64, error) { return or(m.Float(key))(def) }
func (m *Meta) BoolOr(key string, def bool) (bool, error)        { return or(m.Bool(key))(def) }
func (m *Meta) StrOr(key string, def string) (string, error)     { return or(m.Str(key))(def) }

// LayerUints, LayerFloats, LayerBools read a key that holds one value for all layers or an array with one value
// for each: the result has one element per layer. An array of another length is ErrValue.
func (m *Meta) LayerUints(key string, layers int) ([]uint64, error) {
	return perLayer(m, key, layers, Value.Uint)
}

// LayerFloats is described at LayerUints.
func (m *Meta) LayerFloats(key string, layers int) ([]float64, error) {
	return perLayer(m, key, layers, Value.Float)
}

// LayerBools is described at LayerUints.
func (m *Meta) LayerBools(key string, layers int) ([]bool, error) {
	return perLayer(m, key, layers, Value.Bool)
}

func perLayer[T any](m *Meta, key string, layers int, get func(Value) (T, error)) ([]T, error) {
	return read(m, key, func(v Value) ([]T, error) {
		if v.typ != ArrayType {
			x, err := get(v)
			return slices.Repeat([]T{x}, layers), err
		}
		a := Array{v.arr}
		if a.Len() != layers {
			return nil, fmt.Errorf("%w: %d values for %d layers", ErrValue, a.Len(), layers)
		}
		return collect(a, get)
	})
}

// Alignment is the alignment of tensor data in bytes: general.alignment, else DefaultAlignment. The key must be a u32 and
// a power of two up to MaxAlignment. The format's description wants a multiple of 8; 1, 2 and 4 are accepted, as llama.cpp does.
func (m *Meta) Alignment() (uint64, error) {
	v, ok := m.Get(KeyAlignment)
	if !ok {
		return DefaultAlignment, nil
	}
	if v.typ != Uint32 {
		return 0, m.fault(KeyAlignment, fmt.Errorf("%w: it is %s, must be u32", ErrAlignment, v.TypeName()))
	}
	if v.num == 0 || v.num&(v.num-1) != 0 {
		return 0, m.fault(KeyAlignment, fmt.Errorf("%w: %d is not a power of two", ErrAlignment, v.num))
	}
	if v.num > MaxAlignment {
		return 0, m.fault(KeyAlignment, fmt.Errorf("%w: %d, at most %d", ErrAlignment, v.num, MaxAlignment))
	}
	return v.num, nil
}
