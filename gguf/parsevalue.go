package gguf

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParseValueType reads the name of a type as the command line has it, in any case: short (u8, f32, str) or long (uint8, float32,
// string; also float, double, boolean), with "[]" in front for an array, whose element type is elem. An array must
// name its elements, and nested arrays cannot be named.
func ParseValueType(name string) (t, elem ValueType, err error) {
	item, isArray := strings.CutPrefix(strings.ToLower(name), "[]")
	for i, v := range valueTypes {
		t := ValueType(i)
		named := item == v.name || item == v.long || item != "" && item == moreNames[t]
		if !named || t == ArrayType {
			continue
		}
		if isArray {
			return ArrayType, t, nil
		}
		return t, 0, nil
	}
	return 0, 0, fmt.Errorf("%w: %q is none of u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool str, with [] in front for an array", ErrValueType, name)
}

// moreNames are further spellings of value types.
var moreNames = map[ValueType]string{Float32: "float", Float64: "double", Bool: "bool"}

// ParseValue reads the text form that the command line takes ("10000", "true", "[1,2]") as a value of type t
// (elem is the element type when t is ArrayType).
//
// Integers are decimal or 0x hexadecimal and must fit the type. Floats are as Go reads them, also inf and nan; a number that
// is too large for the type is refused. Bools are true or false. A string is the text as it stands. An array is a list in brackets;
// its strings are quoted as in JSON: ["a","b\n"]. Nested arrays cannot be given.
func ParseValue(t, elem ValueType, text string) (Value, error) {
	if t != ArrayType {
		return parseScalar(t, text)
	}
	if !elem.valid() || elem == ArrayType {
		return Value{}, fmt.Errorf("%w: nested arrays cannot be given as text", ErrValueType)
	}
	items, err := splitList(elem, text)
	if err != nil {
		return Value{}, err
	}
	a := &array{elem: elem, n: len(items), enc: current}
	for i, item := range items {
		v, err := parseScalar(elem, item)
		if err != nil {
			return Value{}, fmt.Errorf("element %d: %w", i, err)
		}
		a.mark(i)
		a.data = current.appendValue(a.data, v)
	}
	return Value{typ: ArrayType, set: true, arr: a}, nil
}

// splitList gives the texts of the elements of a list in brackets.
func splitList(elem ValueType, text string) ([]string, error) {
	if elem == String {
		var items []string
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("%w: %q", ErrEncoding, text)
		}
		if err := json.Unmarshal([]byte(text), &items); err != nil || items == nil {
			return nil, fmt.Errorf(`%w: %q is not a list of the form ["a","b"]`, ErrValue, text)
		}
		// Half of a surrogate pair is decoded to the replacement character.
		replaced := func(s string) bool { return strings.ContainsRune(s, utf8.RuneError) }
		if slices.ContainsFunc(items, replaced) && !replaced(text) && !strings.Contains(strings.ToLower(text), `\ufffd`) {
			return nil, fmt.Errorf("%w: %q", ErrEncoding, text)
		}
		return items, nil
	}
	inner, ok := strings.CutPrefix(strings.TrimSpace(text), "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !ok || !closed {
		return nil, fmt.Errorf("%w: %q is not a list of the form [1,2]", ErrValue, text)
	}
	if strings.TrimSpace(inner) == "" {
		return nil, nil
	}
	items := strings.Split(inner, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items, nil
}

// parseScalar reads one value that is not an array.
func parseScalar(t ValueType, text string) (Value, error) {
	refuse := func(err error) (Value, error) {
		if errors.Is(err, strconv.ErrRange) {
			return Value{}, fmt.Errorf("%w: %q does not fit into %s", ErrValue, text, t)
		}
		return Value{}, fmt.Errorf("%w: %q is not %s", ErrValue, text, t)
	}
	switch {
	case !t.valid() || t == ArrayType:
		return Value{}, fmt.Errorf("%w: %s", ErrValueType, t)
	case t == String:
		if len(text) > MaxString {
			return Value{}, fmt.Errorf("%w: %d bytes of text, at most %d", ErrLimit, len(text), MaxString)
		}
		if !utf8.ValidString(text) {
			return Value{}, fmt.Errorf("%w: %.100q", ErrEncoding, text)
		}
		return New(text), nil
	case t == Bool:
		switch strings.ToLower(text) {
		case "true":
			return New(true), nil
		case "false":
			return New(false), nil
		}
		return refuse(nil)
	case t == Float32 || t == Float64:
		x, err := strconv.ParseFloat(text, 8*t.size())
		if err != nil {
			return refuse(err)
		}
		if exact, _ := strconv.ParseFloat(text, 64); x == 0 && exact != 0 {
			return refuse(strconv.ErrRange) // too small
		}
		return scalarOf(t, reflect.ValueOf(x)), nil
	}
	digits, base := text, 10
	for _, prefix := range []string{"0x", "0X", "-0x", "-0X"} {
		if hex, ok := strings.CutPrefix(text, prefix); ok && hex != "" && hex[0] != '+' && hex[0] != '-' {
			digits, base = strings.TrimRight(prefix, "0xX")+hex, 16
		}
	}
	if t.unsigned() {
		if strings.HasPrefix(text, "-") {
			if _, err := strconv.ParseInt(digits, base, 64); err == nil || errors.Is(err, strconv.ErrRange) {
				return refuse(strconv.ErrRange)
			}
		}
		x, err := strconv.ParseUint(digits, base, 8*t.size())
		if err != nil {
			return refuse(err)
		}
		return scalarOf(t, reflect.ValueOf(x)), nil
	}
	x, err := strconv.ParseInt(digits, base, 8*t.size())
	if err != nil {
		return refuse(err)
	}
	return scalarOf(t, reflect.ValueOf(x)), nil
}
