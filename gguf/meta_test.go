package gguf

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// sample has one key of many kinds.
func sample() *Meta {
	m := NewMeta()
	m.Set("u8", New(uint8(200)))
	m.Set("i8", New(int8(-3)))
	m.Set("u64", New(uint64(math.MaxUint64)))
	m.Set("i64", New(int64(math.MinInt64)))
	m.Set("f32", New(float32(0.1)))
	m.Set("f64", New(0.1))
	m.Set("bool", New(true))
	m.Set("str", New("text"))
	m.Set("strs", NewArray([]string{"a", "", "c\xff"}))
	m.Set("ints", NewArray([]int32{-1, 0, 1}))
	m.Set("uints", NewArray([]uint64{math.MaxUint64}))
	m.Set("floats", NewArray([]float32{0.5, -2}))
	m.Set("bools", NewArray([]bool{true, false, true}))
	return m
}

func TestGetters(t *testing.T) {
	m := sample()
	if x, err := m.Uint("u8"); x != 200 || err != nil {
		t.Error(x, err)
	}
	if x, err := m.Int("i8"); x != -3 || err != nil {
		t.Error(x, err)
	}
	if x, err := m.Uint("u64"); x != math.MaxUint64 || err != nil {
		t.Error(x, err)
	}
	if x, err := m.Int("i64"); x != math.MinInt64 || err != nil {
		t.Error(x, err)
	}
	if x, err := m.Float("f32"); x != float64(float32(0.1)) || err != nil {
		t.Error(x, err)
	}
	if x, err := m.Float("f64"); x != 0.1 || err != nil {
		t.Error(x, err)
	}
	if x, err := m.Bool("bool"); !x || err != nil {
		t.Error(x, err)
	}
	if x, err := m.Str("str"); x != "text" || err != nil {
		t.Error(x, err)
	}
	if x, err := m.Strings("strs"); !slices.Equal(x, []string{"a", "", "c\xff"}) || err != nil {
		t.Error(x, err)
	}
	if x, err := m.Ints("ints"); !slices.Equal(x, []int64{-1, 0, 1}) || err != nil {
		t.Error(x, err)
	}
	if x, err := m.Floats("floats"); !slices.Equal(x, []float64{0.5, -2}) || err != nil {
		t.Error(x, err)
	}
	if x, err := m.Bools("bools"); !slices.Equal(x, []bool{true, false, true}) || err != nil {
		t.Error(x, err)
	}
	if x, err := m.UintOr("none", 7); x != 7 || err != nil {
		t.Error(x, err)
	}
	if x, err := m.StrOr("str", "default"); x != "text" || err != nil {
		t.Error(x, err)
	}
}

// A getter of the wrong type is an error, never a default.
func TestGetterErrors(t *testing.T) {
	m := sample()
	second := func(_ any, err error) error { return err }
	cases := []struct {
		what string
		err  error
		want error
		text string
	}{
		{"missing", second(m.Uint("none")), ErrNoKey, `key "none": no such metadata key`},
		{"negative", second(m.Uint("i8")), ErrValue, "-3 is negative"},
		{"too large", second(m.Int("u64")), ErrValue, "18446744073709551615 does not fit"},
		{"too large in a list", second(m.Ints("uints")), ErrValue, "element 0: bad metadata value: 18446744073709551615"},
		{"float as integer", second(m.Uint("f32")), ErrValueType, "it is f32, wanted an integer"},
		{"integer as float", second(m.Float("u8")), ErrValueType, "it is u8, wanted f32 or f64"},
		{"integer as bool", second(m.Bool("u8")), ErrValueType, "it is u8, wanted bool"},
		{"array as text", second(m.Str("strs")), ErrValueType, "it is []str, wanted str"},
		{"text as array", second(m.Strings("str")), ErrValueType, "it is str, wanted an array"},
		{"integers as texts", second(m.Strings("ints")), ErrValueType, "it is []i32, wanted []str"},
		{"texts as integers", second(m.Ints("strs")), ErrValueType, "it is []str, wanted integers"},
		{"integers as floats", second(m.Floats("ints")), ErrValueType, "it is []i32, wanted []f32 or []f64"},
		{"integers as bools", second(m.Bools("ints")), ErrValueType, "it is []i32, wanted []bool"},
		{"default does not hide a wrong type", second(m.UintOr("str", 1)), ErrValueType, `key "str"`},
		{"default does not hide a wrong type", second(m.FloatOr("str", 1)), ErrValueType, `key "str"`},
		{"default does not hide a wrong type", second(m.BoolOr("str", true)), ErrValueType, `key "str"`},
		{"default does not hide a wrong type", second(m.IntOr("str", 1)), ErrValueType, `key "str"`},
	}
	for _, c := range cases {
		var e *Error
		if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.text) || !errors.As(c.err, &e) || e.Where == "" {
			t.Errorf("%s: %v\nwant %v with %q", c.what, c.err, c.want, c.text)
		}
	}
}

