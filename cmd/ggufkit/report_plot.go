package main

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/ggufkit/ggufkit/infer/eval"
)

// A plot is drawn in these units; the page scales it.
const (
	plotWidth, plotHeight                     = 560.0, 360.0
	plotLeft, plotRight, plotTop, plotBottom  = 66.0, 26.0, 34.0, 52.0
	plotLabelHeight, plotCharWidth, plotPoint = 19.0, 8.8, 5.0
)

// plot is a diagram of the size of the models against one of their figures.
type plot struct {
	ID, Title, Sense string
	Width, Height    float64
	Left, Right      float64 // of the area of the data
	Top, Bottom      float64
	XTitle           string
	X, Y             []tick
	Line             string // through the points, as a list of coordinates
	Points           []point
	Rule             *rule // the base
}

// tick is a line of the grid.
type tick struct {
	At   float64
	Text string
}

// rule is a horizontal line for the base.
type rule struct {
	Y    float64
	Text string
}

// point is a model. Its error is a bar from Low to High.
type point struct {
	X, Y, Low, High float64
	Label, Title    string
	LabelX, LabelY  float64
	Anchor          string
}

// plotValue is a value to draw.
type plotValue struct {
	label        string
	bytes        float64
	value, error float64
}

// reportPlots are the diagrams of a report.
func reportPlots(r *eval.Report) []*plot {
	var kld, ppl []plotValue
	for _, m := range r.Models {
		name := visible(m.Label)
		kld = append(kld, plotValue{name, float64(m.Bytes), float64(m.KLD), float64(divergenceError(m.Divergence))})
		// The error of the ratio is what tells the models apart: what makes the text hard is hard for all of them.
		ppl = append(ppl, plotValue{name, float64(m.Bytes), float64(m.PPL), float64(m.RatioErr * m.PPLBase)})
	}
	a := newPlot("plot-kld", "KL divergence from the base", "mean in nats, logarithmic; lower is better", kld, nil)
	base := float64(r.Base.Perplexity)
	b := newPlot("plot-ppl", "Perplexity of the text", "lower is better; bars: standard error of the ratio to the base", ppl, &base)
	if b.Rule != nil {
		b.Rule.Text = fmt.Sprintf("base %s: %.3f", visible(r.Base.Label), base)
	}
	return []*plot{a, b}
}

// newPlot lays a diagram out: on a logarithmic scale, or with a base on a linear one. Values that are not finite are left out.
func newPlot(id, title, sense string, values []plotValue, base *float64) *plot {
	p := &plot{ID: id, Title: title, Sense: sense, Width: plotWidth, Height: plotHeight,
		Left: plotLeft, Right: plotWidth - plotRight, Top: plotTop, Bottom: plotHeight - plotBottom}
	var shown []plotValue
	low, high, most, least := math.Inf(1), math.Inf(-1), 0.0, math.Inf(1)
	for _, v := range values {
		if !finite(v.value) || base == nil && v.value <= 0 {
			continue
		}
		if !finite(v.error) {
			v.error = 0
		}
		shown = append(shown, v)
		below, above := v.value-v.error, v.value+v.error
		if base == nil {
			below = max(below, v.value/2)
		}
		low, high = min(low, below), max(high, above)
		least, most = min(least, v.bytes), max(most, v.bytes)
	}
	if base != nil && finite(*base) {
		low, high = min(low, *base), max(high, *base)
	}
	if !finite(low) || !finite(high) {
		low, high = 1, 1
	}
	y, ticks := linearScale(low, high, p.Bottom, p.Top)
	if base == nil {
		y, ticks = logScale(low, high, p.Bottom, p.Top)
	}
	p.Y = ticks
	x := p.sizes(least, most)
	if base != nil && finite(*base) {
		p.Rule = &rule{Y: y(*base)}
	}
	for _, v := range shown {
		q := point{X: x(v.bytes), Y: y(v.value), Label: v.label,
			Title: fmt.Sprintf("%s: %s, %.6g ± %.2g", v.label, size(uint64(v.bytes)), v.value, v.error)}
		q.High = max(y(v.value+v.error), p.Top)
		q.Low = p.Bottom
		if below := v.value - v.error; base != nil || below > 0 {
			q.Low = min(y(below), p.Bottom)
		}
		p.Points = append(p.Points, q)
		p.Line += fmt.Sprintf("%.1f,%.1f ", q.X, q.Y)
	}
	p.placeLabels()
	return p
}

