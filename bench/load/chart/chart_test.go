package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestWriteSVGIsWellFormedAndComplete(t *testing.T) {
	picture := Bars{
		Title: "a < b & c", Series: []string{"one", "two"}, Note: "note",
		Panels: []Panel{
			{Title: "us", Groups: []Group{{"16", []Bar{{10, 9, 12}, {100, 100, 100}}}, {"64", []Bar{{0, 0, 0}, {1, 0.5, 2}}}}},
			{Title: "empty", Groups: []Group{{"16", []Bar{{}, {}}}}},
		},
	}
	var out strings.Builder
	if err := picture.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, out.String())
	for _, want := range []string{"a &lt; b &amp; c", ">100<", ">10.0<", ">note<"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
}

func wellFormed(t *testing.T, picture string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(picture))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(picture, "NaN") || strings.Contains(picture, "Inf") {
		t.Error("the picture has figures that are none")
	}
}
