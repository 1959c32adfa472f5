package infer

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestStepRefuses(t *testing.T) {
	m := llamaTiny()
	model := m.load(t, Options{Precision: Exact, Context: 8})
	s := newSession(t, model)
	all(t, s, m.ids(3), 3)
	at := func(pos int32) [4]int32 { return [4]int32{pos} }
	for _, c := range []struct {
		name  string
		batch []Token
		want  string
	}{
		{"unknown sequence", []Token{{Seq: 99, Pos: at(0)}}, "no sequence 99"},
		{"gap", []Token{{Seq: s.ID(), Pos: at(4)}}, "position 4"},
		{"rewind", []Token{{Seq: s.ID(), Pos: at(2)}}, "position 2"},
		{"gap later", []Token{{Seq: s.ID(), Pos: at(3)}, {Seq: s.ID(), Pos: at(5)}}, "element 1"},
		{"negative token", []Token{{Seq: s.ID(), Pos: at(3), ID: -1}}, "token -1"},
		{"token past the vocabulary", []Token{{Seq: s.ID(), Pos: at(3), ID: int32(m.vocab)}}, "0 to 40"},
		{"short embedding", []Token{{Seq: s.ID(), Pos: at(3), Embed: make([]float32, 3)}}, "embedding of 3"},
	} {
		err := model.Step(c.batch, func(int, []float32) error { return nil })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
		if s.Len() != 3 {
			t.Fatalf("%s: %d positions afterwards", c.name, s.Len())
		}
	}
	if _, err := s.Append(m.ids(6)); !errors.Is(err, ErrContextFull) {
		t.Errorf("more than the context: %v", err)
	}
	if _, err := s.Append(nil); err == nil {
		t.Error("no tokens: no error")
	}
	if s.Len() != 3 {
		t.Fatalf("%d positions afterwards", s.Len())
	}
	if _, err := s.Append(m.ids(5)); err != nil || s.Len() != 8 {
		t.Errorf("up to the context: %v, %d positions", err, s.Len())
	}
}

// An error of the receiver of logits stops the step; the sequences are as before, even if a part of the batch was done.
func TestStepRollsBack(t *testing.T) {
	m := llamaTiny()
	model := m.load(t, Options{Precision: Exact, Batch: 4})
	ids := m.ids(12)
	want := all(t, newSession(t, model), ids, 12)
	s := newSession(t, model)
	all(t, s, ids[:2], 2)
	stop := errors.New("stop")
	calls := 0
	err := s.AppendAll(ids[2:], func(i int, _ []float32) error {
		calls++
		if i == 6 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || calls != 7 || s.Len() != 2 {
		t.Fatalf("error %v after %d calls, %d positions", err, calls, s.Len())
	}
	sameBits(t, "afterwards", all(t, s, ids[2:], 10), want[2:])
}

// Only the elements that want logits get them, whatever pieces the batch is computed in; a piece may have none.
func TestLogitsWhereWanted(t *testing.T) {
	m := llamaTiny()
	ids := m.ids(20)
	want := all(t, newSession(t, m.load(t, Options{Precision: Exact})), ids, 20)
	for _, batch := range []int{1, 3, 64} {
		model := m.load(t, Options{Precision: Exact, Batch: batch})
		s := newSession(t, model)
		tokens := s.tokens(ids)
		var wanted, got []int
		for _, i := range []int{0, 1, 7, 13, 19} {
			tokens[i].Logits = true
			wanted = append(wanted, i)
		}
		err := model.Step(tokens, func(i int, logits []float32) error {
			got = append(got, i)
			sameBits(t, "row", [][]float32{logits}, [][]float32{want[i]})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, wanted) {
			t.Errorf("logits of %v, want %v", got, wanted)
		}
	}
}

func TestAppendGivesLastLogits(t *testing.T) {
	m := llamaTiny()
	model := m.load(t, Options{Precision: Exact})
	ids := m.ids(10)
	want := all(t, newSession(t, model), ids, 10)
	s := newSession(t, model)
	for i, id := range ids {
		got, err := s.Append([]int32{id})
		if err != nil {
			t.Fatal(err)
		}
		sameBits(t, "last", [][]float32{got}, want[i:i+1])
	}
	s.Close()
	s.Close() // closing again does nothing
	if len(model.states) != 1 {
		t.Errorf("%d open sequences, want that of the first session", len(model.states))
	}
}

// Logits in blocks are those of Step, also when the threads share out what is done with them.
func TestStepBlocks(t *testing.T) {
	m := llamaTiny()
	ids := m.ids(20)
	want := all(t, newSession(t, m.load(t, Options{Precision: Exact})), ids, 20)
	model := m.load(t, Options{Precision: Exact, Batch: 8, Threads: 3})
	tokens := newSession(t, model).tokens(ids)
	for i := range tokens {
		tokens[i].Logits = i%3 != 0
	}
	got := make([][]float32, len(ids))
	err := model.StepBlocks(tokens, func(elements []int, logits []float32) error {
		if n := len(elements) * m.vocab; len(logits) != n {
			t.Errorf("%d logits of %d elements, want %d", len(logits), len(elements), n)
		}
		model.For(len(elements), func(_, i int) { got[elements[i]] = slices.Clone(logits[i*m.vocab:][:m.vocab]) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if i%3 == 0 {
			want[i] = nil
		}
	}
	sameBits(t, "blocks", got, want)
}
