package gguf

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestParseSetting(t *testing.T) {
	m := sample()
	cases := []struct {
		text string
		key  string
		want Value
	}{
		{"u8=255", "u8", New(uint8(255))},
		{"u8=0x10", "u8", New(uint8(16))},
		{"i8=-0x80", "i8", New(int8(-128))},
		{"u64=18446744073709551615", "u64", New(uint64(math.MaxUint64))},
		{"i64=-9223372036854775808", "i64", New(int64(math.MinInt64))},
		{"f32=10000", "f32", New(float32(10000))},
		{"f32=1e6", "f32", New(float32(1e6))},
		{"f32=-inf", "f32", New(float32(math.Inf(-1)))},
		{"f64=0.1", "f64", New(0.1)},
		{"bool=False", "bool", New(false)},
		{"str=a=b:c", "str", New("a=b:c")},
		{"str=", "str", New("")},
		{"str=[1,2]", "str", New("[1,2]")},
		{"ints=[1, -2 ,3]", "ints", NewArray([]int32{1, -2, 3})},
		{"ints=[]", "ints", NewArray([]int32{})},
		{`strs=["a","b,\"c\"\n"]`, "strs", NewArray([]string{"a", "b,\"c\"\n"})},
		{"bools=[true,false]", "bools", NewArray([]bool{true, false})},
		{"u8:str=7", "u8", New("7")},
		{"new:u16=65535", "new", New(uint16(65535))},
		{"new:FLOAT32=1", "new", New(float32(1))},
		{"new:double=1", "new", New(1.0)},
		{"new:boolean=true", "new", New(true)},
		{"new:string=x", "new", New("x")},
		{"new:[]f32=[1,2.5]", "new", NewArray([]float32{1, 2.5})},
		{"new:[]uint8=[]", "new", NewArray([]uint8{})},
		{"ints:arr=[7]", "ints", NewArray([]int32{7})},
	}
	for _, c := range cases {
		key, v, err := ParseSetting(m, c.text)
		if err != nil || key != c.key || !v.Equal(c.want) {
			t.Errorf("%s: %s = %s %v, %v", c.text, key, v.TypeName(), v.Any(), err)
		}
	}
}

func TestParseSettingErrors(t *testing.T) {
	m := sample()
	nested, err := NewNested([]Value{NewArray([]int32{1})})
	if err != nil {
		t.Fatal(err)
	}
	m.Set("nested", nested)
	cases := []struct {
		text string
		want error
		part string
	}{
		{"u8", ErrValue, "not of the form KEY=VALUE"},
		{"=1", ErrName, "1 to 65535 bytes"},
		{"new=1", ErrNoKey, "hint: a new key needs a type: new:TYPE=VALUE"},
		{"new:u33=1", ErrValueType, `"u33" is none of u8 i8`},
		{"new:arr=[1]", ErrNoKey, "hint"},
		{"new:[]arr=[1]", ErrValueType, "none of"},
		{"new:=1", ErrValueType, "none of"},
		{"u8:arr=[1]", ErrValueType, "hint: name it in full"},
		{"u8=256", ErrValue, `"256" does not fit into u8`},
		{"u8=-1", ErrValue, `"-1" does not fit into u8`},
		{"u8=1.0", ErrValue, `"1.0" is not u8`},
		{"u8=", ErrValue, `"" is not u8`},
		{"u8= 1", ErrValue, "is not u8"},
		{"u8=1_0", ErrValue, "is not u8"},
		{"u8=0x", ErrValue, "is not u8"},
		{"u8=0x-1", ErrValue, "is not u8"},
		{"i8=128", ErrValue, "does not fit into i8"},
		{"i8=-129", ErrValue, "does not fit into i8"},
		{"f32=1e39", ErrValue, "does not fit into f32"},
		{"f32=x", ErrValue, "is not f32"},
		{"bool=1", ErrValue, `"1" is not bool`},
		{"ints=1,2", ErrValue, "not a list of the form [1,2]"},
		{"ints=[1", ErrValue, "not a list"},
		{"ints=[1,]", ErrValue, `element 1: bad metadata value: "" is not i32`},
		{"ints=[2147483648]", ErrValue, "element 0"},
		{"strs=[a,b]", ErrValue, `not a list of the form ["a","b"]`},
		{"strs=null", ErrValue, "not a list"},
		{"strs=[1]", ErrValue, "not a list"},
		{"strs=[\"\xff\"]", ErrEncoding, ""},
		{"nested=[[1]]", ErrValueType, "nested arrays cannot be given"},
	}
	for _, c := range cases {
		_, _, err := ParseSetting(m, c.text)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%s: %v\nwant %v with %q", c.text, err, c.want, c.part)
		}
	}
}

func TestValueTypeNames(t *testing.T) {
	for i := range valueTypes {
		typ := ValueType(i)
		got, elem, err := ParseValueType(typ.String())
		if err != nil || got != typ || elem != 0 {
			t.Errorf("%s reads as %s of %s, %v", typ, got, elem, err)
		}
		if typ == ArrayType {
			continue
		}
		if got, elem, err := ParseValueType("[]" + typ.String()); err != nil || got != ArrayType || elem != typ {
			t.Errorf("[]%s reads as %s of %s, %v", typ, got, elem, err)
		}
	}
	if got := ValueType(13).String(); got != "value type 13" {
		t.Error(got)
	}
}
