package infer

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ggufkit/ggufkit/gguf"
	"pgregory.net/rapid"
)

// A sequence that was truncated goes on as if it had never been longer, wherever the cut falls in a page.
func TestTruncate(t *testing.T) {
	m := llamaTiny()
	model := m.load(t, Options{Precision: Exact})
	ids := m.ids(100)
	want := all(t, newSession(t, model), ids, len(ids))
	s := newSession(t, model)
	for _, n := range []int{0, 1, 31, 32, 33, 64, 99, 100} {
		if err := s.Truncate(min(n, s.Len())); err != nil {
			t.Fatal(err)
		}
		held := s.Len()
		// Other tokens leave their keys in the pages that the cut keeps.
		all(t, s, m.ids(40), 40)
		if err := s.Truncate(held); err != nil {
			t.Fatal(err)
		}
		sameBits(t, "after a cut", all(t, s, ids[held:], 17), want[held:])
	}
	for _, n := range []int{-1, s.Len() + 1} {
		if err := s.Truncate(n); err == nil {
			t.Errorf("%d positions truncated to %d", s.Len(), n)
		}
	}
}

// What a cut forgets is gone, even where it is not a number.
func TestTruncateForgetsNaN(t *testing.T) {
	m := llamaTiny()
	nan := make([]float32, m.embd)
	for i := range nan {
		nan[i] = float32(math.NaN())
	}
	for _, p := range []Precision{Exact, Fast} {
		model := m.load(t, Options{Precision: p})
		ids := m.ids(60)
		want := all(t, newSession(t, model), ids, 20)
		s := newSession(t, model)
		all(t, s, ids[:40], 20)
		bad := s.tokens(make([]int32, 10))
		for i := range bad {
			bad[i].Embed = nan
		}
		if err := model.Step(bad, nil); err != nil {
			t.Fatal(err)
		}
		fork := s.Fork()
		for _, s := range []*Session{s, fork} {
			if err := s.Truncate(40); err != nil {
				t.Fatal(err)
			}
			sameBits(t, "after the cut", all(t, s, ids[40:], 20), want[40:])
		}
	}
}

// Forks share their past and nothing after it: any order of appends, forks, cuts and closes gives each sequence the logits it has alone.
func TestForksAreIndependent(t *testing.T) {
	m := llamaTiny()
	model := m.load(t, Options{Precision: Exact, Threads: 1})
	alone := func(ids []int32) [][]float32 {
		s := newSession(t, model)
		defer s.Close()
		return all(t, s, ids, 64)
	}
	type sequence struct {
		*Session
		ids []int32
	}
	rapid.Check(t, func(r *rapid.T) {
		open := []*sequence{{newSession(t, model), nil}}
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			s := open[rapid.IntRange(0, len(open)-1).Draw(r, "sequence")]
			switch rapid.IntRange(0, 3).Draw(r, "what") {
			case 0, 1:
				ids := rapid.SliceOfN(rapid.Int32Range(0, int32(m.vocab-1)), 1, 40).Draw(r, "ids")
				if _, err := s.Append(ids); err != nil {
					r.Fatal(err)
				}
				s.ids = append(s.ids, ids...)
			case 2:
				open = append(open, &sequence{s.Fork(), slices.Clone(s.ids)})
			case 3:
				n := rapid.IntRange(0, s.Len()).Draw(r, "length")
				if err := s.Truncate(n); err != nil {
					r.Fatal(err)
				}
				s.ids = s.ids[:n]
			}
		}
		for i, s := range open {
			if s.Len() != len(s.ids) {
				r.Fatalf("sequence %d holds %d positions, want %d", i, s.Len(), len(s.ids))
			}
			probe := []int32{1, 2, 3}
			want := alone(append(slices.Clone(s.ids), probe...))
			sameBits(t, "after forks", all(t, s.Session, probe, 2), want[len(s.ids):])
			s.Close()
		}
	})
	if n := len(model.states); n != 0 {
		t.Errorf("%d sequences are still open", n)
	}
}

// The memory of a closed or cut sequence is not shared any more, so that its fork writes in place.
func TestPagesAreReleased(t *testing.T) {
	shape := []CacheShape{{KVHeads: 1, HeadK: 2, HeadV: 2}}
	a := &paged{layout: newPageLayout(shape, gguf.F32, nil)}
	if err := a.Append(pagePositions + 8); err != nil {
		t.Fatal(err)
	}
	b := a.Fork().(*paged)
	if err := a.Truncate(pagePositions); err != nil {
		t.Fatal(err)
	}
	if n := b.pages[1].owners; n != 1 {
		t.Errorf("a page that one sequence gave up has %d owners", n)
	}
	first := b.pages[0]
	if err := a.Truncate(20); err != nil {
		t.Fatal(err)
	}
	if err := a.Append(1); err != nil {
		t.Fatal(err)
	}
	if a.pages[0] == first || b.pages[0] != first || first.owners != 1 {
		t.Error("writing to a shared page did not copy it for the writer alone")
	}
	b.Close()
	if first.owners != 0 {
		t.Errorf("a page of closed sequences has %d owners", first.owners)
	}
}

