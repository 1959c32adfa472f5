package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
)

// expected is what one conversion must give.
type expected struct {
	KV      []expectedKV     `json:"kv"`
	Tensors []expectedTensor `json:"tensors"`
	Bytes   uint64           `json:"bytes"`
	SHA256  string           `json:"sha256"`
}

// expectedKV is [name, type, is it an array, value].
type expectedKV struct {
	name, typ string
	array     bool
	value     any
}

func (e *expectedKV) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&e.name, &e.typ, &e.array, &e.value})
}

// expectedTensor is [name, shape, type, hash].
type expectedTensor struct {
	name, typ, hash string
	shape           []uint64
}

func (e *expectedTensor) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&e.name, &e.shape, &e.typ, &e.hash})
}

// typeNames are the names that the golden data and the reference data use for value types.
var typeNames = map[gguf.ValueType]string{
	gguf.Uint32: "UINT32", gguf.Int32: "INT32", gguf.Float32: "FLOAT32", gguf.Bool: "BOOL", gguf.String: "STRING",
}

// checkKV compares metadata in order. Numbers of the expectation are JSON numbers, so floats are narrowed first.
func checkKV(t *testing.T, m *gguf.Meta, want []expectedKV) {
	t.Helper()
	i := 0
	for key, v := range m.All() {
		if i >= len(want) {
			t.Errorf("key %s is too many", key)
			continue
		}
		w := want[i]
		i++
		typ, value := typeNames[v.Type()], v.Any()
		if v.Type() == gguf.ArrayType {
			a, err := v.Array()
			if err != nil {
				t.Fatal(err)
			}
			typ = typeNames[a.Elem()]
		}
		if key != w.name || typ != w.typ || (v.Type() == gguf.ArrayType) != w.array {
			t.Errorf("key %d is %s (%s), want %s (%s)", i-1, key, typ, w.name, w.typ)
			continue
		}
		if got, want := plain(value), plain(w.value); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %.200v, want %.200v", key, got, want)
		}
	}
	for ; i < len(want); i++ {
		t.Errorf("key %s is missing", want[i].name)
	}
}

// plain brings numbers of metadata and of JSON to one form.
func plain(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plain(x)
		}
		return out
	case string, bool:
		return v
	case float64:
		return float32(v)
	}
	var f float32
	if _, err := fmt.Sscan(fmt.Sprint(v), &f); err != nil {
		return fmt.Sprintf("%T", v)
	}
	return f
}

func checkTensors(t *testing.T, f *gguf.File, want []expectedTensor) {
	t.Helper()
	var order []string
	for i := range f.Tensors {
		x := &f.Tensors[i]
		order = append(order, x.Name)
		at := slices.IndexFunc(want, func(w expectedTensor) bool { return w.name == x.Name })
		if at < 0 {
			t.Errorf("tensor %s is too many", x.Name)
			continue
		}
		if w := want[at]; x.Type.String() != w.typ || !slices.Equal(x.Shape, w.shape) || hash(t, f, x) != w.hash {
			t.Errorf("%s is %s %v %s, want %s %v %s", x.Name, x.Type, x.Shape, hash(t, f, x), w.typ, w.shape, w.hash)
		}
	}
	var wantOrder []string
	for _, w := range want {
		wantOrder = append(wantOrder, w.name)
	}
	if !slices.Equal(order, wantOrder) {
		t.Errorf("tensors are %v, want %v", order, wantOrder)
	}
}

// The whole file must be what the gguf package for Python writes of an independent computation.
func TestGolden(t *testing.T) {
	b, err := os.ReadFile(golden + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]expected
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	for typ, w := range want {
		t.Run(typ, func(t *testing.T) {
			kv := slices.Clone(want["f32"].KV)
			for i := range kv {
				for _, own := range w.KV {
					if own.name == kv[i].name {
						kv[i] = own
					}
				}
			}
			o := Options{Type: strings.ToUpper(typ), Threads: 2}
			p := planOf(t, golden, o)
			if size := p.Size(); size != w.Bytes {
				t.Errorf("planned %d bytes, want %d", size, w.Bytes)
			}
			path, reports := run(t, p, o)
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			checkKV(t, f.Meta, kv)
			checkTensors(t, f, w.Tensors)
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != w.SHA256 {
				t.Errorf("the file is %x, want %s", sum, w.SHA256)
			}
			if len(reports) != len(w.Tensors) {
				t.Errorf("%d reports for %d tensors", len(reports), len(w.Tensors))
			}
			for _, name := range p.Names() {
				planned, _ := p.Tensor(name)
				data, err := p.Data(planned)
				if err != nil {
					t.Fatal(err)
				}
				stored, _ := f.Tensor(name)
				if d, err := f.Data(stored); err != nil || !slices.Equal(d, data) || stored.Offset != planned.Offset {
					t.Errorf("%s: the plan's own bytes or offset differ (%v)", name, err)
				}
			}
		})
	}
}
