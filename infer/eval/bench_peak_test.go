package eval

import (
	"testing"

	"github.com/ggufkit/ggufkit/internal/kernel"
)

// Parts follow one another and start again; what was measured is told once.
func TestMeterReadsParts(t *testing.T) {
	m := &Meter{pool: kernel.NewPool(1), memory: make([]byte, 2*meterPart+1<<20)}
	defer m.Close()
	for i, next := range []int{meterPart, 2 * meterPart, meterPart} {
		m.ReadPart()
		if m.next != next || m.bytes != float64((i+1)*meterPart) {
			t.Fatalf("part %d: the next starts at %d, want %d; %g bytes were read", i, m.next, next, m.bytes)
		}
	}
	m.Read()
	want := m.bytes / m.ns
	if m.bytes != float64(5*meterPart+1<<20) || m.Peak().Read != want || m.Peak().Read != 0 {
		t.Errorf("%g bytes were read in all, want %d, and their rate is told once", m.bytes, 5*meterPart+1<<20)
	}
}

// Less than a part tells of caches and is not measured.
func TestMeterReadsNoCache(t *testing.T) {
	m := &Meter{pool: kernel.NewPool(1), memory: make([]byte, meterPart-1)}
	defer m.Close()
	m.ReadPart()
	m.Read()
	if p := m.Peak(); p.Read != 0 {
		t.Errorf("a rate of %g from %d bytes", p.Read, len(m.memory))
	}
}