func TestSnapshot(t *testing.T) {
	m := llamaTiny()
	for _, p := range []Precision{Exact, Fast} {
		model := m.load(t, Options{Precision: p, Context: 80})
		ids := m.ids(60)
		s := newSession(t, model)
		all(t, s, ids[:45], 45)
		var saved bytes.Buffer
		if err := s.Snapshot(&saved); err != nil {
			t.Fatal(err)
		}
		want := all(t, s, ids[45:], 15)

		restored := newSession(t, model)
		all(t, restored, ids[:7], 7) // is replaced
		if err := restored.Restore(bytes.NewReader(saved.Bytes())); err != nil {
			t.Fatal(err)
		}
		sameBits(t, "restored", all(t, restored, ids[45:], 15), want)
	}
}

// A snapshot that does not fit is refused and changes nothing.
func TestBadSnapshots(t *testing.T) {
	m := llamaTiny()
	model := m.load(t, Options{Precision: Exact, Context: 100})
	s := newSession(t, model)
	all(t, s, m.ids(40), 40)
	var saved bytes.Buffer
	if err := s.Snapshot(&saved); err != nil {
		t.Fatal(err)
	}
	whole := saved.Bytes()
	positions := len(snapshotMagic) + 4 // of the number of positions
	tooLong := slices.Clone(whole)
	tooLong[positions] = 101
	huge := slices.Clone(whole)
	huge[positions+7] = 0x7f

	bigger := m
	bigger.layers = 3
	for _, c := range []struct {
		name  string
		model *Model
		data  []byte
		want  string
	}{
		{"empty", model, nil, "EOF"},
		{"foreign", model, []byte("GGUF\x03\x00\x00\x00\x00\x00"), "this is none"},
		{"cut in the header", model, whole[:12], "EOF"},
		{"cut in a page", model, whole[:len(whole)-1], "EOF"},
		{"longer than the context", model, tooLong, "101 positions"},
		{"absurdly long", model, huge, "positions"},
		{"another precision", m.load(t, Options{Precision: Fast}), whole, "another model, precision"},
		{"another model", bigger.load(t, Options{Precision: Exact}), whole, "another model, precision"},
	} {
		s := newSession(t, c.model)
		before := m.ids(10)
		all(t, s, before, 10)
		if err := s.Restore(bytes.NewReader(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
		if s.Len() != 10 {
			t.Errorf("%s: %d positions afterwards", c.name, s.Len())
		}
	}
	if err := s.Snapshot(failingWriter{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a failed write gives %v", err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// Pages that nobody owns serve again, as zeros, and no room is asked for them.
func TestPagesServeAgain(t *testing.T) {
	var asked uint64
	layout := newPageLayout([]CacheShape{{KVHeads: 1, HeadK: 2, HeadV: 2}}, gguf.F32, func(bytes uint64) error {
		asked += bytes
		return nil
	})
	a := &paged{layout: layout}
	if err := a.Append(3*pagePositions - 1); err != nil {
		t.Fatal(err)
	}
	for pos := range a.len {
		a.put(0, pos, []float32{1, 2}, []float32{3, 4})
	}
	fork := a.Fork()
	if err := fork.Append(1); err != nil { // a copy of the last page
		t.Fatal(err)
	}
	made := map[*page]bool{fork.(*paged).pages[2]: true}
	for _, p := range a.pages {
		made[p] = true
	}
	a.Close()
	if len(layout.free) != 1 {
		t.Errorf("%d pages are free while a fork has the others, want 1", len(layout.free))
	}
	fork.Close()
	before := asked
	b := &paged{layout: layout}
	if err := b.Append(4 * pagePositions); err != nil {
		t.Fatal(err)
	}
	if len(layout.free) != 0 || asked != before {
		t.Errorf("%d pages are free, %d bytes were asked for", len(layout.free), asked-before)
	}
	for i, p := range b.pages {
		if !made[p] || p.owners != 1 || bytes.ContainsFunc(p.data, func(r rune) bool { return r != 0 }) {
			t.Errorf("page %d: made before %v, %d owners, %v", i, made[p], p.owners, p.data)
		}
	}
}

// Caches in fast precision hold float16, half the memory of exact.
func TestCacheSize(t *testing.T) {
	shape := []CacheShape{{KVHeads: 2, HeadK: 64, HeadV: 64}, {KVHeads: 1, HeadK: 32, HeadV: 6}}
	perPosition := 2*(64+64) + 1*(32+6)
	exact, fast := &paged{layout: newPageLayout(shape, gguf.F32, nil)}, &paged{layout: newPageLayout(shape, gguf.F16, nil)}
	for _, s := range []*paged{exact, fast} {
		if err := s.Append(pagePositions + 1); err != nil {
			t.Fatal(err)
		}
		if len(s.pages) != 2 {
			t.Fatalf("%d pages for %d positions", len(s.pages), s.Len())
		}
	}
	if n, want := len(exact.pages[0].data), 4*perPosition*pagePositions; n != want {
		t.Errorf("%d bytes in a page, want %d", n, want)
	}
	if n, want := len(fast.pages[0].data), 2*perPosition*pagePositions; n != want {
		t.Errorf("%d bytes in a page, want %d", n, want)
	}
}
