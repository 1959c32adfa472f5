package gguf

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// parse reads "TYPE=TEXT".
func parse(text string) (Value, error) {
	name, text, _ := strings.Cut(text, "=")
	t, elem, err := ParseValueType(name)
	if err != nil {
		return Value{}, err
	}
	return ParseValue(t, elem, text)
}

func TestParseValue(t *testing.T) {
	cases := []struct {
		text string
		want Value
	}{
		{"u8=255", New(uint8(255))},
		{"u8=0x10", New(uint8(16))},
		{"i8=-0x80", New(int8(-128))},
		{"u16=65535", New(uint16(65535))},
		{"i16=-32768", New(int16(-32768))},
		{"u32=4294967295", New(uint32(math.MaxUint32))},
		{"i32=+7", New(int32(7))},
		{"u64=18446744073709551615", New(uint64(math.MaxUint64))},
		{"i64=-9223372036854775808", New(int64(math.MinInt64))},
		{"f32=10000", New(float32(10000))},
		{"f32=1e6", New(float32(1e6))},
		{"f32=-inf", New(float32(math.Inf(-1)))},
		{"f64=0.1", New(0.1)},
		{"FLOAT32=1", New(float32(1))},
		{"double=1", New(1.0)},
		{"bool=False", New(false)},
		{"boolean=true", New(true)},
		{"str=a=b:c", New("a=b:c")},
		{"string=", New("")},
		{"str=[1,2]", New("[1,2]")},
		{"[]i32=[1, -2 ,3]", NewArray([]int32{1, -2, 3})},
		{"[]i32=[]", NewArray([]int32{})},
		{"[]uint8=[0x0f]", NewArray([]uint8{15})},
		{"[]f32=[1,2.5]", NewArray([]float32{1, 2.5})},
		{"[]bool=[true,false]", NewArray([]bool{true, false})},
		{`[]str=["a","b,\"c\"\n"]`, NewArray([]string{"a", "b,\"c\"\n"})},
		{"[]str=[]", NewArray([]string{})},
		{`[]str=["\ufffd"]`, NewArray([]string{"\ufffd"})},
		{"[]str=[\"\ufffd\"]", NewArray([]string{"\ufffd"})},
		{"f32=0e-60", New(float32(0))},
	}
	for _, c := range cases {
		if v, err := parse(c.text); err != nil || !v.Equal(c.want) {
			t.Errorf("%s: %s %v, %v", c.text, v.TypeName(), v.Any(), err)
		}
	}
}

func TestParseValueErrors(t *testing.T) {
	cases := []struct {
		text string
		want error
		part string
	}{
		{"u33=1", ErrValueType, `"u33" is none of u8 i8`},
		{"=1", ErrValueType, "none of"},
		{"[]=[1]", ErrValueType, "none of"},
		{"arr=[1]", ErrValueType, "none of"},
		{"[]arr=[1]", ErrValueType, "none of"},
		{"[][]i32=[[1]]", ErrValueType, "none of"},
		{"u8=256", ErrValue, `"256" does not fit into u8`},
		{"u8=-1", ErrValue, `"-1" does not fit into u8`},
		{"u8=1.0", ErrValue, `"1.0" is not u8`},
		{"u8=", ErrValue, `"" is not u8`},
		{"u8= 1", ErrValue, "is not u8"},
		{"u8=1_0", ErrValue, "is not u8"},
		{"u8=0x", ErrValue, "is not u8"},
		{"u8=0x-1", ErrValue, "is not u8"},
		{"u8=--1", ErrValue, "is not u8"},
		{"i8=128", ErrValue, "does not fit into i8"},
		{"i8=-129", ErrValue, "does not fit into i8"},
		{"u64=18446744073709551616", ErrValue, "does not fit into u64"},
		{"f32=1e39", ErrValue, "does not fit into f32"},
		{"f32=-1e-60", ErrValue, "does not fit into f32"},
		{"str=\xff", ErrEncoding, ""},
		{`[]str=["\ud800"]`, ErrEncoding, ""},
		{"f32=x", ErrValue, "is not f32"},
		{"bool=1", ErrValue, `"1" is not bool`},
		{"[]i32=1,2", ErrValue, "not a list of the form [1,2]"},
		{"[]i32=[1", ErrValue, "not a list"},
		{"[]i32=[1,]", ErrValue, `element 1: bad metadata value: "" is not i32`},
		{"[]i32=[2147483648]", ErrValue, "element 0"},
		{"[]str=[a,b]", ErrValue, `not a list of the form ["a","b"]`},
		{"[]str=null", ErrValue, "not a list"},
		{"[]str=[1]", ErrValue, "not a list"},
		{"[]str=[\"\xff\"]", ErrEncoding, ""},
	}
	for _, c := range cases {
		if _, err := parse(c.text); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%s: %v\nwant %v with %q", c.text, err, c.want, c.part)
		}
	}
	if _, err := ParseValue(ArrayType, ArrayType, "[[1]]"); !errors.Is(err, ErrValueType) {
		t.Error(err)
	}
	if _, err := ParseValue(ValueType(99), 0, "1"); !errors.Is(err, ErrValueType) {
		t.Error(err)
	}
}

func TestValueTypeNames(t *testing.T) {
	for i := range valueTypes {
		typ := ValueType(i)
		if typ == ArrayType {
			continue // needs its elements
		}
		got, elem, err := ParseValueType(typ.String())
		if err != nil || got != typ || elem != 0 {
			t.Errorf("%s reads as %s of %s, %v", typ, got, elem, err)
		}
		if got, elem, err := ParseValueType("[]" + typ.String()); err != nil || got != ArrayType || elem != typ {
			t.Errorf("[]%s reads as %s of %s, %v", typ, got, elem, err)
		}
	}
	if got := ValueType(13).String(); got != "value type 13" {
		t.Error(got)
	}
}
