package block

import (
	"math"
	"math/rand/v2"
	"testing"
)

// plainFit is affineSearch.fit step by step as it is defined, without any shortcut.
func plainFit(f *affineSearch, q []uint8, x, w []float32) (scale, minimum float32) {
	lo, hi := bounds(x)
	sumW, sumX := w[0], w[0]*x[0]
	for i := 1; i < len(x); i++ {
		sumW += w[i]
		sumX += float32(w[i] * x[i])
	}
	if lo > 0 {
		lo = 0
	}
	if hi == lo {
		clear(q)
		return 0, -lo
	}
	levels := int32(f.levels)
	round := func(q []uint8, inverse float32) {
		for i, v := range x {
			q[i] = uint8(max(0, min(levels, nearest(inverse*(v-lo)))))
		}
	}
	loss := func(q []uint8, scale, lo float32) (sum float32) {
		for i, v := range x {
			diff := float32(scale*float32(q[i])) + lo - v
			if f.absolute {
				diff = abs32(diff)
			} else {
				diff *= diff
			}
			sum += float32(w[i] * diff)
		}
		return sum
	}
	inverse := f.levels / (hi - lo)
	scale = 1 / inverse
	round(q, inverse)
	best := loss(q, scale, lo)
	try := make([]uint8, len(q))
	for i := range f.steps + 1 {
		inverse = (f.start + float32(f.step*float32(i)) + f.levels) / (hi - lo)
		round(try, inverse)
		var sumL, sumLL, sumXL float32
		for j, l := range try {
			wl := w[j] * float32(l)
			sumL += wl
			sumLL += float32(wl * float32(l))
			sumXL += float32(wl * x[j])
		}
		det := float32(sumW*sumLL) - float32(sumL*sumL)
		if !(det > 0) {
			continue
		}
		s := (float32(sumW*sumXL) - float32(sumX*sumL)) / det
		m := (float32(sumLL*sumX) - float32(sumL*sumXL)) / det
		if m > 0 {
			m = 0
			s = sumXL / sumLL
		}
		if l := loss(try, s, m); l < best {
			copy(q, try)
			best, scale, lo = l, s, m
		}
	}
	return scale, -lo
}

// plainSymmetricFit is symmetricGroup.fit step by step as it is defined.
func plainSymmetricFit(q []uint8, x, w []float32, n int32) float32 {
	top, magnitude := peak(x)
	if magnitude < negligible {
		clear(q)
		return 0
	}
	var scale, best, chosen float32
	for step := int32(-10); step <= 9; step++ {
		inverse := float32(-n) / top // first the one that maps the peak to -n
		if step == 0 {
			continue
		} else if step > -10 {
			inverse = -(float32(n) + float32(0.1*float32(step))) / top
		}
		var lx, ll float32
		for i, v := range x {
			l := float32(max(-n, min(n-1, nearest(inverse*v))))
			lx += float32(float32(w[i]*v) * l)
			ll += float32(float32(w[i]*l) * l)
		}
		if step == -10 {
			if ll != 0 {
				scale = lx / ll
			}
			best, chosen = scale*lx, inverse
		} else if ll > 0 && float32(lx*lx) > float32(best*ll) {
			scale, chosen = lx/ll, inverse
			best = scale * lx
		}
	}
	for i, v := range x {
		q[i] = uint8(n + max(-n, min(n-1, nearest(chosen*v))))
	}
	return scale
}

// oddGroup makes groups of many kinds: normal, on a grid, with outliers, of one sign, nearly constant, sparse, of any magnitude down to
// where squares vanish; weights equal, of the size of the elements, wildly different, or mostly zero.
func oddGroup(r *rand.Rand, x, w []float32) {
	size := float32(math.Pow(10, 26*r.Float64()-20))
	if r.IntN(2) == 0 {
		size = 0.02
	}
	kind, weights := r.IntN(8), r.IntN(6)
	for i := range x {
		v := float32(r.NormFloat64())
		switch kind {
		case 1:
			v = float32(r.IntN(31) - 15)
		case 2:
			if r.IntN(8) == 0 {
				v *= 1000
			}
		case 3:
			v = abs32(v) + float32(r.IntN(2))
		case 4:
			v = -abs32(v)
		case 5:
			v = -5 + v*0x1p-18
		case 6:
			if r.IntN(4) != 0 {
				v = 0
			}
		case 7:
			v = float32(i)
		}
		x[i] = v * size
	}
	for i, v := range x {
		switch weights {
		case 0:
			w[i] = 1
		case 1:
			w[i] = abs32(v) + size
		case 2:
			w[i] = v * v
		case 3:
			w[i] = float32(math.Exp(8*r.NormFloat64())) * sqrt32(size*size+v*v)
		case 4:
			w[i] = 0
			if r.IntN(6) == 0 {
				w[i] = float32(r.ExpFloat64())
			}
		case 5:
			w[i] = float32(r.ExpFloat64()) * 1e-25
		}
	}
}

