package chart

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLines(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(second int, v float64) Point { return Point{start.Add(time.Duration(second) * time.Second), v} }
	picture := Lines{
		Title: "a < b", Note: "note", Columns: 2, From: start, To: start.Add(10 * time.Second), Marks: []time.Time{start.Add(5 * time.Second)},
		Panels: []LinePanel{
			{Title: "rates", Lines: []Line{{"up & down", time.Second, []Point{at(0, 0), at(1, 150), at(2, math.NaN()), at(3, 100), at(6, 10), at(7, 20)}}}},
			{Title: "times", Unit: Seconds, Lines: []Line{{"p50", time.Second, []Point{at(0, 0.0015), at(10, 0.02)}}}},
			{Title: "nothing"},
		},
	}
	var out strings.Builder
	if err := picture.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, out.String())
	for _, want := range []string{
		"a &lt; b", ">up &amp; down<", ">200<", ">100<", ">10s<", // a scale of twos, for 150
		`M58.0 176.0L91.0 93.5M157.0 121.0M256.0 170.5L289.0 165.0`, // gaps where nothing is known
		">1ms<", ">10ms<", ">100ms<", // by powers of ten
		`stroke-dasharray`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the picture lacks %s:\n%s", want, out.String())
		}
	}
}

func TestAxis(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, 0.07: 0.1, 1: 1, 1.1: 2, 3: 5, 5.1: 10, 800: 1000} {
		if got := roundUp(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v goes up to %v, want %v", v, got, want)
		}
	}
	a := powers(0.01, 0.01)
	if !slices.Equal(a.ticks, []float64{0.01, 0.1}) || a.place(0.01) != 0 || a.place(0.1) != 1 || a.place(0) != 0 {
		t.Errorf("%v", a.ticks)
	}
}