// Some keys hold a number for all layers or an array with one for each.
func TestPerLayer(t *testing.T) {
	m := NewMeta()
	m.Set("one", New(uint32(2)))
	m.Set("each", NewArray([]int32{0, 0, 2, 0}))
	m.Set("negative", NewArray([]int32{0, -1, 2, 0}))
	m.Set("pattern", NewArray([]bool{true, false, true, true}))
	m.Set("scales", New(float32(1.5)))
	if x, err := m.LayerUints("one", 4); !slices.Equal(x, []uint64{2, 2, 2, 2}) || err != nil {
		t.Error(x, err)
	}
	if x, err := m.LayerUints("each", 4); !slices.Equal(x, []uint64{0, 0, 2, 0}) || err != nil {
		t.Error(x, err)
	}
	if x, err := m.LayerUints("each", 5); !errors.Is(err, ErrValue) || !strings.Contains(err.Error(), "4 values for 5 layers") {
		t.Error(x, err)
	}
	if x, err := m.LayerUints("negative", 4); !errors.Is(err, ErrValue) {
		t.Error(x, err)
	}
	if x, err := m.LayerUints("none", 4); !errors.Is(err, ErrNoKey) {
		t.Error(x, err)
	}
	if x, err := m.LayerBools("pattern", 4); !slices.Equal(x, []bool{true, false, true, true}) || err != nil {
		t.Error(x, err)
	}
	if x, err := m.LayerFloats("scales", 2); !slices.Equal(x, []float64{1.5, 1.5}) || err != nil {
		t.Error(x, err)
	}
	if x, err := m.LayerFloats("one", 2); !errors.Is(err, ErrValueType) {
		t.Error(x, err)
	}
}

func keys(m *Meta) string {
	var out []string
	for k := range m.All() {
		out = append(out, k)
	}
	return strings.Join(out, " ")
}

func TestMetaOrder(t *testing.T) {
	m := NewMeta()
	for _, k := range []string{"a", "b", "c", "d"} {
		m.Set(k, New(k))
	}
	old := m.Clone()
	m.Set("b", New(uint8(1)))
	if err := m.Rename("c", "x"); err != nil {
		t.Error(err)
	}
	if !m.Remove("a") || m.Remove("a") {
		t.Error("Remove of a")
	}
	m.Set("a", New("last"))
	if err := m.Rename("c", "y"); !errors.Is(err, ErrNoKey) {
		t.Error(err)
	}
	if err := m.Rename("d", "x"); !errors.Is(err, ErrDuplicate) {
		t.Error(err)
	}
	if got := keys(m); got != "b x d a" {
		t.Errorf("keys %q", got)
	}
	for _, k := range []string{"b", "x", "d", "a"} {
		if _, ok := m.Get(k); !ok {
			t.Errorf("%s is lost", k)
		}
	}
	if got := keys(old); got != "a b c d" || old.Len() != 4 {
		t.Errorf("the clone changed: %q", got)
	}
}

func TestEqual(t *testing.T) {
	nested, err := NewNested([]Value{NewArray([]int32{1}), NewArray([]int32{})})
	if err != nil {
		t.Fatal(err)
	}
	values := []Value{
		{}, New(uint8(1)), New(int8(1)), New(true), New(float32(1)), New("1"), New(float32(math.NaN())), New(""),
		NewArray([]uint8{1}), NewArray([]int8{1}), NewArray([]uint8{1, 2}), NewArray([]string{"1"}), NewArray([]string{}), nested,
	}
	for i, a := range values {
		for j, b := range values {
			if a.Equal(b) != (i == j) {
				t.Errorf("%v equals %v: %v", a.Any(), b.Any(), a.Equal(b))
			}
		}
	}
}

// Named types are taken for what they are made of.
func TestNamedTypes(t *testing.T) {
	type level int32
	if v := New(level(-5)); v.Type() != Int32 || v.Any() != int32(-5) {
		t.Error(v.Type(), v.Any())
	}
	if a, err := NewArray([]level{1, 2}).Array(); err != nil || a.Elem() != Int32 || a.Len() != 2 {
		t.Error(a, err)
	}
}

func TestNested(t *testing.T) {
	if _, err := NewNested(nil); !errors.Is(err, ErrValueType) {
		t.Error(err)
	}
	if _, err := NewNested([]Value{New(true), New("x")}); !errors.Is(err, ErrValueType) {
		t.Error(err)
	}
	v := NewArray([]string{"x"})
	for d := 1; d < MaxDepth; d++ {
		var err error
		if v, err = NewNested([]Value{v}); err != nil {
			t.Fatal(d, err)
		}
	}
	if got := v.TypeName(); got != strings.Repeat("[]", MaxDepth)+"str" {
		t.Error(got)
	}
	if _, err := NewNested([]Value{v}); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
}

// Elements are found by position, also far from a mark and in arrays of arrays.
func TestArrayAt(t *testing.T) {
	var texts []string
	var lists []Value
	for i := range 3*markStride + 5 {
		texts = append(texts, strings.Repeat("x", i%7))
		lists = append(lists, NewArray(texts[:i%5]))
	}
	a, err := NewArray(texts).Array()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range texts {
		v, err := a.At(i)
		if got, _ := v.Str(); err != nil || got != want {
			t.Errorf("element %d is %q, %v; want %q", i, got, err, want)
		}
	}
	n, err := NewNested(lists)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := n.Array()
	for i, want := range lists {
		if v, err := b.At(i); err != nil || !v.Equal(want) {
			t.Errorf("list %d is %v, %v", i, v.Any(), err)
		}
	}
	for _, i := range []int{-1, len(texts)} {
		if _, err := a.At(i); !errors.Is(err, ErrLimit) {
			t.Error(i, err)
		}
	}
	if (Array{}).Len() != 0 {
		t.Error("the zero Array is not empty")
	}
}