func TestFitTakesNoWrongShortcut(t *testing.T) {
	searches := []affineSearch{
		searchQ2_K, searchWeightedQ2_K, formatQ4_K.plain, formatQ4_K.weighted, formatQ5_K.plain, formatQ5_K.weighted,
	}
	r := rand.New(rand.NewPCG(1, 9))
	for trial := range 20000 {
		n := 16 + 16*(trial%2)
		x, w := make([]float32, n), make([]float32, n)
		oddGroup(r, x, w)
		got, want := make([]uint8, n), make([]uint8, n)

		f := &searches[trial/2%len(searches)]
		var a affineGroup
		copy(a.w[:], w)
		scale, minimum := f.fit(&a, got, x)
		wantScale, wantMinimum := plainFit(f, want, x, w)
		if !same(scale, wantScale) || !same(minimum, wantMinimum) || string(got) != string(want) {
			t.Fatalf("trial %d, %+v:\nx %v\nw %v\n got %v %v %v\nwant %v %v %v", trial, *f, x, w, scale, minimum, got, wantScale, wantMinimum, want)
		}

		levels := []int32{4, 8, 16, 32}[trial/2%4]
		var s symmetricGroup
		copy(s.w[:], w)
		scale = s.fit(got, x, float32(levels))
		if wantScale = plainSymmetricFit(want, x, w, levels); !same(scale, wantScale) || string(got) != string(want) {
			t.Fatalf("trial %d, %d levels:\nx %v\nw %v\n got %v %v\nwant %v %v", trial, levels, x, w, scale, got, wantScale, want)
		}
	}
}

func same(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b }

// The table finds what a search of the values finds, on and around every border and over the whole range.
func TestNearestInCodebook(t *testing.T) {
	search := func(x float32) uint8 {
		best := 0
		for i, v := range codebook {
			if math.Abs(float64(v)-float64(x)) <= math.Abs(float64(codebook[best])-float64(x)) {
				best = i // of equals the last
			}
		}
		return uint8(best)
	}
	check := func(x float32) {
		t.Helper()
		if got, want := nearestInCodebook(x), search(x); got != want {
			t.Fatalf("%v: %d, want %d", x, got, want)
		}
	}
	for k := -400; k <= 400; k++ {
		x := float32(k) / 4
		check(x)
		check(math.Nextafter32(x, 1000))
		check(math.Nextafter32(x, -1000))
	}
	r := rand.New(rand.NewPCG(1, 3))
	for range 100000 {
		check(float32(r.Float64()*400 - 200))
	}
}

func TestNearest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	check := func(f float32) {
		t.Helper()
		if got, want := nearest(f), int32(math.RoundToEven(float64(f))); got != want {
			t.Fatalf("nearest(%v) = %d, want %d", f, got, want)
		}
		if got := roundToFloat(f); got != float32(math.RoundToEven(float64(f))) {
			t.Fatalf("roundToFloat(%v) = %v", f, got)
		}
		if got, want := roundAway(f), int32(math.Round(float64(f))); got != want {
			t.Fatalf("roundAway(%v) = %d, want %d", f, got, want)
		}
	}
	for i := -4000; i < 4000; i++ {
		f := float32(i) / 2
		check(f)
		check(math.Nextafter32(f, 1e9))
		check(math.Nextafter32(f, -1e9))
	}
	for range 100000 {
		check(float32((r.Float64() - 0.5) * (1 << 22)))
	}
}
