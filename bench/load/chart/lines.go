package chart

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Lines is a picture of figures over time: panels in rows, over one span.
type Lines struct {
	Title    string
	Note     string // below, in small print
	Columns  int
	From, To time.Time
	Marks    []time.Time // that something happened
	Panels   []LinePanel
}

// LinePanel is a set of lines with one scale: from 0, or by powers of ten for
// times.
type LinePanel struct {
	Title string
	Unit  Unit
	Lines []Line
}

// Line is one figure. A gap of more than twice Step is drawn as one.
type Line struct {
	Name   string
	Step   time.Duration
	Points []Point
}

// Point is a figure at a time.
type Point struct {
	At    time.Time
	Value float64
}

// Unit says how a panel's figures are written.
type Unit string

// The units.
const (
	Plain   Unit = ""
	Seconds Unit = "s"
	Bytes   Unit = "bytes"
)

// Measures in pixels.
const (
	plotWidth   = 330
	plotHeight  = 110
	plotLeft    = 58
	plotTop     = 30
	plotRight   = 12
	legendLine  = 15
	legendLines = 3
	titleHeight = 36
	cellWidth   = plotLeft + plotWidth + plotRight
	cellHeight  = plotTop + plotHeight + 20 + legendLines*legendLine
)

// WriteSVG draws the picture.
func (l Lines) WriteSVG(w io.Writer) error {
	rows := (len(l.Panels) + l.Columns - 1) / l.Columns
	width, height := l.Columns*cellWidth, titleHeight+rows*cellHeight+24
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	text(&s, 12, 24, `font-size="15" font-weight="bold"`, l.Title)
	for i, p := range l.Panels {
		l.draw(&s, p, i%l.Columns*cellWidth, titleHeight+i/l.Columns*cellHeight)
	}
	text(&s, 12, height-10, `font-size="9" fill="#666666"`, l.Note)
	s.WriteString("</svg>\n")
	_, err := io.WriteString(w, s.String())
	return err
}

func (l Lines) draw(s *strings.Builder, p LinePanel, x, y int) {
	text(s, x+12, y+18, `font-weight="bold"`, p.Title)
	left, bottom := x+plotLeft, y+plotTop+plotHeight
	across := func(at time.Time) float64 {
		return float64(left) + plotWidth*at.Sub(l.From).Seconds()/l.To.Sub(l.From).Seconds()
	}
	axis := p.axis()
	for _, tick := range axis.ticks {
		at := float64(bottom) - plotHeight*axis.place(tick)
		fmt.Fprintf(s, `<path d="M%d %.1fh%d" stroke="#dddddd"/>`+"\n", left, at, plotWidth)
		text(s, left-5, int(at)+4, `text-anchor="end" fill="#666666"`, p.Unit.format(tick))
	}
	for _, mark := range l.Marks {
		fmt.Fprintf(s, `<path d="M%.1f %dv%d" stroke="#999999" stroke-dasharray="3 3"/>`+"\n", across(mark), bottom, -plotHeight)
	}
	text(s, left, bottom+14, `fill="#666666"`, "0")
	text(s, left+plotWidth, bottom+14, `text-anchor="end" fill="#666666"`, l.To.Sub(l.From).Round(time.Second).String())
	column, row := left, 0
	for i, line := range p.Lines {
		fmt.Fprintf(s, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5" stroke-linejoin="round"/>`+"\n",
			line.path(func(p Point) (float64, float64) {
				return across(p.At), float64(bottom) - plotHeight*axis.place(p.Value)
			}), seriesColour(i))
		wide := 24 + 6*len(line.Name)
		if column+wide > x+cellWidth && column > left {
			column, row = left, row+1
		}
		fmt.Fprintf(s, `<rect x="%d" y="%d" width="10" height="3" fill="%s"/>`+"\n", column, bottom+25+row*legendLine, seriesColour(i))
		text(s, column+14, bottom+30+row*legendLine, "", line.Name)
		column += wide
	}
}

// path gives the line's drawing; place gives a point's pixels.
func (l Line) path(place func(Point) (x, y float64)) string {
	var d strings.Builder
	command := "M"
	for i, p := range l.Points {
		if i > 0 && p.At.Sub(l.Points[i-1].At) > 2*l.Step {
			command = "M"
		}
		if !finite(p.Value) {
			command = "M"
			continue
		}
		x, y := place(p)
		fmt.Fprintf(&d, "%s%.1f %.1f", command, x, y)
		command = "L"
	}
	return d.String()
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// axis is a scale: it places what it goes up to at 1.
type axis struct {
	ticks []float64
	place func(float64) float64
}

func (p LinePanel) axis() axis {
	least, most := math.Inf(1), 0.0
	for _, line := range p.Lines {
		for _, point := range line.Points {
			if finite(point.Value) && point.Value > 0 {
				least, most = min(least, point.Value), max(most, point.Value)
			}
		}
	}
	if p.Unit == Seconds && most > 0 {
		return powers(least, most)
	}
	top := roundUp(most)
	return axis{[]float64{0, top / 2, top}, func(v float64) float64 { return v / top }}
}

// powers has a tick for each power of ten.
func powers(least, most float64) axis {
	first, last := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	if first == last {
		last++
	}
	a := axis{place: func(v float64) float64 { return max(0, (math.Log10(v)-first)/(last-first)) }}
	for power := first; power <= last; power++ {
		a.ticks = append(a.ticks, math.Pow(10, power))
	}
	return a
}

// roundUp gives the least of 1, 2 or 5 times a power of ten that is as large.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, factor := range []float64{1, 2, 5} {
		if v <= factor*power {
			return factor * power
		}
	}
	return 10 * power
}

func (u Unit) format(v float64) string {
	switch {
	case v == 0:
		return "0"
	case u == Seconds:
		return time.Duration(v * float64(time.Second)).Round(time.Microsecond).String()
	case u == Bytes:
		return fmt.Sprintf("%.4g MB", v/1e6)
	default:
		return fmt.Sprintf("%.4g", v)
	}
}
