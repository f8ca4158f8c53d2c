package httpapi

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestPlain puts every byte at every place of strings around the eight bytes that are looked at
// at once.
func TestPlain(t *testing.T) {
	for length := range 20 {
		for place := range length {
			for b := range 256 {
				text := bytes.Repeat([]byte{'~'}, length)
				text[place] = byte(b)
				want := b >= ' ' && b < 0x7f && b != '"' && b != '\\'
				if got := plain(string(text)); got != want {
					t.Fatalf("%q is plain: %v", text, got)
				}
				quoted, _ := jsontext.AppendQuote(nil, string(text)) // replaces invalid UTF-8
				if b != 0x7f && !bytes.Equal(appendString(nil, string(text)), quoted) {
					t.Fatalf("%q is written as %q", text, appendString(nil, string(text)))
				}
			}
		}
	}
}
