// Package chart draws measured figures as small SVG pictures: rows of bars
// with their spread. It is for READMEs, so it sets its own colours and needs
// no script, font or style sheet; it reads on light and dark pages.
package chart

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Bars is a picture of panels side by side, each with a scale of its own.
type Bars struct {
	Title  string
	Note   string // below, in small print
	Series []string
	Panels []Panel
}

// Panel is a set of groups, each with a bar for every series.
type Panel struct {
	Title  string // with the unit
	Groups []Group
}

// Group is a row of bars.
type Group struct {
	Label string
	Bars  []Bar // as many as the picture has series
}

// Bar is one figure, from Low to High over the rounds.
type Bar struct{ Value, Low, High float64 }

// Measures in pixels.
const (
	panelWidth = 300
	barHeight  = 14
	barGap     = 3
	groupGap   = 12
	headHeight = 78
	labelWidth = 76
	valueWidth = 56
	footHeight = 34
)

// seriesColour is told apart by most colour-blind readers too.
func seriesColour(i int) string {
	colours := [...]string{"#2a9d5c", "#4c78a8", "#e08214", "#9467bd"}
	return colours[i%len(colours)]
}

// WriteSVG draws the picture.
func (b Bars) WriteSVG(w io.Writer) error {
	groups := 0
	for _, p := range b.Panels {
		groups = max(groups, len(p.Groups))
	}
	width := max(len(b.Panels), 1) * panelWidth
	groupHeight := len(b.Series)*(barHeight+barGap) + groupGap
	height := headHeight + groups*groupHeight + footHeight
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	text(&s, 12, 22, `font-size="15" font-weight="bold"`, b.Title)
	x := 12
	for i, name := range b.Series {
		fmt.Fprintf(&s, `<rect x="%d" y="34" width="11" height="11" fill="%s"/>`+"\n", x, seriesColour(i))
		text(&s, x+16, 44, "", name)
		x += 30 + 7*len(name)
	}
	for i, p := range b.Panels {
		p.draw(&s, i*panelWidth, groupHeight)
	}
	text(&s, 12, height-12, `font-size="9" fill="#666666"`, b.Note)
	s.WriteString("</svg>\n")
	_, err := io.WriteString(w, s.String())
	return err
}

func (p Panel) draw(s *strings.Builder, left, groupHeight int) {
	text(s, left+12, 68, `font-weight="bold"`, p.Title)
	scale := 0.0
	for _, g := range p.Groups {
		for _, b := range g.Bars {
			scale = max(scale, b.Value, b.High)
		}
	}
	if scale == 0 {
		return
	}
	const room = panelWidth - labelWidth - valueWidth
	length := func(v float64) float64 { return v / scale * room }
	from := left + labelWidth
	for i, g := range p.Groups {
		top := headHeight + i*groupHeight
		text(s, left+12, top+groupHeight/2-groupGap/2+4, "", g.Label)
		for j, b := range g.Bars {
			y := top + j*(barHeight+barGap)
			fmt.Fprintf(s, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n",
				from, y, max(length(b.Value), 0.5), barHeight, seriesColour(j))
			if b.High > b.Low {
				fmt.Fprintf(s, `<path d="M%.1f %dH%.1f" stroke="#222222" stroke-width="1.5"/>`+"\n",
					float64(from)+length(b.Low), y+barHeight/2, float64(from)+length(b.High))
			}
			end := from + int(length(max(b.Value, b.High))) + 5
			text(s, end, y+barHeight-3, "", format(b.Value))
		}
	}
}

// format shows three digits, no exponent.
func format(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func text(s *strings.Builder, x, y int, attributes, content string) {
	if attributes != "" {
		attributes = " " + attributes
	}
	fmt.Fprintf(s, `<text x="%d" y="%d"%s>`, x, y, attributes)
	_ = xml.EscapeText(s, []byte(content)) // a Builder does not fail
	s.WriteString("</text>\n")
}
