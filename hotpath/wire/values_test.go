package wire

import (
	"bytes"
	"encoding/json"
	"strings"
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
				if b != 0x7f && !bytes.Equal(AppendString(nil, string(text)), quoted) {
					t.Fatalf("%q is written as %q", text, AppendString(nil, string(text)))
				}
			}
		}
	}
}

func TestStringsAreEscaped(t *testing.T) {
	for _, s := range []string{"", `"`, `\`, "\n\r\t\b\f\x01\x1f", "é \u2028 😀 \u007f", "</script>", strings.Repeat("x", 5000)} {
		var back string
		if err := json.Unmarshal(AppendString(nil, s), &back); err != nil || back != s {
			t.Errorf("%q came back as %q, %v", s, back, err)
		}
	}
	var back string
	if err := json.Unmarshal(AppendString(nil, "a\xffb"), &back); err != nil || back != "a\ufffdb" {
		t.Errorf("broken UTF-8 came back as %q, %v", back, err)
	}
}
