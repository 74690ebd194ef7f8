package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/reintento/reintento/retry"
)

// A drawing has a plot of the load, and below it one strip for the breakers and
// one for the budget, all over one axis of time. These are its measures.
const (
	width, height = 460.0, 310.0
	left, right   = 44.0, 450.0
)

var (
	loadFrame   = frame{Top: 18, End: 176}
	openFrame   = frame{Top: 212, End: 242}
	budgetFrame = frame{Top: 272, End: 302}
)

// frame is where a plot stands.
type frame struct{ Top, End float64 }

// Height is that of the frame.
func (f frame) Height() float64 { return f.End - f.Top }

// Middle is half way down.
func (f frame) Middle() float64 { return (f.Top + f.End) / 2 }

// chart is what one simulation looks like.
type chart struct {
	Label                      string
	Width, Height, Left, Right float64
	Fault                      span
	Times                      []tick
	Frames                     []frame // of all plots

	Load                       frame
	Loads                      []tick
	Capacity                   float64 // where its line is
	Offered, Attempts, Goodput string  // lines
	GoodArea                   string
	Control                    string // the attempts of the control; empty in its own chart

	Strips []strip
}

// strip is the plot of a state. Without an area, the note says why.
type strip struct {
	frame
	Class, Title, Note string
	Ticks              []tick
	Line, Area         string
}

// span is a stretch of time.
type span struct{ X, Width, Middle float64 }

// tick is a labelled place on an axis.
type tick struct {
	At    float64
	Label string
}

// newChart draws r, whose scenario has these results, in scales that hold for
// all of them.
func newChart(r result, p retry.Policy, scenario []result) chart {
	end := time.Duration(len(r.Calls)-1) * bin // the last bin has what came after the end
	x := scale{most: end.Seconds(), zero: left, full: right}
	c := chart{
		Label: r.name(),
		Width: width, Height: height, Left: left, Right: right,
		Fault: span{
			X: x.at(r.From.Seconds()), Width: x.at(r.To.Seconds()) - x.at(r.From.Seconds()),
			Middle: x.at((r.From + r.To).Seconds() / 2),
		},
		Frames: []frame{loadFrame, openFrame, budgetFrame},
		Load:   loadFrame,
	}
	for t := time.Duration(0); t <= end; t += 10 * time.Second {
		c.Times = append(c.Times, tick{x.at(t.Seconds()), fmt.Sprintf("%.0f", t.Seconds())})
	}

	most, full := r.Capacity, 0.0
	for _, other := range scenario {
		for i := range len(other.Calls) - 1 {
			most = max(most, perSecond(other.Attempts[i]), perSecond(other.Calls[i]))
			full = max(full, other.Budget[i])
		}
	}
	y := scale{most: 1.05 * most, zero: loadFrame.End, full: loadFrame.Top}
	step := stepOf(most)
	for v := 0.0; v <= most; v += step {
		c.Loads = append(c.Loads, tick{y.at(v), short(v)})
	}
	c.Capacity = y.at(r.Capacity)
	c.Offered = line(x, y, rates(r.Calls))
	c.Attempts = line(x, y, rates(r.Attempts))
	c.Goodput = line(x, y, rates(r.Good))
	c.GoodArea = area(x, y, rates(r.Good))
	if control := scenario[len(scenario)-1]; !r.control() {
		c.Control = line(x, y, rates(control.Attempts))
	}

	open := strip{frame: openFrame, Class: "open", Title: "breakers not closed"}
	if p.Breaker.Disabled {
		open.Note = "no breaker"
	} else {
		open.draw(x, 1, r.Open, "100 %")
	}
	budget := strip{frame: budgetFrame, Class: "budget", Title: "retries in hand, per process"}
	if p.Budget.Disabled {
		budget.Note = "no budget"
	} else {
		full = max(1, math.Ceil(full))
		budget.draw(x, full, r.Budget, short(full))
	}
	c.Strips = []strip{open, budget}
	return c
}

func (s *strip) draw(x scale, most float64, values []float64, label string) {
	y := scale{most: most, zero: s.End, full: s.Top}
	values = values[:len(values)-1]
	s.Ticks = []tick{{y.at(0), "0"}, {y.at(most), label}}
	s.Line, s.Area = line(x, y, values), area(x, y, values)
}

// scale maps values from 0 to most to places from zero to full.
type scale struct{ most, zero, full float64 }

// at returns the place of v, to a tenth.
func (s scale) at(v float64) float64 {
	return math.Round(10*(s.zero+(s.full-s.zero)*v/s.most)) / 10
}

func perSecond(count int) float64 { return float64(count) / bin.Seconds() }

// rates returns what was counted, without the last bin, as calls a second.
func rates(counts []int) (values []float64) {
	for _, n := range counts[:len(counts)-1] {
		values = append(values, perSecond(n))
	}
	return values
}

// line returns the points of a curve: one for each bin, in its middle.
func line(x, y scale, values []float64) string {
	var b strings.Builder
	for i, v := range values {
		fmt.Fprintf(&b, "%v,%v ", x.at((float64(i)+0.5)*bin.Seconds()), y.at(v))
	}
	return strings.TrimSpace(b.String())
}

// area returns the points of what lies under that curve.
func area(x, y scale, values []float64) string {
	first, last := x.at(0.5*bin.Seconds()), x.at((float64(len(values))-0.5)*bin.Seconds())
	return fmt.Sprintf("%v,%v %s %v,%v", first, y.zero, line(x, y, values), last, y.zero)
}

// stepOf returns a round distance for at most six ticks up to most.
func stepOf(most float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for _, part := range []float64{0.2, 0.5} {
		if most/(part*step) <= 5 {
			return part * step
		}
	}
	return step
}

// short writes a number for an axis.
func short(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%gk", v/1000)
	}
	return fmt.Sprintf("%g", math.Round(100*v)/100)
}
