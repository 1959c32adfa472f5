package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fataler is a *testing.T or a *rapid.T.
type fataler interface{ Fatal(...any) }

// writeBytes writes a file with tensors of counted bytes.
func writeBytes(t fataler, m *Meta, tensors []Tensor) []byte {
	var out bytes.Buffer
	w, err := NewWriter(&out, m, tensors)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range w.Tensors() {
		if err := w.Begin(x.Name); err != nil {
			t.Fatal(err)
		}
		n, _ := x.Bytes()
		data := make([]byte, n)
		for j := range data {
			data[j] = byte(i*31 + j)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// readBytes reads a file without defects.
func readBytes(t fataler, b []byte) *File {
	f, defects, err := ReadHeader("memory", Bytes(b))
	if err != nil || len(defects) > 0 {
		t.Fatal(defects, err)
	}
	return f
}

func TestLayout(t *testing.T) {
	m := NewMeta()
	m.Set(KeyAlignment, New(uint32(64)))
	tensors := []Tensor{
		{Name: "a", Type: F32, Shape: []uint64{3}},
		{Name: "b", Type: Q4_0, Shape: []uint64{64, 3}},
		{Name: "c", Type: I8, Shape: []uint64{1}},
	}
	data, total, err := Layout(m, tensors)
	if err != nil {
		t.Fatal(err)
	}
	// Header: 24, one key of 8+17+4+4, three tensors of 8+1+4+8+4+8 with one dimension more for b; then 12, 3*36, 1 bytes.
	if data != 192 || tensors[0].Offset != 0 || tensors[1].Offset != 64 || tensors[2].Offset != 192 || total != 192+256 {
		t.Errorf("data at %d, total %d, %+v", data, total, tensors)
	}
	b := writeBytes(t, m, tensors)
	if uint64(len(b)) != total {
		t.Errorf("%d bytes written, Layout says %d", len(b), total)
	}
	f := readBytes(t, b)
	if f.DataOffset != data || f.Alignment != 64 {
		t.Errorf("%+v", f)
	}
	// No tensors: the header is padded all the same.
	if data, total, err := Layout(NewMeta(), nil); data != 32 || total != 32 || err != nil {
		t.Error(data, total, err)
	}
}

func TestLayoutErrors(t *testing.T) {
	one := func(typ Type, shape ...uint64) []Tensor { return []Tensor{{Name: "t", Type: typ, Shape: shape}} }
	meta := func(key string, v Value) *Meta {
		m := NewMeta()
		m.Set(key, v)
		return m
	}
	huge := Tensor{Name: "b", Type: I8, Shape: []uint64{1 << 62}}
	cases := []struct {
		what    string
		meta    *Meta
		tensors []Tensor
		want    error
	}{
		{"zero Value", meta("a", Value{}), nil, ErrValueType},
		{"long key", meta(strings.Repeat("k", MaxKeyLen+1), New(true)), nil, ErrLimit},
		{"alignment", meta(KeyAlignment, New(uint32(48))), nil, ErrAlignment},
		{"alignment type", meta(KeyAlignment, New(uint64(32))), nil, ErrAlignment},
		{"no dimensions", NewMeta(), one(F32), ErrShape},
		{"five dimensions", NewMeta(), one(F32, 1, 1, 1, 1, 1), ErrShape},
		{"empty", NewMeta(), one(F32, 0), ErrShape},
		{"half a block", NewMeta(), one(Q4_K, 128), ErrShape},
		{"overflow", NewMeta(), one(F32, 1<<32, 1<<32), ErrOverflow},
		{"total overflow", NewMeta(), []Tensor{{Name: "a", Type: I8, Shape: []uint64{1 << 62}}, huge}, ErrOverflow},
		{"removed type", NewMeta(), one(4, 32), ErrType},
		{"unknown type", NewMeta(), one(1000, 32), ErrType},
		{"twice", NewMeta(), append(one(F32, 1), one(F32, 1)...), ErrDuplicate},
	}
	for _, c := range cases {
		if _, _, err := Layout(c.meta, c.tensors); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
		if _, err := NewWriter(io.Discard, c.meta, c.tensors); !errors.Is(err, c.want) {
			t.Errorf("%s: NewWriter: %v, want %v", c.what, err, c.want)
		}
	}
}

func TestWriterOrder(t *testing.T) {
	tensors := []Tensor{{Name: "a", Type: F32, Shape: []uint64{1}}, {Name: "b", Type: F32, Shape: []uint64{2}}}
	w, err := NewWriter(io.Discard, NewMeta(), tensors)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(err error, part string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %q in it", err, part)
		}
	}
	write := func(n int) error {
		_, err := w.Write(make([]byte, n))
		return err
	}
	expect(write(1), "before any tensor was begun")
	expect(w.Begin("b"), `"a" comes next`)
	if err := w.Begin("a"); err != nil {
		t.Fatal(err)
	}
	expect(write(5), "no room for 5 bytes: 4 are left")
	if err := write(3); err != nil {
		t.Fatal(err)
	}
	expect(w.Begin("b"), "1 bytes are missing")
	expect(w.Close(), "1 bytes are missing")
	if err := write(1); err != nil {
		t.Fatal(err)
	}
	expect(write(1), "no room")
	expect(w.Close(), `tensor "b" and 0 after it were not written`)
	if err := w.Begin("b"); err != nil {
		t.Fatal(err)
	}
	if err := write(8); err != nil {
		t.Fatal(err)
	}
	expect(w.Begin("c"), "none is left")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// oldFile builds a file of an older version by hand, as the format's description has it: version 1 has 32-bit counts.
func oldFile(version uint32, order byteOrder) []byte {
	b := order.AppendUint32([]byte(magic), version)
	count := func(n int) {
		if version == 1 {
			b = order.AppendUint32(b, uint32(n))
		} else {
			b = order.AppendUint64(b, uint64(n))
		}
	}
	text := func(s string) {
		count(len(s))
		b = append(b, s...)
	}
	count(2)
	count(3)
	text("general.name")
	b = order.AppendUint32(b, uint32(String))
	text("old")
	text("list")
	b = order.AppendUint32(order.AppendUint32(b, uint32(ArrayType)), uint32(String))
	count(2)
	text("one")
	text("three")
	text("numbers")
	b = order.AppendUint32(order.AppendUint32(b, uint32(ArrayType)), uint32(Uint16))
	count(2)
	b = order.AppendUint16(order.AppendUint16(b, 1), 0x0203)
	for i, name := range []string{"a", "b"} {
		text(name)
		b = order.AppendUint32(b, 2)
		count(2)
		count(3)
		b = order.AppendUint32(b, uint32(F32))
		b = order.AppendUint64(b, uint64(i)*32)
	}
	for len(b)%32 != 0 {
		b = append(b, 0xEE) // padding of any kind
	}
	numbers := func() {
		for i := range 6 {
			b = order.AppendUint32(b, uint32(i)<<16|0x1122)
		}
	}
	numbers()
	b = append(b, make([]byte, 8)...)
	numbers()
	return b
}

func TestOldVersions(t *testing.T) {
	want := readBytes(t, oldFile(3, binary.LittleEndian))
	var wantOut bytes.Buffer
	if _, err := want.WriteTo(&wantOut); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(wantOut.Bytes(), oldFile(3, binary.LittleEndian)) {
		t.Error("version 3 does not come out as it was")
	}
	for _, version := range []uint32{1, 2, 3} {
		for _, order := range []byteOrder{binary.LittleEndian, binary.BigEndian} {
			for _, reversed := range []bool{false, true} {
				b := oldFile(version, order)
				if reversed {
					copy(b, reversedMagic)
				}
				f := readBytes(t, b)
				if f.Version != version || f.Order != order {
					t.Errorf("version %d %v read as %d %v", version, order, f.Version, f.Order)
				}
				for key, v := range want.Meta.All() {
					if got, ok := f.Meta.Get(key); !ok || !got.Equal(v) {
						t.Errorf("version %d %v: %s is %v", version, order, key, got.Any())
					}
				}
				if x, err := f.Meta.Strings("list"); err != nil || !slices.Equal(x, []string{"one", "three"}) {
					t.Error(x, err)
				}
				var out bytes.Buffer
				if _, err := f.WriteTo(&out); err != nil {
					t.Fatal(err)
				}
				g := readBytes(t, out.Bytes())
				if g.Version != 3 || g.Order != binary.LittleEndian || !bytes.Equal(out.Bytes()[g.DataOffset:], wantOut.Bytes()[want.DataOffset:]) {
					t.Errorf("version %d %v: not converted well", version, order)
				}
			}
		}
	}
}

// Version 1 stored a final zero byte with some strings.
func TestVersion1Zero(t *testing.T) {
	le := binary.LittleEndian
	b := le.AppendUint32([]byte(magic), 1)
	b = le.AppendUint32(le.AppendUint32(b, 0), 1)
	b = append(le.AppendUint32(b, 2), "k\x00"...)
	b = le.AppendUint32(b, uint32(String))
	b = append(le.AppendUint32(b, 3), "ab\x00"...)
	f := readBytes(t, b)
	if s, err := f.Meta.Str("k"); s != "ab" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
}

// Gaps, order, padding and trailing bytes of an unedited file stay.
func TestWriteToKeeps(t *testing.T) {
	text := `"GGUF" u32 3 u64 2 u64 0 s "late" u32 1 u64 4 u32 0 u64 64 s "early" u32 1 u64 4 u32 0 u64 0
		u8 1 u8 2 align 32 repeat 8 u16 7; "the gap" align 64 repeat 32 u8 5; "tail"`
	b := assemble(t, text)
	f, defects, err := ReadHeader("x", Bytes(b))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range defects {
		if d.Fatal {
			t.Error(d)
		}
	}
	var out bytes.Buffer
	if _, err := f.WriteTo(&out); err != nil || !bytes.Equal(out.Bytes(), b) {
		t.Errorf("%v\n%x\n%x", err, out.Bytes(), b)
	}
	// In the other byte order and back: only the padding of the header is new.
	var be, le bytes.Buffer
	if _, err := f.writeAs(&be, encoding{binary.BigEndian, true}); err != nil {
		t.Fatal(err)
	}
	g, _, _ := ReadHeader("x", Bytes(be.Bytes()))
	if _, err := g.WriteTo(&le); err != nil || !bytes.Equal(le.Bytes()[f.DataOffset:], b[f.DataOffset:]) || !bytes.Equal(le.Bytes()[:f.headerSize], b[:f.headerSize]) {
		t.Errorf("%v\n%x\n%x", err, le.Bytes(), b)
	}
}

// Another alignment moves the tensors.
func TestWriteToAligns(t *testing.T) {
	tensors := []Tensor{{Name: "a", Type: F32, Shape: []uint64{5}}, {Name: "b", Type: F16, Shape: []uint64{3, 2}}}
	b := writeBytes(t, NewMeta(), tensors)
	f := readBytes(t, b)
	f.Meta.Set(KeyAlignment, New(uint32(256)))
	var out bytes.Buffer
	if _, err := f.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	want := writeBytes(t, f.Meta, tensors)
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%x\nwant %x", out.Bytes(), want)
	}
	f.Meta.Set(KeyAlignment, New(uint32(100)))
	if _, err := f.WriteTo(&out); !errors.Is(err, ErrAlignment) {
		t.Error(err)
	}
}

// value draws a metadata value; depth is how deep arrays may still be nested.
func value(depth int) *rapid.Generator[Value] {
	list := func(t *rapid.T) Value {
		switch rapid.IntRange(0, 11).Draw(t, "elem") {
		case 0:
			return NewArray(rapid.SliceOf(rapid.Uint8()).Draw(t, "u8s"))
		case 1:
			return NewArray(rapid.SliceOf(rapid.Int8()).Draw(t, "i8s"))
		case 2:
			return NewArray(rapid.SliceOf(rapid.Uint16()).Draw(t, "u16s"))
		case 3:
			return NewArray(rapid.SliceOf(rapid.Int16()).Draw(t, "i16s"))
		case 4:
			return NewArray(rapid.SliceOf(rapid.Uint32()).Draw(t, "u32s"))
		case 5:
			return NewArray(rapid.SliceOf(rapid.Int32()).Draw(t, "i32s"))
		case 6:
			return NewArray(rapid.SliceOf(rapid.Uint64()).Draw(t, "u64s"))
		case 7:
			return NewArray(rapid.SliceOf(rapid.Int64()).Draw(t, "i64s"))
		case 8:
			return NewArray(rapid.SliceOf(rapid.Float32()).Draw(t, "f32s"))
		case 9:
			return NewArray(rapid.SliceOf(rapid.Float64()).Draw(t, "f64s"))
		case 10:
			return NewArray(rapid.SliceOf(rapid.Bool()).Draw(t, "bools"))
		}
		return NewArray(rapid.SliceOfN(rapid.String(), 0, 80).Draw(t, "strings"))
	}
	return rapid.Custom(func(t *rapid.T) Value {
		switch rapid.IntRange(0, 8).Draw(t, "kind") {
		case 0:
			return New(rapid.Uint64().Draw(t, "u64"))
		case 1:
			return New(rapid.Int16().Draw(t, "i16"))
		case 2:
			return New(rapid.Float32().Draw(t, "f32"))
		case 3:
			return New(rapid.Bool().Draw(t, "bool"))
		case 4:
			return New(rapid.String().Draw(t, "string"))
		case 5, 6:
			if depth > 0 {
				inner := rapid.SliceOfN(rapid.Custom(list), 1, 4).Draw(t, "nested")
				v, err := NewNested(inner)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
		}
		return list(t)
	})
}

// Random metadata and tensors read back as they were written, and write again to the same bytes, in both byte orders.
func TestPropertyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMeta()
		for _, key := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,8}(\.[a-z0-9_]{1,8}){0,2}`), 0, 6, rapid.ID).Draw(t, "keys") {
			m.Set(key, value(1).Draw(t, key))
		}
		m.Remove(KeyAlignment)
		if rapid.Bool().Draw(t, "aligned") {
			m.Set(KeyAlignment, New(uint32(1)<<rapid.IntRange(3, 9).Draw(t, "alignment")))
		}
		var tensors []Tensor
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,12}`), 0, 5, rapid.ID).Draw(t, "names") {
			typ := rapid.SampledFrom([]Type{F32, F16, BF16, I8, F64, Q8_0, Q4_K, Q6_K, IQ2_XXS, MXFP4}).Draw(t, "type")
			i, _ := typ.Info()
			shape := rapid.SliceOfN(rapid.Uint64Range(1, 3), 1, MaxDims).Draw(t, "shape")
			shape[0] *= i.Block
			tensors = append(tensors, Tensor{Name: name, Type: typ, Shape: shape})
		}
		first := writeBytes(t, m, tensors)
		f := readBytes(t, first)
		if f.Meta.Len() != m.Len() || len(f.Tensors) != len(tensors) {
			t.Fatalf("%d keys, %d tensors", f.Meta.Len(), len(f.Tensors))
		}
		for key, v := range m.All() {
			if got, ok := f.Meta.Get(key); !ok || !got.Equal(v) || got.TypeName() != v.TypeName() {
				t.Fatalf("%s is %s %v, want %s %v", key, got.TypeName(), got.Any(), v.TypeName(), v.Any())
			}
		}
		var be, le, same bytes.Buffer
		if _, err := f.WriteTo(&same); err != nil || !bytes.Equal(same.Bytes(), first) {
			t.Fatal("WriteTo changes the file", err)
		}
		if _, err := f.writeAs(&be, encoding{binary.BigEndian, true}); err != nil {
			t.Fatal(err)
		}
		g := readBytes(t, be.Bytes())
		for key, v := range m.All() {
			if got, _ := g.Meta.Get(key); !got.Equal(v) {
				t.Fatalf("big-endian: %s is %v, want %v", key, got.Any(), v.Any())
			}
		}
		if _, err := g.WriteTo(&le); err != nil || !bytes.Equal(le.Bytes(), first) {
			t.Fatal("little to big to little changes the file", err)
		}
	})
}

