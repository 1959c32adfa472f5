package eval_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/arch"
	"github.com/ggufkit/ggufkit/convert"
	"github.com/ggufkit/ggufkit/convert/checkpoint"
	"github.com/ggufkit/ggufkit/gguf"
	"github.com/ggufkit/ggufkit/infer/eval"
	"github.com/ggufkit/ggufkit/internal/half"
)

// subject is a checkpoint to prove conversions of.
type subject struct {
	dir    string
	plan   *convert.Plan
	params *arch.Params
	spec   *arch.Spec
	ids    []int32
}

// newSubject opens a checkpoint.
func newSubject(t *testing.T, dir string, ids []int32) *subject {
	t.Helper()
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	plan, err := convert.NewPlan(c, convert.Options{})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := arch.ForGGUF(plan.Arch)
	if err != nil {
		t.Fatal(err)
	}
	params, err := arch.ParamsOf(spec, plan.Meta)
	if err != nil {
		t.Fatal(err)
	}
	return &subject{dir: dir, plan: plan, params: params, spec: spec, ids: ids}
}

// damaged is a file that is to be spoiled.
type damaged struct {
	*testing.T
	file *gguf.File
	data []byte // of the whole file
}

// tensor is a tensor and its bytes.
func (d *damaged) tensor(name string) (*gguf.Tensor, []byte) {
	x, ok := d.file.Tensor(name)
	if !ok {
		d.Fatalf("no tensor %s", name)
	}
	n, err := x.Bytes()
	if err != nil {
		d.Fatal(err)
	}
	at := d.file.DataOffset + x.Offset
	return x, d.data[at : at+n]
}

// rows is a tensor's bytes and the size of a row.
func (d *damaged) rows(name string) (data []byte, size int) {
	x, data := d.tensor(name)
	return data, len(data) / int(x.Rows())
}

// convert writes the checkpoint as a file.
func (s *subject) convert(t *testing.T, o convert.Options) (path string) {
	t.Helper()
	c, err := checkpoint.Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	plan, err := convert.NewPlan(c, o)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "model.gguf")
	if _, err := plan.Run(t.Context(), path, o); err != nil {
		t.Fatal(err)
	}
	return path
}