// sizes makes the axis of file sizes.
func (p *plot) sizes(least, most float64) func(float64) float64 {
	unit, name := 1.0, "bytes"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if most < 2*1024*unit {
			break
		}
		unit, name = unit*1024, u
	}
	p.XTitle = "size of the file in " + name
	if !finite(least) {
		least = 0
	}
	x, ticks := linearScale(least/unit, most/unit, p.Left, p.Right)
	p.X = ticks
	return func(bytes float64) float64 { return x(bytes / unit) }
}

// linearScale maps low to high, with some room, to the range from a to b; ticks stand at round numbers.
func linearScale(low, high, a, b float64) (func(float64) float64, []tick) {
	room := 0.08 * (high - low)
	if room == 0 {
		room = max(math.Abs(high)*0.1, 1e-6)
	}
	low, high = low-room, high+room
	at := func(v float64) float64 { return a + (b-a)*(v-low)/(high-low) }
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, m := range []float64{5, 2} {
		if (high-low)/(step*m) >= 4 {
			step *= m
			break
		}
	}
	digits := max(0, int(-math.Floor(math.Log10(step)+1e-9)))
	var ticks []tick
	for v := math.Ceil(low/step) * step; v <= high && len(ticks) < 20; v += step {
		ticks = append(ticks, tick{at(v), strconv.FormatFloat(v, 'f', digits, 64)})
	}
	return at, ticks
}

// logScale is linearScale for positive numbers on a logarithmic scale.
func logScale(low, high, a, b float64) (func(float64) float64, []tick) {
	from, to := math.Log10(low), math.Log10(high)
	room := max(0.08*(to-from), 0.15)
	from, to = from-room, to+room
	at := func(v float64) float64 { return a + (b-a)*(math.Log10(v)-from)/(to-from) }
	steps := []float64{1, 2, 5}
	if to-from > 3 {
		steps = steps[:1]
	}
	var ticks []tick
	for decade := math.Floor(from); decade <= to && len(ticks) < 20; decade++ {
		for _, m := range steps {
			v := m * math.Pow(10, decade)
			if l := math.Log10(v); l >= from && l <= to {
				ticks = append(ticks, tick{at(v), strconv.FormatFloat(v, 'g', 3, 64)})
			}
		}
	}
	return at, ticks
}

// box is a rectangle that text covers.
type box struct{ left, top, right, bottom float64 }

func (b box) overlaps(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// places are where the name of a point may stand: from the point, and which end of the text that is.
var places = []struct {
	dx, dy float64
	anchor string
}{{10, -8, "start"}, {0, -14, "middle"}, {10, 18, "start"}, {-10, -8, "end"}, {-10, 18, "end"}, {0, 26, "middle"}}

// placeLabels puts each name where it covers no point and no other name, as far as there is such a place.
func (p *plot) placeLabels() {
	var taken []box
	for _, q := range p.Points {
		taken = append(taken, box{q.X - plotPoint, q.Y - plotPoint, q.X + plotPoint, q.Y + plotPoint})
	}
	for i := range p.Points {
		q := &p.Points[i]
		width := plotCharWidth * float64(utf8.RuneCountInString(q.Label))
		fewest := math.MaxInt
		var chosen box
		for _, place := range places {
			left := q.X + place.dx
			switch place.anchor {
			case "middle":
				left -= width / 2
			case "end":
				left -= width
			}
			b := box{left, q.Y + place.dy - plotLabelHeight + 3, left + width, q.Y + place.dy + 3}
			hits := 0
			for _, t := range taken {
				if b.overlaps(t) {
					hits++
				}
			}
			if b.left < p.Left || b.right > p.Width || b.top < 0 || b.bottom > p.Bottom {
				hits += len(p.Points) // cut off is worse
			}
			if hits < fewest {
				fewest, chosen = hits, b
				q.LabelX, q.LabelY, q.Anchor = q.X+place.dx, q.Y+place.dy, place.anchor
			}
		}
		taken = append(taken, chosen)
	}
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
