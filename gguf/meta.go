package gguf

import "iter"

// Meta is the ordered metadata of a file. Keys are unique.
type Meta struct{}

// NewMeta is an empty list.
func NewMeta() *Meta { return &Meta{} }

// Len is the number of keys.
func (m *Meta) Len() int { return 0 }

// All yields keys and values in file order.
func (m *Meta) All() iter.Seq2[string, Value] { return func(func(string, Value) bool) {} }

// Get finds a key.
func (m *Meta) Get(key string) (Value, bool) { return Value{}, false }

// Set replaces the value of a key where it stands, or appends a new key.
func (m *Meta) Set(key string, v Value) {}

// Remove deletes a key and reports whether it was there.
func (m *Meta) Remove(key string) bool { return false }

// Rename gives a key another name in its place. It fails if old is absent or new is present.
func (m *Meta) Rename(old, new string) error { return errTODO }

// Clone is an independent copy.
func (m *Meta) Clone() *Meta { return &Meta{} }

// Uint, Int, Float, Bool, Str, Strings, Ints, Floats, Bools read a key. A missing key is ErrNoKey, a wrong type ErrValueType; both name the key.
func (m *Meta) Uint(key string) (uint64, error)      { return 0, errTODO }
func (m *Meta) Int(key string) (int64, error)        { return 0, errTODO }
func (m *Meta) Float(key string) (float64, error)    { return 0, errTODO }
func (m *Meta) Bool(key string) (bool, error)        { return false, errTODO }
func (m *Meta) Str(key string) (string, error)       { return "", errTODO }
func (m *Meta) Strings(key string) ([]string, error) { return nil, errTODO }
func (m *Meta) Ints(key string) ([]int64, error)     { return nil, errTODO }
func (m *Meta) Floats(key string) ([]float64, error) { return nil, errTODO }