// prove converts the checkpoint to a type with changed metadata, spoils the file and proves it.
func (s *subject) prove(t *testing.T, typ string, edit func(*gguf.Meta) error, spoil func(*damaged)) *eval.Proof {
	t.Helper()
	path := s.convert(t, convert.Options{Type: typ, Edit: edit})
	if spoil != nil {
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		d := &damaged{T: t, file: f}
		if d.data, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		spoil(d)
		f.Close()
		if err := os.WriteFile(path, d.data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := eval.Prove(t.Context(), f, s.plan, s.ids, eval.ProofOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// damage is one way to spoil a conversion, and the finding that must come first: "block 1, attn_q (blk.1.attn_q.weight)", or its beginning.
type damage struct {
	name  string
	edit  func(*gguf.Meta) error
	spoil func(*damaged)
	place string
	why   string // part of what the finding says
	only  bool   // nothing else may be found
}

// zero sets a tensor to zero: no type has a block of zero bytes that is not.
func zero(name string) func(*damaged) {
	return func(d *damaged) {
		_, data := d.tensor(name)
		clear(data)
	}
}

// add adds to the values of an F32 tensor.
func add(name string, x float32) func(*damaged) {
	return func(d *damaged) {
		tensor, data := d.tensor(name)
		if tensor.Type != gguf.F32 {
			d.Fatalf("%s is %s", name, tensor.Type)
		}
		for i := 0; i < len(data); i += 4 {
			v := math.Float32frombits(binary.LittleEndian.Uint32(data[i:]))
			binary.LittleEndian.PutUint32(data[i:], math.Float32bits(v+x))
		}
	}
}

// swap exchanges rows [a, a+n) and [b, b+n).
func swap(name string, a, b, n int) func(*damaged) {
	return func(d *damaged) {
		data, size := d.rows(name)
		kept := slices.Clone(data[a*size : (a+n)*size])
		copy(data[a*size:], data[b*size:(b+n)*size])
		copy(data[b*size:], kept)
	}
}

// halves puts the rows of heads from adjacent pairs back into halves, from row first on: what skipping the permutation leaves.
func halves(name string, first, heads, dim int) func(*damaged) {
	return func(d *damaged) {
		data, size := d.rows(name)
		for h := range heads {
			head := data[(first+h*dim)*size:][:dim*size]
			kept := slices.Clone(head)
			for i := range dim {
				from := 2 * i
				if i >= dim/2 {
					from = 2*(i-dim/2) + 1
				}
				copy(head[i*size:], kept[from*size:(from+1)*size])
			}
		}
	}
}

// scales is where the scale of a block is, a float16.
var scales = map[gguf.Type]int{gguf.Q8_0: 0, gguf.Q4_0: 0, gguf.Q5_0: 0, gguf.Q5_1: 0, gguf.Q4_K: 0, gguf.Q5_K: 0, gguf.Q6_K: 208, gguf.Q2_K: 80, gguf.Q3_K: 108}

// rescale multiplies the scale of one block.
func rescale(name string, row, block int, factor float32) func(*damaged) {
	return func(d *damaged) {
		x, data := d.tensor(name)
		at, ok := scales[x.Type]
		info, _ := x.Type.Info()
		if !ok {
			d.Fatalf("%s is %s", name, x.Type)
		}
		_, size := d.rows(name)
		bits := data[row*size+block*int(info.Bytes)+at:]
		v := half.F16ToF32(binary.LittleEndian.Uint16(bits)) * factor
		binary.LittleEndian.PutUint16(bits, half.F32ToF16(v))
	}
}

// damages are what a conversion of the subject may have wrong, in block il.
func (s *subject) damages(il int, quantized bool) []damage {
	p := s.params
	name := func(part string) string { return fmt.Sprintf("blk.%d.%s.weight", il, part) }
	place := func(operation, tensor string) string {
		return fmt.Sprintf("block %d, %s (%s)", il, operation, tensor)
	}
	q, k, first := name("attn_q"), name("attn_k"), 0
	if s.spec.Block.FusedQKV {
		q, k, first = name("attn_qkv"), name("attn_qkv"), p.NHead[il]*p.HeadK
	}
	up := "ffn_up"
	if s.spec.Block.FusedGateUp {
		up = "ffn_gate"
	}
	quarter := p.NFF[il] / 4
	list := []damage{
		{name: "permutation", place: place("attn_q", q), why: "its rows are in another order", spoil: func(d *damaged) {
			halves(q, 0, p.NHead[il], p.HeadK)(d)
			halves(k, first, p.NHeadKV[il], p.HeadK)(d)
		}},
		{name: "norm off by one", place: place("attn_norm", name("attn_norm")), why: "off by about -1", only: true, spoil: add(name("attn_norm"), -1)},
		{name: "rows swapped", place: place(up, name("ffn_up")), why: fmt.Sprintf("row 0 holds row %d of the checkpoint's", quarter), only: true, spoil: swap(name("ffn_up"), 0, quarter, quarter)},
		{name: "two rows swapped", place: place("attn_output", name("attn_output")), why: "row 5 holds row 9 of the checkpoint's, and 2 of ", only: true, spoil: swap(name("attn_output"), 5, 9, 1)},
		{name: "tensor zeroed", place: place("ffn_down", name("ffn_down")), why: "all its values are zero", only: true, spoil: zero(name("ffn_down"))},
	}
	if quantized {
		list = append(list, damage{name: "one scale", place: place(up, name("ffn_up")), why: "row 3, block 0, elements ", only: true, spoil: rescale(name("ffn_up"), 3, 0, 1.5)})
	}
	if s.spec.Block.Rope != "none" {
		global := slices.Index(p.Windowed, false)
		if global < 0 || p.LocalRope == p.Rope {
			global = 0
		}
		key := s.spec.Name + ".rope.freq_base"
		list = append(list, damage{name: "rope base", place: fmt.Sprintf("block %d, rope_q (%s", global, key), why: "Rope.FreqBase is ", edit: func(m *gguf.Meta) error {
			m.Set(key, gguf.New(float32(p.Rope.FreqBase*2)))
			return nil
		}})
	}
	if p.FinalSoftcap > 0 {
		key := s.spec.Name + ".final_logit_softcapping"
		list = append(list, damage{name: "operation missing", place: fmt.Sprintf("softcap (%s)", key), only: true, edit: func(m *gguf.Meta) error {
			m.Set(key, gguf.New(float32(0)))
			return nil
		}})
	}
	if p.Window > 8 && p.Window < len(s.ids) {
		key := s.spec.Name + ".attention.sliding_window"
		list = append(list, damage{name: "window", place: fmt.Sprintf("block %d, attention (%s", slices.Index(p.Windowed, true), key), why: "Window is ", edit: func(m *gguf.Meta) error {
			m.Set(key, gguf.New(uint32(p.Window/2)))
			return nil
		}})
	}
	return list
}

// good fails unless a sound conversion passes.
func (s *subject) good(t *testing.T, typ string) {
	t.Helper()
	good := s.prove(t, typ, nil, nil)
	for _, f := range good.Findings {
		t.Errorf("good conversion to %s: %s: %s (error %g, allowed %g)", typ, f.Place(), f.Why, f.Error, f.Allowed)
	}
	if !good.Good || len(good.Tensors) < len(s.plan.Tensors) || len(good.Operations) < 12*s.params.NLayer {
		t.Errorf("good is %v, %d of %d tensors and %d operations compared", good.Good, len(good.Tensors), len(s.plan.Tensors), len(good.Operations))
	}
}

// testDamages proves that a good conversion to a type passes, and that each damaged one is caught where it is damaged.
func (s *subject) testDamages(t *testing.T, typ string) {
	s.good(t, typ)
	for _, d := range s.damages(s.params.NLayer-1, !strings.HasPrefix(typ, "f")) {
		s.testDamage(t, typ, d)
	}
}

// testDamage proves that one damage is caught.
func (s *subject) testDamage(t *testing.T, typ string, d damage) {
	t.Run(d.name, func(t *testing.T) {
		p := s.prove(t, typ, d.edit, d.spoil)
		if p.Good || len(p.Findings) == 0 {
			t.Fatal("not caught")
		}
		first := &p.Findings[0]
		if !strings.HasPrefix(first.Place(), d.place) {
			t.Errorf("found first %s, want %s", first.Place(), d.place)
		}
		if !strings.Contains(first.Why, d.why) {
			t.Errorf("found %q, want %q", first.Why, d.why)
		}
		if d.only && len(p.Findings) > 1 {
			t.Errorf("%d findings, the second %s: %s", len(p.Findings), p.Findings[1].Place(), p.Findings[1].Why)
		}
	})
}