// A parser that is given no more than it asks for finds the same.
func TestGrowingWindow(t *testing.T) {
	m := NewMeta()
	words := make([]string, 50_000)
	for i := range words {
		words[i] = strings.Repeat("w", i%9)
	}
	m.Set("words", NewArray(words))
	m.Set("numbers", NewArray(make([]uint64, 40_000)))
	m.Set("last", New("end"))
	b := writeBytes(t, m, []Tensor{{Name: "t", Type: F32, Shape: []uint64{1 << 18}}})
	src := &frugal{Reader: bytes.NewReader(b)}
	f, defects, err := ReadHeader("x", src)
	if err != nil || len(defects) > 0 {
		t.Fatal(defects, err)
	}
	if src.largest > 2*f.DataOffset || src.views < 4 {
		t.Errorf("%d views, the largest of %d bytes for a header of %d", src.views, src.largest, f.DataOffset)
	}
	for key, v := range m.All() {
		if got, _ := f.Meta.Get(key); !got.Equal(v) {
			t.Errorf("%s differs", key)
		}
	}
	data, err := f.Data(&f.Tensors[0])
	if err != nil || len(data) != 1<<20 || data[1] != 1 {
		t.Error(len(data), err)
	}
}

// frugal hands out fresh copies, as a remote file would, and counts.
type frugal struct {
	*bytes.Reader
	views   int
	largest uint64
}

func (s *frugal) Size() uint64 { return uint64(s.Reader.Size()) }

func (s *frugal) View(off, n uint64) ([]byte, error) {
	if off == 0 {
		s.views++
		s.largest = max(s.largest, n)
	}
	b := make([]byte, n)
	_, err := s.ReadAt(b, int64(off))
	return b, err
}

// A source that fails is an error, not a defect of the file.
func TestSourceFails(t *testing.T) {
	if _, _, err := ReadHeader("x", broken{}); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	long := NewMeta()
	long.Set("text", New(strings.Repeat("x", 2*firstWindow)))
	late := &failsLate{frugal{Reader: bytes.NewReader(writeBytes(t, long, nil))}}
	if f, defects, err := ReadHeader("x", late); !errors.Is(err, os.ErrClosed) || f != nil || defects != nil {
		t.Error(f, defects, err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrMagic) || !strings.Contains(err.Error(), "it is a folder") {
		t.Error(err)
	}
}

// failsLate hands out the first window only.
type failsLate struct{ frugal }

func (s *failsLate) View(off, n uint64) ([]byte, error) {
	if n > firstWindow {
		return nil, os.ErrClosed
	}
	return s.frugal.View(off, n)
}

type broken struct{}

func (broken) Size() uint64                        { return 100 }
func (broken) ReadAt([]byte, int64) (int, error)   { return 0, os.ErrClosed }
func (broken) View(uint64, uint64) ([]byte, error) { return nil, os.ErrClosed }

// What would not be read is not written either.
func TestTooManyElements(t *testing.T) {
	m := NewMeta()
	half := NewArray(make([]uint8, MaxListed/2))
	nested, err := NewNested([]Value{half, half})
	if err != nil {
		t.Fatal(err)
	}
	m.Set("a", half)
	m.Set("b", half)
	if _, _, err := Layout(m, nil); err != nil {
		t.Error(err)
	}
	m.Set("b", nested)
	if _, _, err := Layout(m, nil); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), `key "b"`) {
		t.Error(err)
	}
}
